"""The table of open episodes, and the base of agents that keep one.

`Ledger` numbers the episodes and checks every record that claims to belong to one. `Learner` is the
base of the library's agents: an agent annotates what it learns (see `tree`) and implements two
methods, `_next_policy`, which returns the policy to play next, and `_learn`, which learns from an
episode whose feedback has arrived. Agents outside the library need no base class: the contract is
`contract.Agent`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import (
    Agent,
    Deciding,
    Episode,
    FeedbackError,
    Information,
    Key,
    Notes,
    Problem,
)
from belated.core.tree import Configured, Count, Entries, Learned
from belated.core.versions import Policy, Versions

EXACT = 6
"""The number of leading bits of a delay that are kept."""


class Quantiles(Learned):
    """Quantiles of a stream of whole numbers, in bounded memory.

    Numbers below 64 are counted exactly; each doubling above that is divided into 32 buckets of
    equal width, so that a quantile is too small by less than 1/32 of itself. There are fewer than
    2,000 buckets, however many and however large the numbers are.
    """

    _buckets: dict[int, Count]  # by the least number of each

    def __init__(self) -> None:
        self._buckets = {}

    def add(self, number: int) -> None:
        """Count a number of at least 0."""
        if number >> EXACT:
            shift = number.bit_length() - EXACT
            number = number >> shift << shift
        self._buckets[number] = self._buckets.get(number, 0) + 1

    def at(self, *shares: float) -> list[int]:
        """Quantiles of the values so far, one for every share; empty if there are no values."""
        buckets = sorted(self._buckets)
        passed = list(accumulate(self._buckets[bucket] for bucket in buckets))
        return [buckets[bisect_left(passed, s * passed[-1])] for s in shares if passed]


SLACK = 8
"""The number of episodes to wait for while nothing is known about delays."""


def is_past(episode: int, newest: int, limit: float) -> bool:
    """Whether an episode has waited longer than a limit, given the newest episode.

    Every deadline and threshold uses this rule.
    """
    return newest - episode > limit


Memory = TypeVar("Memory")
Facts = dict[Key, str | int | float]
"""What is known of an episode, by key; "" for a fact whose value is not kept."""
Kind = Literal["taken", "duplicate", "conflict", "late", "unknown", "invalid"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The classes of records."""

RECENT = 32
"""The number of newest costs that the estimate of the cost averages under bandit feedback."""
SHARES = (0.5, 0.9, 0.99)
"""The quantiles of delays in the diagnostics."""
REMEMBER = 256
"""Closed episodes of an agent of which it is known what arrived."""
REFUSED: dict[Kind, str] = {
    "duplicate": "one is taken per episode, this is a second",
    "late": "episode must be an open one; its feedback came before, or it was forgotten",
}
"""Why an agent refuses records of these classes."""


@dataclass(slots=True, eq=False)
class Open(Generic[Memory]):
    """An episode of which feedback can still be taken.

    Attributes:
        number: the number of the episode.
        memory: what is remembered of it; None once that is not needed any more.
        notes: the actions that `Episode.act` has drawn.
        facts: what has arrived.
        path: the record of what was done, if it has arrived and is still needed.
        outcomes: the records of the outcome, if they have arrived and are still needed.
        reported: the number of outcomes that have arrived.
        settled: whether the outcome has been used, or never will be.
    """

    number: Count
    memory: Memory | None
    notes: Notes | None = None
    facts: Facts = field(default_factory=dict)
    path: Any = None
    outcomes: tuple[Any, ...] = ()
    reported: int = 0
    settled: bool = False

    @property
    def costs(self) -> Any:
        """The newest outcome; None if none has arrived."""
        return self.outcomes[-1] if self.outcomes else None


class Episodes(Learned, Generic[Memory]):
    """The table of episodes: those that are open, and what is known of those closed last.

    Args:
        problem: decides which records are valid and what an episode waits for.
        information: "full" or "bandit", which decides the shape of costs.
        uses_paths: whether paths are used.
        remembers: the type of the memory of an open episode, as saved files need it.
        remember: the number of closed episodes whose facts are remembered.

    Attributes:
        begun: number of episodes begun.
        open: those of which feedback can still be taken, by number, oldest first.
    """

    begun: Count
    open: dict[int, Open[Memory]]
    _closed: dict[int, Facts]  # in the order in which they were closed

    def __init__(
        self,
        problem: Problem,
        information: Information,
        *,
        uses_paths: bool,
        remembers: Any = bool,
        remember: int = REMEMBER,
    ) -> None:
        self.set_first_values()
        self.remembers = remembers
        self._problem, self._information = problem, information
        self._uses_paths, self._remember = uses_paths, remember

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return list(self.open)

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        try:
            return number in self.open
        except TypeError:
            shown = checks.show(number)
            raise ValueError(f"episode must be a whole number, got {shown}") from None

    def known(self, number: int) -> Facts:
        """What is known of an episode."""
        entry = self.open.get(number)
        return self._closed.get(number, {}) if entry is None else entry.facts

    def begin(self, memory: Memory, notes: Notes | None = None) -> int:
        """Open the next episode, with what to remember of it and the notes of the `Episode`."""
        number = self.begun
        self.open[number] = Open(number, memory, notes)
        self.begun += 1
        return number

    def classify(
        self, record: Any, batch: Mapping[int, Facts], is_open: Callable[[int], bool]
    ) -> tuple[Kind, str]:
        """The class of a record, and why it is not taken; nothing changes.

        Args:
            record: anything.
            batch: what is known of episodes with the earlier records of the same batch.
            is_open: says whether an episode still takes feedback.

            taken       it is new, and its episode is open
            duplicate   the same value arrived before
            conflict    another value arrived before
            late        it is new, and its episode is closed
            unknown     its episode has not begun
            invalid     it does not fit the problem, or is not a record
        """
        try:
            self._problem.check(record, self._information)
        except FeedbackError as error:
            return "invalid", str(error)
        number = record.episode
        if number >= self.begun:
            return "unknown", f"episode must be one that was begun ({newest(self.begun)})"
        known = batch[number] if number in batch else self.known(number)
        kind, why = compare(self.facts_of(record, known), known) if known else ("taken", "")
        if kind == "taken" and not is_open(number):
            return "late", "the episode is closed, and this value did not come before"
        return kind, why

    def facts_of(self, record: Any, known: Facts) -> Facts:
        """The facts of a record, as they are compared with what is known of its episode."""
        return record.facts()  # type: ignore[no-any-return]

    def close(self, number: int) -> Open[Memory] | None:
        """Close an episode, and return its entry; None if it was closed.

        The facts whose values are kept are remembered, and those of the oldest are forgotten.
        """
        entry = self.open.pop(number, None)
        facts = {} if entry is None else {k: v for k, v in entry.facts.items() if v != ""}
        if facts:
            self._closed[number] = facts
            while len(self._closed) > self._remember:
                del self._closed[next(iter(self._closed))]
        return entry

    def check_learned(self) -> None:
        """Check that the episodes of a saved table have begun, each in its place."""
        for number in (*self.open, *self._closed):
            checks.integer("number", number, 0, self.begun - 1)
        if [entry.number for entry in self.open.values()] != list(self.open):
            raise ValueError("the number of an episode must be its place in the table")


class Ledger(Episodes[Memory]):
    """The table of an agent: it checks every record, and accepts a batch whole or not at all.

    It pairs the path of an episode with its outcome, in any order of arrival. A path that
    `Episode.act` has noted is used when the outcome arrives, unless the caller reported one. If
    paths are not used, they are checked and then ignored, and an episode is closed once it is
    settled.

    Attributes:
        forgotten: episodes that were forgotten before they were settled.
        delays: the delays of the outcomes that have arrived.
        policy: the policy played last, if there is one.
    """

    forgotten: Count
    delays: Quantiles
    policy: Policy | None
    _paths: Count
    _recent: deque[Any]  # the newest costs

    def __init__(
        self, problem: Problem, information: Information, *, uses_paths: bool, remembers: Any = bool
    ) -> None:
        super().__init__(problem, information, uses_paths=uses_paths, remembers=remembers)
        self.delays = Quantiles()
        self._recent = deque(maxlen=RECENT if information == "bandit" else 1)

    def open_episode(self, memory: Memory, policy: Floats) -> Episode:
        """Open the next episode, and return it with a policy that the caller owns.

        A read-only policy must never change: it is copied when the caller first reads it.
        """
        notes = Notes()
        self.policy = policy
        shared = policy.copy() if policy.flags.writeable else policy
        return Episode(self.begin(memory, notes), shared, self._problem, notes, lasts=True)

    def take(self, records: Iterable[Any]) -> tuple[list[Any], list[Open[Memory]]]:
        """Check a batch, then enter all of it.

        Raises `FeedbackError` before anything has changed. Returns the new paths and the unsettled
        episodes that the batch concerns, both with the oldest episode first, so that the order
        inside a batch does not matter.
        """
        known: dict[int, Facts] = {}
        paths: dict[int, Any] = {}
        outcomes: dict[int, list[Any]] = {}
        for record in in_a_list(records):
            if self._is_new(record, known):
                number = record.episode
                before = known[number] if number in known else self.open[number].facts
                known[number] = before | self.facts_of(record, before)
                if record.is_outcome:
                    outcomes.setdefault(number, []).append(record)
                else:
                    paths[number] = record
        for number in outcomes:
            path = self._noted_path(number) if "path" not in known[number] else None
            if path is not None:
                paths[number] = path
                known[number].update(path.facts())
        for number, facts in known.items():
            self._enter(self.open[number], facts, outcomes.get(number, ()), paths.get(number))
        self._paths += len(paths)
        numbers = sorted(known)
        entries = [self.open[number] for number in numbers if number in self.open]
        return [paths[number] for number in numbers if number in paths], entries

    def _is_new(self, record: Any, batch: dict[int, Facts]) -> bool:
        """Whether to enter a record; False if it adds nothing, `FeedbackError` if it is wrong."""
        if getattr(record, "partial", False):
            part = "a record must tell a whole part of an episode; an Inbox puts pieces together"
            raise FeedbackError(f"{_named(record)}: {part}")
        kind, why = self.classify(record, batch, self.open.__contains__)
        if kind == "invalid":
            raise FeedbackError(why)
        used = record.is_outcome or self._uses_paths
        if not record.is_outcome and kind == "taken":
            noted = self._noted_path(record.episode)
            if noted is not None and noted.facts() != record.as_noted().facts():
                kind = "conflict"
        elif kind == "duplicate" and used:
            known = batch.get(record.episode) or self.known(record.episode)
            used = "" in self.facts_of(record, known).values()
        if kind != "taken" and (used or kind == "unknown"):
            if kind == "conflict" and not record.is_outcome:
                why = "it must be what act has drawn, got another one"
            raise FeedbackError(f"{_named(record)}: {REFUSED.get(kind, why)}")
        return kind == "taken" and used

    def facts_of(self, record: Any, known: Facts) -> Facts:
        """The facts of a record; without its value, unless that is remembered of others."""
        if not record.is_outcome:
            return record.as_noted().facts() if known.get("path") else {"path": ""}
        return {record.part: ""} if self._problem.one_outcome else record.facts()

    def _enter(self, entry: Open[Memory], facts: Facts, outcomes: Sequence[Any], path: Any) -> None:
        """Enter what a batch reports of an episode."""
        entry.facts = facts
        if path is not None and entry.settled:
            self.close(entry.number)
        elif path is not None:
            entry.path = path
        if outcomes and not entry.reported:
            self.delays.add(self.begun - 1 - entry.number)
        entry.reported += len(outcomes)
        entry.outcomes += tuple(outcomes)
        self._recent.extend(outcome for outcome in outcomes if hasattr(outcome, "values"))

    def _noted_path(self, number: int) -> Any:
        """The path that `act` has noted of an open episode; None if there is none."""
        entry = self.open.get(number)
        if not self._uses_paths or entry is None or entry.notes is None:
            return None
        return self._problem.path(number, entry.notes) if entry.notes.decisions else None

    def settle(self, entry: Open[Memory]) -> None:
        """Mark the outcome of this episode as used, or as one that will never be used."""
        entry.memory = entry.path = None
        entry.outcomes = ()
        entry.settled = True
        if self._problem.one_outcome and self.has_path(entry):
            self.close(entry.number)

    def has_path(self, entry: Open[Memory]) -> bool:
        """Whether the path of an episode has arrived, if paths are used."""
        return "path" in entry.facts or not self._uses_paths

    def forget(self, episode: int) -> Open[Memory] | None:
        """Discard an episode and return its entry; None if it was closed already."""
        try:
            number = checks.integer("episode", episode, 0, self.begun - 1)
        except ValueError:
            raise FeedbackError(
                f"episode must be one that was begun to be forgotten ({newest(self.begun)}), "
                f"got {checks.show(episode)}"
            ) from None
        entry = self.close(number)
        self.forgotten += entry is not None and not entry.settled
        return entry

    @property
    def newest_costs(self) -> Floats | None:
        """The costs that arrived last; None if none has arrived."""
        return self._recent[-1].values if self._recent else None

    def tally(self) -> dict[str, float]:
        """The number of episodes of each kind, the delays, and the visits."""
        *quantiles, largest = self.delays.at(*SHARES, 1.0) or [0]
        past = takewhile(
            lambda e: is_past(e.number, self.begun - 1, 2 * largest + SLACK), self.open.values()
        )
        delays = zip(SHARES, quantiles, strict=False)
        return {
            "begun": self.begun,
            "open": len(self.open),
            "used": self.begun
            - self.forgotten
            - sum(not entry.settled for entry in self.open.values()),
            "forgotten": self.forgotten,
            "overdue": sum(not entry.settled for entry in past),
            "visits": self._paths * self._problem.horizon,
            **{f"delay_{100 * share:.0f}": delay for share, delay in delays},
        }

    def diagnostics(self) -> dict[str, float]:
        """The counts, the entropy of the policy and, under bandit feedback, its recent cost."""
        told = self.tally()
        if self.policy is not None:
            told["entropy"] = entropy(self.policy)
        if self._recent and self._information == "bandit":
            costs = [record.values for record in self._recent]
            told["cost"] = float(np.sum(costs)) / len(costs)
        return told

    def check_learned(self) -> None:
        """Check that the records of a saved table are valid and belong to their episodes."""
        super().check_learned()
        checks.integer("forgotten", self.forgotten, 0, self.begun)
        for outcome in self._recent:
            self._problem.check(outcome, self._information)
        for entry in self.open.values():
            void = entry.notes is not None and entry.notes.void
            told = (entry.path, None if void else self._noted_path(entry.number), *entry.outcomes)
            held = [record for record in told if record is not None]
            check_held({entry.number: held}, self._problem, self._information)


def compare(facts: Mapping[Key, Any], known: Facts) -> tuple[Kind, str]:
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


def entropy(policy: Floats) -> float:
    """Mean entropy of the rows of a policy, in nats: ln A if uniform, 0 if certain."""
    logs = np.log(policy, out=np.zeros(policy.shape), where=policy > 0.0)
    return float(-(policy * logs).sum(axis=-1).mean())


def split(records: Iterable[Any], agent: Agent, kept_from: int) -> tuple[list[Any], list[Any]]:
    """The records of episodes that are still kept, and the valid records that are too late.

    kept_from: the oldest episode that is still kept. Only the shape of a late record is checked,
    not whether it is a duplicate; those of kept episodes are not checked here.
    """
    batch = listed(records)
    late = [record for record in batch if record.episode < kept_from]
    for record in late:
        agent.problem.check(record, agent.information)
    return [record for record in batch if record.episode >= kept_from], late


def _named(record: Any) -> str:
    return f"{type(record).__name__} of episode {checks.show(record.episode)}"


def newest(begun: int) -> str:
    """The newest episode, in words."""
    return f"the newest is {begun - 1}" if begun else "none has been begun"


def is_record(value: object) -> bool:
    """Whether a value is a record."""
    return not isinstance(value, type) and hasattr(value, "is_outcome") and hasattr(value, "facts")


def in_a_list(records: Iterable[Any]) -> list[Any]:
    """The records as a list, unchecked; raises `FeedbackError` if they are not iterable."""
    try:
        return list(records)
    except TypeError:
        raise FeedbackError(
            f"records must be a list of records, got {checks.show(records)}"
        ) from None


def listed(records: Iterable[Any]) -> list[Any]:
    """The records as a list; raises `FeedbackError` if one of them is not a record."""
    batch = in_a_list(records)
    wrong = [record for record in batch if not is_record(record)]
    if wrong:
        such = "such as Trajectory, Costs or Reward"
        raise FeedbackError(f"records must be {such}, got {checks.show(wrong[0])}")
    return batch


def check_in_step(agent: Agent, begun: int) -> None:
    """Check that the agent inside has begun as many episodes as its wrapper."""
    if agent.begun != begun:
        raise ValueError(f"begun must be {begun} for the agent inside too, got {agent.begun}")


def check_held(
    held: Mapping[int, Sequence[Any]], problem: Problem, information: Information
) -> None:
    """Check records that were held back and saved: those of every episode are valid."""
    for number, records in held.items():
        for record in records:
            if not is_record(record) or record.episode != number:
                raise ValueError(f"held must be records of episode {number}")
            problem.check(record, information)


class Learner(Configured, Deciding, ABC, Generic[Memory]):
    """An agent that keeps its open episodes in a ledger and annotates what it learns.

    Attributes:
        problem: the problem that the agent was made for.
        information: whether it sees whole cost functions ("full") or suffered costs ("bandit").
        uses_paths: whether it uses trajectories at all.
        waits_for_paths: whether it learns from an episode only once its path is known.
        remembers: the type of what it remembers of an open episode: that of `Learner[...]`.
    """

    information: Information = "bandit"
    uses_paths: bool = True
    waits_for_paths: bool = True
    remembers: ClassVar[Any] = bool
    seed: Annotated[int, Entries(low=0)]
    _ledger: Ledger[Memory]

    def __init_subclass__(cls, **given: Any) -> None:
        """Note the type of the memory."""
        super().__init_subclass__(**given)
        for base in vars(cls).get("__orig_bases__", ()):
            if issubclass(get_origin(base) or object, Learner):
                (cls.remembers,) = get_args(base)

    def __init__(self, problem: Any, **arguments: Any) -> None:
        """Store the arguments of the constructor, by name and in their order."""
        self.problem, self._arguments = problem, arguments
        self.set_first_values({**getattr(problem, "axes", {}), **getattr(self, "axes", {})})
        self.seed = arguments.get("seed", 0)
        self._ledger = Ledger(
            problem, self.information, uses_paths=self.uses_paths, remembers=self.remembers
        )
        self._versions = Versions()

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy to play in it."""
        policy, memory = self._next_policy()
        return self._ledger.open_episode(memory, policy)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Learn from every episode whose costs, and path, have arrived, oldest first."""
        paths, entries = self._ledger.take(records)
        self._prepare(paths, entries)
        for entry in filter(self._is_ready, entries):
            if entry.memory is not None:
                self._learn(entry)
            self._ledger.settle(entry)
        self._let_go()

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its memory is freed."""
        self._ledger.forget(episode)
        self._let_go()

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger."""
        return self._ledger.diagnostics()

    def configuration(self) -> dict[str, Any]:
        """The arguments of this agent."""
        return {"problem": self.problem, **self._arguments}

    @abstractmethod
    def _next_policy(self) -> tuple[Floats, Memory]:
        """The policy of the episode that begins now, read-only, and what to remember of it.

        The memory is never None, which stands for an episode that will not be learned from.
        """

    def _is_ready(self, entry: Open[Memory]) -> bool:
        """Whether what the agent learns an episode from has arrived."""
        return bool(entry.outcomes) and (entry.path is not None or not self.waits_for_paths)

    def _prepare(self, paths: list[Any], entries: list[Open[Memory]]) -> None:
        """Use a batch as a whole, its new paths and episodes, before learning from each of them."""

    @abstractmethod
    def _learn(self, entry: Open[Memory]) -> None:
        """Learn from an episode whose feedback has arrived; `entry.memory` is its memory."""

    def _let_go(self) -> None:
        """Drop what no open episode needs any more."""

    def _end_phase(self, carry_over: bool) -> None:
        """Drop the memories of open episodes, unless their feedback is carried over."""
        for entry in () if carry_over else self._ledger.open.values():
            entry.memory = None
        self._let_go()


def generator(seed: int, episode: int) -> np.random.Generator:
    """A generator for the draws of one episode: counter-based, keyed by seed and episode number.

    So an agent that draws has no generator to save, and its draws in one episode do not depend on
    those in earlier ones.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, episode]))
