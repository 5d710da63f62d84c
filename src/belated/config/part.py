"""Parts of an experiment as data, and registries of kinds that check and build them.

A part is a kind and its parameters. Only here do strings become functions.

A kind is a name, or `module:function` for a function of your own. A function that cannot be
imported (of a script, a notebook cell, or inside another function) also has a fingerprint, such as
`__main__:agent#3f2a91c04b`, so that results of an older version of it are not mistaken for those of
the new one. The fingerprint covers the text of the function, its plain defaults and its closure,
but not the functions that it calls.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from belated.config.briefing import numbers
from belated.core import checks
from belated.names import kind as kind_of

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
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)

    @property
    def own(self) -> bool:
        """Whether the kind is a function of a module, with a colon in its name."""
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
    """Read a part from a table; `check` checks that there is such a part.

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


def function_name(function: Callable[..., Any]) -> str:
    """The kind of a function."""
    module = getattr(function, "__module__", None) or "__main__"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is function:
        return f"{module}:{name}"
    return f"{module}:{name}{MARK}{_fingerprint(function)}"


def _fingerprint(function: Callable[..., Any]) -> str:
    told = [str(getattr(getattr(function, "__code__", None), "co_code", type(function)))]
    with contextlib.suppress(OSError, TypeError):  # typed in a shell, or not a function
        told = [inspect.getsource(function)]
    with contextlib.suppress(ValueError, TypeError):  # a closure not assigned yet, or no function
        values = [each.default for each in inspect.signature(function).parameters.values()]
        values += inspect.getclosurevars(function).nonlocals.values()
        told += [repr(v) for v in values if isinstance(v, int | float | str | tuple | None)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """The kinds of one sort of part.

    Attributes:
        kinds: the function or class of each name. The objects that the lab passes are
            positional-only arguments of functions; a class, a part of agents, gets numbers in place
            of words.
        same: parameters that are parts of this registry again.
        others: parameters that are parts of other registries.
        waits: whether parts inside are passed as an `Inner` instead of being built first.
    """

    kinds: dict[str, Maker]
    same: tuple[str, ...] = ()
    others: Mapping[str, Registry] = field(default_factory=dict)
    waits: bool = False

    def inside(self, name: str) -> Registry | None:
        """The registry of a parameter that is a part; None for a plain value."""
        return self if name in self.same else self.others.get(name)


def by_name(*makers: Maker) -> dict[str, Maker]:
    """Functions and classes as kinds, by the name that files use for each."""
    return {kind_of(maker.__name__): maker for maker in makers}


def check(key: str, made: object, registry: Registry) -> None:
    """Check that a kind exists and takes its parameters, and the same for the parts inside.

    A `module:function` is not imported here, so that results can be read without it.
    """
    fold(key, made, registry, _check_one)


def _check_one(key: str, made: Part, registry: Registry, values: Mapping[str, Any]) -> None:
    """Check a part whose parts inside are checked."""
    if made.kind == "":
        raise ValueError(f"{join(key, 'kind')} is required: one of {quoted(registry.kinds)}")
    if not made.own:
        checks.choice(join(key, "kind"), made.kind, registry.kinds)
        _check_names(key, made.values, registry.kinds[made.kind], f"kind {made.kind!r}")
    for name, value in values.items():
        if isinstance(value, Part):
            raise ValueError(f"{join(key, name)} must be a plain value, got {checks.show(value)}")


def fold(key: str, value: Any, registry: Registry, each: Maker) -> Any:
    """What `each` makes of a part, from what it has made of the parts inside.

    A list of parts becomes a tuple. each: a function of the key of a part, the part, its registry,
    and its parameters by name.
    """
    if isinstance(value, tuple):
        return tuple(fold(f"{key}[{i}]", item, registry, each) for i, item in enumerate(value))
    if not isinstance(value, Part):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(value)}")
    values = {
        name: item if inside is None else fold(join(key, name), item, inside, each)
        for name, item, inside in inside_of(value, registry)
    }
    return each(key, value, registry, values)


def join(key: str, name: str) -> str:
    """The key of a parameter of the part with this key; an agent of a file has none."""
    return f"{key}.{name}" if key else name


def inside_of(made: Part, registry: Registry) -> Iterator[tuple[str, Any, Registry | None]]:
    """The parameters of a part, with the registry of each that is a part.

    For a `module:function` any table is a part, and any text a plain value.
    """
    for name, value in made.parameters:
        inside = registry.inside(name)
        if made.own:
            inside = (inside or registry) if _is_table(value) else None
        yield name, value if inside is None else as_part(value), inside


def _is_table(value: Any) -> bool:
    """Whether a value is a part, or a list of parts."""
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_table, value))
    return isinstance(value, Part)


def _check_names(
    key: str, given: Mapping[str, Any], maker: Maker, taker: str, handed: int = 0
) -> None:
    """Check the names of parameters. taker: for messages. handed: see `accepted`."""
    allowed = accepted(maker, handed)
    any_name = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(maker).parameters.values())
    for name, value in given.items():
        if name not in allowed and not any_name:
            takes = f"{taker} takes {quoted(allowed) or 'no parameters'}"
            near = checks.nearest(name, allowed)
            raise ValueError(
                f"{join(key, name)} = {checks.show(value)}: unknown key; {takes}{near}"
            )
    for name, parameter in allowed.items():
        if parameter.default is parameter.empty and name not in given:
            raise ValueError(f"{join(key, name)} is required for {taker}")


def accepted(maker: Maker, handed: int = 0) -> dict[str, inspect.Parameter]:
    """The parameters that a file may give, by name.

    The arguments that the lab passes are left out: positional-only ones, and the first `handed`.
    """
    parameters = list(inspect.signature(maker).parameters.values())[handed:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: p for p in parameters if p.kind in named}


def with_defaults(made: Part, registry: Registry) -> Part:
    """The part with the defaults of the parameters that are not given."""
    allowed = {} if made.own else accepted(registry.kinds[made.kind])
    found = {p.name: p.default for p in allowed.values() if p.default is not p.empty}
    return Part(made.kind, tuple((found | made.values).items()), made.function)


def structured(key: str, kind: type[Made], taker: str, given: object) -> Made:
    """A dataclass from the table at a place of a file. taker: what it is, for messages."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{key} must be a table, got {checks.show(given)}")
    _check_names(key, given, kind, taker)
    try:
        return kind(**given)
    except (ValueError, TypeError) as error:
        raise ValueError(join(key, str(error))) from None


def quoted(allowed: Iterable[str]) -> str:
    """Names in quotation marks, for a message."""
    return ", ".join(repr(name) for name in allowed)


class PartError(ValueError):
    """A part could not be made; the message starts with its key in the file."""


def make(key: str, made: Part, registry: Registry, *given: Any) -> Any:
    """Call the function of a checked part with the given objects and the part's parameters.

    Parts inside are made first, or passed as an `Inner` if the registry waits. Errors begin with
    the key.
    """
    return fold(key, made, registry, Inner)(*given)


@dataclass(frozen=True, slots=True)
class Inner:
    """A part as a function of the objects that the lab passes, such as a `RunBrief`."""

    key: str
    part: Part
    registry: Registry
    values: Mapping[str, Any]

    def __call__(self, *given: Any) -> Any:
        """Make the object that the part describes."""
        made, kinds = self.part, self.registry.kinds
        maker = made.function or kinds.get(made.kind)
        maker = maker or imported(f"{self.key}.kind", made.kind, kinds)
        if made.own:
            _check_names(self.key, made.values, maker, f"kind {made.kind!r}", len(given))
        values = self.values
        if not self.registry.waits:
            values = {name: _made(value, given) for name, value in values.items()}
        try:
            if isinstance(maker, type) and not made.own:  # a part of an agent, without words
                return maker(**numbers(given[0], values))
            return maker(*given, **values)
        except PartError:  # raised by a part inside, with its own key
            raise
        except (Exception, SystemExit) as error:
            expected = isinstance(error, ValueError | ImportError) and not made.own
            why = str(error) if expected else f"{made.kind} raised {_raised(error)}"
            raise PartError(f"{self.key}: {why}") from None


def _made(value: Any, given: Sequence[Any]) -> Any:
    """A parameter, with what a part inside makes in its place."""
    if isinstance(value, tuple):
        return tuple(_made(item, given) for item in value)
    return value(*given) if isinstance(value, Inner) else value


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
            f"{key} must be one of {quoted(known)}, or a module:function that can "
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
