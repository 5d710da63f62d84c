"""Experiments in TOML files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from belated.lab.spec import Experiment, from_table, to_table

NUMBERS = re.compile(r"\[\n(?: +[-+.\w]+,\n)+ *\]")
"""An array of plain values, as tomli_w writes it: one value per line."""


def dumps(experiment: Experiment) -> str:
    """The experiment as TOML text. What is not printable is escaped, for terminals."""
    text = NUMBERS.sub(_on_one_line, tomli_w.dumps(to_table(experiment)))
    return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{', '.join(found[0].strip('[]').split())}]".replace(",,", ",").replace(",]", "]")


def loads(text: str, source: str = "the text", directory: Path | None = None) -> Experiment:
    """The experiment in a TOML text. A mistake raises ValueError with one line.

    directory: where the files of recorded delays are, if their paths are relative.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is not TOML that can be read: {error}") from None
    try:
        return from_table(table if directory is None else _located(table, directory))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def read(path: str | Path) -> Experiment:
    """The experiment in a TOML file; paths of recorded delays are relative to it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a readable TOML file: {error}") from None
    return loads(text, str(path), path.parent)


def _located(value: Any, directory: Path) -> Any:
    """The same table, with absolute paths of recorded delays."""
    if isinstance(value, list):
        return [_located(item, directory) for item in value]
    if not isinstance(value, dict):
        return value
    table = {name: _located(item, directory) for name, item in value.items()}
    if table.get("kind") == "trace" and isinstance(table.get("delays"), str):
        table["delays"] = str((directory / table["delays"]).resolve())
    for path, values in table.items():  # of a sweep; a parameter of this name is a file if a text
        if path.endswith(".delays") and isinstance(values, list):
            files = [(directory / v).resolve() if isinstance(v, str) else v for v in values]
            table[path] = [str(file) if isinstance(file, Path) else file for file in files]
    return table
