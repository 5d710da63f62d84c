"""Thompson sampling: Thompson (1933); Chapelle & Li (2011) under delays.

    means     Beta(1 + total cost, 1 + plays - total cost), of the plays that have been observed
    policy    the least of one draw per arm, drawn anew for every episode

Costs between 0 and 1 count as a fraction of a success.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.tabular.problem import Problem
from belated.tabular.rivals.base import ArmsRival, greedy


class ThompsonSampling(ArmsRival):
    """The best arm of a draw from the posterior.

    Args:
        problem: one state and one step.
        seed: of the agent's own generator.
    """

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        super().__init__(problem, seed=seed)
        self._rng = np.random.default_rng(checks.integer("seed", seed, 0))

    def _policy(self) -> Floats:
        drawn = self._rng.beta(1.0 + self._sums, 1.0 + self._visits - self._sums)
        return greedy(drawn)[None, None]
