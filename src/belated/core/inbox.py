"""Feedback as a queue delivers it: doubled, stale, in single steps, or after its time.

`observe` of an agent is strict: a record that cannot be right refuses its whole batch. An `Inbox`
stands before the agent and sorts every record into exactly one class:

    taken       new; it is used
    duplicate   the same value came before
    conflict    another value came before, which stays
    late        it comes after the deadline, or after its episode was closed
    unknown     its episode was never begun
    invalid     it does not fit the problem, or is no record

The good records of a batch are taken together, whatever the others are. Keys are natural: the path
of an episode, and the cost of each of its steps (`Costs` under bandit feedback are the costs of all
steps at once). Under full information the whole cost function is one key.

Duplicates and conflicts are told apart by what is remembered of an episode: a digest of its path
(and of a whole cost function), and the costs of its steps, late ones too. That is kept while the
episode is open and for the last `remember` episodes that were closed. Of an episode closed earlier
nothing is known, and a record of it is late. So memory is bounded by the open episodes and
`remember`.

With a deadline, an episode that has waited longer is closed: forgotten, or, with a default, given
that cost in every step that has not reported, because silence is information where only successes
report. With a grace, it is forgotten that much later: what comes in between is late and used. After
a default it could not be: the agent has learned from the default in its place.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, Ints
from belated.core.contract import (
    Agent,
    Information,
    Wrapper,
    call,
    check_is_agent,
    check_unlocked,
)
from belated.core.ledger import check_costs, check_path, newest
from belated.core.records import Costs, Episode, FeedbackError, Record, StepCost, Trajectory
from belated.tabular.problem import Problem

Kind = Literal["taken", "duplicate", "conflict", "late", "unknown", "invalid"]
DIGEST = 16
"""Bytes of a digest."""
KINDS: tuple[Kind, ...] = ("taken", "duplicate", "conflict", "late", "unknown", "invalid")
SWEEP = 64
"""Episodes of which something has come before it is checked whether all of them are open."""
CLOSED = ("forgotten", "defaulted")
"""How a deadline closes an episode."""
PASSED = ("overdue", *CLOSED)
"""What a deadline does to an episode."""
UNTOLD = 100_000
"""Episodes past a deadline that wait for a report; of older ones only the counts tell."""
OVERDUE = "its deadline has passed, and the agent still uses it"
TOO_LATE = "the episode is closed, and this value did not come before"
"""Why a record is late."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one record.

    Attributes:
        kind: its class.
        episode: the episode it names; None if it is no record.
        part: "path", "costs", or the step of a single cost; None if it is no record.
        why: one sentence, empty for what was taken.
        used: whether the agent gets it: what was taken, and what was late within the grace.
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
        outcomes: of every record, in the order in which they were given.
        overdue: episodes whose deadline passed since the last report, and whose grace began.
        forgotten: those that had waited longer than the deadline and the grace, and were forgotten
            since the last report.
        defaulted: those that were given the default cost at the deadline instead.
    """

    outcomes: tuple[Outcome, ...]
    forgotten: tuple[int, ...] = ()
    defaulted: tuple[int, ...] = ()
    overdue: tuple[int, ...] = ()

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
class Known:
    """What is remembered of an episode; not changed any more once it is.

    Attributes:
        path: digest of the path; None if it has not come.
        costs: the H costs of the steps, None where none has come; under full information the
            digest of the whole, None if it has not come.
    """

    path: str | None
    costs: list[float | None] | str | None

    def copy(self) -> Known:
        """A copy that can be changed."""
        return Known(self.path, self.costs[:] if isinstance(self.costs, list) else self.costs)

    @property
    def steps(self) -> list[float | None]:
        """The costs of the steps, under bandit feedback."""
        assert isinstance(self.costs, list)
        return self.costs


@dataclass(slots=True)
class Sorted:
    """A batch that was sorted and has changed nothing yet."""

    outcomes: list[Outcome] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    late: list[Record] = field(default_factory=list)
    known: dict[int, Known] = field(default_factory=dict)


class Inbox(Wrapper):
    """An agent that takes records as a queue delivers them.

    It has the whole contract of an agent, so that it can be simulated and saved like one; episodes
    are begun through it.

    Args:
        agent: the agent inside.
        deadline: how long an episode may wait: so many episodes that begin after it, or seconds if
            there is a clock. None: for ever.
        default: the cost, in [0, 1], of every step that has not reported by the deadline. None:
            the episode is forgotten.
        clock: gives the time in seconds, such as `time.time`. A clock that goes back stands still.
        grace: for how many more episodes, or seconds, an episode past the deadline is overdue
            before it is forgotten. What comes meanwhile is late, and used. None: for none.
        remember: how many closed episodes are remembered, to tell duplicates from conflicts.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        deadline: float | None = None,
        default: float | None = None,
        clock: Callable[[], float] | None = None,
        grace: float | None = None,
        remember: int = 10_000,
    ) -> None:
        check_is_agent("agent", agent)
        check_unlocked("agent", agent)
        if isinstance(agent, Inbox):
            raise ValueError("agent must not be an Inbox itself; one Inbox is enough")
        for name, value in (("clock", clock), ("default", default), ("grace", grace)):
            if deadline is None and value is not None:
                raise ValueError(f"{name} needs a deadline, got None")
        if grace is not None and default is not None:
            raise ValueError(
                f"grace must be None beside a default, which is learned from at the deadline; "
                f"got {checks.show(grace)}"
            )
        if clock is not None and not callable(clock):
            raise ValueError(f"clock must be a function, got {checks.show(clock)}")
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
        self.agent = agent
        self.problem: Problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = agent.uses_paths
        self.deadline = deadline
        self.default = None if default is None else checks.real("default", default, 0.0, 1.0)
        self.clock = clock
        self.grace = grace
        self._timed = clock is not None
        self.remember = checks.integer("remember", remember, 0)
        self._open: dict[int, Known] = {}  # of which something has come
        self._closed: dict[int, Known] = {}  # in the order in which they were closed
        self._crowded = SWEEP
        waiting = agent.open_episodes()
        self._kept_from = waiting[0] if waiting else agent.begun  # older ones are past the grace
        self._due_from = self._kept_from  # older ones are past the deadline
        self._now = -math.inf
        self._began: deque[float] = deque()  # of the episodes from _kept_from on, by the clock
        self._counts: Counter[str] = Counter()
        self._untold: deque[tuple[int, int]] = deque(maxlen=UNTOLD)  # and the place in PASSED
        self._expire(self.begun - 1)

    def __copy__(self) -> Self:
        """An inbox that remembers the same, before the same agent."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._open, made._closed = self._open.copy(), self._closed.copy()
        made._began, made._counts = self._began.copy(), self._counts.copy()
        made._untold = self._untold.copy()
        return made

    def begin_episode(self, now: float | None = None) -> Episode:
        """Close what is past the deadline, then begin the next episode."""
        self._expire(self.begun)
        episode = self.agent.begin_episode(now)
        self._date()  # by the time that was just read: no clock can fail between the two
        return episode

    def expire(self) -> Report:
        """Close what is past the deadline now, without waiting for the next record or episode."""
        self._expire(self.begun - 1)
        return self._report(())

    def take(self, records: Iterable[Record | StepCost]) -> Report:
        """Take the good records of a batch together, and say what became of each one.

        The report also names the episodes that the deadline has closed since the last report: now,
        or when an episode began.
        """
        try:
            batch = list(records)
        except TypeError:
            raise FeedbackError(
                f"records must be a list of records, got {checks.show(records)}"
            ) from None
        self._expire(self.begun - 1)
        found = self._sort(batch)
        self._enter(found, found.records)
        return self._report(tuple(found.outcomes))

    def _report(self, outcomes: tuple[Outcome, ...]) -> Report:
        """A report on a batch, and on what deadlines did since the last one."""
        passed: dict[str, list[int]] = {name: [] for name in PASSED}
        for number, what in self._untold:
            passed[PASSED[what]].append(number)
        self._untold.clear()
        return Report(outcomes, **{name: tuple(numbers) for name, numbers in passed.items()})

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Take a batch whole, or raise `FeedbackError` and take nothing, as agents do.

        Only what is past the deadline is left aside; the next report names it. For a queue, use
        `take`.
        """
        try:
            batch = list(records)
        except TypeError:
            batch = [records]  # type: ignore[list-item]
        self._expire(self.begun - 1)
        found = self._sort(batch)
        for outcome in found.outcomes:
            if outcome.kind not in ("taken", "late"):
                raise FeedbackError(outcome.why)
        past = [record for record in found.late if record.episode >= self._kept_from]
        self._enter(found, found.records + past)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self.agent.forget(episode)
        self._close(episode)

    def is_overdue(self, episode: int) -> bool:
        """Whether an episode is open, and what comes of it now is late."""
        return episode < self._due_from and self.agent.is_open(episode)

    def counts(self) -> dict[str, int]:
        """Records of each class and what the deadline did to episodes, since the beginning."""
        return {name: self._counts[name] for name in (*KINDS, *PASSED)}

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, and the counts as `inbox_taken` and so on."""
        told = {f"inbox_{name}": count for name, count in self.counts().items()}
        return {**self.agent.diagnostics(), **told}

    def _sort(self, batch: list[Any]) -> Sorted:
        """Say what would become of every record; nothing changes."""
        found = Sorted()
        for record in batch:
            outcome = self._outcome(record, found)
            found.outcomes.append(outcome)
            if outcome.kind == "late" and not (outcome.used or isinstance(record, StepCost)):
                found.late.append(record)
        return found

    def _outcome(self, record: object, found: Sorted) -> Outcome:
        if not isinstance(record, StepCost | Costs | Trajectory):
            such = "Trajectory, Costs or StepCost"
            why = f"a record must be a {such}, got {checks.show(record)}"
            return Outcome("invalid", None, None, why)
        number, part = record.episode, _part(record)
        try:
            self._check(record)
        except FeedbackError as error:
            return Outcome("invalid", number, part, str(error))
        kind: Kind = "unknown"
        used = False
        if number >= self.begun:
            why = f"the episode must be one that was begun ({newest(self.begun)})"
        else:
            entered = found.known.get(number)
            known = entered or self._open.get(number) or self._closed.get(number)
            kind, why = self._compare(record, known or self._nothing())
            if kind == "taken":
                used = self._is_open(number, entered)
                found.known[number] = entered or (known.copy() if known else self._nothing())
                ready = self._entered(record, found.known[number])
                if used:
                    found.records += ready
                if used and number >= self._due_from:
                    return Outcome("taken", number, part, used=True)
                kind, why = "late", OVERDUE if used else TOO_LATE
        where = f"step {part}" if isinstance(part, int) else part
        return Outcome(kind, number, part, f"episode {number}, {where}: {why}", used)

    def _nothing(self) -> Known:
        """What is known of an episode at first."""
        return Known(None, None if self.information == "full" else [None] * self.problem.horizon)

    def _is_open(self, number: int, entered: Known | None) -> bool:
        """Whether an episode still waits, after what was entered of this batch."""
        return not (entered and self._complete(entered)) and self.agent.is_open(number)

    def _check(self, record: Record | StepCost) -> None:
        if isinstance(record, Trajectory):
            check_path(self.problem, record)
        elif isinstance(record, Costs):
            check_costs(self.problem, self.information, record)
        else:
            where = f"StepCost of episode {record.episode}"
            if self.information != "bandit":
                raise FeedbackError(f"{where}: under full information whole cost functions count")
            if record.step >= self.problem.horizon:
                raise FeedbackError(
                    f"{where}: step must be below {self.problem.horizon}, got {record.step}"
                )

    def _compare(self, record: Record | StepCost, known: Known) -> tuple[Kind, str]:
        """Whether a value is new ("taken"), the same or another one."""
        if isinstance(record, Trajectory):
            if known.path is None:
                return "taken", ""
            same = known.path == _digest(record.states, record.actions)
            return _seen(same, "another path came before")
        if isinstance(record, Costs) and self.information == "full":
            if known.costs is None:
                return "taken", ""
            return _seen(known.costs == _digest(record.values), "other costs came before")
        kind: Kind = "duplicate"
        for step, value in _by_step(record):
            before = known.steps[step]
            if before is None:
                kind = "taken"
            elif before != value:
                return "conflict", f"step {step} cost {before:g} before, got {value:g}"
        return kind, "the same value came before"

    def _entered(self, record: Record | StepCost, known: Known) -> list[Record]:
        """Enter a new value, and return what can now be handed to the agent."""
        if isinstance(record, Trajectory):
            known.path = _digest(record.states, record.actions)
            return [record]
        if isinstance(record, Costs) and self.information == "full":
            known.costs = _digest(record.values)
            return [record]
        for step, value in _by_step(record):
            known.steps[step] = value
        if None in known.steps:
            return []
        return [record if isinstance(record, Costs) else Costs(record.episode, _array(known.steps))]

    def _complete(self, known: Known) -> bool:
        """Whether all that the agent waits for has come."""
        if self.uses_paths and known.path is None:
            return False
        return None not in known.costs if isinstance(known.costs, list) else known.costs is not None

    def _enter(self, found: Sorted, records: list[Record]) -> None:
        """Hand records to the agent, then remember what was sorted."""
        self.agent.observe(records)
        self._counts.update(outcome.kind for outcome in found.outcomes)
        for number, known in found.known.items():
            self._open[number] = known
            if self._complete(known) or not self.agent.is_open(number):
                self._close(number)
        if len(self._open) > self._crowded:  # the agent may have let go of some by itself
            for number in [n for n in self._open if not self.agent.is_open(n)]:
                self._close(number)
            self._crowded = SWEEP + 2 * len(self._open)

    def _close(self, number: int) -> None:
        """Move what is known of an episode to the closed ones, and drop the oldest of those."""
        known = self._open.pop(number, None)
        if known is None:
            return
        self._closed[number] = known
        while len(self._closed) > self.remember:
            del self._closed[next(iter(self._closed))]

    def _look(self) -> None:
        """Read the clock, and date the episodes that have begun since it was read."""
        if not self._timed:
            return
        if self.clock is None:
            raise ValueError("clock must be set again after loading: inbox.clock = time.time")
        self._now = max(self._now, checks.real("clock()", self.clock(), -math.inf))
        self._date()

    def _date(self) -> None:
        """Let the episodes without a date have begun now."""
        if self._timed:
            missing = self.begun - self._kept_from - len(self._began)
            self._began.extend([self._now] * missing)

    def _expire(self, episode: int) -> None:
        """Close what is past deadline and grace when this episode is the newest."""
        self._look()
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
                self._end(number)
            self._close(number)

    def _is_past(self, number: int, limit: float, episode: int) -> bool:
        """Whether an episode that is kept has waited longer than a limit."""
        if self._timed:
            place = number - self._kept_from
            return place < len(self._began) and self._now - self._began[place] > limit
        return episode - number > limit

    def _end(self, number: int) -> None:
        """Forget an episode, or give the default to the steps that have not reported."""
        known = self._open.get(number) or self._nothing()
        _, S, A = self.problem.shape
        used = self.information == "full" and known.costs is not None  # only its path is missing
        lost = self.default is None or (self.information == "bandit" and known.path is None)
        if not used and not lost:
            values: Floats = np.full((1, S, A), self.default)
            if self.information == "bandit":
                values = _array([self.default if c is None else c for c in known.steps])
            self.agent.observe([Costs(number, values)])
        self.agent.forget(number)
        if not used:
            self._passed(number, CLOSED[not lost])

    def _passed(self, number: int, what: str) -> None:
        """Count what a deadline did to an episode, and keep it for the next report."""
        self._counts[what] += 1
        self._untold.append((number, PASSED.index(what)))

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this inbox; a clock by its name."""
        return {
            "agent": self.agent,
            "deadline": self.deadline,
            "default": self.default,
            "clock": getattr(self.clock, "__qualname__", "not set") if self._timed else None,
            "grace": self.grace,
            "remember": self.remember,
        }

    def state(self) -> stored.State:
        """The agent inside, what is remembered, and what the clock said; not the clock itself."""
        return {
            "agent": stored.kept(self.agent),
            "deadline": self.deadline,
            "default": self.default,
            "timed": self._timed,
            "grace": self.grace,
            "remember": self.remember,
            "open": self._written(self._open),
            "closed": self._written(self._closed),
            "crowded": self._crowded,
            "kept_from": self._kept_from,
            "due_from": self._due_from,
            "now": None if math.isinf(self._now) else self._now,
            "began": np.array(self._began, dtype=np.float64),
            "counts": self.counts(),
            "untold": np.array(self._untold, dtype=np.int64).reshape(-1, 2),
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The inbox that wrote the state; if it had a clock, `clock` must be set again."""
        given = ("agent", "deadline", "default", "timed", "grace", "remember")
        names = ("open", "closed", "crowded", "kept_from", "due_from", "now", "began", "counts")
        read = stored.exact(state, *given, *names, "untold")
        timed = checks.flag("timed", read["timed"])
        now = -math.inf if read["now"] is None else checks.real("now", read["now"], -math.inf)
        made = cls(
            stored.made(read["agent"]),
            deadline=read["deadline"],
            default=read["default"],
            clock=(lambda: now) if timed else None,
            grace=read["grace"],
            remember=read["remember"],
        )
        if timed:
            made.clock = None
        made._open = made._read(read["open"])
        made._closed = made._read(read["closed"])
        made._crowded = checks.integer("crowded", read["crowded"], SWEEP)
        made._due_from = checks.integer("due_from", read["due_from"], 0, made.begun)
        made._kept_from = checks.integer("kept_from", read["kept_from"], 0, made._due_from)
        made._now = now
        began = stored.array("began", read["began"], np.float64, (None,))
        stored.finite("began", began)
        if len(began) != (made.begun - made._kept_from if timed else 0):
            raise ValueError("began must date every episode that is kept")
        made._began = deque(began.tolist())
        counts = stored.exact(read["counts"], *KINDS, *PASSED)
        made._counts = Counter({k: stored.count(k, n) for k, n in counts.items()})
        untold = stored.array("untold", read["untold"], np.int64, (None, 2))
        stored.within("untold", untold[:, 0], made._due_from)
        stored.within("untold", untold[:, 1], len(PASSED))
        made._untold.clear()
        made._untold.extend((number, what) for number, what in untold.tolist())
        return made

    def _written(self, known: dict[int, Known]) -> stored.State:
        costs: Any = [each.costs for each in known.values()]
        if self.information == "bandit":
            costs = _array(costs).reshape(-1, self.problem.horizon)
        return {
            "numbers": np.array(list(known), dtype=np.int64),
            "paths": [each.path for each in known.values()],
            "costs": costs,
        }

    def _read(self, saved: object) -> dict[int, Known]:
        read = stored.exact(saved, "numbers", "paths", "costs")
        numbers = stored.array("numbers", read["numbers"], np.int64, (None,))
        stored.within("numbers", numbers, self.begun)
        paths = [_checked_digest(path) for path in stored.items("paths", read["paths"])]
        costs: list[Any]
        if self.information == "full":
            costs = [_checked_digest(whole) for whole in stored.items("costs", read["costs"])]
        else:
            H = self.problem.horizon
            rows = stored.array("costs", read["costs"], np.float64, (len(numbers), H))
            checks.in_unit_interval("costs", rows[~np.isnan(rows)])
            costs = [[None if math.isnan(c) else c for c in row] for row in rows.tolist()]
        pairs = zip(numbers.tolist(), paths, costs, strict=True)
        return {number: Known(path, each) for number, path, each in pairs}

    def __repr__(self) -> str:
        plain: dict[str, Any] = dict.fromkeys(("deadline", "default", "clock", "grace"))
        plain["remember"] = 10_000
        given = self.configuration()
        return call(self, self.agent, **{k: given[k] for k in plain if given[k] != plain[k]})


def _part(record: Record | StepCost) -> str | int:
    if isinstance(record, StepCost):
        return record.step
    return "path" if isinstance(record, Trajectory) else "costs"


def _by_step(record: Costs | StepCost) -> Iterable[tuple[int, float]]:
    """The costs of single steps in a record."""
    if isinstance(record, StepCost):
        return ((record.step, record.cost),)
    return enumerate(record.values.tolist())


def _array(costs: Any) -> Floats:
    """Costs as numbers, NaN where there is none."""
    return np.array(costs, dtype=np.float64)


def _seen(same: bool, why: str) -> tuple[Kind, str]:
    return ("duplicate", "the same value came before") if same else ("conflict", why)


def _digest(*arrays: Floats | Ints) -> str:
    """A text that differs if a shape or a value does; -0 is 0."""
    made = hashlib.blake2b(digest_size=DIGEST)
    for array in arrays:
        made.update(str(array.shape).encode())
        made.update((array + 0.0 if array.dtype == np.float64 else array).tobytes())
    return made.hexdigest()


def _checked_digest(value: object) -> str | None:
    if value is None or (isinstance(value, str) and len(value) == 2 * DIGEST):
        return value
    raise ValueError(f"a digest must be a text of {2 * DIGEST} letters, got {checks.show(value)}")
