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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated.core import checks

MARK = "#"


@dataclass(frozen=True, slots=True)
class Part:
    """A kind and its parameters, sorted by name. Lists are tuples, and tables are parts.

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


def part(kind: str | Callable[..., Any], /, **parameters: Any) -> Part:
    """Make a part from a kind, or from a function of your own, and its parameters."""
    given = tuple((name, frozen(value)) for name, value in sorted(parameters.items()))
    if not callable(kind):
        return Part(kind, given)
    name = function_name(kind)
    return Part(name, given, kind if MARK in name else None)


def frozen(value: Any) -> Any:
    """A value in stored form: lists become tuples, tables and functions parts."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        others = {name: item for name, item in value.items() if name != "kind"}
        return part(value.get("kind", ""), **others)
    return part(value) if callable(value) else value


def read(key: str, value: object) -> Part:
    """Read a part from a table; `registry.check` checks that there is such a part.

    A kind alone, or a function, is a part without parameters. `key` is the place of the table in
    the file.
    """
    made = as_part(frozen(value))
    if not isinstance(made, Part):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(value)}")
    return made


def as_part(value: Any) -> Any:
    """Turn a kind alone into a part without parameters, also in a list; keep anything else."""
    if isinstance(value, tuple):
        return tuple(map(as_part, value))
    return Part(value) if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """A part or a parameter in the form of a specification; the inverse of `frozen`."""
    if isinstance(value, Part):
        return {"kind": value.kind, **{name: plain(item) for name, item in value.parameters}}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def shown(value: Any) -> str:
    """A parameter as text in a name: 0.1, bonus, geometric (mean = 5)."""
    if isinstance(value, Part):
        inner = ", ".join(f"{name} = {shown(item)}" for name, item in value.parameters)
        kind = value.kind.partition(MARK)[0].rpartition(":")[2].rpartition(".")[2]
        kind = "of a function" if kind == "<lambda>" else kind
        return f"{kind} ({inner})" if inner else kind
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, bool):
        return str(value).lower()
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
