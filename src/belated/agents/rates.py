"""How the step size is set.

A rule answers `rates(missing)` once per episode begun, with the step sizes (1 or H,) to play it
with. missing: how many earlier episodes have not been used yet. The same array object again means
that nothing changed.
"""

import math
from typing import Protocol

import numpy as np

from belated.arrays import Floats, frozen
from belated.problem import Problem


class Rates(Protocol):
    """A rule for the step size."""

    def rates(self, missing: int) -> Floats:
        """Step sizes (1 or H,) for the episode that begins now."""
        ...


class Constant:
    """One step size for ever."""

    def __init__(self, learning_rate: float) -> None:
        self._rates = frozen(np.array([learning_rate]))

    def rates(self, missing: int) -> Floats:
        """Step sizes (1,)."""
        return self._rates


class Anytime:
    """Step sizes that need no knowledge of K, D or the largest delay.

    With P_k the sum over i <= k of 1 + the episodes missing when i began, step h of H plays
    softmax(-eta L_h) with eta = sqrt(ln A / 2) / ((H - h + 1) sqrt(P_k)), L the whole sum of Q.
    Then R_K <= H (H + 1) sqrt(2 ln A (K + D_K)) for known transitions and full information, for
    all K at once. A scale c on eta makes that (c + 1 / c) / 2 times as much, at worst.
    """

    def __init__(self, problem: Problem, scale: float) -> None:
        left = problem.horizon - np.arange(problem.horizon)
        self._scale: Floats = scale * math.sqrt(math.log(problem.actions) / 2) / left
        self._pending = 0

    def rates(self, missing: int) -> Floats:
        """Step sizes (H,)."""
        self._pending += missing + 1
        return frozen(self._scale / math.sqrt(self._pending))


class AnytimeBandit:
    """The same for a bandit (H = 1, one state): eta_k = sqrt(ln A / (2 sum_i (A + missing_i))).

    Then E[R_K] <= 2 sqrt(2 ln A (A K + D_K)) without exploration, for all K at once.
    """

    def __init__(self, problem: Problem, scale: float) -> None:
        self._actions = problem.actions
        self._scale = scale
        self._weight = 0

    def rates(self, missing: int) -> Floats:
        """Step sizes (1,)."""
        self._weight += self._actions + missing
        rate = self._scale * math.sqrt(math.log(self._actions) / (2 * self._weight))
        return frozen(np.array([rate]))
