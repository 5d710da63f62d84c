"""Follow the leader for full information: the best policy for what costs were, discounted.

    rows of p      Dirichlet(1 / S + counts), drawn anew for every episode
    costs          sum of forget^(arrivals since) c / sum of forget^(arrivals since)
    policy         the best one for these, ties at random

It is posterior sampling that sees whole cost functions, and so the strongest simple rival there.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open, generator
from belated.saving import register
from belated.tabular.counts import Sums
from belated.tabular.policies import greedy
from belated.tabular.problem import Problem


@register
class FollowTheLeader(Learner[bool]):
    """The best policy for transitions drawn from the posterior and the discounted mean of costs.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        forget: the factor by which an arrival discounts all earlier costs; 1 never forgets.
        seed: the seed of the draws.
    """

    information = "full"
    _counts: Sums  # (1 or H, S, A, S)
    _sums: Sums  # (H, S, A) discounted sum of cost functions
    _weight: Sums  # (1,) discounted number of them

    def __init__(self, problem: Problem, *, forget: float = 1.0, seed: int = 0) -> None:
        checks.instance("problem", problem, Problem)
        self._keep = checks.real("forget", forget, 0.0, 1.0, above=True)
        self._seed = checks.integer("seed", seed, 0, 2**63 - 1)
        super().__init__(problem, forget=self._keep, seed=self._seed)
        H, S, A = problem.shape
        T = 1 if problem.homogeneous else H
        self._steps = np.minimum(np.arange(H), T - 1)
        self._counts, self._sums = np.zeros((T, S, A, S)), np.zeros((H, S, A))
        self._weight = np.zeros(1)

    def _next_policy(self) -> tuple[Floats, bool]:
        H, S, _ = self.problem.shape
        rows = generator(self._seed, self.begun).standard_gamma(self._counts + 1.0 / S)
        rows += np.finfo(float).tiny
        rows /= rows.sum(axis=-1, keepdims=True)
        q = self._sums / max(self._weight[0], 1e-300)
        for h in range(H - 2, -1, -1):
            q[h] += rows[self._steps[h]] @ q[h + 1].min(axis=1)
        return greedy(q), True

    def _learn(self, entry: Open[bool]) -> None:
        states, actions = entry.path.states, entry.path.actions
        np.add.at(self._counts, (self._steps, states[:-1], actions, states[1:]), 1.0)
        self._sums *= self._keep
        self._sums += entry.costs.values
        self._weight *= self._keep
        self._weight += 1.0
