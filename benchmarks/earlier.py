"""Measured numbers as text for tables and as values in a file, to be compared with later ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

FORMAT = 1


class Measured(str):
    """A number with a unit, printed as in a table."""

    value: float
    unit: str

    def __new__(cls, text: str, value: float, unit: str) -> Self:
        """The text of a cell and the number behind it."""
        made = super().__new__(cls, text)
        made.value = float(value)
        made.unit = unit
        return made


def duration(seconds: float) -> Measured:
    """Seconds, printed in the unit that fits."""
    if seconds < 1e-3:
        text = f"{seconds * 1e6:.0f} us"
    elif seconds < 100.0:
        text = f"{seconds * 1e3:.1f} ms"
    else:
        text = f"{seconds:.0f} s"
    return Measured(text, seconds, "s")


def whole_seconds(seconds: float) -> Measured:
    """Seconds with two digits after the point."""
    return Measured(f"{seconds:.2f} s", seconds, "s")


def memory(megabytes: float) -> Measured:
    """Megabytes."""
    return Measured(f"{megabytes:.0f} MB", megabytes, "MB")


def measured(
    section: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> dict[str, dict[str, Any]]:
    """The measured cells of a table by name: section, what the row begins with, column."""
    found = {}
    for row in rows:
        labels = []
        for cell in row:
            if isinstance(cell, Measured):
                break
            labels.append(str(cell))
        for column, cell in zip(header, row, strict=True):
            if isinstance(cell, Measured):
                name = " | ".join([section, *labels, column])
                if name in found:
                    raise ValueError(f"two cells are named {name!r}")
                found[name] = {"value": cell.value, "unit": cell.unit}
    return found


def save(path: Path, versions: Mapping[str, str], cells: Mapping[str, Mapping[str, Any]]) -> None:
    """Write measured cells to a file."""
    content = {"format": FORMAT, "versions": versions, "cells": cells}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Versions and cells of a file that `save` wrote; ValueError says what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = content["format"] == FORMAT
        versions, cells = content["versions"], content["cells"]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} must be a file written by --save") from None
    if not known:
        raise ValueError(f"{path} must have format {FORMAT}, got {content['format']!r}")
    return versions, cells


def compare(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """A Markdown table, one line per cell: before, now, and now / before.

    A cell that only one side has is listed with a dash. Cells of sections that were not measured
    now are left out.
    """
    sections = {name.split(" | ")[0] for name in now}
    names = [*now, *(n for n in before if n not in now and n.split(" | ")[0] in sections)]
    lines = ["| measured | before | now | now / before |", "|---|---|---|---|"]
    for name in names:
        old, new = before.get(name), now.get(name)
        ratio = "-"
        if old and new and old["unit"] == new["unit"] and old["value"] > 0.0:
            ratio = f"{new['value'] / old['value']:.2f}"
        lines.append(f"| {name.replace(' | ', ', ')} | {_text(old)} | {_text(new)} | {ratio} |")
    return lines


def _text(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "-"
    if cell["unit"] == "MB":
        return str(memory(cell["value"]))
    return str(duration(cell["value"])) if cell["unit"] == "s" else f"{cell['value']:g}"
