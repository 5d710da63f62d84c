"""Recorded delays: waiting times or times of arrival, in episodes or by the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.delays.arithmetic import NEVER, as_delays
from belated.core.delays.columns import Column, Source
from belated.core.delays.models import LARGEST_DRAW, Independent, shown

SECONDS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""The units of time, in seconds."""
CLOCK = 946_684_800
"""Seconds from 1970 to 2000: in any unit, a clock that counts from 1970 shows at least this."""
SMALLER = 100
"""Times larger than others by this factor are in a smaller unit, or from another clock."""
QUANTILES = (50, 90, 99)
"""The quantiles in the summary, in per cent."""
PRINTED = 12
"""The number of delays that a long trace prints."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recorded(Independent):
    """See `trace`. The delays (K,) are counted in episodes."""

    delays: Ints
    repeat: bool = False
    maker = "trace"

    def __post_init__(self) -> None:
        delays = as_delays("delays", self.delays)
        if len(delays) == 0:
            raise ValueError("delays must hold at least one delay, got none")
        object.__setattr__(self, "delays", frozen(delays))
        object.__setattr__(self, "repeat", checks.flag("repeat", self.repeat))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
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

    def __str__(self) -> str:
        """The number of delays, the share of lost ones, and quantiles of the others."""
        came = self.delays[self.delays != NEVER]
        lost = 1 - len(came) / len(self.delays)
        text = f"{len(self.delays)} recorded delays, {lost:.1%} lost"
        if not len(came):
            return text
        found = np.quantile(came, [q / 100 for q in QUANTILES], method="inverted_cdf")
        quantiles = ", ".join(f"{q} % within {n}" for q, n in zip(QUANTILES, found, strict=True))
        return f"{text}; of the others {quantiles} and all within {came.max()} episodes"


def trace(
    delays: object = None,
    column: str | None = None,
    *,
    decided: object = None,
    arrived: object = None,
    unit: str | None = None,
    rate: float | None = None,
    key: str | None = None,
    repeat: bool = False,
) -> Recorded:
    """Recorded delays, in their order, in one of three layouts.

    - Whole numbers of episodes: `trace(delays)` or `trace(file, column)`.
    - The times of the decision and of the outcome: `decided` and `arrived`.
    - Waiting times: `delays` or `column`, with the times of the decisions (`decided`) or the number
      of decisions per unit of time (`rate`).

    Feedback that arrives at time t can be used by the first later decision at time t or after; the
    delay is the number of decisions in between. Feedback that arrives after the last decision is
    counted as arriving right after it. Nothing is guessed: a column of times is not taken for
    waiting times, times with and without a time zone are not mixed, and numbers beside dates need
    their unit. A waiting time or a number of episodes of 946684800 or more (the seconds from 1970
    to 2000) is refused as a time of the clock; with `unit`, only waiting times of as many seconds.

    Args:
        delays: numbers (K,) or durations, NaN, infinity, None or `NEVER` for lost feedback; or the
            path of a CSV file with a header, or of a Parquet file (which needs polars). Columns of
            pandas and polars are taken as they are, here and below.
        column: the column of the file that holds the waiting times or the numbers of episodes.
            Empty cells, "NA", "null", "never" and the like mean lost feedback.
        decided: the times of the decisions, which do not decrease; or the name of their column.
        arrived: the times of the outcomes; or the name of their column.
        unit: "us", "ms", "s", "min", "h" or "d": the unit of waiting times that are numbers, which
            is needed where the decisions are dates, and of the rate, which is needed where the
            waiting times are durations.
        rate: the number of decisions per unit of time, evenly spaced, instead of `decided`.
        key: a column of the file that tells decisions apart. Rows with the same key are one
            decision, whose first outcome counts; without it every row is a decision.
        repeat: whether to start again at the end of the trace; otherwise drawing more delays than
            it holds is an error.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.trace([0, 2, 1]).draw(3, rng)
        array([0, 2, 1])
    """
    repeat = checks.flag("repeat", repeat)
    path = Path(delays) if isinstance(delays, str | Path) else None
    if path is None:
        for name, given in (("column", column), ("key", key)):
            if given is not None:
                raise ValueError(
                    f"{name} is the name of a column for files only, got an array of delays"
                )
    seconds = None if unit is None else SECONDS[checks.choice("unit", unit, SECONDS)]
    source = Source(path)
    if arrived is not None:
        _exclude(delays=delays if path is None else None, column=column, rate=rate, unit=unit)
        if decided is None:
            raise ValueError("decided must be given where arrived is, got None")
        told = [source.column("decided", decided), source.column("arrived", arrived)]
        return Recorded(_by_arrival(*_once(source, key, told)), repeat)
    waited = source.column("column", column) if path is not None else delays
    if decided is None and rate is None:
        if unit is not None:
            raise ValueError(f"unit needs decided or rate, got unit = {unit!r} alone")
        if not isinstance(waited, Column) and _has_gaps(waited):
            waited = source.column("delays", waited)
        if isinstance(waited, Column):
            (waited,) = _once(source, key, [waited])
            waited = _whole(waited)
        counted = as_delays("delays", waited)
        _check_no_clock(Column("delays", "numbers", None, counted.astype(float)), counted)
        return Recorded(counted, repeat)
    if decided is not None and rate is not None:
        raise ValueError(f"rate must be None where decided is given, got {checks.show(rate)}")
    if not isinstance(waited, Column):
        waited = source.column("delays", waited)
    if decided is None:
        (waited,) = _once(source, key, [waited])
        return Recorded(
            _by_rate(waited, checks.real("rate", rate, 0.0, above=True), seconds), repeat
        )
    times, waited = _once(source, key, [source.column("decided", decided), waited])
    return Recorded(_by_wait(times, waited, seconds), repeat)


def _exclude(**given: object) -> None:
    """Refuse waiting times that are given beside times of arrival."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None where arrived is given (times of arrival, not waiting "
                f"times), got {checks.show(value)}"
            )


def _has_gaps(value: object) -> bool:
    """Whether a list holds other things than numbers, such as None for lost feedback."""
    others = (NoneType, str, timedelta, datetime)
    return isinstance(value, list | tuple) and any(isinstance(item, others) for item in value)


def _whole(column: Column) -> Floats:
    """The numbers of a column of whole numbers of episodes."""
    wrong = np.isfinite(column.values) & (
        (column.values < 0) | (column.values != np.floor(column.values))
    )
    if column.kind in ("times", "durations") or wrong.any():
        k = int(np.argmax(wrong)) if wrong.any() else int(np.argmax(np.isfinite(column.values)))
        found = column.kind if column.kind != "numbers" else f"{column.values[k]:g}"
        what = "the name of a column of " if column.name == "column" else ""
        raise ValueError(
            f"{column.name} must be {what}whole numbers from 0 or 'never' (give decided or rate "
            f"for units of time), got {found} in {column.place(k)}"
        )
    _check_no_clock(column, column.values)
    return column.values


def _check_no_clock(column: Column, counts: Floats | Ints) -> None:
    """Refuse times of a clock where numbers of episodes are expected."""
    wrong = (counts >= CLOCK) & (counts < NEVER)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"{column.name} must hold numbers of episodes below {CLOCK} (or 'never'), got "
            f"{counts[k]:.12g} in {column.place(k)}, which looks like a time: give times of "
            "arrival as arrived, with decided"
        )


def _by_rate(waited: Column, rate: float, seconds: float | None) -> Ints:
    """The delays of waiting times between evenly spaced decisions."""
    waits = _waits(waited, seconds)
    if waited.kind == "durations":
        if seconds is None:
            raise ValueError(f"unit of the rate must be one of {_listed(SECONDS)}, got None")
        waits = waits / seconds
    lost = np.isinf(waits)
    spans = np.minimum(np.where(lost, 0.0, waits) * rate, float(LARGEST_DRAW))
    passed = np.ceil(spans * (1 - 1e-12)) - 1  # a tiny excess over a whole number is rounding
    return np.where(lost, NEVER, np.maximum(passed, 0).astype(np.int64))


def _by_wait(decided: Column, waited: Column, seconds: float | None) -> Ints:
    """The delays of waiting times after decisions at these times."""
    waits, times = _waits(waited, seconds), _times(decided, len(waited.values))
    dates = decided.kind == "times"
    if waited.kind == "durations" and not dates:
        raise ValueError("decided must be dates where the waiting times are durations, got numbers")
    if waited.kind == "numbers" and dates:
        if seconds is None:
            raise ValueError(
                f"unit must be one of {_listed(SECONDS)} where decided are dates and the waiting "
                "times are numbers, got None"
            )
        waits = waits * seconds
    came = waits[np.isfinite(waits)]
    if waited.kind == "numbers" and not dates and len(came) > 1:
        low, high = min(came.min(), times.min()), max(came.max(), times.max())
        if high - low < 0.1 * low and np.all(waits >= times):
            raise ValueError(
                f"{waited.name} must hold waiting times, got numbers from {came.min():g} to "
                f"{came.max():g} like those of decided: give times of arrival as arrived, or let "
                "decided begin at 0"
            )
    return _passed(times, times + waits)


def _by_arrival(decided: Column, arrived: Column) -> Ints:
    """The delays of what arrived at these times after decisions at these times."""
    times = _times(decided, len(arrived.values))
    if arrived.kind == "durations" or (arrived.kind or decided.kind) != decided.kind:
        raise ValueError(
            f"arrived must hold times like decided ({decided.kind}), got {arrived.kind}; "
            "waiting times go into column or delays"
        )
    if arrived.zoned is not None and arrived.zoned != decided.zoned:
        with_zone = ("arrived", "decided")[bool(decided.zoned)]
        raise ValueError(
            f"decided and arrived must both have time zones or neither, got them for {with_zone}"
        )
    came = arrived.values[np.isfinite(arrived.values)]
    if len(came) and times.min() >= CLOCK and came.min() > SMALLER * times.max():
        raise ValueError(
            "arrived must be in the unit of decided and from the same clock, got numbers from "
            f"{came.min():.12g} on, where decided ends at {times.max():.12g}"
        )
    early = arrived.values < times
    if early.any():
        k = int(np.argmax(early))
        raise ValueError(
            f"arrived must not be before decided, got it {times[k] - arrived.values[k]:g} "
            f"{'seconds ' if decided.kind == 'times' else ''}before in {arrived.place(k)} "
            "(waiting times go into column or delays)"
        )
    return _passed(times, arrived.values)


def _passed(times: Floats, arrivals: Floats) -> Ints:
    """The number of decisions between each decision and the first one that can use its feedback."""
    first_after = np.searchsorted(times, arrivals, side="left")
    passed = np.maximum(first_after - np.arange(len(times)) - 1, 0)
    return np.where(np.isinf(arrivals), NEVER, passed)


def _waits(column: Column, seconds: float | None) -> Floats:
    """Waiting times, infinity where no feedback arrived. seconds: of one unit, if it was given."""
    if column.kind == "times":
        raise ValueError(
            f"{column.name} must hold waiting times, got times in "
            f"{column.place(int(np.argmax(np.isfinite(column.values))))}: give times of arrival "
            "as arrived"
        )
    waits = np.where(column.values >= NEVER, np.inf, column.values)
    if np.any(waits < 0):
        k = int(np.argmax(waits < 0))
        raise ValueError(f"{column.name} must be at least 0, got {column.place(k)} = {waits[k]:g}")
    long = np.isfinite(waits) & (waits * (seconds or 1.0) >= CLOCK)
    if column.kind == "numbers" and long.any():
        k = int(np.argmax(long))
        unit = ", or say their unit if it is so small" if seconds is None else ""
        raise ValueError(
            f"{column.name} must hold waiting times below {CLOCK}{' seconds' * bool(seconds)}, got "
            f"{column.place(k)} = {waits[k]:.12g}, which looks like a time: give times of arrival "
            f"as arrived{unit}"
        )
    return waits


def _times(column: Column, length: int) -> Floats:
    """Times of decisions: finite, as many as there are outcomes, never going back."""
    times = column.values
    if column.kind == "durations":
        raise ValueError("decided must hold times, got durations")
    if len(times) != length:
        raise ValueError(f"decided must hold {length} times like delays, got {len(times)}")
    if not np.all(np.isfinite(times)):
        k = int(np.argmax(~np.isfinite(times)))
        raise ValueError(
            f"decided must be finite: a time in every row, got none in {column.place(k)}"
        )
    if np.any(np.diff(times) < 0):
        k = int(np.argmax(np.diff(times) < 0)) + 1
        raise ValueError(
            f"decided must not decrease (sort the records by it), got {column.place(k)} = "
            f"{times[k]:g} after {times[k - 1]:g}"
        )
    return times


def _once(source: Source, key: str | None, columns: list[Column]) -> list[Column]:
    """The columns with one row per key: equal decisions, and the first outcome."""
    if key is None:
        return columns
    rows: dict[object, list[int]] = {}
    for k, cell in enumerate(source.cells("key", key) or []):
        rows.setdefault(cell.strip() if isinstance(cell, str) else cell, []).append(k)
    found = []
    for column in columns:
        if column.name == "decided":
            for value, same in rows.items():
                if len(set(column.values[same])) > 1:
                    raise ValueError(
                        f"decided must be the same in all rows with {key} = {checks.show(value)}, "
                        f"got others in {column.place(same[0])} and {column.place(same[-1])}"
                    )
        least = np.array([np.min(column.values[same]) for same in rows.values()])
        found.append(replace(column, values=least, file="", shift=0))
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
