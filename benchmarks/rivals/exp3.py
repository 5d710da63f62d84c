"""EXP3: Auer, Cesa-Bianchi, Freund & Schapire (2002), in the form of Stoltz (2005).

    on arrival:   L(a) += c / pi(a), of the arm a that was played with probability pi(a)
    policy:       proportional to exp(-rate_t L), rate_t = sqrt(ln A / (A t)) in the t-th episode

The step size depends neither on the number of episodes nor on the delays.
"""

from __future__ import annotations

import math

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import Learner, Open
from belated.saving import register
from belated.tabular.problem import Problem, check_arms
from belated.tabular.zimmert_seldin import Weights

SMALLEST_WEIGHT = 1e-100
"""The smallest probability that a cost is divided by, so that sums of estimates stay finite."""


@register
class Exp3(Learner[Weights]):
    """Exponential weights over importance-weighted costs.

    Args:
        problem: one state and one step.
        learning_rate: a constant step size; None: the decreasing one.
    """

    _losses: Floats  # (A,)

    def __init__(self, problem: Problem, *, learning_rate: float | None = None) -> None:
        check_arms("Exp3", problem)
        self._rate = (
            None
            if learning_rate is None
            else checks.real("learning_rate", learning_rate, 0.0, 1e6, above=True)
        )
        super().__init__(problem, learning_rate=self._rate)
        self._losses = np.zeros(problem.actions)

    def _next_policy(self) -> tuple[Floats, Floats]:
        A = self.problem.actions
        rate = self._rate
        if rate is None:
            rate = math.sqrt(math.log(A) / (A * (self.begun + 1)))
        weights = np.exp(-rate * (self._losses - self._losses.min()))
        shares = frozen(weights / weights.sum())
        return shares[None, None], shares

    def _learn(self, entry: Open[Floats]) -> None:
        assert entry.memory is not None
        arm = entry.path.actions[0]
        self._losses[arm] += entry.costs.values[0] / max(entry.memory[arm], SMALLEST_WEIGHT)
