"""One column of a CSV or Parquet file, as numbers.

Empty cells, "never", "nan" and "inf" (null in Parquet) are infinity: nothing came. Dates
with times, as ISO 8601 text or as Parquet timestamps are seconds since 1970, durations are seconds.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from belated import checks
from belated.arrays import Floats

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the cells of a column may be, and the argument that chose the column."""

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
    """The numbers of a column, one per row; infinity where a cell is empty.

    column: its name; None where the file has only one.
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
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"delays must be a readable CSV file, got {path}: {error}") from None
    column = _chosen(name, column, [key for key in rows[0] if key] if rows else [])
    return [(row[column], f"line {line}") for line, row in enumerate(rows, start=2)]


def _parquet(path: Path, column: str | None, name: str) -> list[tuple[object, str]]:
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
    """A cell as a number, None where it is none."""
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
    text = text.strip()
    if text.lower() in ("", "never"):
        return None
    for parse in (float, datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
