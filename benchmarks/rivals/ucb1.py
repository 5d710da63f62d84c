"""UCB1: Auer, Cesa-Bianchi & Fischer (2002), for costs.

index     mean - sqrt(2 ln t / n), of n observed plays of an arm and t of all arms
policy    the smallest index; arms without an observation come first
"""

from __future__ import annotations

import math

import numpy as np

from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open
from belated.saving import register
from belated.tabular.parts.costs import RunningMeans
from belated.tabular.policies import greedy
from belated.tabular.problem import Problem, check_arms


@register
class UCB1(Learner[bool]):
    """The arm with the smallest lower confidence bound on its cost, from the observed plays.

    Args:
        problem: one state and one step.
    """

    _means: RunningMeans

    def __init__(self, problem: Problem) -> None:
        check_arms("UCB1", problem)
        super().__init__(problem)
        self._means = RunningMeans(problem, 1)

    def _next_policy(self) -> tuple[Floats, bool]:
        sums, plays = self._means.sums, self._means.visits
        n = np.maximum(plays, 1.0)
        width = math.sqrt(2.0 * math.log(max(plays.sum(), 1.0)))
        index = np.where(plays > 0, sums / n - width / np.sqrt(n), -np.inf)
        return greedy(index), True

    def _learn(self, entry: Open[bool]) -> None:
        self._means.add(entry.path, entry.costs.values)
