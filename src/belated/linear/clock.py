"""The time of a learner: the caller's, or the number of decisions."""

from __future__ import annotations

import math

import numpy as np

from belated.core import checks, stored

CALLS = 100
"""The number of calls after which the unit of ages is fixed, if the time has changed."""


class CallClock:
    """The time of the calls, and the unit of ages.

    Without a clock, time is the number of the newest decision and the unit is 1. With one, it is
    the median of the positive gaps between the first calls.
    """

    def __init__(self) -> None:
        self.told: bool | None = None  # whether the caller has a clock; None before the first call
        self.time = -1.0  # of the newest call; without a clock, of the newest decision
        self.unit = 1.0
        self.fixed = False
        self.calls = 0
        self._gaps: list[float] = []

    def checked(self, now: object) -> float | None:
        """The argument `now`, which must be given in all calls or in none."""
        if now is None:
            return None
        if self.told is False:
            raise ValueError(f"now must be None in all calls or given from the first, got {now!r}")
        return checks.real("now", now, -math.inf)

    def tick(self, now: float | None) -> bool:
        """Note a call at this time, which was checked; returns whether the unit has changed."""
        if self.told is None:
            self.told = now is not None
            self.fixed = not self.told
            if now is not None:
                self.time = now
        if not self.told:
            return False
        self.calls += 1
        gap = 0.0 if now is None else now - self.time
        if gap > 0.0:  # a clock that is set back does not change the time
            assert now is not None
            self.time = now
            if not self.fixed:
                self._gaps.append(gap)
        if self.fixed or not self._gaps:
            return False
        unit = float(np.median(self._gaps))
        changed = unit != self.unit
        self.unit = unit
        if self.calls >= CALLS:
            self.fixed, self._gaps = True, []
        return changed

    def state(self) -> stored.State:
        """Everything."""
        return {
            "told": self.told,
            "time": self.time,
            "unit": self.unit,
            "fixed": self.fixed,
            "calls": self.calls,
            "gaps": list(self._gaps),
        }

    def restore(self, state: object) -> None:
        """Continue from a saved state."""
        read = stored.exact(state, "told", "time", "unit", "fixed", "calls", "gaps")
        self.told = None if read["told"] is None else checks.flag("told", read["told"])
        self.time = checks.real("time", read["time"], -math.inf)
        self.unit = checks.real("unit", read["unit"], 0.0, above=True)
        self.fixed = checks.flag("fixed", read["fixed"])
        self.calls = stored.count("calls", read["calls"])
        gaps = stored.items("gaps", read["gaps"])
        if len(gaps) > CALLS:
            raise ValueError(f"gaps must be at most {CALLS}, got {len(gaps)}")
        self._gaps = [checks.real("gaps", gap, 0.0, above=True) for gap in gaps]
