"""Experiments in TOML files."""

from __future__ import annotations

import re
import tomllib
from functools import partial
from pathlib import Path

import tomli_w

from belated.config.part import File, as_written, located
from belated.lab.spec import Experiment, from_table, to_table

NUMBERS = re.compile(r"\[\n(?: +[-+.\w]+,\n)+ *\]")
"""An array of plain values, as tomli_w writes it: one value per line."""


def dumps(experiment: Experiment, directory: Path | None = None) -> str:
    """The experiment as TOML text. Unprintable characters are escaped, for terminals.

    directory: the directory for the text. Paths of files are then relative to it, with checksums of
    their contents; without it they stay as written.
    """
    show = as_written if directory is None else partial(File.table, directory=directory)
    text = NUMBERS.sub(_on_one_line, tomli_w.dumps(to_table(experiment, show)))
    return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{', '.join(found[0].strip('[]').split())}]".replace(",,", ",").replace(",]", "]")


def loads(text: str, source: str = "the text", directory: Path | None = None) -> Experiment:
    """The experiment in a TOML text. A mistake raises ValueError with one line.

    directory: the base of relative paths of files; by default the current directory.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is not TOML that can be read: {error}") from None
    try:
        return from_table(located(table, directory or Path()))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def read(path: str | Path) -> Experiment:
    """The experiment in a TOML file; paths of files are relative to it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a readable TOML file: {error}") from None
    return loads(text, str(path), path.parent)
