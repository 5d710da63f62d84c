"""A part of an experiment as data: a kind and its parameters, to and from tables.

A kind is a name, or `module:function` for a function of your own. A function that cannot be
imported (of a script, a notebook cell, or inside another function) also has a fingerprint, such as
`__main__:agent#3f2a91c04b`, so that results of an older version of it are not mistaken for those of
the new one. The fingerprint covers the text of the function, its plain defaults and its closure,
but not the functions that it calls.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from belated.core import checks

MARK = "#"
FILE = {"file", "sha256"}
"""The keys of a table that describes a file."""


@dataclass(frozen=True, slots=True)
class Part:
    """A kind and its parameters, sorted by name. Lists are tuples, tables are parts or files.

    function: the function of the kind, if it was given as a function that cannot be imported.
    """

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)

    @property
    def own(self) -> bool:
        """Whether the kind is a `module:function`."""
        return ":" in str(self.kind)

    def replaced(self, name: str, value: Any) -> Part:
        """The part with another value of a parameter."""
        values = {**self.values, name: frozen(value)}
        return Part(self.kind, tuple(sorted(values.items())), self.function)


@dataclass(frozen=True, slots=True)
class File:
    """A file that a part reads. Files are equal if their contents are, wherever they are.

    Attributes:
        written: its path as it was given.
        path: the absolute path.
        content: the SHA-256 of the content; the path of a file that cannot be read.
    """

    written: str = field(compare=False)
    path: Path = field(compare=False)
    content: str

    def table(self, directory: Path | None = None) -> dict[str, str]:
        """Its table, as it was given; or with its checksum, in a file in this directory."""
        if directory is None:
            return {"file": self.written}
        path = self.written
        if not os.path.isabs(path):
            path = Path(os.path.relpath(self.path, directory.resolve())).as_posix()
        known = {} if self.content == str(self.path) else {"sha256": self.content}
        return {"file": path, **known}

    def checked(self, key: str) -> Path:
        """Its absolute path, if the content is unchanged. key: for the message."""
        if _digest(self.path) not in (str(self.path), self.content):
            raise ValueError(
                f"{key} must be the file with sha256 {self.content[:12]}..., got {self.path} with "
                "another content"
            )
        return self.path


Shown = Callable[[File], Any]


def file_at(given: Mapping[str, Any], directory: Path) -> File:
    """The file of a table { file = ... }, with a path that is relative to the directory."""
    written, sha256 = given["file"], str(given.get("sha256", ""))
    if not isinstance(written, str | Path):
        raise ValueError(f"file must be a path, got {checks.show(written)}")
    if not re.fullmatch("([0-9a-f]{64})?", sha256):
        raise ValueError(f"sha256 must be 64 letters from 0 to f, got {checks.show(sha256)}")
    path = directory.resolve() / written
    return File(str(written), path, sha256 or _digest(path))


def _digest(path: Path) -> str:
    """The checksum of a file; its path if there is none. Pipes and devices are not read."""
    if os.path.isfile(path):
        with contextlib.suppress(OSError), path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return str(path)


def located(value: Any, directory: Path) -> Any:
    """The same value, with files in place of their tables; paths are relative to the directory."""
    if isinstance(value, list):
        return [located(item, directory) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "file" in value and FILE.issuperset(value):
        return file_at(value, directory)
    return {name: located(item, directory) for name, item in value.items()}


def part(kind: str | Callable[..., Any], /, **parameters: Any) -> Part:
    """Make a part from a kind, or from a function of your own, and its parameters."""
    given = tuple((name, frozen(value)) for name, value in sorted(parameters.items()))
    if not callable(kind):
        return Part(kind, given)
    name = function_name(kind)
    return Part(name, given, kind if MARK in name else None)


def frozen(value: Any) -> Any:
    """A value in stored form: lists become tuples, tables parts or files, functions parts."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        value = located(value, Path())
    if isinstance(value, Mapping):
        others = {name: item for name, item in value.items() if name != "kind"}
        return part(value.get("kind", ""), **others)
    return part(value) if callable(value) else value


def read(key: str, value: object) -> Part:
    """Read a part from a table; `registry.check` checks that there is such a part.

    A kind alone, or a function, is a part without parameters. `key` is the place of the table in
    the file.
    """
    made = as_part(value if isinstance(value, Part) else frozen(value))
    if not isinstance(made, Part):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(value)}")
    return made


def as_part(value: Any) -> Any:
    """Turn a kind alone into a part without parameters, also in a list; keep anything else."""
    if isinstance(value, tuple):
        return tuple(map(as_part, value))
    return Part(value) if isinstance(value, str) else value


def table(made: Part, show: Shown = File.table) -> dict[str, Any]:
    """The table that describes a part; the inverse of `read`. show: see `plain`."""
    return {"kind": made.kind, **{name: plain(value, show) for name, value in made.parameters}}


def plain(value: Any, show: Shown = File.table) -> Any:
    """A parameter in the form of a specification; the inverse of `frozen`.

    show: the representation of a file, by default its path as written.
    """
    if isinstance(value, Part):
        return table(value, show)
    if isinstance(value, File):
        return show(value)
    return tuple(plain(item, show) for item in value) if isinstance(value, tuple) else value


def shown(value: Any) -> str:
    """A parameter as text in a name: 0.1, bonus, geometric (mean = 5); a file by its name."""
    if isinstance(value, Part):
        inner = ", ".join(f"{name} = {shown(item)}" for name, item in value.parameters)
        kind = value.kind.partition(MARK)[0].rpartition(":")[2].rpartition(".")[2]
        kind = "of a function" if kind == "<lambda>" else kind
        return f"{kind} ({inner})" if inner else kind
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, File):
        return value.path.name
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def function_name(function: Callable[..., Any]) -> str:
    """The kind of a function."""
    module = getattr(function, "__module__", None) or "__main__"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if module != "__main__" and "." not in name:
        with contextlib.suppress(Exception):  # importing runs code that may raise anything
            if getattr(importlib.import_module(module), name, None) is function:
                return f"{module}:{name}"
    return f"{module}:{name}{MARK}{_fingerprint(function)}"


def _fingerprint(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    text = repr((code.co_code, code.co_names)) if code else type(function).__qualname__
    with contextlib.suppress(OSError, TypeError):
        text = inspect.getsource(function)
    values = [*(getattr(function, "__defaults__", None) or ())]
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not assigned yet
            values.append(cell.cell_contents)
    values += sorted((getattr(function, "__kwdefaults__", None) or {}).items())
    simple = (int, float, str, tuple, type(None))
    plain = [repr(value) for value in values if isinstance(value, simple)]
    return hashlib.sha256("\n".join([text, *plain]).encode()).hexdigest()[:10]
