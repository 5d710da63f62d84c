"""Columns of recorded numbers, times or durations: from files, data frames, arrays and lists.

All values of a column are of one kind, and nothing is converted by a guess. Times are dates with or
without a time of day (ISO 8601 text, `datetime`, datetime64, Timestamp); durations are `timedelta`
and similar types. Both become seconds. Empty cells, NA, N/A, NaN, NaT, None, null, never and
infinity mean that no feedback arrived, and become infinity.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Literal

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats

PARQUET = (".parquet", ".pq")
NOTHING = {"", "na", "n/a", "nan", "nat", "none", "null", "never", "inf", "infinity"}
"""Spellings of an empty cell, in any letter case."""
Kind = Literal["numbers", "times", "durations"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column that was read.

    Attributes:
        name: the argument that it was passed as.
        kind: what it holds; None if every cell is empty.
        zoned: whether its times have time zones; None if it holds no times.
        values: (K,) numbers, or seconds; infinity for empty cells.
        file: the name of the file; empty if there is no file.
        shift: the number that messages give the first row.
    """

    name: str
    kind: Kind | None
    zoned: bool | None
    values: Floats
    file: str = ""
    shift: int = 0

    def place(self, k: int) -> str:
        """The place of entry k in the source, for messages."""
        if not self.file:
            return f"{self.name}[{k}]"
        word = "line" if self.shift else "row"
        return f"{word} {k + self.shift} of {self.file}"


class Source:
    """Where columns come from: a file with named columns, or the arguments alone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._table = None if path is None else _parquet(path) if _is_parquet(path) else _csv(path)

    def cells(self, name: str, value: object) -> list[object] | None:
        """The cells of a column of the file; None if there is no file."""
        if self._table is None:
            return None
        names = list(self._table)
        chosen = names[0] if value is None and len(names) == 1 else value
        if chosen is None:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, names))}, that of the waiting times, "
                "or arrived that of the times of arrival, got None"
            )
        return self._table[checks.choice(name, chosen, names)]

    def column(self, name: str, value: object) -> Column:
        """The column that an argument names, or the argument itself as a column."""
        cells = self.cells(name, value) if isinstance(value, str | None) else None
        if cells is not None:
            assert self._path is not None
            shift = 0 if _is_parquet(self._path) else 2
            return _read(name, cells, self._path.name, shift)
        if isinstance(value, str):
            raise ValueError(
                f"{name} is the name of a column for files only, got an array of delays"
            )
        return _given(name, value)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET


def _given(name: str, value: object) -> Column:
    """A column given as an array, a list, or a column of a data frame."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        value = value.astype(f"{value.dtype.kind}8[us]")
    listed = getattr(value, "to_list", None) or getattr(value, "tolist", None)
    cells = listed() if callable(listed) else value
    numeric = isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
    if numeric or not isinstance(cells, list | tuple) or not len(cells):
        numbers = checks.floats(name, value, "(K,)", (1,))
        return Column(name, "numbers", None, np.where(np.isnan(numbers), np.inf, numbers))
    return _read(name, list(cells), "", 0)


def _read(name: str, cells: list[object], file: str, shift: int) -> Column:
    """The cells as numbers; all must be of one kind, and times all with or all without zones."""
    kinds: dict[tuple[Kind, bool | None], int] = {}
    values = np.empty(len(cells))
    for k, cell in enumerate(cells):
        kind, zoned, values[k] = _value(cell)
        if kind is None and values[k] != math.inf:
            where = Column(name, None, None, values, file, shift).place(k)
            raise ValueError(
                f"{name} must hold numbers, times or durations, got {checks.show(cell)} in {where}"
            )
        if kind is not None:
            kinds.setdefault((kind, zoned), k)
    made = Column(name, None, None, values, file, shift)
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        words = [_words(*first), _words(*second)]
        raise ValueError(
            f"{name} must hold one kind of thing, got {words[0]} in {made.place(one)} and "
            f"{words[1]} in {made.place(other)}"
        )
    kind, zoned = next(iter(kinds), (None, None))
    return Column(name, kind, zoned, values, file, shift)


def _words(kind: Kind, zoned: bool | None) -> str:
    return kind if zoned is None else f"times with{'' if zoned else 'out'} a time zone"


def _value(cell: object) -> tuple[Kind | None, bool | None, float]:
    """The kind of a cell, whether its time has a zone, and its number.

    The kind is None for an empty cell, whose number is infinity, and for one that cannot be read,
    whose number is NaN.
    """
    value = _parsed(cell.strip()) if isinstance(cell, str) else cell
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None, None, math.inf
    if isinstance(value, datetime):
        zoned = value.tzinfo is not None
        return "times", zoned, (value if zoned else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return "times", False, datetime.combine(value, time(), UTC).timestamp()
    if isinstance(value, timedelta):
        return "durations", None, value.total_seconds()
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return None, None, math.nan
    number = float(value)
    if math.isnan(number) or number == math.inf:
        return None, None, math.inf
    return "numbers", None, number


def _parsed(text: str) -> object:
    """The text of a cell as a number or a time, None for nothing, else the text."""
    if text.lower() in NOTHING:
        return None
    for parse in (float, datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def _missing(path: Path) -> ValueError:
    return ValueError(f"delays must be a readable file, got {path}, which is missing")


def _csv(path: Path) -> dict[str, list[object]]:
    """The columns of a CSV file with a header, without its byte order mark."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            names = [name for name in reader.fieldnames or [] if name]
            rows = list(reader)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"delays must be a readable CSV file, got {path}: {error}") from None
    if not names:
        raise ValueError(f"delays must be a CSV file with a header, got {path}, which is empty")
    for k, row in enumerate(rows):
        if None in row or None in row.values():  # more, or fewer
            raise ValueError(
                "delays must be a CSV file with as many cells in every row as in its header, got "
                f"another number in line {k + 2} of {path.name}"
            )
    return {name: [row[name] for row in rows] for name in names}


def _parquet(path: Path) -> dict[str, list[object]]:
    """The columns of a Parquet file."""
    try:
        import polars  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"reading {path.name} needs polars: pip install polars") from None
    try:
        frame = polars.read_parquet(path)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"delays must be a readable Parquet file, got {path}: {reason}") from None
    return {name: frame[name].to_list() for name in frame.columns}
