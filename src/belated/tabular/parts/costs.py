"""The costs of an episode: revealed, importance-weighted, or averaged.

Under full information a record holds the whole cost function. Under bandit feedback it holds the
H costs suffered, from which the part estimates the whole cost function.

A part is a frozen setting. What it learns is a plain object that `start` makes and that is passed
to every method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Information
from belated.core.tree import Entries, Learned
from belated.tabular.counts import Sums
from belated.tabular.counts import Model
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import Parameters

SMALLEST_CHANCE = 1e-250
"""The smallest denominator, so that no estimate is infinite even without exploration."""


class Observation(NamedTuple):
    """One episode whose feedback has arrived.

    Attributes:
        values: the values of the record, (1 or H, S, A) or (H,).
        path: the trajectory; None if the agent does not wait for it and it has not arrived.
        played: returns the policy (H, S, A) that was played, exploration included.
        model: the model of the transitions, now or when the episode began.
        begun: the number of episodes begun so far.
    """

    values: Floats
    path: Trajectory | None
    played: Callable[[], Floats]
    model: Model
    begun: int


class CostsPart:
    """A setting that makes cost functions from feedback.

    Your own part may derive from this class, or have its methods; `restart` only inside `Doubling`.

    Attributes:
        information: whether records hold whole cost functions ("full") or suffered costs
            ("bandit").
        weighted: whether estimates are divided by past probabilities, which need the model as it
            was when the episode began.
        averaged: whether costs are assumed to come from fixed distributions.
    """

    __slots__ = ()

    information: ClassVar[Information]
    weighted: ClassVar[bool] = False
    averaged: ClassVar[bool] = False

    def start(self, problem: Problem) -> Any:
        """What the part learns: a `tree.Learned`, or any object if it is never saved."""
        return Learned()

    def learn(self, learned: Any, path: Trajectory | None, values: Floats) -> None:
        """Learn from one record; all records of a batch precede the first `estimate`."""

    def estimate(self, learned: Any, seen: Observation) -> Floats:
        """The cost function (1 or H, S, A) of an episode, revealed or estimated."""
        raise NotImplementedError

    def restart(self, learned: Any, parameters: Parameters) -> None:
        """Begin a new phase with new parameters."""


@dataclass(frozen=True, slots=True)
class Revealed(CostsPart):
    """Full information: the feedback is the whole cost function of an episode.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(world.problem, costs=bl.parts.Revealed())
        >>> agent.information
        'full'
    """

    information: ClassVar[Information] = "full"

    def estimate(self, learned: Learned, seen: Observation) -> Floats:
        """The costs themselves."""
        return seen.values


REVEALED = Revealed()
"""The default for `costs`."""


@dataclass(frozen=True, slots=True)
class Weighted(CostsPart):
    """Bandit feedback, any costs: a suffered cost is divided by the probability of observing it.

    Attributes:
        exploration: gamma, added to that probability (implicit exploration). None is allowed for
            one step from one state, where it is 0.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(
        ...     world.problem, costs=bl.parts.Weighted(0.1), update=bl.parts.Softmax(0.3)
        ... )
        >>> agent.information
        'bandit'
    """

    needs: ClassVar[Mapping[tuple[str, str], str]] = {
        ("transitions", "upper bounds"): (
            "importance weights need the upper bounds of Confidence(); Averaged() does without"
        )
    }

    exploration: float | None = None

    information: ClassVar[Information] = "bandit"
    weighted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.exploration is not None:
            checks.fix(self, "exploration", checks.real("exploration", self.exploration, 0.0))

    def unset(self, problem: Problem, costs: CostsPart) -> list[str]:
        """The exploration is required, except for one step from one state."""
        return ["exploration"] if self.exploration is None and not problem.is_arms else []

    def start(self, problem: Problem) -> Exploration:
        """The exploration of the phase."""
        return Exploration(self.exploration or 0.0)

    def estimate(self, learned: Exploration, seen: Observation) -> Floats:
        """Costs on the path divided by (at least) their probability of observation, 0 elsewhere."""
        assert seen.path is not None
        played = seen.played()
        reach = seen.model.reach(played, seen.path.states)
        return importance_weighted(seen.values, seen.path, played, reach, learned.exploration)

    def restart(self, learned: Exploration, parameters: Parameters) -> None:
        """Set the exploration of the phase."""
        learned.exploration = parameters.exploration or 0.0


class Exploration(Learned):
    """The exploration of the phase."""

    exploration: Annotated[float, Entries(low=0.0)]

    def __init__(self, exploration: float) -> None:
        self.exploration = exploration


def importance_weighted(
    suffered: Floats, path: Trajectory, policy: Floats, reach: Floats, exploration: float
) -> Floats:
    """Costs divided by (at least) the probability of observing them.

    suffered: (H,); policy: (H, S, A), the policy played; reach: (H,), the probability of the states
    of the path, or an upper bound. Returns (H, S, A), zero off the path.
    """
    steps = np.arange(len(suffered))
    states, actions = path.states[:-1], path.actions
    seen = reach * policy[steps, states, actions] + exploration
    costs = np.zeros(policy.shape)
    costs[steps, states, actions] = suffered / np.maximum(seen, SMALLEST_CHANCE)
    return frozen(costs)


@dataclass(frozen=True, slots=True)
class Averaged(CostsPart):
    """Bandit feedback, costs from fixed distributions: observed means minus a deviation.

    The deviation of a mean of n costs is scale * w / sqrt(n). The factor w follows from the
    transitions: radius_scale * sqrt(L / 2) for `Confidence`, the scale of `Bonus`, and sqrt(L / 2)
    for known transitions, with L = ln(2 H S A K / delta).

    Attributes:
        pooled: whether the means are the same at every step, so that observations are pooled.
        scale: factor on the deviation.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(world.problem, costs=bl.parts.Averaged(pooled=True))
        >>> agent.information
        'bandit'
    """

    pooled: bool = False
    scale: float = 1.0

    information: ClassVar[Information] = "bandit"
    averaged: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.fix(self, "pooled", checks.flag("pooled", self.pooled))
        checks.fix(self, "scale", checks.real("scale", self.scale, 0.0))

    def start(self, problem: Problem) -> RunningMeans:
        """The sums and numbers of the observed costs, both (1 or H, S, A)."""
        return RunningMeans(problem, 1 if self.pooled else problem.horizon)

    def learn(self, learned: RunningMeans, path: Trajectory | None, values: Floats) -> None:
        """Learn from the costs (H,) of a path."""
        assert path is not None
        learned.add(path, values)

    def estimate(self, learned: RunningMeans, seen: Observation) -> Floats:
        """The present means, lowered by their deviation."""
        return self.lower_bounds(learned, seen.model.cost_width(seen.begun))

    def means(self, learned: RunningMeans) -> Floats:
        """The means, 0 in unvisited rows."""
        return self.lower_bounds(learned, 0.0)

    def lower_bounds(self, learned: RunningMeans, width: float) -> Floats:
        """Means minus scale * width / sqrt(visits), at least 0, and 0 in unvisited rows."""
        n = np.maximum(learned.visits, 1)
        low = np.maximum(learned.sums / n - self.scale * width / np.sqrt(n), 0.0)
        return frozen(np.where(learned.visits > 0, low, 0.0))


class RunningMeans(Learned):
    """Sums of costs in [0, 1], and their numbers, both (1 or H, S, A)."""

    sums: Sums
    visits: Annotated[Ints, Entries(low=0, high=checks.MOST)]

    def __init__(self, problem: Problem, steps: int) -> None:
        shape = (steps, problem.states, problem.actions)
        self.sums = np.zeros(shape)
        self.visits = np.zeros(shape, dtype=np.int64)
        self.steps = np.minimum(np.arange(problem.horizon), steps - 1)

    def add(self, path: Trajectory, values: Floats) -> None:
        """Add the costs (H,) of a path."""
        seen = (self.steps, path.states[:-1], path.actions)
        np.add.at(self.sums, seen, values)
        np.add.at(self.visits, seen, 1)

    def check_learned(self) -> None:
        """Check that no cost is above 1."""
        if np.any(self.sums > self.visits):
            raise ValueError("sums must be from 0 to visits")
