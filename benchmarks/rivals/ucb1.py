"""UCB1: Auer, Cesa-Bianchi & Fischer (2002), for costs.

index     mean - sqrt(2 ln t / n), of n observed plays of an arm and t of all arms
policy    the smallest index; arms without an observation come first
"""

from __future__ import annotations

import math

import numpy as np

from belated.core.arrays import Floats
from belated.saving import register
from belated.tabular.policies import greedy
from belated.tabular.problem import Problem
from belated.tabular.rivals.base import ArmsRival


@register
class UCB1(ArmsRival):
    """The arm with the smallest lower confidence bound on its cost, from the observed plays.

    Args:
        problem: one state and one step.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)

    def _next_policy(self) -> tuple[Floats, bool]:
        n = np.maximum(self._visits, 1.0)
        width = math.sqrt(2.0 * math.log(max(self._visits.sum(), 1.0)))
        index = np.where(self._visits > 0.0, self._sums / n - width / np.sqrt(n), -np.inf)
        return greedy(index)[None, None], True
