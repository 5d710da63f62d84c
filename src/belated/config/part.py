"""A part of an experiment as data: a kind and its parameters, to and from tables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated.config import file, user_code
from belated.config.file import File
from belated.core import checks


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

    def replaced(self, name: str, value: Any) -> Part:
        """The part with another value of a parameter."""
        values = {**self.values, name: _parameter(self.kind, name, value)}
        return Part(self.kind, tuple(sorted(values.items())), self.function)


def part(kind: str | Callable[..., Any], /, **parameters: Any) -> Part:
    """Make a part from a kind, or from a function of your own, and its parameters."""
    given = tuple((name, _parameter(kind, name, parameters[name])) for name in sorted(parameters))
    if not callable(kind):
        return Part(kind, given)
    name = user_code.named(kind)
    return Part(name, given, kind if user_code.is_session(name) else None)


def _parameter(kind: object, name: str, value: Any) -> Any:
    """A parameter of a kind in the form that parts store; a path to be read becomes a file."""
    if file.is_parameter(kind, name) and file.is_path(value):
        return File.at(value)
    return frozen(value)


def frozen(value: Any) -> Any:
    """A value in stored form: lists become tuples, tables parts or files, functions parts."""
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return frozen(value.tolist())
    if file.is_table(value):
        return file.from_table(value)
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


def parts_in(value: Any) -> list[Part]:
    """A part and all parts inside it, or all parts in a list."""
    if isinstance(value, tuple):
        return [found for item in value for found in parts_in(item)]
    if not isinstance(value, Part):
        return []
    return [value, *(found for _, item in value.parameters for found in parts_in(item))]


def table(made: Part, show: Callable[[File], Any] = file.as_written) -> dict[str, Any]:
    """The table that describes a part; the inverse of `read`. show: see `plain`."""
    return {"kind": made.kind, **{name: plain(value, show) for name, value in made.parameters}}


def plain(value: Any, show: Callable[[File], Any] = file.as_written) -> Any:
    """A parameter in the form of a specification; the inverse of `frozen`.

    show: the representation of a file, by default its path as written.
    """
    if isinstance(value, Part):
        return table(value, show)
    if isinstance(value, File):
        return show(value)
    return tuple(plain(item, show) for item in value) if isinstance(value, tuple) else value


def files(value: Any) -> list[File]:
    """All files that an experiment, or a part of it, names."""
    if isinstance(value, File):
        return [value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = tuple(getattr(value, each.name) for each in dataclasses.fields(value))
    return [one for item in value for one in files(item)] if isinstance(value, tuple) else []


def shown(value: Any) -> str:
    """A parameter as text in a name: 0.1, bonus, geometric (mean = 5); a file by its name."""
    if isinstance(value, Part):
        inner = ", ".join(f"{name} = {shown(item)}" for name, item in value.parameters)
        kind = user_code.brief(value.kind)
        return f"{kind} ({inner})" if inner else kind
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, File):
        return value.name
    if isinstance(value, str) and os.path.isabs(value):
        return os.path.basename(value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)
