"""The table of open episodes, who is missing in it, and the base of agents that keep one.

`Ledger` numbers the episodes and checks every record that claims to belong to one. `Waiting` counts
the episodes that can still be expected to report, for step sizes. `Learner` is the base of the
library's agents: an agent annotates what it learns (see `tree`) and implements two methods,
`_next_policy`, which returns the policy to play next, and `_learn`, which learns from an episode
whose feedback has arrived. Agents outside the library need no base class: the contract is
`contract.Agent`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args, get_origin

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats
from belated.core.contract import Agent, Deciding, Information, Key, Problem
from belated.core.records import Episode, FeedbackError, Notes
from belated.core.tree import Configured, Count, Entries, Learned
from belated.core.versions import Policy, Versions

EXACT = 6
"""Numbers of at most this many bits have a bucket each."""
HALF = 1 << (EXACT - 1)


class Quantiles(Learned):
    """Quantiles of a stream of whole numbers, in bounded memory.

    Numbers below 64 are counted exactly; each doubling above that is divided into 32 buckets of
    equal width, so that a quantile is too small by less than 1/32 of itself. There are fewer than
    2,000 buckets, however many and however large the numbers are.
    """

    _buckets: dict[int, int]

    def __init__(self) -> None:
        self._buckets = {}

    def __copy__(self) -> Quantiles:
        made = Quantiles()
        made._buckets = self._buckets.copy()
        return made

    def add(self, number: int) -> None:
        """Count a number of at least 0."""
        bucket = number if number < 2 * HALF else _bucket(number)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def count(self) -> int:
        """The number of values added."""
        return sum(self._buckets.values())

    def at(self, *shares: float) -> list[int]:
        """Quantiles of the values so far, one for every share; empty if there are no values."""
        count = self.count
        found = []
        for share in shares if count else ():
            wanted, passed = share * count, 0
            for bucket in sorted(self._buckets):
                passed += self._buckets[bucket]
                if passed >= wanted:
                    found.append(_least(bucket))
                    break
        return found

    def check_learned(self) -> None:
        """Check that every bucket can be one."""
        for bucket, count in self._buckets.items():
            checks.integer("bucket", bucket, 0, _bucket(2**62))
            checks.integer("count", count, 1, checks.MOST)


def _bucket(number: int) -> int:
    """The bucket of a number: the number itself, or its length in bits and its highest bits."""
    shift = max(number.bit_length() - EXACT, 0)
    return HALF * shift + (number >> shift)


def _least(bucket: int) -> int:
    """The least number of a bucket."""
    shift = max(bucket // HALF - 1, 0)
    return (bucket - HALF * shift) << shift


SLACK = 8
"""The number of episodes to wait for while nothing is known about delays."""


def is_past(episode: int, newest: int, limit: float) -> bool:
    """Whether an episode has waited longer than a limit, given the newest episode.

    Every deadline and threshold uses this rule.
    """
    return newest - episode > limit


def pop_past(waiting: dict[int, Any], newest: int, limit: float) -> list[int]:
    """Remove and return the episodes that have waited too long; the oldest is the first key."""
    past = []
    while waiting and is_past(first := next(iter(waiting)), newest, limit):
        del waiting[first]
        past.append(first)
    return past


class Reported(Learned):
    """The set of episodes that have reported, one flag each, so that none counts twice."""

    _flags: Annotated[Bools, Entries("_")]

    def __init__(self) -> None:
        self._flags = np.zeros(64, dtype=np.bool_)

    def __contains__(self, episode: int) -> bool:
        return episode < len(self._flags) and bool(self._flags[episode])

    def add(self, episode: int) -> bool:
        """Note an episode. Returns whether this is its first report."""
        if episode in self:
            return False
        if episode >= len(self._flags):
            more = np.zeros(episode + 1, dtype=np.bool_)
            self._flags = np.concatenate([self._flags, more])
        self._flags[episode] = True
        return True


class Waiting(Learned):
    """Counts the episodes that may still report.

    Step sizes shrink with the number of missing episodes. An episode whose feedback was lost must
    not count as missing for ever, so it becomes overdue, and is no longer counted, after waiting
    for over

        T = min(2 M + SLACK, sqrt(8 P / ln A)),

    where M is the largest delay seen so far and P the sum over all episodes k of 1 + the number
    that were counted as missing when k began. Its feedback is still used if it does arrive. The
    second threshold is that of Zimmert & Seldin (AISTATS 2020): at a step size of
    sqrt(ln A / (2 P)), counting an episode up to this threshold costs as much as giving it up. The
    first threshold matters where many records are lost: the second alone grows like the number of
    lost episodes.

    The cost of giving up: let g episodes be overdue at some time, u of which report later. For
    `Softmax` with the anytime rule, known transitions and full information,

        R_K <= H g + H (H + 1) / 2 u + H (H + 1) sqrt(2 ln A P)

    for every K, costs and delays. If nothing is lost, u <= sqrt(ln A P / 2) + sqrt(2 D log2(2 K)).
    docs/derivation.md has the proof.

    Attributes:
        largest: the largest delay seen.
        arrived: episodes that have reported.
        total: P, the sum of 1 + missing over all episodes begun.
        given_up: episodes that became overdue.
        late: those among them that reported after all.
    """

    _counted: dict[int, None]  # oldest first
    _begun: Count
    largest: Count
    arrived: Count
    _delays: Annotated[int, Entries(low=0)]
    total: Annotated[int, Entries(low=0)]
    given_up: Count
    late: Count

    def __init__(self, choices: int) -> None:
        """Count for a learner with this many choices."""
        self._patience = 8.0 / math.log(choices) if choices > 1 else math.inf
        self._counted = {}
        self._begun = self.largest = self.arrived = self._delays = 0
        self.total = self.given_up = self.late = 0

    @property
    def missing(self) -> int:
        """Episodes that have begun, have not reported and are not overdue."""
        return len(self._counted)

    @property
    def mean_delay(self) -> float:
        """The mean delay so far; by Little's law, the mean number of reports on their way."""
        return self._delays / self.arrived if self.arrived else math.inf

    def begin(self) -> int:
        """Begin the next episode. Returns the number of earlier ones that are missing."""
        threshold = min(2 * self.largest + SLACK, math.sqrt(self._patience * (self.total + 1)))
        self.given_up += len(pop_past(self._counted, self._begun, threshold))
        missing = self.missing
        self._counted[self._begun] = None
        self._begun += 1
        self.total += 1 + missing
        return missing

    def arrive(self, episode: int) -> None:
        """Note that the costs of an episode have arrived."""
        delay = self._begun - 1 - episode
        self.largest = max(self.largest, delay)
        self._delays += delay
        self.arrived += 1
        if episode in self._counted:
            del self._counted[episode]
        else:
            self.late += 1

    def forget(self, episode: int) -> None:
        """Note that the costs of an episode will not arrive."""
        self._counted.pop(episode, None)


Memory = TypeVar("Memory")

RECENT = 32
"""The number of newest costs that the estimate of the cost averages under bandit feedback."""
SHARES = (0.5, 0.9, 0.99)
"""The quantiles of delays in the diagnostics."""
NOTED = 256
"""Closed episodes whose noted path is remembered, to tell an equal path from another one."""


@dataclass(slots=True, eq=False)
class Open(Generic[Memory]):
    """An episode whose feedback is not complete.

    Attributes:
        number: the number of the episode.
        memory: what the agent remembers of it; None once that is not needed any more.
        path: the record of what was done, if it has arrived and is still needed.
        outcomes: the records of the outcome, if they have arrived and are still needed.
        path_came: whether a path has arrived.
        told: the number of outcomes that have arrived.
        settled: whether the outcome has been used, or never will be.
        notes: the actions that `Episode.act` has drawn.
        facts: the facts of all outcomes, where an episode may have several.
    """

    number: Count
    memory: Memory | None
    path: Any = None
    outcomes: tuple[Any, ...] = ()
    path_came: bool = False
    told: int = 0
    settled: bool = False
    notes: Notes | None = None
    facts: dict[Key, Any] | None = None

    @property
    def costs_came(self) -> bool:
        """Whether an outcome has arrived."""
        return self.told > 0

    @property
    def costs(self) -> Any:
        """The newest outcome; None if none has arrived."""
        return self.outcomes[-1] if self.outcomes else None


class Ledger(Learned, Generic[Memory]):
    """Numbers the episodes and knows which feedback each of them still awaits.

    It does most of the bookkeeping of an agent: it checks every record, accepts a batch whole or
    not at all, and pairs the path of an episode with its outcome, in any order of arrival. A path
    that `Episode.act` has noted is used when the outcome arrives, unless the caller reported one.

    Args:
        problem: decides which records are valid and what an episode waits for.
        information: "full" or "bandit", which decides the shape of costs.
        uses_paths: whether the agent uses paths. If not, an episode is closed once it is settled,
            and paths of begun episodes are checked and then ignored.
        remembers: the type of the memory of an open episode, as saved files need it.

    Attributes:
        begun: number of episodes begun.
        unsettled: episodes begun, neither settled nor forgotten.
        forgotten: episodes that were forgotten before they were settled.
        delays: the delays of the outcomes that have arrived.
        policy: the policy played last, if it was passed to `begin`.
    """

    begun: Count
    unsettled: Count
    forgotten: Count
    delays: Quantiles
    policy: Policy | None
    _paths: Count
    _recent: deque[Any]  # the newest costs
    _open: dict[int, Open[Memory]]
    _noted: dict[int, dict[Key, Any]]  # facts of noted paths, oldest first

    def __init__(
        self,
        problem: Problem,
        information: Information,
        *,
        uses_paths: bool,
        remembers: Any = bool,
    ) -> None:
        self.begun = self.unsettled = self.forgotten = self._paths = 0
        self.delays = Quantiles()
        self.policy = None
        self.remembers = remembers
        self._recent = deque(maxlen=RECENT if information == "bandit" else 1)
        self._problem = problem
        self._information = information
        self._uses_paths = uses_paths
        self._open = {}
        self._noted = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Open[Memory]]:
        return iter(self._open.values())

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return list(self._open)

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        try:
            return number in self._open
        except TypeError:
            shown = checks.show(number)
            raise ValueError(f"episode must be a whole number, got {shown}") from None

    def entry(self, number: int) -> Open[Memory] | None:
        """An open episode; None if it is not open."""
        return self._open.get(number)

    def begin(
        self, memory: Memory, policy: Floats | None = None, notes: Notes | None = None
    ) -> int:
        """Open the next episode.

        Args:
            memory: what to remember of it.
            policy: the policy that is played, for the diagnostics; it is not copied.
            notes: the notes of the `Episode`, if it exists already.
        """
        number = self.begun
        self.policy = policy
        self._open[number] = Open(number, memory, notes=notes)
        self.begun += 1
        self.unsettled += 1
        return number

    def open_episode(self, memory: Memory, policy: Floats) -> Episode:
        """Open the next episode, and return it with a policy that the caller owns.

        A read-only policy must never change: it is copied when the caller first reads it.
        """
        notes = Notes()
        shared = policy.copy() if policy.flags.writeable else policy
        return Episode.sharing(self.begin(memory, policy, notes), shared, self._problem, notes)

    def take(self, records: Iterable[Any]) -> tuple[list[Any], list[Open[Memory]]]:
        """Check a batch, then enter all of it.

        Raises `FeedbackError` before anything has changed. Returns the new paths and the unsettled
        episodes that the batch concerns, both with the oldest episode first, so that the order
        inside a batch does not matter.
        """
        paths: dict[int, Any] = {}
        outcomes: dict[int, list[Any]] = {}
        batch = listed(records)
        if not batch:
            return [], []
        for record in batch:
            entry = self._checked(record)
            if record.is_outcome:
                self._check_outcome(record, entry, outcomes)
            elif self._uses_paths:
                self._check_path(record, entry, paths)
        new_paths = paths
        if self._uses_paths and not outcomes.keys() <= paths.keys():
            new_paths = {**paths, **self._from_notes(paths, outcomes)}
        for number, path in new_paths.items():
            entry = self._open[number]
            entry.path_came = True
            if entry.settled:
                del self._open[number]
            else:
                entry.path = path
        for number, new in outcomes.items():
            self._enter(self._open[number], new)
        self._paths += len(new_paths)
        touched = [n for n in sorted({*new_paths, *outcomes}) if n in self._open]
        return [new_paths[n] for n in sorted(new_paths)], [self._open[n] for n in touched]

    def _enter(self, entry: Open[Memory], outcomes: list[Any]) -> None:
        """Enter the checked outcomes of an episode."""
        if not entry.costs_came:
            self.delays.add(self.begun - 1 - entry.number)
        entry.told += len(outcomes)
        entry.outcomes += tuple(outcomes)
        for outcome in outcomes:
            if not self._problem.one_outcome:
                entry.facts = {**(entry.facts or {}), **outcome.facts()}
            if hasattr(outcome, "values"):
                self._recent.append(outcome)

    def _from_notes(self, paths: dict[int, Any], outcomes: dict[int, Any]) -> dict[int, Any]:
        """The paths that `act` has noted, for episodes whose outcome arrived without one."""
        found: dict[int, Any] = {}
        for number in outcomes.keys() - paths.keys():
            path = None if self._open[number].path_came else self._noted_path(self._open[number])
            if path is not None:
                found[number] = path
        self._noted.update((number, path.facts()) for number, path in found.items())
        while len(self._noted) > NOTED:
            del self._noted[next(iter(self._noted))]
        return found

    def _noted_path(self, entry: Open[Memory]) -> Any:
        if entry.notes is None or not entry.notes.decisions:
            return None
        return self._problem.path(entry.number, entry.notes)

    def settle(self, entry: Open[Memory]) -> None:
        """Mark the outcome of this episode as used, or as one that will never be used."""
        entry.memory = entry.path = None
        entry.outcomes = ()
        if not entry.settled:
            self.unsettled -= 1
        entry.settled = True
        if self._problem.one_outcome and (entry.path_came or not self._uses_paths):
            del self._open[entry.number]

    def is_complete(self, entry: Open[Memory]) -> bool:
        """Whether everything that an episode waits for has arrived."""
        path = entry.path_came or not self._uses_paths
        return self._problem.one_outcome and entry.costs_came and path

    def forget(self, episode: int) -> Open[Memory] | None:
        """Discard an episode and return its entry; None if it was closed already."""
        try:
            number = checks.integer("episode", episode, 0, self.begun - 1)
        except ValueError:
            raise FeedbackError(
                f"episode must be one that was begun to be forgotten ({newest(self.begun)}), "
                f"got {checks.show(episode)}"
            ) from None
        entry = self._open.pop(number, None)
        if entry is not None and not entry.settled:
            self.unsettled -= 1
            self.forgotten += 1
        return entry

    @property
    def newest(self) -> Floats | None:
        """The costs that arrived last; None if none has arrived."""
        return self._recent[-1].values if self._recent else None

    def tally(self) -> dict[str, float]:
        """The number of episodes of each kind, the delays, and the visits."""
        *quantiles, largest = self.delays.at(*SHARES, 1.0) or [0]
        overdue = 0
        for entry in self:  # oldest first
            if self.begun - 1 - entry.number <= 2 * largest + SLACK:
                break
            overdue += not entry.settled
        delays = zip(SHARES, quantiles, strict=False)
        return {
            "begun": self.begun,
            "open": len(self),
            "used": self.begun - self.unsettled - self.forgotten,
            "forgotten": self.forgotten,
            "overdue": overdue,
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
        self.unsettled = sum(not entry.settled for entry in self)
        checks.integer("forgotten", self.forgotten, 0, self.begun)
        for outcome in self._recent:
            self._check_saved(outcome, is_outcome=True)
        for number, entry in self._open.items():
            checks.integer("number", entry.number, number, min(number, self.begun - 1))
            path = None if entry.notes is None or entry.notes.void else self._noted_path(entry)
            for record in (entry.path, path):
                if record is not None:
                    self._check_saved(record, is_outcome=False, number=number)
            for record in entry.outcomes:
                self._check_saved(record, is_outcome=True, number=number)

    def _check_saved(self, record: Any, *, is_outcome: bool, number: int | None = None) -> None:
        if not is_record(record) or record.is_outcome != is_outcome:
            raise ValueError(f"records must be those of an episode, got {checks.show(record)}")
        if number is not None and record.episode != number:
            raise ValueError(f"records must be of their episode {number}")
        self._problem.check(record, self._information)

    def _checked(self, record: Any) -> Open[Memory] | None:
        """The open episode of a valid record; None if its episode is not open."""
        if record.partial:
            raise FeedbackError(
                f"{type(record).__name__} of episode {checks.show(record.episode)}: a record must "
                "tell a whole part of an episode; an Inbox puts single pieces together"
            )
        if record.episode >= self.begun:
            raise not_begun(record, self.begun)
        self._problem.check(record, self._information)
        return self._open.get(record.episode)

    def _check_path(self, path: Any, entry: Open[Memory] | None, batch: dict[int, Any]) -> None:
        number = path.episode
        noted = self._noted.get(number)
        if noted is None and entry is not None and entry.notes is not None:
            before = None if entry.path_came else self._noted_path(entry)
            noted = None if before is None else before.facts()
        if noted is not None and path.as_noted().facts() != noted:
            raise FeedbackError(
                f"{type(path).__name__} of episode {number}: it must be what act has drawn, "
                "got another one"
            )
        if number in self._noted:
            return  # it is known from the notes
        if entry is None:
            raise closed(path)
        if entry.path_came or number in batch:
            raise FeedbackError(
                f"{type(path).__name__} of episode {number}: one is taken per episode, this is a "
                "second"
            )
        batch[number] = path

    def _check_outcome(
        self, outcome: Any, entry: Open[Memory] | None, batch: dict[int, list[Any]]
    ) -> None:
        number = outcome.episode
        if entry is None:
            raise closed(outcome)
        if self._problem.one_outcome:
            if entry.costs_came or number in batch:
                raise FeedbackError(
                    f"{type(outcome).__name__} of episode {number}: they are taken once per "
                    "episode, these are a second"
                )
            batch[number] = [outcome]
            return
        known = dict(entry.facts or {})
        for earlier in batch.get(number, ()):
            known.update(earlier.facts())
        new = False
        for key, value in outcome.facts().items():
            if known.get(key, value) != value:
                raise FeedbackError(
                    f"{type(outcome).__name__} of episode {number}: {key} was {known[key]} before, "
                    f"got {value}"
                )
            new = new or key not in known
        if new:  # known facts are ignored
            batch.setdefault(number, []).append(outcome)


class Ledgered(Deciding):
    """An agent that keeps its episodes in a `Ledger` named `_ledger`."""

    _ledger: Ledger[Any]

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        return self._ledger.begun

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return self._ledger.open_episodes()

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return self._ledger.is_open(number)


def entropy(policy: Floats) -> float:
    """Mean entropy of the rows of a policy (H, S, A), in nats: ln A if uniform, 0 if certain."""
    logs = np.log(policy, out=np.zeros(policy.shape), where=policy > 0.0)
    return float(-(policy * logs).sum(axis=-1).mean())


def split(
    records: Iterable[Any], problem: Problem, information: Information, begun: int, kept_from: int
) -> tuple[list[Any], list[Any]]:
    """The records of episodes that are still kept, and the valid records that are too late.

    begun: number of episodes begun. kept_from: the oldest episode that is still kept. Only the
    shape of a late record is checked, not whether it is a duplicate.
    """
    in_time: list[Any] = []
    late: list[Any] = []
    for record in listed(records):
        if record.episode >= begun:
            raise not_begun(record, begun)
        if record.episode >= kept_from:
            in_time.append(record)
            continue
        problem.check(record, information)
        late.append(record)
    return in_time, late


def not_begun(record: Any, begun: int) -> FeedbackError:
    """The error for a record of an episode that has not begun."""
    return FeedbackError(
        f"{type(record).__name__} of episode {record.episode}: episode must be one that was begun "
        f"({newest(begun)})"
    )


def closed(record: Any) -> FeedbackError:
    """The error for a record of an episode that is not open any more."""
    return FeedbackError(
        f"{type(record).__name__} of episode {record.episode}: episode must be an open one; "
        "the feedback of this one came before, or it was forgotten"
    )


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
    for record in batch:
        if not is_record(record):
            raise FeedbackError(
                "records must be such as Trajectory, Costs or Reward, got " + checks.show(record)
            )
    return batch


def check_in_step(agent: Agent, begun: int) -> None:
    """Check that the agent inside has begun as many episodes as its wrapper."""
    if agent.begun != begun:
        raise ValueError(f"begun must be {begun} for the agent inside too, got {agent.begun}")


def check_held(held: dict[int, list[Any]], problem: Problem, information: Information) -> None:
    """Check records that were held back and saved: those of every episode are valid."""
    for number, records in held.items():
        for record in records:
            if not is_record(record) or record.episode != number:
                raise ValueError(f"held must be records of episode {number}")
            problem.check(record, information)


class Learner(Configured, Ledgered, ABC, Generic[Memory]):
    """An agent that keeps its open episodes in a ledger and annotates what it learns.

    Attributes:
        problem: the problem that the agent was made for.
        information: whether it sees whole cost functions ("full") or suffered costs ("bandit").
        uses_paths: whether it uses trajectories at all.
        remembers: the type of what it remembers of an open episode: that of `Learner[...]`.
    """

    information: Information = "bandit"
    uses_paths: bool = True
    remembers: ClassVar[Any] = bool
    seed: Annotated[int, Entries(low=0)]
    _ledger: Ledger[Memory]

    def __init_subclass__(cls, **given: Any) -> None:
        """Note the type of the memory."""
        super().__init_subclass__(**given)
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Learner:
                (cls.remembers,) = get_args(base)

    def __init__(self, problem: Any, **arguments: Any) -> None:
        """Store the arguments of the constructor, by name and in their order."""
        self.problem = problem
        self.seed = arguments.get("seed", 0)
        self._arguments = arguments
        self._ledger = Ledger(
            problem, self.information, uses_paths=self.uses_paths, remembers=self.remembers
        )
        self._versions = Versions()

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy (H, S, A) to play in it."""
        policy, memory = self._next_policy()
        return self._ledger.open_episode(memory, policy)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Learn from every episode whose path and costs have both arrived, oldest first."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.path is None or entry.costs is None:
                continue
            if entry.memory is not None:
                self._learn(entry)
            self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its memory is freed."""
        self._ledger.forget(episode)

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

    @abstractmethod
    def _learn(self, entry: Open[Memory]) -> None:
        """Learn from an episode whose feedback has arrived; `entry.memory` is its memory."""

    def _let_go_of_memories(self) -> None:
        """Drop the memories of open episodes: the agent will not learn from their feedback."""
        for entry in self._ledger:
            entry.memory = None


def generator(seed: int, episode: int) -> np.random.Generator:
    """A generator for the draws of one episode: counter-based, keyed by seed and episode number.

    So an agent that draws has no generator to save, and its draws in one episode do not depend on
    those in earlier ones.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, episode]))
