"""Where the costs of an episode come from: revealed, importance-weighted, or averaged.

Under full information a record holds the whole cost function. Under bandit feedback it holds the
H costs that were suffered, and the part makes an estimate of the whole cost function of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Information
from belated.tabular.parts.transitions import Model
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import Parameters

SMALLEST = 1e-250
"""Floor of a denominator, so that no estimate is infinite even without exploration."""


class Observation(NamedTuple):
    """One episode whose feedback has arrived.

    Attributes:
        values: what the record holds, (1 or H, S, A) or (H,).
        path: the trajectory; None where it is not waited for and has not come.
        played: gives the policy (H, S, A) that was really played, exploration included.
        model: what is believed about the transitions, now or when the episode began.
        begun: how many episodes have begun by now.
        lesson: what `learn` returned for this record.
    """

    values: Floats
    path: Trajectory | None
    played: Callable[[], Floats]
    model: Model
    begun: int
    lesson: object


class Costing(Protocol):
    """Makes cost functions of what arrives.

    A part of one's own may leave out `restart` where it does not go into `Doubling`, and `state`
    and `restore` where its agent is not saved.
    """

    def model(self, newest: Model, arrived: int) -> Model:
        """The model to use for an episode that began when so many trajectories had arrived."""
        ...

    def learn(self, path: Trajectory | None, values: Floats) -> object:
        """Take in one record; all records of a batch come before the first `estimate`.

        What is returned comes back as the `lesson` of the observation.
        """
        ...

    def estimate(self, seen: Observation) -> Floats:
        """The cost function (1 or H, S, A) of an episode, revealed or estimated."""
        ...

    def restart(self, parameters: Parameters) -> None:
        """Begin a new phase with new parameters."""
        ...

    def state(self) -> stored.State:
        """Everything that was learned."""
        ...

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        ...


class CostsPart(Protocol):
    """A setting that makes a `Costing`.

    Attributes:
        information: "full" or "bandit".
        weighted: estimates are divided by probabilities of the past, which need the model as it
            was when the episode began.
        averaged: the costs are taken to come from fixed laws.
    """

    @property
    def information(self) -> Information:
        """Whether records hold whole cost functions ("full") or suffered costs ("bandit")."""
        ...

    @property
    def weighted(self) -> bool:
        """Whether an estimate needs the model of the time when the episode began."""
        ...

    @property
    def averaged(self) -> bool:
        """Whether the costs are taken to come from fixed laws."""
        ...

    def start(self, problem: Problem) -> Costing:
        """A fresh part."""
        ...


@dataclass(frozen=True, slots=True)
class Revealed:
    """Full information: the whole cost function of an episode comes back."""

    slot: ClassVar[str] = "costs"

    information: ClassVar[Information] = "full"
    weighted: ClassVar[bool] = False
    averaged: ClassVar[bool] = False

    def start(self, problem: Problem) -> Revealing:
        """A fresh part."""
        return Revealing()


class Revealing(stored.Stateless):
    """Hands on what came."""

    def model(self, newest: Model, arrived: int) -> Model:
        """The newest."""
        return newest

    def learn(self, path: Trajectory | None, values: Floats) -> None:
        """There is nothing to learn."""

    def estimate(self, seen: Observation) -> Floats:
        """The costs themselves."""
        return seen.values


REVEALED = Revealed()
"""Where costs come from by default."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """Bandit feedback, any costs: a suffered cost is divided by the probability of seeing it.

    Attributes:
        exploration: gamma, added to that probability (implicit exploration). None is allowed for
            one step from one state, where it is 0.
    """

    slot: ClassVar[str] = "costs"

    exploration: float | None = None

    information: ClassVar[Information] = "bandit"
    weighted: ClassVar[bool] = True
    averaged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.exploration is not None:
            checks.fix(self, "exploration", checks.real("exploration", self.exploration, 0.0))

    def start(self, problem: Problem) -> Weighing:
        """A fresh part."""
        return Weighing(self.exploration or 0.0)


class Weighing:
    """Importance weights with implicit exploration."""

    def __init__(self, exploration: float) -> None:
        self._exploration = exploration

    def model(self, newest: Model, arrived: int) -> Model:
        """That of the start of the episode, as the proof needs."""
        return newest.as_of(arrived)

    def learn(self, path: Trajectory | None, values: Floats) -> None:
        """There is nothing to learn."""

    def estimate(self, seen: Observation) -> Floats:
        """Costs on the path divided by (at least) the probability of seeing them, 0 elsewhere."""
        assert seen.path is not None
        played = seen.played()
        reach = seen.model.reach(played, seen.path.states)
        return importance_weighted(seen.values, seen.path, played, reach, self._exploration)

    def restart(self, parameters: Parameters) -> None:
        """Take the exploration of the phase."""
        self._exploration = parameters.exploration or 0.0

    def state(self) -> stored.State:
        """The exploration of the phase."""
        return {"exploration": self._exploration}

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        given = stored.exact(saved, "exploration")["exploration"]
        self._exploration = checks.real("exploration", given, 0.0)


def importance_weighted(
    suffered: Floats, path: Trajectory, policy: Floats, reach: Floats, exploration: float
) -> Floats:
    """Costs divided by (at least) the probability of seeing them.

    suffered: (H,); policy: (H, S, A) as it was played; reach: (H,) probability of the states of
    the path, or an upper bound. Returns (H, S, A), zero off the path.
    """
    steps = np.arange(len(suffered))
    states, actions = path.states[:-1], path.actions
    seen = reach * policy[steps, states, actions] + exploration
    costs = np.zeros(policy.shape)
    costs[steps, states, actions] = suffered / np.maximum(seen, SMALLEST)
    return frozen(costs)


@dataclass(frozen=True, slots=True)
class Averaged:
    """Bandit feedback, costs from fixed laws: observed means, less a deviation.

    The deviation of a mean of n costs is scale * w / sqrt(n). The factor w follows from the
    transitions: radius_scale * sqrt(L / 2) for `Confidence`, the scale of `Bonus`, and sqrt(L / 2)
    for known transitions, with L = ln(2 H S A K / delta).

    Attributes:
        pooled: the means are the same at every step, so that observations are pooled.
        scale: factor on the deviation.
    """

    slot: ClassVar[str] = "costs"

    pooled: bool = False
    scale: float = 1.0

    information: ClassVar[Information] = "bandit"
    weighted: ClassVar[bool] = False
    averaged: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.fix(self, "pooled", checks.flag("pooled", self.pooled))
        checks.fix(self, "scale", checks.real("scale", self.scale, 0.0))

    def start(self, problem: Problem) -> Averaging:
        """A fresh part."""
        return Averaging(problem, self)


class Averaging:
    """Means of all the costs that were observed.

    Attributes:
        sums: (1 or H, S, A) total observed cost. visits: (1 or H, S, A) number of observations.
    """

    def __init__(self, problem: Problem, part: Averaged) -> None:
        steps = 1 if part.pooled else problem.horizon
        self.sums: Floats = np.zeros((steps, problem.states, problem.actions))
        self.visits: Ints = np.zeros(self.sums.shape, dtype=np.int64)
        self._steps = np.minimum(np.arange(problem.horizon), steps - 1)
        self._scale = part.scale

    def model(self, newest: Model, arrived: int) -> Model:
        """The newest."""
        return newest

    def learn(self, path: Trajectory | None, values: Floats) -> None:
        """Take in the costs (H,) of a path."""
        assert path is not None
        seen = (self._steps, path.states[:-1], path.actions)
        np.add.at(self.sums, seen, values)
        np.add.at(self.visits, seen, 1)

    def estimate(self, seen: Observation) -> Floats:
        """The lowered means of now."""
        return self.lowered(seen.model.cost_width(seen.begun))

    def believed(self) -> Floats:
        """The means, 0 where nothing was seen."""
        return self.lowered(0.0)

    def lowered(self, width: float) -> Floats:
        """Means minus scale * width / sqrt(visits), at least 0, and 0 where nothing was seen."""
        n = np.maximum(self.visits, 1)
        low = np.maximum(self.sums / n - self._scale * width / np.sqrt(n), 0.0)
        return frozen(np.where(self.visits > 0, low, 0.0))

    def restart(self, parameters: Parameters) -> None:
        """Observations are kept."""

    def state(self) -> stored.State:
        """The sums and their numbers."""
        return {"sums": self.sums.copy(), "visits": self.visits.copy()}

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        read = stored.exact(saved, "sums", "visits")
        self.sums = stored.copied("sums", read["sums"], np.float64, self.sums.shape)
        self.visits = stored.copied("visits", read["visits"], np.int64, self.sums.shape)
        stored.between("visits", self.visits, 0, checks.MOST)
        if not np.all((self.sums >= 0) & (self.sums <= self.visits)):
            raise ValueError("sums must be from 0 to visits")
