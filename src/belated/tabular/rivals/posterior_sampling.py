"""Posterior sampling (PSRL): Strens (2000); Osband, Russo & Van Roy (2013).

    rows of p      Dirichlet(1 / S + counts)
    mean costs     Beta(1 + total cost, 1 + visits - total cost)
    policy         the best one for a model drawn from the posterior, drawn anew for every episode

Costs between 0 and 1 count as a fraction of a success. Feedback updates the posterior when it
arrives; until then episodes sample from the older one. The draws of an episode depend only on the
seed and the episode number.
"""

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open, generator
from belated.tabular.counts import Sums
from belated.tabular.policies import greedy
from belated.tabular.problem import Problem


class PosteriorSampling(Learner[bool]):
    """The best policy for transitions and costs drawn from the posterior.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        forget: the factor by which an arrival discounts all earlier costs. 1 never forgets, 0.99
            remembers about 100 episodes. Transitions are never forgotten.
        pooled: whether costs are pooled over steps. None: if the dynamics are homogeneous.
        seed: the seed of the draws, from 0 to 2**63 - 1.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.PosteriorSampling(world.problem, seed=1)
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    _counts: Sums  # (1 or H, S, A, S)
    _sums: Sums  # (1 or H, S, A) total observed cost
    _visits: Sums  # (1 or H, S, A) number of observations

    def __init__(
        self,
        problem: Problem,
        *,
        forget: float = 1.0,
        pooled: bool | None = None,
        seed: int = 0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        self._keep = checks.real("forget", forget, 0.0, 1.0, above=True)
        self._seed = checks.integer("seed", seed, 0, 2**63 - 1)
        if pooled is not None:
            pooled = checks.flag("pooled", pooled)
        super().__init__(problem, forget=self._keep, pooled=pooled, seed=self._seed)
        H, S, A = problem.shape
        checks.room((1 if problem.homogeneous else H) * S * A * S, problem=problem)
        steps = np.arange(H)
        one_cost = problem.homogeneous if pooled is None else pooled
        self._row_steps = 0 * steps if problem.homogeneous else steps
        self._cost_steps = 0 * steps if one_cost else steps
        self._counts = np.zeros((int(self._row_steps[-1]) + 1, S, A, S))
        self._sums = np.zeros((int(self._cost_steps[-1]) + 1, S, A))
        self._visits = np.zeros(self._sums.shape)

    def check_learned(self) -> None:
        """Check that no cost is above 1."""
        if np.any(self._sums > self._visits):
            raise ValueError("sums must be at most visits")

    def _next_policy(self) -> tuple[Floats, bool]:
        H, S, A = self.problem.shape
        p, costs = self._draw()
        values = np.zeros(S)
        q = np.zeros((H, S, A))
        for h in range(H - 1, -1, -1):
            q[h] = costs[self._cost_steps[h]] + p[self._row_steps[h]] @ values
            values = q[h].min(axis=1)
        return greedy(q), True

    def _draw(self) -> tuple[Floats, Floats]:
        """Transitions (1 or H, S, A, S) and mean costs (1 or H, S, A) from the posterior."""
        rng = generator(self._seed, self.begun)
        weights = rng.standard_gamma(self._counts + 1.0 / self.problem.states)
        weights += np.finfo(float).tiny  # a row whose draws all underflow becomes uniform
        costs = rng.beta(1.0 + self._sums, 1.0 + self._visits - self._sums)
        return weights / weights.sum(axis=-1, keepdims=True), costs

    def _learn(self, entry: Open[bool]) -> None:
        if self._keep < 1.0:
            self._sums *= self._keep
            self._visits *= self._keep
        states, actions = entry.path.states[:-1], entry.path.actions
        np.add.at(self._counts, (self._row_steps, states, actions, entry.path.states[1:]), 1.0)
        np.add.at(self._sums, (self._cost_steps, states, actions), entry.costs.values)
        np.add.at(self._visits, (self._cost_steps, states, actions), 1.0)
