"""How the step size of `Softmax` is set.

A rule answers `next_rates(missing)` once per episode begun, with the step sizes (1 or H,) to play
it with. missing: how many earlier episodes have not been used yet.
"""

import math
from typing import Protocol

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.tabular.problem import Problem


class Rates(Protocol):
    """A rule for the step size."""

    @property
    def pending(self) -> int:
        """What the rule has summed up so far."""
        ...

    @pending.setter
    def pending(self, value: int) -> None: ...

    def next_rates(self, missing: int) -> Floats:
        """Step sizes (1 or H,) for the episode that begins now."""
        ...


class Constant:
    """One step size for ever."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = checks.real("learning_rate", learning_rate, 0.0)
        self.pending = 0
        self._rates = frozen(np.array([self.learning_rate]))

    def next_rates(self, missing: int) -> Floats:
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
        self.pending = 0

    def next_rates(self, missing: int) -> Floats:
        """Step sizes (H,)."""
        self.pending += missing + 1
        return frozen(self._scale / math.sqrt(self.pending))


class AnytimeArms:
    """The same for one step from one state: eta_k = sqrt(ln A / (2 sum_i (A + missing_i))).

    Then E[R_K] <= 2 sqrt(2 ln A (A K + D_K)) without exploration, for all K at once.
    """

    def __init__(self, problem: Problem, scale: float) -> None:
        self._actions = problem.actions
        self._scale = scale
        self.pending = 0

    def next_rates(self, missing: int) -> Floats:
        """Step sizes (1,)."""
        self.pending += self._actions + missing
        rate = self._scale * math.sqrt(math.log(self._actions) / (2 * self.pending))
        return frozen(np.array([rate]))
