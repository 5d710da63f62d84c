"""A part of an experiment as data: a kind and its parameters, to and from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from belated import checks


@dataclass(frozen=True, slots=True)
class Part:
    """A kind and its parameters, sorted by name. Lists are tuples, tables are parts."""

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)


def part(kind: str, /, **parameters: Any) -> Part:
    """Make a part from keywords."""
    return Part(kind, tuple(sorted((name, _frozen(value)) for name, value in parameters.items())))


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, Mapping):
        others = {name: item for name, item in value.items() if name != "kind"}
        return part(value.get("kind", ""), **others)
    return value


def read(key: str, value: object) -> Part:
    """Read a part from a table; `registry.check` says whether there is such a part.

    A kind alone stands for a part without parameters. `key` is where the table is in the file.
    """
    if not isinstance(value, Mapping | str):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(value)}")
    made: Part = as_part(_frozen(value))
    return made


def as_part(value: Any) -> Any:
    """A kind alone as a part without parameters, also in a list; anything else unchanged."""
    if isinstance(value, tuple):
        return tuple(map(as_part, value))
    return Part(value) if isinstance(value, str) else value


def table(made: Part) -> dict[str, Any]:
    """The table that describes a part; the inverse of `read`."""
    return {"kind": made.kind, **{name: _plain(value) for name, value in made.parameters}}


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return table(value)
    return tuple(_plain(item) for item in value) if isinstance(value, tuple) else value
