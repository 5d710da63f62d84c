"""Feedback as a queue delivers it: repeated, out of date, step by step, or after the deadline.

`observe` of an agent is strict: one invalid record makes it refuse the whole batch. An `Inbox`
around the agent puts every record into exactly one class:

    taken       it is new, and is used
    duplicate   the same value arrived before
    conflict    another value arrived before, and that one is kept
    late        it arrived after the deadline, or after its episode was closed
    unknown     its episode has not begun
    invalid     it does not fit the problem, or is not a record

The valid records of a batch are accepted together, whatever the others are. The content of a record
is a set of facts with keys: the path of an episode, the cost of each of its steps (`Costs` under
bandit feedback has the costs of all steps at once), a whole cost function, or one event.

The inbox remembers the facts of an episode to tell duplicates from conflicts, also among late
records. It keeps them while the episode is open, and for the last `remember` closed episodes. It
knows nothing of episodes closed earlier, and calls their records late. So memory is bounded by the
number of open episodes and `remember`.

A deadline closes every episode that has waited longer. Without a default the episode is forgotten.
With a default, every step that has not reported gets that cost: where only successes report,
silence is information. With a grace period the episode is forgotten only after it, and records that
arrive in the meantime are late but used; this excludes a default, from which the agent has already
learned. With hold=True, records that arrive before the deadline are passed on at the deadline too:
where only successes report, the agent would otherwise learn of successes first, and overrate the
actions that it plays most.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from belated.core import checks
from belated.core.contract import Agent, Key, WrapperBase, check_inside
from belated.core.episodes import check_held, in_a_list, is_past, is_record, newest
from belated.core.records import Episode, FeedbackError
from belated.core.rewards import Scale
from belated.core.tree import (
    LARGEST_FLOAT,
    Count,
    call,
    exact,
    is_thawing,
    parameters,
)

Kind = Literal["taken", "duplicate", "conflict", "late", "unknown", "invalid"]
KINDS: tuple[Kind, ...] = ("taken", "duplicate", "conflict", "late", "unknown", "invalid")
SWEEP = 64
"""The number of episodes with records at which the inbox first checks that all of them are open."""
CLOSED = ("forgotten", "defaulted")
"""How a deadline closes an episode."""
PASSED = ("overdue", *CLOSED)
"""What a deadline does to an episode."""
UNTOLD = 100_000
"""The number of expired episodes that the next report can name; older ones are only counted."""
OVERDUE = "its deadline has passed, and the agent still uses it"
TOO_LATE = "the episode is closed, and this value did not come before"
"""Why a record is late."""
NARROW, ENOUGH = 0.05, 100
"""If ENOUGH costs all lie in less than this share of the range, the inbox warns."""
HOUR = 3600
Facts = dict[Key, str | int | float]
"""What is remembered of an episode; never changed once it is stored."""


@dataclass(frozen=True, slots=True)
class LostClock:
    """What stands for a clock that a file cannot hold."""

    def __call__(self) -> float:
        """Say that the clock must be set."""
        raise ValueError("clock must be set again after loading: inbox.clock = time.time")


CLOCK = LostClock()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one record.

    Attributes:
        kind: its class.
        episode: the episode that it names; None if it is not a record.
        part: "path", "costs", or the step of a single cost; None if it is not a record.
        why: one sentence; empty for a record that was taken and can be used.
        used: whether the agent gets it: records taken, and records late within the grace period.

    Example:
        >>> inbox = bl.Inbox(bl.recommend(bl.Problem(states=1, actions=2, horizon=1)))
        >>> outcome = inbox.take([bl.Costs(7, [0.5])]).outcomes[0]
        >>> outcome.kind, outcome.episode
        ('unknown', 7)
    """

    kind: Kind
    episode: int | None
    part: str | int | None
    why: str = ""
    used: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a batch.

    Attributes:
        outcomes: one per record, in the order of the batch.
        overdue: episodes whose deadline passed and whose grace period began since the last report.
        forgotten: episodes that were forgotten since the last report, after deadline and grace.
        defaulted: episodes that got the default cost at the deadline instead.
        pathless: episodes whose outcome is in this batch and whose path is still missing.

    Example:
        >>> inbox = bl.Inbox(bl.recommend(bl.Problem(states=1, actions=2, horizon=1)))
        >>> type(inbox.take([])).__name__
        'Report'
    """

    outcomes: tuple[Outcome, ...]
    forgotten: tuple[int, ...] = ()
    defaulted: tuple[int, ...] = ()
    overdue: tuple[int, ...] = ()
    pathless: tuple[int, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many records of each class there are."""
        found = Counter(outcome.kind for outcome in self.outcomes)
        return {kind: found[kind] for kind in KINDS}

    @property
    def conflicts(self) -> tuple[Outcome, ...]:
        """The records that contradict an earlier one."""
        return tuple(outcome for outcome in self.outcomes if outcome.kind == "conflict")

    def __str__(self) -> str:
        numbers = {**self.counts, **{name: len(getattr(self, name)) for name in PASSED}}
        return ", ".join(f"{n} {name}" for name, n in numbers.items() if n) or "nothing"


@dataclass(slots=True)
class Sorted:
    """A batch that was sorted into classes, before anything has changed."""

    outcomes: list[Outcome] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)
    known: dict[int, Facts] = field(default_factory=dict)


class Inbox(WrapperBase):
    """An agent that accepts records as a queue delivers them.

    It follows the whole contract of an agent, so it can be simulated and saved like one. Begin
    episodes through the inbox, not through the agent inside.

    Args:
        agent: the agent inside.
        deadline: how long an episode may wait, as a number of episodes that begin after it, or in
            seconds if there is a clock. None: for ever.
        default: the cost, in [0, 1], of every step that has not reported by the deadline. None:
            the episode is forgotten.
        clock: a function that returns the time in seconds, such as `time.time`; or "now": every
            call passes the time, in any unit. If a clock is set back, the latest time stays in
            force until the clock has caught up.
        grace: the number of further episodes, or seconds, for which an episode past its deadline is
            overdue before it is forgotten. Records that arrive then are late, but used. None: 0.
        remember: the number of closed episodes to remember, to tell duplicates from conflicts.
        hold: whether outcomes reach the agent only at their deadline, so that early ones do not
            mislead it.
        rewards: (low, high): single numbers in records are rewards in this range, not costs. None
            around a learner of decisions, which takes rewards of any unit.
        clip: whether a reward outside the range counts as the nearest one inside; otherwise it is
            invalid.

    Example:
        >>> inbox = bl.Inbox(bl.recommend(bl.Problem(states=1, actions=2, horizon=1)))
        >>> episode = inbox.begin_episode()
        >>> report = inbox.take([bl.Costs(episode.number, [0.5])])
        >>> [outcome.kind for outcome in report.outcomes]
        ['taken']
    """

    once = True

    _open: dict[int, Facts]  # open episodes with records
    _closed: dict[int, Facts]  # in the order in which they were closed
    _held: dict[int, list[Any]]  # outcomes that wait for their deadline
    _pathless: dict[int, None]  # episodes whose outcome waits for a path
    _crowded: Count
    _kept_from: Count  # older episodes are past the grace period
    _due_from: Count  # older episodes are past the deadline
    _now: float
    _began: deque[float]  # start times of the episodes from _kept_from on
    _counts: dict[str, Count]
    _untold: deque[tuple[int, int]]  # episode, index in PASSED

    def __init__(
        self,
        agent: Agent,
        *,
        deadline: float | None = None,
        default: float | None = None,
        clock: Callable[[], float] | Literal["now"] | None = None,
        grace: float | None = None,
        remember: int = 10_000,
        hold: bool = False,
        rewards: tuple[float, float] | None = None,
        clip: bool = False,
    ) -> None:
        self.hold = checks.flag("hold", hold)
        given = {"clock": clock, "default": default, "grace": grace, "hold": hold or None}
        for name, value in given.items():
            if deadline is None and value is not None:
                raise ValueError(f"{name} needs a deadline, got None")
        if grace is not None and (default is not None or hold):
            beside = "hold=True" if hold else "a default"
            raise ValueError(
                f"grace must be None beside {beside}, which is learned from at the deadline; "
                f"got {checks.show(grace)}"
            )
        if clock is not None and clock != "now" and not callable(clock):
            raise ValueError(
                f"clock must be a function such as time.time, or 'now', got {checks.show(clock)}"
            )
        if deadline is not None:
            deadline = (
                checks.integer("deadline without a clock", deadline, 0)
                if clock is None
                else checks.real("deadline", deadline, 0.0)
            )
        if grace is not None:
            grace = (
                checks.integer("grace", grace, 1)
                if clock is None
                else checks.real("grace", grace, 0.0, above=True)
            )
        if clock is None and deadline and deadline % HOUR == 0:
            warnings.warn(
                f"deadline={deadline} without a clock is that many episodes; for seconds, hand in "
                "clock=time.time",
                stacklevel=2,
            )
        self.scale = None if rewards is None else Scale.of("rewards", rewards, clip=clip)
        if checks.flag("clip", clip) and rewards is None:
            raise ValueError("clip needs rewards=(low, high), got None")
        self.deadline = deadline
        self._timed = clock is not None
        check_inside(self, "agent", agent, fresh=False)
        if rewards is not None and not agent.problem.one_outcome:
            raise ValueError(
                "rewards must be None around a learner of decisions, which takes outcomes of any "
                f"unit (clip them before they are reported), got {checks.show(rewards)}"
            )
        self.agent = agent
        self.default = None if default is None else checks.real("default", default, 0.0, 1.0)
        self.clock = clock
        self.grace = grace
        self.rewards, self.clip = rewards, clip
        self.remember = checks.integer("remember", remember, 0)
        self._open, self._closed, self._held = {}, {}, {}
        self._pathless = {}
        self._crowded = SWEEP
        waiting = agent.open_episodes()
        self._kept_from = waiting[0] if waiting else agent.begun
        self._due_from = self._kept_from
        self._now = -LARGEST_FLOAT
        self._began = deque()
        self._counts = dict.fromkeys((*KINDS, *PASSED), 0)
        self._untold = deque(maxlen=UNTOLD)
        self._seen = [math.inf, -math.inf, 0.0]  # smallest cost, largest cost, number of costs
        if clock != "now" and not is_thawing():
            self._expire(self.agent.begun - 1)

    @property
    def holds_feedback(self) -> float:
        """The number of episodes for which feedback is held back."""
        return (math.inf if self._timed else self.deadline or 0) if self.hold else 0

    @property
    def reads_delays(self) -> bool:
        """Whether the treatment of feedback depends on its delay."""
        return self.deadline is not None

    @property
    def longest_delay(self) -> float:
        """Feedback with a longer delay is ignored; in episodes, if there is no clock."""
        if self.deadline is None:
            return math.inf
        return 0 if self._timed else self.deadline + (self.grace or 0)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Close the episodes past their deadline, then begin the next episode."""
        self._expire(self.agent.begun, now)
        episode = self.agent.begin_episode(self._time(now))
        self._date()  # uses the time just read: no clock can fail in between
        return episode

    def expire(self, now: float | None = None) -> Report:
        """Close the episodes past their deadline now, without a record or a new episode."""
        self._expire(self.agent.begun - 1, now)
        return self._report(())

    def take(self, records: Iterable[Any], now: float | None = None) -> Report:
        """Accept the valid records of a batch together, and report what became of each record.

        The report also names the episodes that the deadline has closed since the last report, in
        this call or when an episode began.
        """
        batch = in_a_list(records)
        self._expire(self.agent.begun - 1, now)
        found = self._sort(batch)
        self._enter(found, found.records, now)
        lacking = self._lacking(found)
        return self._report(tuple(found.outcomes), lacking)

    def _lacking(self, found: Sorted) -> tuple[int, ...]:
        """The episodes of a batch whose outcome waits for a path; `why` of the outcome says so."""
        lacking = sorted(self._pathless.keys() & found.known.keys())
        for i, outcome in enumerate(found.outcomes):
            if outcome.kind == "taken" and outcome.part != "path" and outcome.episode in lacking:
                why = (
                    f"episode {outcome.episode} waits for its path: draw with episode.act, or hand "
                    "in what was done"
                )
                found.outcomes[i] = replace(outcome, why=why)
        return tuple(lacking)

    def _report(self, outcomes: tuple[Outcome, ...], lacking: tuple[int, ...] = ()) -> Report:
        """A report on a batch, and on the episodes that deadlines closed since the last report."""
        passed: dict[str, list[int]] = {name: [] for name in PASSED}
        for number, what in self._untold:
            passed[PASSED[what]].append(number)
        self._untold.clear()
        told = {name: tuple(numbers) for name, numbers in passed.items()}
        return Report(outcomes, pathless=lacking, **told)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it, as agents do.

        Only records past the deadline are ignored; the next report names them. For a queue, use
        `take`.
        """
        try:
            batch = list(records)
        except TypeError:
            batch = [records]
        self._expire(self.agent.begun - 1, now)
        found = self._sort(batch)
        fine = ("taken", "late") if self.problem.one_outcome else ("taken", "late", "duplicate")
        for outcome in found.outcomes:
            if outcome.kind not in fine:
                raise FeedbackError(outcome.why)
        past = [record for record in found.late if record.episode >= self._kept_from]
        self._enter(found, found.records + past, now)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, unless it is complete and held."""
        held = self._held.get(episode)
        if held and self._heard(self._open.get(episode) or self._closed.get(episode) or {}):
            self.agent.observe(held)
        self.agent.forget(episode)
        self._held.pop(episode, None)
        self._close(episode)

    def is_overdue(self, episode: int) -> bool:
        """Whether an episode is open but past its deadline, so that its records are late."""
        return episode < self._due_from and self.agent.is_open(episode)

    def counts(self) -> dict[str, int]:
        """The numbers of records of each class and of expired episodes, since the beginning."""
        return self._counts.copy()

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, and the counts as `inbox_taken` and so on."""
        told = {f"inbox_{name}": count for name, count in self.counts().items()}
        waiting = {"inbox_pathless": len(self._pathless), "inbox_held": len(self._held)}
        return {**self.agent.diagnostics(), **told, **waiting}

    def _sort(self, batch: list[Any]) -> Sorted:
        """Classify every record; nothing else changes."""
        found = Sorted()
        for record in batch:
            outcome = self._outcome(record, found)
            found.outcomes.append(outcome)
            if outcome.kind == "late" and not (outcome.used or record.partial):
                found.late.append(record)
        return found

    def _outcome(self, record: Any, found: Sorted) -> Outcome:
        if not is_record(record):
            such = "Trajectory, Costs or StepCost"
            why = f"a record must be a {such}, got {checks.show(record)}"
            return Outcome("invalid", None, None, why)
        number, part = record.episode, record.part
        try:
            if self.scale is not None:
                record = self.problem.rewards_to_costs(record, self.scale)
            self.problem.check(record, self.information)
        except FeedbackError as error:
            shown = number if isinstance(number, int) else None
            return Outcome("invalid", shown, part, str(error))
        kind: Kind = "unknown"
        used = False
        if number >= self.agent.begun:
            why = f"the episode must be one that was begun ({newest(self.agent.begun)})"
        else:
            entered = found.known.get(number)
            known = entered or self._open.get(number) or self._closed.get(number)
            kind, why = _compared(record.facts(), known or {})
            if kind == "taken":
                used = self._is_open(number, entered)
                facts = found.known[number] = {**(known or {}), **record.facts()}
                whole = record
                if used and record.partial:
                    whole = self.problem.assemble(number, facts, self.information)
                if used and whole is not None:
                    found.records.append(whole.dated(record.at))
                if used and number >= self._due_from:
                    return Outcome("taken", number, part, used=True)
                kind, why = "late", OVERDUE if used else TOO_LATE
        where = f"step {part}" if isinstance(part, int) else part
        return Outcome(kind, number, part, f"episode {number}, {where}: {why}", used)

    def _is_open(self, number: int, entered: Facts | None) -> bool:
        """Whether an episode is still open, given the facts of this batch so far."""
        return not (entered and self._complete(entered)) and self.agent.is_open(number)

    def _complete(self, known: Facts) -> bool:
        """Whether everything that the agent waits for has arrived."""
        return not self.problem.awaited(known, self.information, uses_paths=self.uses_paths)

    def _heard(self, known: Facts) -> bool:
        """Whether the outcome has arrived, with or without its path."""
        return not self.problem.awaited(known, self.information, uses_paths=False)

    def _enter(self, found: Sorted, records: list[Any], now: float | None) -> None:
        """Pass records to the agent, then remember their facts."""
        if self.hold:
            held = [record for record in records if record.is_outcome]
            records = [record for record in records if not record.is_outcome]
        self.agent.observe(records, self._time(now))
        if self.hold:
            for record in held:
                self._held.setdefault(record.episode, []).append(record.dated(self._time(now)))
        for outcome in found.outcomes:
            self._counts[outcome.kind] += 1
        for number, known in found.known.items():
            self._open[number] = known
            self._watch(known)
            is_open = self.agent.is_open(number)
            if self._complete(known) or not is_open:
                self._close(number)
            elif self.uses_paths and number not in self._held and self._heard(known):
                self._pathless[number] = None
        if len(self._open) > self._crowded:  # the agent may have discarded some by itself
            for number in [n for n in self._open if not self.agent.is_open(n)]:
                self._close(number)
            self._crowded = SWEEP + 2 * len(self._open)

    def _watch(self, known: Facts) -> None:
        """Warn once if all costs lie in a small part of their range: then learning is slow.

        Equal costs cause no warning.
        """
        if self._seen[2] < 0:
            return
        numbers = [float(value) for key, value in known.items() if isinstance(key, int)]
        if not numbers:
            return
        low, high = min(self._seen[0], *numbers), max(self._seen[1], *numbers)
        self._seen = [low, high, self._seen[2] + 1]
        if self._seen[2] < ENOUGH:
            return
        self._seen[2] = -1.0  # costs are judged once
        if 0.0 < high - low < NARROW:
            warnings.warn(
                f"all costs so far lie between {low:.3g} and {high:.3g}, less than 5 % of the "
                "range, so that little can be learned; hand rewards to Inbox(agent, "
                "rewards=(low, high), clip=True) with the range in which most of them lie",
                stacklevel=4,
            )

    def _close(self, number: int) -> None:
        """Move the facts of an episode to the closed ones, and drop the oldest of those."""
        self._pathless.pop(number, None)
        known = self._open.pop(number, {})
        if not known:
            return
        self._closed[number] = known
        while len(self._closed) > self.remember:
            del self._closed[next(iter(self._closed))]

    def _look(self, now: float | None) -> None:
        """Read the clock once, and date the episodes that have begun since the last reading."""
        if not self._timed:
            return
        if now is None and self.clock == "now":
            raise ValueError('now must be given with every call, because clock="now"')
        read = now if now is not None else self.clock()  # type: ignore[operator, misc]
        try:
            time = checks.real("clock()" if now is None else "now", read, -math.inf)
        except ValueError as error:
            raise ValueError(f"{error}; time.time gives seconds as a number") from None
        self._now = max(self._now, time)
        self._date()

    def _time(self, now: float | None) -> float | None:
        """The time to pass to the agent inside: the clock's, or the caller's."""
        return self._now if self._timed else now

    def _date(self) -> None:
        """Date the episodes that have no start time as begun now."""
        if self._timed:
            missing = self.agent.begun - self._kept_from - len(self._began)
            self._began.extend([self._now] * missing)

    def _expire(self, episode: int, now: float | None = None) -> None:
        """Close the episodes past deadline and grace when this episode is the newest."""
        self._look(now)
        if self.deadline is None:
            return
        while self._is_past(self._due_from, self.deadline, episode):
            if self.grace is not None and self.agent.is_open(self._due_from):
                self._passed(self._due_from, "overdue")
            self._due_from += 1
        limit = self.deadline + (self.grace or 0)
        while self._is_past(self._kept_from, limit, episode):
            number = self._kept_from
            self._kept_from += 1
            if self._timed:
                self._began.popleft()
            if self.agent.is_open(number):
                self._end(number, now)
            self._held.pop(number, None)
            self._close(number)

    def _is_past(self, number: int, limit: float, episode: int) -> bool:
        """Whether an open episode has waited longer than a limit."""
        if self._timed:
            place = number - self._kept_from
            return place < len(self._began) and self._now - self._began[place] > limit
        return is_past(number, episode, limit)

    def _end(self, number: int, now: float | None) -> None:
        """Forget an episode, or give the default to the steps that have not reported."""
        known = self._open.get(number) or self._closed.get(number) or {}
        held, heard = self._held.pop(number, []), self._heard(known)
        silent = None
        if not heard and self.default is not None:
            silent = self.problem.assemble(number, known, self.information, self.default)
        told = held if silent is None else [silent]
        if told:
            self.agent.observe(told, self._time(now))
        waits = self.agent.is_open(number)
        if waits:
            self.agent.forget(number)
        pathless = waits and self.information == "bandit" and self.problem.one_outcome
        if pathless or not (told or heard):
            self._passed(number, "forgotten")
        elif not heard:
            self._passed(number, "defaulted")

    def _passed(self, number: int, what: str) -> None:
        """Count an expired episode, and keep it for the next report."""
        self._counts[what] += 1
        self._untold.append((number, PASSED.index(what)))

    def configuration(self) -> dict[str, Any]:
        """The arguments of this inbox; a clock cannot be saved."""
        given = super().configuration()
        return {**given, "clock": CLOCK if callable(given["clock"]) else given["clock"]}

    def check_learned(self) -> None:
        """Check that the facts and the held records are such as can be reported."""
        checks.integer("due_from", self._due_from, self._kept_from, self.begun)
        if len(self._began) != (self.begun - self._kept_from if self._timed else 0):
            raise ValueError("began must date every episode that is kept")
        exact(self._counts, *KINDS, *PASSED)
        for known in (self._open, self._closed):
            for number, facts in known.items():
                checks.integer("number", number, 0, self.begun - 1)
                self.problem.assemble(number, facts, self.information, default=0.0)
        check_held(self._held, self.problem, self.information)
        for _, what in self._untold:
            checks.integer("untold", what, 0, len(PASSED) - 1)

    def __repr__(self) -> str:
        plain = {each.name: each.default for each in parameters(type(self))}
        given = {n: v for n, v in self.configuration().items() if n != "agent" and v != plain[n]}
        return call(self, self.agent, **given)


def _compared(facts: Mapping[Key, Any], known: Facts) -> tuple[Kind, str]:
    """Whether facts are new ("taken"), the same as before or different."""
    kind: Kind = "duplicate"
    for key, value in facts.items():
        before = known.get(key)
        if before is None:
            kind = "taken"
        elif before != value:
            if isinstance(value, str):
                return "conflict", f"another {key} came before"
            what = f"step {key} cost" if isinstance(key, int) else f"{key} was"
            return "conflict", f"{what} {before:g} before, got {value:g}"
    return kind, "the same value came before"
