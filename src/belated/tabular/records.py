"""Records of episodes with states: paths and costs."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import FeedbackError, Notes, altered

UNKNOWN = -1
"""The last state of a path whose last state is unknown."""
DIGEST = 16
"""The length of a digest in bytes."""


class _Recorded:
    """The base of the records of an episode, which checks what they have in common."""

    __slots__ = ()
    partial: ClassVar[bool] = False
    episode: int
    at: float | None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check the fields, and bring them into their form; FeedbackError if one is invalid."""
        try:
            checks.fix(self, "episode", checks.integer("episode", self.episode, 0))
            if self.at is not None:
                checks.fix(self, "at", checks.real("at", self.at, -np.inf))
            self._check_values()
        except ValueError as error:
            what = f"{type(self).__name__} of episode {checks.show(self.episode)}"
            raise FeedbackError(f"{what}: {error}") from None

    def _check_values(self) -> None:
        """Check the fields of this sort of record."""
        raise NotImplementedError

    def renumbered(self, episode: int) -> Self:
        """A copy of the record for another episode."""
        return altered(self, episode=episode)

    def dated(self, at: float | None) -> Self:
        """A copy that arrived at this time, unless the record has a time of arrival already."""
        return self if at is None or self.at is not None else altered(self, at=at)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it is immutable, and copies of its arrays would be writable


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory(_Recorded):
    """The path of an episode, copied and made read-only.

    Attributes:
        episode: the number of the episode.
        states: (H + 1,). The last one may be -1, unknown: the last transition is then not counted.
        actions: (H,).
        probabilities: (H,) the propensities of the actions; None if they were not noted.
        at: when the record arrived, by the caller's clock; None without a clock.

    Example:
        >>> bl.Trajectory(episode=0, states=[0, 1, 2], actions=[1, 0]).states
        array([0, 1, 2])
    """

    episode: int
    states: Ints
    actions: Ints
    probabilities: Floats | None = None
    at: float | None = None

    is_outcome: ClassVar[bool] = False
    part: ClassVar[str] = "path"

    def _check_values(self) -> None:
        states = checks.whole_numbers("states", self.states, UNKNOWN)
        actions = checks.whole_numbers("actions", self.actions, 0)
        if len(states) != len(actions) + 1 or len(actions) == 0:
            raise ValueError(
                "states must hold one entry more than actions, "
                f"got {len(states)} states and {len(actions)} actions"
            )
        if checks.extremes(states[:-1])[0] < 0:
            i = int(states[:-1].argmin())
            raise ValueError(f"states must be at least 0, got states[{i}] = {states[i]}")
        if self.probabilities is not None:
            chances = checks.floats("probabilities", self.probabilities, "(H,)", (1,))
            checks.in_unit_interval("probabilities", chances)
            if len(chances) != len(actions):
                raise ValueError(
                    f"probabilities must be {len(actions)}, one per action, got {len(chances)}"
                )
            checks.fix(self, "probabilities", frozen(chances))
        checks.fix(self, "states", frozen(states))
        checks.fix(self, "actions", frozen(actions))

    def facts(self) -> dict[str | int, Any]:
        """A digest of the path."""
        return {"path": digest(self.states, self.actions)}

    def as_noted(self) -> Trajectory:
        """The path as `Episode.act` notes it: without its last state."""
        return altered(self, states=frozen(np.append(self.states[:-1], UNKNOWN)))

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value; `read` reads it."""
        path: dict[str, Any] = {"states": self.states.tolist(), "actions": self.actions.tolist()}
        if self.probabilities is not None:
            path["probabilities"] = self.probabilities.tolist()
        return _timed({"episode": self.episode, "path": path}, self.at)


@dataclass(frozen=True, slots=True, eq=False)
class Costs(_Recorded):
    """The costs of an episode, in [0, 1], copied and made read-only.

    Attributes:
        episode: the number of the episode.
        values: the whole cost function, (H, S, A) or (1, S, A), under full information; the H costs
            suffered, (H,), under bandit feedback. `DelayedOREPS(next_costs=True)` accepts
            (H, S, A, S) or (1, S, A, S).
        at: when the record arrived; None without a clock.

    Example:
        >>> bl.Costs(episode=0, values=[0.5, 0.25]).values
        array([0.5 , 0.25])
    """

    episode: int
    values: Floats
    at: float | None = None

    is_outcome: ClassVar[bool] = True
    part: ClassVar[str] = "costs"

    def _check_values(self) -> None:
        values = checks.floats("values", self.values, "(H,), (1, S, A) or (H, S, A)", (1, 3, 4))
        _check_costs("values", values)
        checks.fix(self, "values", frozen(values))

    def facts(self) -> dict[str | int, Any]:
        """The cost of every step, or a digest of a whole cost function."""
        if self.values.ndim == 1:
            return dict(enumerate(self.values.tolist()))
        return {"costs": digest(self.values)}

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value; `read` reads it."""
        return _timed({"episode": self.episode, "costs": self.values.tolist()}, self.at)


@dataclass(frozen=True, slots=True, eq=False)
class StepCost(_Recorded):
    """The cost, in [0, 1], of one step of an episode, counted from 0; for an `Inbox`.

    The constructor accepts invalid values; the inbox refuses them, so that one bad row of a table
    does not stop the others.

    Example:
        >>> bl.StepCost(episode=0, step=1, cost=0.5).cost
        0.5
    """

    episode: int
    step: int
    cost: float
    at: float | None = None

    is_outcome: ClassVar[bool] = True
    partial: ClassVar[bool] = True

    def __post_init__(self) -> None:
        with contextlib.suppress(FeedbackError):  # the inbox says what is wrong
            self.check()

    def _check_values(self) -> None:
        checks.fix(self, "step", checks.integer("step", self.step, 0))
        checks.fix(self, "cost", checks.real("cost", self.cost, -np.inf))
        _check_costs("cost", self.cost)

    @property
    def part(self) -> int:
        """The part of the episode that the record reports: its step."""
        return self.step

    def facts(self) -> dict[str | int, Any]:
        """The cost of the step."""
        return {self.step: self.cost}

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value; `read` reads it."""
        told = {"episode": self.episode, "step": self.step, "cost": self.cost}
        return _timed(told, self.at)


Record = Trajectory | Costs


def read(value: object) -> Trajectory | Costs | StepCost:
    """The record from the value that `to_json` returned, checked like any other."""
    if not isinstance(value, dict) or "episode" not in value:
        raise FeedbackError(f"a record must be a table with an episode, got {checks.show(value)}")
    given = dict(value)
    number, at = given.pop("episode"), given.pop("at", None)
    if set(given) == {"costs"}:
        return Costs(number, given["costs"], at)
    if set(given) == {"step", "cost"}:
        made = StepCost(number, given["step"], given["cost"], at)
        made.check()
        return made
    path = given.pop("path", None)
    known = set(path) - {"probabilities"} if isinstance(path, dict) and not given else set()
    if known == {"states", "actions"}:
        return Trajectory(number, path["states"], path["actions"], path.get("probabilities"), at)
    raise FeedbackError(
        "a record must have an episode and either a path, costs, or a step and its cost, got "
        f"{checks.show(value)}"
    )


def noted(episode: int, notes: Notes, horizon: int) -> Trajectory | None:
    """The path that `Episode.act` has noted, without its last state; None if it is not complete."""
    if notes.void or len(notes.decisions) != horizon:
        return None
    steps = [notes.decisions[h] for h in range(horizon)]
    return Trajectory(
        episode,
        np.array([0 if each.observation is None else each.observation for each in steps] + [-1]),
        np.array([each.action for each in steps]),
        np.array([each.probability for each in steps]),
    )


class Steps:
    """The known facts of the single steps of an episode; see `Episode.record`."""

    def __init__(self, episode: int, shape: tuple[int, int, int]) -> None:
        self._episode, self._shape = episode, shape
        self._known: dict[str, dict[int, int | float]] = {"state": {}, "action": {}, "cost": {}}
        self._made: set[type[Record]] = set()

    def note(
        self, step: int, state: int | None, action: int | None, cost: float | None
    ) -> list[Record]:
        """See `Episode.record`."""
        H, S, A = self._shape
        try:
            step = checks.integer("step", step, 0, H)
            if step == H and (action is not None or cost is not None):
                raise ValueError(f"step must be at most {H - 1} for an action or a cost, got {H}")
            new: dict[str, int | float] = {}
            if state is not None:
                new["state"] = checks.integer("state", state, 0, S - 1)
            if action is not None:
                new["action"] = checks.integer("action", action, 0, A - 1)
            if cost is not None:
                new["cost"] = checks.real("cost", cost, 0.0, 1.0)
            if not new:
                raise ValueError("one of state, action and cost must be given, got none of them")
            for name, value in new.items():
                known = self._known[name].get(step, value)
                if known != value:
                    raise ValueError(f"{name} of step {step} is known to be {known}, got {value}")
        except ValueError as error:
            raise FeedbackError(f"Step of episode {self._episode}: {error}") from None
        for name, value in new.items():
            self._known[name][step] = value
        return self._complete()

    def _complete(self) -> list[Record]:
        """The records that are complete now and were not returned before."""
        H = self._shape[0]
        states, actions, costs = self._known.values()
        records: list[Record] = []
        if Trajectory not in self._made and len(states) == H + 1 and len(actions) == H:
            path = np.array([int(states[h]) for h in range(H + 1)])
            done = np.array([int(actions[h]) for h in range(H)])
            records.append(Trajectory(self._episode, path, done))
        if Costs not in self._made and len(costs) == H:
            records.append(Costs(self._episode, np.array([costs[h] for h in range(H)])))
        self._made.update(type(record) for record in records)
        return records


def suffered(costs: Floats, trajectory: Trajectory) -> Floats:
    """The costs (H,) along a path under a cost function (1 or H, S, A)."""
    steps = 0 if len(costs) == 1 else np.arange(len(trajectory.actions))
    return costs[steps, trajectory.states[:-1], trajectory.actions]  # type: ignore[no-any-return]


def digest(*arrays: Floats | Ints) -> str:
    """A digest of the shapes and values of arrays; -0 counts as 0."""
    made = hashlib.blake2b(digest_size=DIGEST)
    for array in arrays:
        made.update(str(array.shape).encode())
        made.update((array + 0.0 if array.dtype == np.float64 else array).tobytes())
    return made.hexdigest()


def _timed(told: dict[str, Any], at: float | None) -> dict[str, Any]:
    return told if at is None else {**told, "at": at}


def _check_costs(name: str, value: Floats | float) -> None:
    """Check that costs are in [0, 1]; a number outside may be a reward."""
    checks.in_unit_interval(
        name,
        np.asarray(value, dtype=np.float64),
        "; a reward? Inbox(agent, rewards=(low, high)) turns rewards into costs",
    )
