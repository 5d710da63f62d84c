"""Recorded delays: from an array, or from a column of a CSV or Parquet file."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from belated import checks
from belated.arrays import Floats, Ints, frozen
from belated.delays.arithmetic import NEVER, as_delays
from belated.delays.models import LARGEST_DRAW, Independent, shown

PARQUET = (".parquet", ".pq")
PRINTED = 12
"""A longer trace prints only its first delays."""


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


def trace(
    delays: object,
    column: str | None = None,
    *,
    decided: object = None,
    rate: float | None = None,
    repeat: bool = False,
) -> Recorded:
    """Delays are those of a record, in its order. They are counted in episodes or in time.

    Without `decided` and `rate`, the delays are whole numbers of episodes.

    With one of them, the delays are waiting times. Feedback on a decision made at time t that
    waits w can be used by the first later decision at time t + w or after; the delay is the number
    of decisions in between. Feedback that arrives after the last decision is counted as arriving
    right after it.

    Args:
        delays: numbers (K,), with `NEVER`, NaN or infinity for lost feedback; or the path of a CSV
            file with a header, or of a Parquet file (which needs polars).
        column: the column of the file. Empty cells, "never", "nan", "inf" and null mean lost
            feedback. Durations are read as seconds.
        decided: the times of the decisions, (K,) numbers that do not decrease, in the unit of the
            delays; or the name of a column of the file. Dates with times are read as seconds.
        rate: the number of decisions per unit of time, evenly spaced, instead of `decided`.
        repeat: whether to start again at the end of the trace; otherwise drawing more delays than
            it holds is an error.
    """
    repeat = checks.flag("repeat", repeat)
    path = Path(delays) if isinstance(delays, str | Path) else None
    if path is None and (column is not None or isinstance(decided, str)):
        name = "column" if column is not None else "decided"
        raise ValueError(f"{name} is the name of a column for files only, got an array of delays")
    timed = decided is not None or rate is not None
    if path is not None:
        if isinstance(decided, str):
            decided = read_column(path, decided, TIMES)
        delays = read_column(path, column, DURATIONS if timed else EPISODES)
    if decided is not None and rate is not None:
        raise ValueError(f"rate must be None where decided is given, got {checks.show(rate)}")
    recorded = _in_episodes(delays, decided, rate) if timed else as_delays("delays", delays)
    return Recorded(recorded, repeat)


def _in_episodes(delays: object, decided: object, rate: float | None) -> Ints:
    """Convert waiting times to numbers of decisions; see `trace`."""
    waits = checks.floats("delays", delays, "(K,)", (1,))
    waits = np.where(np.isnan(waits) | (waits >= NEVER), np.inf, waits)
    if np.any(waits < 0):
        k = int(np.argmax(waits < 0))
        raise ValueError(f"delays must be at least 0, got delays[{k}] = {waits[k]:g}")
    lost = np.isinf(waits)
    waits = np.where(lost, 0.0, waits)
    if decided is None:
        spans = waits * checks.real("rate", rate, 0.0, above=True)
        spans = np.minimum(spans, float(LARGEST_DRAW))
        passed = np.ceil(spans * (1 - 1e-12)) - 1  # a tiny excess over a whole number is rounding
        return np.where(lost, NEVER, np.maximum(passed, 0).astype(np.int64))
    times = checks.floats("decided", decided, "(K,)", (1,))
    if times.shape != waits.shape:
        raise ValueError(f"decided must hold {len(waits)} times like delays, got {len(times)}")
    if not np.all(np.isfinite(times)):
        k = int(np.argmax(~np.isfinite(times)))
        raise ValueError(f"decided must be finite, got decided[{k}] = {times[k]}")
    if np.any(np.diff(times) < 0):
        k = int(np.argmax(np.diff(times) < 0)) + 1
        raise ValueError(
            f"decided must not decrease, got decided[{k}] = {times[k]:g} after {times[k - 1]:g}"
        )
    first_after = np.searchsorted(times, times + waits, side="left")
    passed = np.maximum(first_after - np.arange(len(times)) - 1, 0)
    return np.where(lost, NEVER, passed)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the cells of a column may hold, and the argument that names the column."""

    name: str
    words: str
    test: Callable[[float], bool]


EPISODES = Allowed(
    "column",
    "whole numbers from 0 or 'never' (give decided or rate for units of time)",
    lambda x: x == math.inf or (x >= 0 and x == math.floor(x)),
)
DURATIONS = Allowed("column", "durations of at least 0 or 'never'", lambda x: x >= 0)
TIMES = Allowed("decided", "numbers or dates with times", math.isfinite)


def read_column(path: Path, column: str | None, allowed: Allowed) -> Floats:
    """Read one column of a CSV or Parquet file as numbers, one per row.

    Empty cells, "never", "nan", "inf" and null become infinity. Dates with times (ISO 8601 text or
    Parquet timestamps) become seconds since 1970, and durations become seconds.

    Args:
        path: the file.
        column: the name of the column; None if the file has only one.
        allowed: what the cells may hold.
    """
    read = _parquet if path.suffix.lower() in PARQUET else _csv
    found = []
    for cell, where in read(path, column, allowed.name):
        number = _number(cell)
        if number is None or not allowed.test(number):
            raise ValueError(
                f"{allowed.name} must be the name of a column of {allowed.words}, "
                f"got {checks.show(cell)} in {where} of {path.name}"
            )
        found.append(number)
    return np.array(found, dtype=np.float64)


def _csv(path: Path, column: str | None, name: str) -> list[tuple[object, str]]:
    """The cells of a column of a CSV file, each with its place."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"delays must be a readable CSV file, got {path}: {error}") from None
    column = _chosen(name, column, [key for key in rows[0] if key] if rows else [])
    return [(row[column], f"line {line}") for line, row in enumerate(rows, start=2)]


def _parquet(path: Path, column: str | None, name: str) -> list[tuple[object, str]]:
    """The cells of a column of a Parquet file, each with its place."""
    try:
        import polars  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"reading {path.name} needs polars: pip install polars") from None
    try:
        frame = polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"delays must be a readable Parquet file, got {path}: {reason}") from None
    cells = frame[_chosen(name, column, frame.columns)].to_list()
    return [(cell, f"row {row}") for row, cell in enumerate(cells)]


def _chosen(name: str, column: str | None, names: list[str]) -> str:
    if column is None and len(names) == 1:
        return names[0]
    return checks.choice(name, column, names)


def _number(cell: object) -> float | None:
    """A cell as a number, or None if it is not one."""
    value = _parsed(cell) if isinstance(cell, str) else cell
    if value is None:
        return math.inf
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return math.inf if math.isnan(value) else float(value)


def _parsed(text: str) -> object:
    """The text of a cell as a number or a date, None for a lost record, else the text."""
    text = text.strip()
    if text.lower() in ("", "never"):
        return None
    for parse in (float, datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
