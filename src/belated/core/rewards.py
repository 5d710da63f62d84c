"""The only place that converts rewards to costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of rewards: r in [low, high] becomes the cost (high - r) / (high - low).

    Attributes:
        low: the smallest reward.
        high: the largest reward.
        clip: whether a reward outside the range is clipped to it; otherwise it is an error.
    """

    low: float
    high: float
    clip: bool = False

    @classmethod
    def of(cls, name: str, value: object, *, clip: bool = False) -> Scale:
        """The scale from an argument (low, high)."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ValueError(f"{name} must be (low, high), got {checks.show(value)}")
        low, high = (checks.real(name, bound, -math.inf) for bound in value)
        if not low < high or math.isinf(high - low):
            shown = checks.show(value)
            raise ValueError(f"{name} must be (low, high) with low < high, got {shown}")
        return cls(low, high, checks.flag("clip", clip))

    def costs(self, name: str, rewards: Any) -> Floats:
        """The costs of rewards of any shape; an error names one that is out of range."""
        array = np.asarray(rewards, dtype=np.float64)
        wrong = ~np.isfinite(array) if self.clip else ~((array >= self.low) & (array <= self.high))
        if wrong.any():
            allowed = f"lie in [{self.low:g}, {self.high:g}]"
            if self.clip:
                allowed = "be finite"
            first = np.atleast_1d(array)[np.atleast_1d(wrong)][0]
            raise ValueError(f"{name} must {allowed}, got {first:g}")
        costs: Floats = np.clip((self.high - array) / (self.high - self.low), 0.0, 1.0)
        return costs

    def total(self, cost: float, steps: int) -> float:
        """The sum of the rewards of this number of steps with this total cost."""
        return steps * self.high - cost * (self.high - self.low)
