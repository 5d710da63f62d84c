"""An agent of your own in the suite: UCBVI with ties broken at random.

Run from the checkout, where `module:function` finds this file:

    python examples/ucbvi.py                     its score on the paper's grid
    belated run benchmarks.suite:suite --seeds 5 --only "UCBVI of 20 lines"

The method: the empirical mean of costs and the empirical transitions, a bonus of 0.2 deviations of
what one visit shows, and the best actions, all of them with equal probability.
"""

from __future__ import annotations

import numpy as np

import belated as bl
from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open
from belated.tabular.counts import Sums
from belated.tabular.policies import greedy


class UCBVI(Learner[bool]):
    """Optimistic planning; pools costs over steps, and transitions where they are the same."""

    _next: Sums  # (1 or H, S, A, S) transitions that were seen
    _costs: Sums  # (S, A) total cost
    _plays: Sums  # (S, A) how often

    def __init__(self, problem: bl.Problem, *, bonus: float = 0.2) -> None:
        super().__init__(problem, bonus=bonus)
        H, S, A = problem.shape
        self._bonus, T = bonus, 1 if problem.homogeneous else H
        self._steps = np.minimum(np.arange(H), T - 1)
        self._next = np.zeros((T, S, A, S))
        self._costs, self._plays = np.zeros((S, A)), np.zeros((S, A))

    def _next_policy(self) -> tuple[Floats, bool]:
        H, S, A = self.problem.shape
        visits = self._next.sum(axis=-1)
        rows = self._next / np.maximum(visits, 1.0)[..., None]
        costs, V, Q = self._costs / np.maximum(self._plays, 1.0), np.zeros(S), np.zeros((H, S, A))
        for h, t in reversed(list(enumerate(self._steps))):
            later = rows[t] @ V
            spread = rows[t] @ V**2 - later**2
            wide = np.sqrt((1.0 + np.maximum(spread, 0.0)) / np.maximum(visits[t], 1.0))
            Q[h] = np.clip(costs + later - self._bonus * wide, 0.0, H - h) * (visits[t] > 0)
            V = Q[h].min(axis=1)
        return greedy(Q), True

    def _learn(self, entry: Open[bool]) -> None:
        here = entry.path.states[:-1], entry.path.actions
        np.add.at(self._next, (self._steps, *here, entry.path.states[1:]), 1.0)
        np.add.at(self._costs, here, entry.costs.values)
        np.add.at(self._plays, here, 1.0)


def ucbvi(told: bl.lab.RunBrief, bonus: float = 0.2) -> UCBVI:
    """The kind: what a file names `examples.ucbvi:ucbvi`."""
    return UCBVI(told.problem, bonus=bonus)


if __name__ == "__main__":
    world = bl.environments.gridworld()
    agent = UCBVI(world.problem)
    print(bl.simulate(world, agent, delays=bl.delays.geometric(10), episodes=1200, seed=1))
