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

The inbox keeps a table of episodes (`episodes.Episodes`), to tell duplicates from conflicts, also
among late records: the facts of those that are open, and of the last `remember` closed ones. It
knows nothing of episodes closed earlier, and calls their records late. So memory is bounded by the
number of open episodes and `remember`. By age, the oldest first, episodes are

    closed          up to `_kept_from`: past deadline and grace
    overdue         up to `_due_from`: past the deadline; their records are late, but used
    in time         the others

A deadline closes every episode that has waited longer. Without a default the episode is forgotten.
With a default, every step that has not reported gets that cost: where only successes report,
silence is information. With a grace period the episode is forgotten only after it, and records that
arrive in the meantime are late but used; this excludes a default, from which the agent has already
learned. With hold=True, records that arrive before the deadline are passed on at the deadline too:
where only successes report, the agent would otherwise learn of successes first, and overrate the
actions that it plays most.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from belated.core import checks
from belated.core.contract import Agent, Episode, FeedbackError, Scale, WrapperBase
from belated.core.episodes import KINDS, Episodes, Facts, Kind, Open, in_a_list, is_past
from belated.core.tree import LARGEST_FLOAT, Count, is_thawing

EXPIRED = ("overdue", "forgotten", "defaulted")
"""What a deadline does to an episode."""
MOST_UNREPORTED = 100_000
"""The number of expired episodes that the next report can name; older ones are only counted."""
NO_CLOCK = "lost"
"""What stands for a clock that a file cannot hold."""
WHY_NO_TIME = {
    NO_CLOCK: "clock must be set again after loading: inbox.clock = time.time",
    "now": 'now must be given with every call, because clock="now"',
}
"""Why the time is not known, by what stands for the clock."""


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
        numbers = {**self.counts, **{name: len(getattr(self, name)) for name in EXPIRED}}
        return ", ".join(f"{n} {name}" for name, n in numbers.items() if n) or "nothing"


@dataclass(slots=True)
class Batch:
    """What a batch of records holds, before anything has changed.

    Attributes:
        outcomes: one per record.
        used: the records that go to the agent.
        known: the facts of the episodes of which the batch reports something new.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    used: list[Any] = field(default_factory=list)
    known: dict[int, Facts] = field(default_factory=dict)


def _check_together(
    deadline: object, clock: object, default: object, grace: object, hold: bool
) -> None:
    """Check that arguments of an inbox have the deadline that they need, and go together."""
    given = {"clock": clock, "default": default, "grace": grace, "hold": hold or None}
    for name, value in given.items():
        if deadline is None and value is not None:
            raise ValueError(f"{name} needs a deadline, got None")
    if grace is not None and (default is not None or hold):
        raise ValueError(
            f"grace must be None beside {'hold=True' if hold else 'a default'}, which is learned "
            f"from at the deadline; got {checks.show(grace)}"
        )
    if clock not in (None, "now", NO_CLOCK) and not callable(clock):
        raise ValueError(
            f"clock must be a function such as time.time, or 'now', got {checks.show(clock)}"
        )


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

    _table: Episodes[list[Any]]  # the memory is the outcomes that wait for the deadline
    _kept_from: Count  # older episodes are past the grace period
    _due_from: Count  # older episodes are past the deadline
    _now: float
    _began: deque[float]  # start times of the episodes from _kept_from on
    _counts: dict[str, Count]
    _unreported: deque[tuple[int, str]]  # expired episodes, and what became of them

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
        _check_together(deadline, clock, default, grace, hold)
        self._timed = clock is not None
        self.deadline = self._limit("deadline without a clock", "deadline", deadline, 0)
        self.grace = self._limit("grace", "grace", grace, 1)
        self.scale = None if rewards is None else Scale.of("rewards", rewards, clip=clip)
        if checks.flag("clip", clip) and rewards is None:
            raise ValueError("clip needs rewards=(low, high), got None")
        self.reads_delays = deadline is not None
        used_until = math.inf if self.deadline is None else self.deadline + (self.grace or 0)
        self.longest_delay = 0 if self._timed else used_until
        self.holds_feedback = (math.inf if self._timed else used_until) if self.hold else 0
        self._hold(agent, fresh=False)
        if rewards is not None and not agent.problem.one_outcome:
            raise ValueError(
                "rewards must be None around a learner of decisions, which takes outcomes of any "
                f"unit (clip them before they are reported), got {checks.show(rewards)}"
            )
        self.default = None if default is None else checks.real("default", default, 0.0, 1.0)
        self.clock, self.rewards, self.clip = clock, rewards, clip
        self.remember = checks.integer("remember", remember, 0)
        self._table = Episodes(
            agent.problem,
            agent.information,
            uses_paths=agent.uses_paths,
            remembers=list[Any],
            remember=self.remember,
        )
        self._kept_from = self._due_from = next(iter(agent.open_episodes()), agent.begun)
        self._now = -LARGEST_FLOAT
        self._counts = dict.fromkeys((*KINDS, *EXPIRED), 0)
        self._unreported = deque(maxlen=MOST_UNREPORTED)
        if clock != "now" and not is_thawing():
            self._expire(self.agent.begun - 1)

    def _limit(self, counted: str, name: str, value: object, low: int) -> float | None:
        """A number of episodes of at least `low`, or of seconds if there is a clock."""
        if value is None:
            return None
        if self._timed:
            return checks.real(name, value, 0.0, above=low > 0)
        return checks.integer(counted, value, low)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Close the episodes past their deadline, then begin the next episode."""
        time = self._expire(self.agent.begun, now)
        episode = self.agent.begin_episode(time)
        if self._timed:
            self._began.append(self._now)  # the time just read: no clock can fail in between
        return episode

    def expire(self, now: float | None = None) -> Report:
        """Close the episodes past their deadline now, without a record or a new episode."""
        self._expire(self.agent.begun - 1, now)
        return self._report(Batch())

    def take(self, records: Iterable[Any], now: float | None = None) -> Report:
        """Accept the valid records of a batch together, and report what became of each record.

        The report also names the episodes that the deadline has closed since the last report, in
        this call or when an episode began.
        """
        given = in_a_list(records)
        time = self._expire(self.agent.begun - 1, now)
        batch = self._classify(given)
        self._enter(batch, batch.used, time)
        return self._report(batch)

    def _report(self, batch: Batch) -> Report:
        """A report on a batch, and on the episodes that deadlines closed since the last report."""
        entries = map(self._table.open.get, sorted(batch.known))
        lacking = [e.number for e in entries if e is not None and self._lacks_path(e)]
        for i, outcome in enumerate(batch.outcomes):
            if outcome.kind == "taken" and outcome.part != "path" and outcome.episode in lacking:
                why = (
                    f"episode {outcome.episode} waits for its path: draw with episode.act, or hand "
                    "in what was done"
                )
                batch.outcomes[i] = replace(outcome, why=why)
        told = {name: tuple(n for n, what in self._unreported if what == name) for name in EXPIRED}
        self._unreported.clear()
        return Report(tuple(batch.outcomes), pathless=tuple(lacking), **told)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it, as agents do.

        Only records past the deadline are ignored; the next report names them. For a queue, use
        `take`.
        """
        given = in_a_list(records)
        time = self._expire(self.agent.begun - 1, now)
        batch = self._classify(given)
        fine = ("taken", "late") if self.problem.one_outcome else ("taken", "late", "duplicate")
        used = batch.used.copy()
        for record, outcome in zip(given, batch.outcomes, strict=True):
            if outcome.kind not in fine:
                raise FeedbackError(outcome.why)
            late = outcome.kind == "late" and not (outcome.used or record.partial)
            if late and record.episode >= self._kept_from:
                used.append(record)  # the agent decides
        self._enter(batch, used, time)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, unless it is complete and held."""
        entry = self._table.open.get(episode)
        if entry is not None and entry.memory and self._has_outcome(entry.facts):
            self.agent.observe(entry.memory)
        self.agent.forget(episode)
        self._table.close(episode)

    def is_overdue(self, episode: int) -> bool:
        """Whether an episode is open but past its deadline, so that its records are late."""
        return episode < self._due_from and self.agent.is_open(episode)

    def counts(self) -> dict[str, int]:
        """The numbers of records of each class and of expired episodes, since the beginning."""
        return self._counts.copy()

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, and the counts as `inbox_taken` and so on."""
        told = {f"inbox_{name}": count for name, count in self.counts().items()}
        pathless = sum(map(self._lacks_path, self._table.open.values()))
        held = sum(bool(entry.memory) for entry in self._table.open.values())
        return {**self.agent.diagnostics(), **told, "inbox_pathless": pathless, "inbox_held": held}

    def _classify(self, records: list[Any]) -> Batch:
        """Put every record into its class; nothing else changes."""
        batch = Batch()
        self._table.begun = self.agent.begun

        def is_open(number: int) -> bool:
            """Whether an episode is still open, given the facts of this batch so far."""
            entered = batch.known.get(number)
            done = entered and self._has_outcome(entered, and_path=self.uses_paths)
            return not done and self.agent.is_open(number)

        for record in records:
            batch.outcomes.append(self._outcome(record, batch, is_open))
        return batch

    def _outcome(self, record: Any, batch: Batch, is_open: Callable[[int], bool]) -> Outcome:
        """What becomes of a record, whose facts and use are noted in its batch."""
        number, part = getattr(record, "episode", None), getattr(record, "part", None)
        try:
            if self.scale is not None and number is not None:
                record = self.problem.rewards_to_costs(record, self.scale)
            kind, why = self._table.classify(record, batch.known, is_open)
        except FeedbackError as error:
            kind, why = "invalid", str(error)
        if kind == "invalid":
            return Outcome(kind, number if isinstance(number, int) else None, part, why)
        assert number is not None
        if kind in ("taken", "late"):
            known = batch.known.get(number) or self._table.known(number)
            batch.known[number] = {**known, **record.facts()}
        used = kind == "taken"
        if used:
            facts = batch.known[number]
            whole = (
                self.problem.assemble(number, facts, self.information) if record.partial else record
            )
            if whole is not None:
                batch.used.append(whole.dated(record.at))
            if number >= self._due_from:
                return Outcome(kind, number, part, used=True)
            kind, why = "late", "its deadline has passed, and the agent still uses it"
        where = f"step {part}" if isinstance(part, int) else part
        return Outcome(kind, number, part, f"episode {number}, {where}: {why}", used)

    def _has_outcome(self, known: Facts, *, and_path: bool = False) -> bool:
        """Whether the outcome has arrived, and_path: and the path, too."""
        return not self.problem.awaited(known, self.information, uses_paths=and_path)

    def _lacks_path(self, entry: Open[list[Any]]) -> bool:
        """Whether the outcome of an open episode waits for its path."""
        return self.uses_paths and not entry.memory and self._has_outcome(entry.facts)

    def _enter(self, batch: Batch, records: list[Any], time: float | None) -> None:
        """Pass records to the agent, or hold them, then remember the facts of the batch."""
        table = self._table.open
        held = [record for record in records if self.hold and record.is_outcome]
        self.agent.observe([record for record in records if record not in held], time)
        for record in held:
            entry = table.setdefault(record.episode, Open(record.episode, []))
            entry.memory = [*(entry.memory or ()), record.dated(time)]
        for outcome in batch.outcomes:
            self._counts[outcome.kind] += 1
        for number, known in batch.known.items():
            entry = table.setdefault(number, Open(number, []))
            entry.facts = known
            done = self._has_outcome(known, and_path=self.uses_paths) and not entry.memory
            if done or not self.agent.is_open(number):
                self._table.close(number)
        for number in list(takewhile(lambda n: not self.agent.is_open(n), table)):
            self._table.close(number)  # the agent has discarded it by itself

    def _read_clock(self, now: float | None) -> float | None:
        """The time of a call. Episodes that have begun since the last call are dated.

        Without a clock it is what the caller says, which is only for the agent inside.
        """
        if not self._timed:
            return now
        if now is None and isinstance(self.clock, str):
            raise ValueError(WHY_NO_TIME[self.clock])
        name = "clock()" if now is None else "now"
        read = self.clock() if now is None else now  # type: ignore[operator, misc]
        self._now = max(self._now, checks.real(name, read, -math.inf))
        undated = self.agent.begun - self._kept_from - len(self._began)
        self._began.extend([self._now] * undated)
        return self._now

    def _expire(self, newest: int, now: float | None = None) -> float | None:
        """Close the episodes past deadline and grace, given the newest; returns the time."""
        time = self._read_clock(now)
        if self.deadline is None:
            return time
        while self._is_past(self._due_from, self.deadline, newest):
            if self.grace is not None and self.agent.is_open(self._due_from):
                self._count_expired(self._due_from, "overdue")
            self._due_from += 1
        limit = self.deadline + (self.grace or 0)
        while self._is_past(self._kept_from, limit, newest):
            number = self._kept_from
            self._kept_from += 1
            if self._timed:
                self._began.popleft()
            if self.agent.is_open(number):
                self._close(number, time)
            self._table.close(number)
        return time

    def _is_past(self, number: int, limit: float, newest: int) -> bool:
        """Whether an open episode has waited longer than a limit."""
        if self._timed:
            place = number - self._kept_from
            return place < len(self._began) and self._now - self._began[place] > limit
        return is_past(number, newest, limit)

    def _close(self, number: int, time: float | None) -> None:
        """Forget an episode, or give the default to the steps that have not reported."""
        entry, known = self._table.open.get(number), self._table.known(number)
        arrived = self._has_outcome(known)
        held = [] if entry is None else entry.memory or []
        if not arrived and self.default is not None:
            by_default = self.problem.assemble(number, known, self.information, self.default)
            held = held if by_default is None else [by_default]
        if held:
            self.agent.observe(held, time)
        waits = self.agent.is_open(number)
        if waits:
            self.agent.forget(number)
        pathless = waits and self.information == "bandit" and self.problem.one_outcome
        if pathless or not (held or arrived):
            self._count_expired(number, "forgotten")
        elif not arrived:
            self._count_expired(number, "defaulted")

    def _count_expired(self, number: int, what: str) -> None:
        """Count an expired episode, and keep it for the next report."""
        self._counts[what] += 1
        self._unreported.append((number, what))

    def configuration(self) -> dict[str, Any]:
        """The arguments of this inbox; a clock cannot be saved."""
        return super().configuration() | ({"clock": NO_CLOCK} if callable(self.clock) else {})
