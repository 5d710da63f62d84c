"""Parts of an experiment as data, and registries of kinds that check and build them.

A part is a kind and its parameters. Only here do strings become functions.

A kind is a name, or `module:function` for a function of your own. A function that cannot be
imported (of a script, a notebook cell, or inside another function) also has a fingerprint, such as
`__main__:agent#3f2a91c04b`, so that results of an older version of it are not mistaken for those of
the new one. The fingerprint covers the text of the function, its plain defaults and its closure,
but not the functions that it calls.
"""

import contextlib
import hashlib
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter
from typing import Any, Self, TypeVar

import numpy as np

from belated.core import checks
from belated.core.tree import parameters

MARK = "#"
Maker = Callable[..., Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Part:
    """A kind and its parameters, sorted by name. Lists are tuples, and tables are parts.

    function: the function of the kind, if it was given as a function that cannot be imported.
    """

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    function: Maker | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)

    @property
    def own(self) -> bool:
        """Whether the kind is a function of a module, with a colon in its name."""
        return ":" in str(self.kind)

    def replaced(self, name: str, value: Any) -> Self:
        """The part with another value of a parameter."""
        values = {**self.values, name: frozen(value)}
        return replace(self, parameters=tuple(sorted(values.items())))


def part(kind: str | Maker, /, **parameters: Any) -> Part:
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
        parameters = dict(value)
        return part(parameters.pop("kind", ""), **parameters)
    return part(value) if callable(value) else value


def plain(value: Any) -> Any:
    """A parameter in the form of a file; a part without parameters is its kind alone."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, Part):
        return table(value) if value.parameters else value.kind
    return value


def table(made: Part) -> dict[str, Any]:
    """The table that describes a part; the inverse of `frozen`."""
    return {"kind": made.kind, **{name: plain(item) for name, item in made.parameters}}


def function_name(function: Maker) -> str:
    """The kind of a function."""
    module = getattr(function, "__module__", None) or "__main__"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is function:
        return f"{module}:{name}"
    return f"{module}:{name}{MARK}{_fingerprint(function)}"


def _fingerprint(function: Maker) -> str:
    told = [str(getattr(getattr(function, "__code__", None), "co_code", type(function)))]
    with contextlib.suppress(OSError, TypeError):  # typed in a shell, or not a function
        told = [inspect.getsource(function)]
    with contextlib.suppress(ValueError, TypeError):  # a closure not assigned yet, or no function
        values = [each.default for each in parameters(function)]
        values += inspect.getclosurevars(function).nonlocals.values()
        told += [repr(v) for v in values if isinstance(v, int | float | str | tuple | None)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """The kinds of one sort of part.

    Attributes:
        kinds: the function of each name. The objects that the lab passes are its positional-only
            arguments.
        others: the registries of the parameters that are parts.
        waits: whether parts inside are passed as an `Inner` instead of being built first.
    """

    kinds: dict[str, Maker]
    others: dict[str, "Registry"] = field(default_factory=dict)
    waits: bool = False


def by_name(*makers: Maker) -> dict[str, Maker]:
    """Functions as kinds, by their names."""
    return {maker.__name__: maker for maker in makers}


def read(key: str, given: object, registry: Registry | None) -> Part:
    """Read and check a part at a place of a file: a table, a kind alone or a function.

    Its parameters that are parts are read in the same way. A `module:function` is not imported
    here, so that results can be read without it. registry: None where a part is not allowed.
    """
    made = frozen(given)
    if registry is None:
        raise ValueError(f"{key} must be a plain value, got {checks.show(made)}")
    made = Part(made) if isinstance(made, str) else made
    if not isinstance(made, Part):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(made)}")
    if made.kind == "":
        raise ValueError(f"{join(key, 'kind')} is required: one of {checks.quoted(registry.kinds)}")
    if not made.own:
        checks.choice(join(key, "kind"), made.kind, registry.kinds)
        filled(key, made.values, registry.kinds[made.kind], f"kind {made.kind!r}")
    return Part(made.kind, tuple(inside(key, made, registry, read).items()), made.function)


def inside(key: str, made: Part, registry: Registry, each: Maker) -> dict[str, Any]:
    """The parameters of a part by name, with what `each` makes of every part in them.

    Of a `module:function` any table is a part, and any text a plain value. each: a function of the
    key of a part, the part, and its registry.
    """

    def changed(key: str, value: Any, kinds: Registry | None) -> Any:
        if isinstance(value, tuple):
            return tuple(changed(f"{key}[{i}]", item, kinds) for i, item in enumerate(value))
        if isinstance(value, Part) or not (kinds is None or made.own or value is None):
            return each(key, value, kinds)
        return value

    same = registry if made.own else None
    return {
        name: changed(join(key, name), value, registry.others.get(name, same))
        for name, value in made.parameters
    }


def join(key: str, name: str) -> str:
    """The key of a parameter of the part with this key; an agent of a file has none."""
    return f"{key}.{name}" if key else name


def filled(
    key: str, given: Mapping[str, Any], maker: Maker, taker: str, handed: int = 0
) -> dict[str, Any]:
    """The arguments of a function by name: defaults, and those given, whose names are checked.

    key: the place of the table in a file. taker: for messages. handed: see `accepted`.
    """
    allowed = accepted(maker, handed)
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters(maker))
    for name, value in given.items():
        if name not in allowed and not any_name:
            takes = f"{taker} takes {checks.quoted(allowed) or 'no parameters'}"
            near = checks.nearest(name, allowed)
            raise ValueError(
                f"{join(key, name)} = {checks.show(value)}: unknown key; {takes}{near}"
            )
    found = {name: parameter.default for name, parameter in allowed.items()} | dict(given)
    for name, value in found.items():
        if value is Parameter.empty:
            raise ValueError(f"{join(key, name)} is required for {taker}")
    return found


def accepted(maker: Maker, handed: int = 0) -> dict[str, Parameter]:
    """The parameters that a file may give, by name.

    The arguments that the lab passes are left out: positional-only ones, and the first `handed`.
    """
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {p.name: p for p in parameters(maker)[handed:] if p.kind in named}


def with_defaults(made: Part, registry: Registry) -> Part:
    """The part with the defaults of its kind; a function of a module is not imported for them."""
    if made.own:
        return made
    values = filled("", made.values, registry.kinds[made.kind], f"kind {made.kind!r}")
    return Part(made.kind, tuple(values.items()))


def structured(key: str, kind: type[Made], taker: str, given: object) -> Made:
    """A dataclass from the table at a place of a file. taker: what it is, for messages."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{key} must be a table, got {checks.show(given)}")
    filled(key, given, kind, taker)
    try:
        return kind(**given)
    except (ValueError, TypeError) as error:
        raise ValueError(join(key, str(error))) from None


class PartError(ValueError):
    """A part could not be made; the message starts with its key in the file."""


def make(key: str, given: object, registry: Registry, *told: Any) -> Any:
    """Read a part, and call its function with the given objects and the part's parameters.

    Parts inside are made first, or passed as an `Inner` if the registry waits. Errors begin with
    the key.
    """
    return Inner(key, read(key, given, registry), registry)(*told)


@dataclass(frozen=True, slots=True)
class Inner:
    """A part as a function of the objects that the lab passes, such as a `RunBrief`."""

    key: str
    part: Part
    registry: Registry

    def __call__(self, *told: Any) -> Any:
        """Make the object that the part describes."""
        made, kinds = self.part, self.registry.kinds
        maker = made.function or kinds.get(made.kind)
        maker = maker or imported(f"{self.key}.kind", made.kind, kinds)
        found = filled(self.key, made.values, maker, f"kind {made.kind!r}", len(told))

        def each(key: str, part: Part, registry: Registry) -> Any:
            inner = Inner(key, part, registry)
            return inner if self.registry.waits else inner(*told)

        whole = Part(made.kind, tuple(found.items()))
        values = inside(self.key, whole, self.registry, each)
        try:
            return maker(*told, **values)
        except PartError:  # raised by a part inside, with its own key
            raise
        except (Exception, SystemExit) as error:
            expected = isinstance(error, ValueError | ImportError) and not made.own
            why = str(error) if expected else f"{made.kind} raised {_raised(error)}"
            raise PartError(f"{self.key}: {why}") from None


def imported(key: str, name: str, known: Iterable[str]) -> Maker:
    """The function that `module:function` names; the current directory is searched too.

    known: the other names that are allowed, for the message.
    """
    if MARK in name:
        raise ValueError(
            f"{key} {name!r} is a function of the session that ran this; give the "
            "function to lab.run again, or put it into a module"
        )
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Maker = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # importing runs code that may raise anything
        raise ValueError(
            f"{key} must be one of {checks.quoted(known)}, or a module:function that can "
            f"be imported, got {name!r}: {_raised(error)}"
        ) from None
    if not callable(found):
        raise ValueError(f"{key} must name a function, got {name!r}")
    return found


def _raised(error: BaseException) -> str:
    """An exception in one line, with the place where it was raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    places = [f" ({os.path.basename(f.filename)}, line {f.lineno})" for f in theirs]
    return text + "".join(places[-1:])
