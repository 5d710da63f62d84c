"""The open episodes of an agent, and the check of every record that claims to belong to one."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.core.contract import Agent, Information
from belated.core.quantiles import Quantiles
from belated.core.records import Costs, FeedbackError, Record, Trajectory
from belated.core.waiting import SLACK
from belated.tabular.counts import Counts
from belated.tabular.problem import Problem

Memory = TypeVar("Memory")

RECENT = 32
"""Under bandit feedback, how many of the newest costs the estimate of the cost is a mean of."""
SHARES = (0.5, 0.9, 0.99)
"""The quantiles of delays in the diagnostics."""


@dataclass(slots=True, eq=False)
class Open(Generic[Memory]):
    """An episode whose feedback is not complete.

    memory: what the agent remembers of it, None once that is not needed any more. path, costs:
    what has come and is still needed.
    """

    number: int
    memory: Memory | None
    path: Trajectory | None = None
    costs: Costs | None = None
    path_came: bool = False
    costs_came: bool = False
    settled: bool = False


class Ledger(Generic[Memory]):
    """Numbers the episodes and knows which feedback each of them still awaits.

    This is what the author of an agent needs most: it checks every record, takes a batch whole or
    not at all, and pairs the path of an episode with its costs, in whatever order they come.

    Args:
        problem: gives the shapes and ranges that records must have.
        information: decides the shape of costs.
        uses_paths: whether trajectories are wanted at all. If not, an episode is closed once it
            is settled, and trajectories of begun episodes are checked and left aside.

    Attributes:
        begun: number of episodes begun.
        unsettled: episodes begun, neither settled nor forgotten.
        forgotten: episodes that were forgotten before they were settled.
        delays: of the costs that came.
        policy: (H, S, A) what was played last, if `begin` was told.
    """

    def __init__(self, problem: Problem, information: Information, *, uses_paths: bool) -> None:
        self.begun = 0
        self.unsettled = 0
        self.forgotten = 0
        self.delays = Quantiles()
        self.policy: Floats | None = None
        self._paths = 0
        self._recent: deque[Floats] = deque(maxlen=RECENT if information == "bandit" else 1)
        self._problem = problem
        self._information = information
        self._uses_paths = uses_paths
        self._open: dict[int, Open[Memory]] = {}

    def __copy__(self) -> Ledger[Memory]:
        """A copy that shares records and what is remembered, which never change."""
        made: Ledger[Memory] = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.delays = copy.copy(self.delays)
        made._recent = self._recent.copy()
        made._open = {
            e.number: Open(
                e.number, e.memory, e.path, e.costs, e.path_came, e.costs_came, e.settled
            )
            for e in self
        }
        return made

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Open[Memory]]:
        return iter(self._open.values())

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return list(self._open)

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return number in self._open

    def begin(self, memory: Memory, policy: Floats | None = None) -> int:
        """Open the next episode.

        memory: what to remember of it. policy: what is played, for the diagnostics; it is kept
        and not copied.
        """
        number = self.begun
        self.policy = policy
        self._open[number] = Open(number, memory)
        self.begun += 1
        self.unsettled += 1
        return number

    def take(self, records: Iterable[Record]) -> tuple[list[Trajectory], list[Open[Memory]]]:
        """Check a batch, then enter all of it.

        Raises `FeedbackError` before anything has changed. Returns the paths that are new, and
        the unsettled episodes that the batch concerns; both oldest episode first, so that the
        order inside a batch does not matter.
        """
        paths: dict[int, Trajectory] = {}
        costs: dict[int, Costs] = {}
        for record in listed(records):
            if isinstance(record, Trajectory):
                self._check_path(record, paths)
            else:
                self._check_costs(record, costs)
        for number, path in paths.items():
            entry = self._open[number]
            entry.path_came = True
            if entry.settled:
                del self._open[number]
            else:
                entry.path = path
        for number, cost in costs.items():
            entry = self._open[number]
            entry.costs_came = True
            entry.costs = cost
            self.delays.add(self.begun - 1 - number)
            self._recent.append(cost.values)
        self._paths += len(paths)
        touched = sorted((paths.keys() | costs.keys()) & self._open.keys())
        return [paths[number] for number in sorted(paths)], [self._open[n] for n in touched]

    def settle(self, entry: Open[Memory]) -> None:
        """The costs of this episode have been used, or left aside for good."""
        entry.memory = entry.path = entry.costs = None
        entry.settled = True
        self.unsettled -= 1
        if entry.path_came or not self._uses_paths:
            del self._open[entry.number]

    def forget(self, episode: int) -> Open[Memory] | None:
        """Let go of an episode and return what was open of it; None if it was closed already."""
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

    def awaited(self) -> list[Record]:
        """Records like those that can still come, with costs of 0."""
        H, S, A = self._problem.shape
        start = int(self._problem.start_probabilities.argmax())
        shape = (H,) if self._information == "bandit" else (1, S, A)
        paths = [entry.number for entry in self if not entry.path_came]
        costs = [entry.number for entry in self if not entry.costs_came]
        return [
            *(Trajectory(k, np.full(H + 1, start), np.zeros(H, dtype=int)) for k in paths),
            *(Costs(k, np.zeros(shape)) for k in costs),
        ]

    @property
    def newest(self) -> Floats | None:
        """The costs that came last; None if none came."""
        return self._recent[-1] if self._recent else None

    def tally(self) -> dict[str, float]:
        """How many episodes there are of each kind, the delays, and the visits."""
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
        """The counts, the entropy of the policy and, under bandit feedback, what it costs."""
        told = self.tally()
        if self.policy is not None:
            told["entropy"] = entropy(self.policy)
        if self._recent and self._information == "bandit":
            told["cost"] = float(np.sum(self._recent)) / len(self._recent)
        return told

    def state(self, write: Callable[[Memory], Any]) -> stored.State:
        """The open episodes. write: turns what is remembered of one into a state.

        Records are copied: a file must not depend on who else holds them.
        """
        return {
            "begun": self.begun,
            "forgotten": self.forgotten,
            "delays": self.delays.state(),
            "policy": self.policy,
            "paths": self._paths,
            "recent": [values.copy() for values in self._recent],
            "open": [
                {
                    "number": entry.number,
                    "memory": None if entry.memory is None else write(entry.memory),
                    "states": None if entry.path is None else entry.path.states.copy(),
                    "actions": None if entry.path is None else entry.path.actions.copy(),
                    "costs": None if entry.costs is None else entry.costs.values.copy(),
                    "path_came": entry.path_came,
                    "costs_came": entry.costs_came,
                    "settled": entry.settled,
                }
                for entry in self
            ],
        }

    def restore(self, saved: stored.State, read: Callable[[Any], Memory]) -> None:
        """Continue from a saved state. read: the inverse of what `state` was given."""
        names = ("begun", "forgotten", "delays", "policy", "paths", "recent", "open")
        fields = stored.exact(saved, *names)
        self.begun = stored.count("begun", fields["begun"])
        self.forgotten = checks.integer("forgotten", fields["forgotten"], 0, self.begun)
        self.delays.restore(fields["delays"])
        self.policy = (
            None
            if fields["policy"] is None
            else stored.policy("policy", fields["policy"], self._problem.shape)
        )
        self._paths = stored.count("paths", fields["paths"], self.begun)
        self._recent.clear()
        for values in stored.items("recent", fields["recent"]):
            costs = Costs(0, values)
            check_costs(self._problem, self._information, costs)
            self._recent.append(costs.values)
        self._open = {}
        for item in stored.items("open", fields["open"]):
            entry = self._restored(item, read)
            if entry.number in self._open:
                raise ValueError(f"episode {entry.number} must be open once, got it twice")
            self._open[entry.number] = entry
        self.unsettled = sum(not entry.settled for entry in self)

    def _restored(self, item: object, read: Callable[[Any], Memory]) -> Open[Memory]:
        names = ("number", "memory", "states", "actions", "costs")
        flags = ("path_came", "costs_came", "settled")
        entry = stored.exact(item, *names, *flags)
        number = checks.integer("number", entry["number"], 0, self.begun - 1)
        H = self._problem.horizon
        path = costs = None
        if entry["states"] is not None:
            states = stored.array("states", entry["states"], np.int64, (H + 1,))
            actions = stored.array("actions", entry["actions"], np.int64, (H,))
            path = Trajectory(number, states, actions)
            check_path(self._problem, path)
        if entry["costs"] is not None:
            costs = Costs(number, entry["costs"])
            check_costs(self._problem, self._information, costs)
        memory = None if entry["memory"] is None else read(entry["memory"])
        came = [checks.flag(name, entry[name]) for name in flags]
        made = Open(number, memory, path, costs, *came)
        if made.settled and not (memory is None and path is None and costs is None):
            raise ValueError(f"episode {number} must keep nothing once it is settled")
        return made

    def _entry(self, record: Record) -> Open[Memory] | None:
        if record.episode >= self.begun:
            raise not_begun(record, self.begun)
        return self._open.get(record.episode)

    def _closed(self, record: Record) -> FeedbackError:
        return FeedbackError(
            f"{type(record).__name__} of episode {record.episode}: episode must be an open one; "
            "the feedback of this one came before, or it was forgotten"
        )

    def _check_path(self, path: Trajectory, batch: dict[int, Trajectory]) -> None:
        entry = self._entry(path)
        check_path(self._problem, path)
        if not self._uses_paths:
            return
        if entry is None:
            raise self._closed(path)
        if entry.path_came or path.episode in batch:
            raise FeedbackError(
                f"Trajectory of episode {path.episode}: one trajectory per episode is taken, "
                "this is a second"
            )
        batch[path.episode] = path

    def _check_costs(self, costs: Costs, batch: dict[int, Costs]) -> None:
        entry = self._entry(costs)
        check_costs(self._problem, self._information, costs)
        if entry is None:
            raise self._closed(costs)
        if entry.costs_came or costs.episode in batch:
            raise FeedbackError(
                f"Costs of episode {costs.episode}: costs are taken once per episode, these are "
                "a second"
            )
        batch[costs.episode] = costs


class Ledgered:
    """What an agent says of its episodes if it keeps them in a `Ledger` named `_ledger`."""

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
    records: Iterable[Record],
    problem: Problem,
    information: Information,
    begun: int,
    kept_from: int,
) -> tuple[list[Record], list[Record]]:
    """Records of episodes still kept, and those that come too late but are otherwise right.

    begun: number of episodes begun. kept_from: the oldest episode that is still kept. A late
    record is checked for its shape only; whether it is a second one goes unnoticed.
    """
    in_time: list[Record] = []
    late: list[Record] = []
    for record in listed(records):
        if record.episode >= begun:
            raise not_begun(record, begun)
        if record.episode >= kept_from:
            in_time.append(record)
            continue
        if isinstance(record, Trajectory):
            check_path(problem, record)
        else:
            check_costs(problem, information, record)
        late.append(record)
    return in_time, late


def not_begun(record: Record, begun: int) -> FeedbackError:
    """The error for a record of an episode that has not begun."""
    return FeedbackError(
        f"{type(record).__name__} of episode {record.episode}: episode must be one that was begun "
        f"({newest(begun)})"
    )


def newest(begun: int) -> str:
    """The newest episode, in words."""
    return f"the newest is {begun - 1}" if begun else "none has been begun"


def listed(records: Iterable[Record]) -> list[Record]:
    """The records as a list of nothing but records."""
    try:
        batch = list(records)
    except TypeError:
        raise FeedbackError(
            f"records must be a list of Trajectory and Costs, got {checks.show(records)}"
        ) from None
    for record in batch:
        if not isinstance(record, Trajectory | Costs):
            raise FeedbackError(f"records must be Trajectory or Costs, got {checks.show(record)}")
    return batch


def paths_of_others(
    problem: Problem, counts: Counts | None, paths: Iterable[Trajectory]
) -> list[Trajectory]:
    """Trajectories that others played, checked; refused where an agent counts nothing."""
    if counts is None:
        raise ValueError("count and share_model need unknown transitions; here they are known")
    checked = list(paths)
    for path in checked:
        checks.instance("paths", path, Trajectory)
        check_path(problem, path)
    return checked


def check_path(problem: Problem, path: Trajectory) -> None:
    """Length, ranges and start of a trajectory fit the problem."""
    H, S, A = problem.shape
    where = f"Trajectory of episode {path.episode}"
    if len(path.actions) != H:
        raise FeedbackError(f"{where}: actions must have length {H}, got {len(path.actions)}")
    if path.states.max() >= S:
        raise FeedbackError(f"{where}: states must be below {S}, got {path.states.max()}")
    if path.actions.max() >= A:
        raise FeedbackError(f"{where}: actions must be below {A}, got {path.actions.max()}")
    first = int(path.states[0])
    start = problem.start
    if start[first] == 0.0 if isinstance(start, tuple) else first != start:
        raise FeedbackError(
            f"{where}: states[0] must be a state that episodes can start in, got {first}"
        )


def check_costs(problem: Problem, information: Information, costs: Costs) -> None:
    """The shape of costs fits the problem and the information."""
    H, S, A = problem.shape
    allowed = ((H,),) if information == "bandit" else ((1, S, A), (H, S, A))
    if costs.values.shape not in allowed:
        shapes = " or ".join(str(shape) for shape in dict.fromkeys(allowed))
        raise FeedbackError(
            f"Costs of episode {costs.episode}: values must have shape {shapes} under "
            f"{information} information, got {costs.values.shape}"
        )


def written(record: Record) -> stored.State:
    """A record as a state."""
    path = record if isinstance(record, Trajectory) else None
    return {
        "episode": record.episode,
        "states": None if path is None else path.states.copy(),
        "actions": None if path is None else path.actions.copy(),
        "costs": record.values.copy() if isinstance(record, Costs) else None,
    }


def check_in_step(agent: Agent, begun: int) -> None:
    """An agent inside another one has begun as many episodes."""
    if agent.begun != begun:
        raise ValueError(f"begun must be {begun} for the agent inside too, got {agent.begun}")


def read_held(agent: Agent, ledger: Ledger[Any], items: object) -> dict[int, list[Record]]:
    """Records that were held back, by episode.

    The agent inside will refuse neither these nor what the ledger still awaits: a copy of it has
    taken them, with costs of 0 for what has not come.
    """
    check_in_step(agent, ledger.begun)
    held: dict[int, list[Record]] = {}
    for item in stored.items("held", items):
        record = read_record(agent.problem, agent.information, ledger.begun, item)
        held.setdefault(record.episode, []).append(record)
    records = [record for records in held.values() for record in records]
    stored.twin(agent).observe([*records, *ledger.awaited()])
    return held


def read_record(problem: Problem, information: Information, begun: int, item: object) -> Record:
    """The record that `written` wrote, of one of the episodes begun."""
    read = stored.exact(item, "episode", "states", "actions", "costs")
    episode = checks.integer("episode", read["episode"], 0, begun - 1)
    if read["costs"] is not None:
        costs = Costs(episode, read["costs"])
        check_costs(problem, information, costs)
        return costs
    H = problem.horizon
    states = stored.array("states", read["states"], np.int64, (H + 1,))
    path = Trajectory(episode, states, stored.array("actions", read["actions"], np.int64, (H,)))
    check_path(problem, path)
    return path
