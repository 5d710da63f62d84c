"""Posterior sampling (PSRL): Strens (2000); Osband, Russo & Van Roy (2013).

    rows of p      Dirichlet(1 / S + counts)
    mean costs     Beta(1 + total cost, 1 + visits - total cost)
    policy         the best one for a model drawn from the posterior, drawn anew for every episode

Costs between 0 and 1 count as a fraction of a success. Feedback joins the posterior when it
arrives; until then episodes sample from the older one.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.rivals.base import Rival, greedy


class PosteriorSampling(Rival):
    """The best policy for transitions and costs drawn from the posterior.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        forget: factor on all costs observed before, whenever an episode arrives. 1 never
            forgets, 0.99 remembers about 100 episodes. Transitions do not change, and are kept.
        pooled: whether costs are pooled over steps. None: if the dynamics are homogeneous.
        seed: of the agent's own generator.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        forget: float = 1.0,
        pooled: bool | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(problem, forget=forget, pooled=pooled, seed=seed)
        self._keep = checks.real("forget", forget, 0.0, 1.0, above=True)
        self._rng = np.random.default_rng(checks.integer("seed", seed, 0))
        H, S, A = problem.shape
        pooled = problem.homogeneous if pooled is None else checks.flag("pooled", pooled)
        steps = np.arange(H)
        self._row_steps = 0 * steps if problem.homogeneous else steps
        self._cost_steps = 0 * steps if pooled else steps
        self._counts: Floats = np.zeros((1 if problem.homogeneous else H, S, A, S))
        self._sums: Floats = np.zeros((1 if pooled else H, S, A))
        self._visits: Floats = np.zeros(self._sums.shape)

    def _policy(self) -> Floats:
        H, S, A = self.problem.shape
        p, costs = self._drawn()
        values = np.zeros(S)
        q = np.zeros((H, S, A))
        for h in range(H - 1, -1, -1):
            q[h] = costs[self._cost_steps[h]] + p[self._row_steps[h]] @ values
            values = q[h].min(axis=1)
        return greedy(q)

    def _drawn(self) -> tuple[Floats, Floats]:
        """Transitions (1 or H, S, A, S) and mean costs (1 or H, S, A) from the posterior."""
        weights = self._rng.standard_gamma(self._counts + 1.0 / self.problem.states)
        weights += np.finfo(float).tiny  # a row whose draws all underflow becomes uniform
        costs = self._rng.beta(1.0 + self._sums, 1.0 + self._visits - self._sums)
        return weights / weights.sum(axis=-1, keepdims=True), costs

    def _learn(self, path: Trajectory, costs: Floats, policy: Floats) -> None:
        if self._keep < 1.0:
            self._sums *= self._keep
            self._visits *= self._keep
        states, actions = path.states[:-1], path.actions
        np.add.at(self._counts, (self._row_steps, states, actions, path.states[1:]), 1.0)
        np.add.at(self._sums, (self._cost_steps, states, actions), costs)
        np.add.at(self._visits, (self._cost_steps, states, actions), 1.0)
