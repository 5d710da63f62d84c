"""Registries of kinds: they check the parts of a file, and build what these describe.

Only here do strings become functions.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from belated.config.briefing import numbers
from belated.config.part import MARK, Part, as_part
from belated.core import checks
from belated.names import kind as kind_of

Maker = Callable[..., Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """The kinds of one sort of part.

    Attributes:
        kinds: the function or class of each name. The objects that the lab passes are
            positional-only arguments; a class, a part of agents, gets none of them, but numbers in
            place of words.
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


@dataclass(frozen=True, slots=True)
class Inner:
    """A part inside an agent, as a function of a `RunBrief`."""

    key: str
    part: Part
    registry: Registry

    def __call__(self, *given: object) -> Any:
        """Make the object that the part describes."""
        return make(self.key, self.part, self.registry, *given)


def by_name(*makers: Maker) -> dict[str, Maker]:
    """Functions and classes as kinds, by the name that files use for each."""
    return {kind_of(maker.__name__): maker for maker in makers}


def check(key: str, made: object, registry: Registry) -> None:
    """Check that a kind exists and takes its parameters, and the same for the parts inside.

    A `module:function` is not imported here, so that results can be read without it.
    """
    if isinstance(made, tuple):
        for i, item in enumerate(made):
            check(f"{key}[{i}]", item, registry)
        return
    if not isinstance(made, Part):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(made)}")
    if made.kind == "":
        raise ValueError(f"{join(key, 'kind')} is required: one of {quoted(registry.kinds)}")
    if not made.own:
        checks.choice(join(key, "kind"), made.kind, registry.kinds)
        _check_parameters(key, made, registry.kinds[made.kind])
    for name, value, inside in inside_of(made, registry):
        if inside is not None:
            check(join(key, name), value, inside)
        elif isinstance(value, Part):
            raise ValueError(f"{join(key, name)} must be a plain value, got {checks.show(value)}")


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
            inside = (inside or registry) if isinstance(value, Part) else None
        yield name, value if inside is None else as_part(value), inside


def _check_parameters(key: str, made: Part, maker: Maker, handed: int = 0) -> None:
    """Check the names of a part's parameters. handed: see `accepted`."""
    allowed = accepted(maker, handed)
    any_name = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(maker).parameters.values())
    for name, value in made.parameters:
        if name not in allowed and not any_name:
            raise unknown_key(join(key, name), value, repr(made.kind), allowed)
    for name, parameter in allowed.items():
        if parameter.default is parameter.empty and name not in made.values:
            raise ValueError(f"{join(key, name)} is required for kind {made.kind!r}")


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
    parts = {name: v.part if isinstance(v, Inner) else v for name, v in found.items()}
    return Part(made.kind, tuple((parts | made.values).items()), made.function)


def unknown_key(key: str, value: object, taker: str, allowed: Iterable[str]) -> ValueError:
    """The error for a key that `taker` does not take."""
    known = list(allowed)
    close = difflib.get_close_matches(key.rpartition(".")[2], known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    takes = f"{taker} takes {quoted(known) or 'no parameters'}{hint}"
    return ValueError(f"{key} = {checks.show(value)}: unknown key; {takes}")


def structured(key: str, kind: type[Made], taker: str, given: object) -> Made:
    """A dataclass from the table at a place of a file. taker: what it is, for messages."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{key} must be a table, got {checks.show(given)}")
    prefix = f"{key}." if key else ""
    allowed = {each.name: each for each in fields(kind) if each.init}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in allowed:
            raise unknown_key(f"{prefix}{name}", value, taker, allowed)
    for name, each in allowed.items():
        if each.default is each.default_factory is MISSING and name not in given:
            raise ValueError(f"{prefix}{name} is required")
    try:
        return kind(**given)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{prefix}{error}") from None


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
    maker = made.function or registry.kinds.get(made.kind)
    maker = maker or imported(f"{key}.kind", made.kind, registry.kinds)
    parameters = inspect.signature(maker).parameters.values()
    handed = given if made.own else given[: sum(p.kind is p.POSITIONAL_ONLY for p in parameters)]
    if made.own:
        _check_parameters(key, made, maker, len(given))

    def argument(key: str, value: Any, inside: Registry) -> Any:
        if isinstance(value, tuple):
            return tuple(argument(f"{key}[{i}]", v, inside) for i, v in enumerate(value))
        if isinstance(value, Part):
            inner = Inner(key, value, inside)
            return inner if registry.waits else inner(*given)
        return value

    values = {
        name: argument(f"{key}.{name}", value, inside or registry)
        for name, value, inside in inside_of(made, registry)
    }
    try:
        if isinstance(maker, type) and not made.own:  # a part of an agent, without words
            values = numbers(given[0], values)
        return maker(*handed, **values)
    except PartError:  # raised by a part inside, with its own key
        raise
    except (Exception, SystemExit) as error:
        if made.own or not isinstance(error, ValueError | ImportError):
            raise PartError(f"{key}: {made.kind} raised {_raised(error)}") from None
        raise PartError(f"{key}: {error}") from None


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
    module, _, function = name.partition(":")
    try:
        found: Maker = getattr(importlib.import_module(module), function)
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
    if not theirs:
        return text
    last = theirs[-1]
    return f"{text} ({os.path.basename(last.filename)}, line {last.lineno})"
