"""Where costs come from when not all of them are revealed."""

from __future__ import annotations

import numpy as np

from belated.arrays import Floats, Ints, frozen
from belated.feedback import Trajectory
from belated.problem import Problem

SMALLEST = 1e-250
"""Floor of a denominator, so that no estimate is infinite even without exploration."""


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


class EmpiricalMeans:
    """Means of all the costs that were observed, for costs that are drawn from fixed laws.

    Attributes:
        sums: (1 or H, S, A) total observed cost. visits: (1 or H, S, A) number of observations.
    """

    def __init__(self, problem: Problem, *, homogeneous: bool) -> None:
        steps = 1 if homogeneous else problem.horizon
        self.sums: Floats = np.zeros((steps, problem.states, problem.actions))
        self.visits: Ints = np.zeros(self.sums.shape, dtype=np.int64)
        self._steps = np.minimum(np.arange(problem.horizon), steps - 1)

    def learn(self, path: Trajectory, suffered: Floats) -> None:
        """Take in the costs (H,) of a path."""
        seen = (self._steps, path.states[:-1], path.actions)
        np.add.at(self.sums, seen, suffered)
        np.add.at(self.visits, seen, 1)

    def optimistic(self, scale: float) -> Floats:
        """Means minus scale / sqrt(visits), at least 0, and 0 where nothing was seen."""
        n = np.maximum(self.visits, 1)
        low = np.maximum(self.sums / n - scale / np.sqrt(n), 0.0)
        return frozen(np.where(self.visits > 0, low, 0.0))
