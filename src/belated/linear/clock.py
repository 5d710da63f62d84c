"""The time of a learner: the caller's, or the number of decisions at the last `observe`."""

from __future__ import annotations

import math

import numpy as np

from belated.core import checks, stored

CALLS = 100
"""The number of calls after which the unit of ages is fixed, if the time has changed."""


class CallClock:
    """The time of the calls, and the unit of ages: the median positive gap between the first calls.

    Without a clock, the time of a decision is the number of decisions that had begun at the last
    `observe`. So all decisions between two batches have the same age when the next one arrives, as
    with a clock of days.
    """

    def __init__(self) -> None:
        self.told: bool | None = None  # whether the caller has a clock; None before the first call
        self.time = -1.0  # of the newest call, until the unit is fixed if there is no clock
        self.unit = 1.0
        self.fixed = False
        self.calls = 0
        self.began: float | None = None  # the first decision, once it has left the log
        self._gaps: list[float] = []

    def checked(self, now: object) -> float | None:
        """The argument `now`, which is given from the first call on, if at all.

        A call without it happens at the latest time so far.
        """
        if now is None:
            return None
        if self.told is False:
            raise ValueError(f"now must be None in all calls or given from the first, got {now!r}")
        return checks.real("now", now, -math.inf)

    @property
    def ticking(self) -> bool:
        """Whether calls must be noted: there is a clock, or the unit is not fixed."""
        return not self.fixed or self.told is True

    def tick(self, now: float | None, observed: int) -> bool:
        """Note a call at this time, which was checked; returns whether ages must be counted anew.

        observed: the number of decisions that had begun at the last `observe`.
        """
        first = self.told is None
        if first:
            self.told = now is not None
        if not self.told:
            now = float(observed)
        if first and now is not None:
            self.time = now
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
        return changed or self.fixed

    def state(self) -> stored.State:
        """Everything."""
        return {
            "told": self.told,
            "time": self.time,
            "unit": self.unit,
            "fixed": self.fixed,
            "calls": self.calls,
            "began": self.began,
            "gaps": list(self._gaps),
        }

    def restore(self, state: object) -> None:
        """Continue from a saved state."""
        read = stored.exact(state, "told", "time", "unit", "fixed", "calls", "began", "gaps")
        self.told = None if read["told"] is None else checks.flag("told", read["told"])
        self.time = checks.real("time", read["time"], -math.inf)
        self.unit = checks.real("unit", read["unit"], 0.0, above=True)
        self.fixed = checks.flag("fixed", read["fixed"])
        self.calls = stored.count("calls", read["calls"])
        if read["began"] is not None:
            self.began = checks.real("began", read["began"], -math.inf, self.time)
        gaps = stored.items("gaps", read["gaps"])
        if len(gaps) > CALLS:
            raise ValueError(f"gaps must be at most {CALLS}, got {len(gaps)}")
        self._gaps = [checks.real("gaps", gap, 0.0, above=True) for gap in gaps]
