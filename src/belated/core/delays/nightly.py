"""Reports that arrive in a nightly batch, some days after the decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints
from belated.core.delays.models import Independent


@dataclass(frozen=True, slots=True, repr=False)
class Nightly(Independent):
    """See `nightly`."""

    per_day: int
    low: int
    high: int
    maker = "nightly"

    def __post_init__(self) -> None:
        checks.fix(self, "per_day", checks.integer("per_day", self.per_day, 1, checks.ROOM))
        checks.fix(self, "low", checks.integer("low", self.low, 0, 10**6))
        checks.fix(self, "high", checks.integer("high", self.high, self.low, 10**6))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        episodes = np.arange(n)
        day = episodes // self.per_day + rng.integers(self.low, self.high + 1, n)
        return (day + 1) * self.per_day - 1 - episodes


def nightly(per_day: int, low: int, high: int) -> Nightly:
    """Outcomes are known `low` to `high` days later and arrive with that night's batch.

    >>> import belated as bl, numpy as np
    >>> model = bl.delays.nightly(per_day=3, low=0, high=0)
    >>> model.draw(6, np.random.default_rng(0)).tolist()
    [2, 1, 0, 2, 1, 0]

    Args:
        per_day: the number of episodes per day.
        low: the smallest number of days; 0 is the night of the same day.
        high: the largest number of days; all numbers from low to high are equally likely.
    """
    return Nightly(per_day, low, high)
