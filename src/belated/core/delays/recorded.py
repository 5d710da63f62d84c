"""Recorded delays: numbers of episodes, or the times of decisions and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.delays.arithmetic import NEVER, as_delays
from belated.core.delays.models import shown

CLOCK = 946_684_800
"""Seconds from 1970 to 2000: in any unit, a clock that counts from 1970 shows at least this."""
PRINTED = 12
"""The number of delays that a long trace prints."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recorded:
    """See `trace`. The delays (K,) are counted in episodes."""

    delays: Ints
    repeat: bool = False

    def __post_init__(self) -> None:
        delays = as_delays("delays", self.delays)
        if len(delays) == 0:
            raise ValueError("delays must hold at least one delay, got none")
        checks.fix(self, "delays", frozen(delays))
        checks.fix(self, "repeat", checks.flag("repeat", self.repeat))

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """The delays of the episodes 0 to K - 1: (K,)."""
        n = checks.integer("episodes", episodes, 0, checks.ROOM)
        if n > len(self.delays) and not self.repeat:
            raise ValueError(
                f"episodes must be at most {len(self.delays)}, the length of the trace "
                f"(or give repeat=True), got {n}"
            )
        return np.resize(self.delays, n)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recorded):
            return NotImplemented
        return self.repeat == other.repeat and np.array_equal(self.delays, other.delays)

    def __hash__(self) -> int:
        return hash((self.delays.tobytes(), self.repeat))

    def __reduce__(self) -> tuple[type[Recorded], tuple[Ints, bool]]:
        return Recorded, (self.delays, self.repeat)  # so that the copy is read-only as well

    def __repr__(self) -> str:
        first = [shown(delay) for delay in self.delays[:PRINTED].tolist()]
        if len(self.delays) > PRINTED:
            first.append(f"... {len(self.delays)} in all")
        repeat = ", repeat=True" if self.repeat else ""
        return f"trace([{', '.join(first)}]{repeat})"


def trace(delays: object, *, repeat: bool = False) -> Recorded:
    """Recorded delays, in their order.

    Args:
        delays: (K,) whole numbers of episodes; NaN, infinity, None or `NEVER` for lost feedback. A
            number of 946684800 or more (the seconds from 1970 to 2000) is refused as a time.
        repeat: whether to start again at the end of the trace; otherwise drawing more delays than
            it holds is an error.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.trace([0, 2, 1]).draw(3, rng)
        array([0, 2, 1])
    """
    found = Recorded(as_delays("delays", delays), repeat)
    times = (found.delays >= CLOCK) & (found.delays != NEVER)
    if times.any():
        raise ValueError(
            f"delays must be numbers of episodes below {CLOCK}, got "
            f"{found.delays[times][0]}, which looks like a time: use from_times(decided, arrived)"
        )
    return found


def from_times(decided: object, arrived: object, *, repeat: bool = False) -> Recorded:
    """Delays in episodes from the times of decisions and of their outcomes.

    Feedback that arrives at time t can be used by the first later decision at time t or after; the
    delay is the number of decisions in between. Feedback that arrives after the last decision is
    counted as arriving right after it.

    Args:
        decided: (K,) the times of the decisions, which do not decrease: numbers in any unit, or
            dates (datetime64, `datetime`, a column of pandas or polars).
        arrived: (K,) the times of the outcomes, of the same kind; NaN, NaT, None or infinity where
            none arrived.
        repeat: whether to start again at the end, as in `trace`.

    Example:
        >>> bl.delays.from_times([0, 10, 20, 50], [35, None, 21, 50])
        trace([2, NEVER, 0, 0])
    """
    times, kind = _times("decided", decided)
    arrivals, other = _times("arrived", arrived)
    if len(arrivals) != len(times):
        raise ValueError(f"arrived must hold {len(times)} times like decided, got {len(arrivals)}")
    if np.isnan(arrivals).all():
        other = kind
    if other != kind:
        raise ValueError(f"arrived must hold {kind} like decided, got {other}")
    if not np.isfinite(times).all():
        raise ValueError(
            f"decided must be finite: a time for every decision, got none in "
            f"decided[{int(np.argmin(np.isfinite(times)))}]"
        )
    if (np.diff(times) < 0).any():
        k = int(np.argmax(np.diff(times) < 0)) + 1
        raise ValueError(f"decided must not decrease (sort by it), got an earlier decided[{k}]")
    if (arrivals < times).any():
        k = int(np.argmax(arrivals < times))
        raise ValueError(f"arrived must not be before decided, got it before in arrived[{k}]")
    lost = ~np.isfinite(arrivals)
    if times[0] >= CLOCK and (arrivals[~lost] > 100 * times[-1]).any():
        raise ValueError(
            "arrived must be in the unit of decided and from the same clock, got "
            f"{np.max(arrivals[~lost]):.12g} where decided ends at {times[-1]:.12g}"
        )
    usable = np.searchsorted(times, np.where(lost, times, arrivals), side="left")
    passed = np.maximum(usable - np.arange(len(times)) - 1, 0)
    return Recorded(np.where(lost, NEVER, passed), repeat)


def _times(name: str, value: object) -> tuple[Floats, str]:
    """Numbers, or dates in seconds, with NaN where there is none; and which of the two."""
    array, kind = np.asarray(value), "dates"
    zoned = {cell.tzinfo is not None for cell in array.flat if _is_date(cell)}
    if zoned:
        if len(zoned) > 1:
            raise ValueError(f"{name} must hold dates that all have a time zone, or all none")
        kind = "dates with a time zone" if zoned == {True} else "dates without a time zone"
        plain = [_without_zone(cell) if _is_date(cell) else None for cell in array.flat]
        array = np.array(plain, dtype="datetime64[us]")
    if array.dtype.kind == "M":
        moments = array.astype("datetime64[us]")
        found = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
    else:
        found, kind = checks.numbers(name, value, "(K,), or dates"), "numbers"
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name} must have shape (K,), got shape {found.shape}")
    return found, kind


def _is_date(cell: object) -> bool:
    return isinstance(cell, datetime) and type(cell).__name__ != "NaTType"


def _without_zone(cell: datetime) -> datetime:
    """The same moment, in UTC if it has a zone."""
    return cell if cell.tzinfo is None else cell.astimezone(UTC).replace(tzinfo=None)
