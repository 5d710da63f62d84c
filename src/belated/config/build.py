"""Build the object that a part describes. Only here do strings become functions."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from belated.config.file import File
from belated.config.part import Part, as_part, parts_in
from belated.config.registry import (
    Maker,
    Registry,
    check_parameters,
    is_own,
    quoted,
)
from belated.config.user_code import is_session


class PartError(ValueError):
    """A part could not be made; the message starts with its key in the file."""


@dataclass(frozen=True, slots=True)
class Inner:
    """A part inside an agent, as a function of a `RunBrief`."""

    key: str
    part: Part
    registry: Registry

    def __call__(self, *given: object) -> Any:
        """Make the object that the part describes."""
        return make(self.key, self.part, self.registry, *given)

    def asks(self, name: str, word: str) -> bool:
        """Whether a parameter of this name has this word as its value, here or in a part inside."""
        return any((name, word) in part.parameters for part in parts_in(self.part))


def make(key: str, made: Part, registry: Registry, *given: object) -> Any:
    """Call the function of a checked part with the given objects and the part's parameters.

    Parts inside are made first, or passed as an `Inner` if the registry waits. Errors begin with
    the key.
    """
    own = is_own(made.kind)
    maker = _imported(key, made, registry) if own else registry.kinds[made.kind]
    if own:
        check_parameters(key, made, maker, len(given))
    parameters = inspect.signature(maker).parameters.values()
    handed = given if own else given[: sum(p.kind is p.POSITIONAL_ONLY for p in parameters)]
    values = {}
    for name, value in made.parameters:
        within = registry.inside(name)
        named = value if own or within is None else as_part(value)
        values[name] = _inner(f"{key}.{name}", named, within or registry, registry.waits, given)
    try:
        return maker(*handed, **values)
    except PartError:  # raised by a part inside, with its own key
        raise
    except (Exception, SystemExit) as error:
        raise PartError(_explained(key, made, error)) from None


def _explained(key: str, made: Part, error: BaseException) -> str:
    """An exception in one line that starts with the key; the message of a check names the rest."""
    if is_own(made.kind) or not isinstance(error, ValueError | ImportError):
        return f"{key}: {made.kind} raised {_raised(error)}"
    return f"{key}: {error}"


def _inner(key: str, value: Any, registry: Registry, waits: bool, given: tuple[object, ...]) -> Any:
    """A parameter in the form that the function gets."""
    if isinstance(value, tuple):
        items = enumerate(value)
        return tuple(_inner(f"{key}[{i}]", item, registry, waits, given) for i, item in items)
    if isinstance(value, File):
        return value.checked(key)
    if not isinstance(value, Part):
        return value
    inner = Inner(key, value, registry)
    return inner if waits else inner(*given)


def _imported(key: str, made: Part, registry: Registry) -> Maker:
    """The function behind `module:function`."""
    if made.function is not None:
        return made.function
    if is_session(made.kind):
        raise ValueError(
            f"{key}.kind {made.kind!r} is a function of the session that ran this; give the "
            "function to lab.run again, or put it into a module"
        )
    return imported(f"{key}.kind", made.kind, registry.kinds)


def imported(key: str, name: str, known: Iterable[str]) -> Maker:
    """The function that `module:function` names; the current directory is searched too.

    known: the other names that are allowed, for the message.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # importing runs code that may raise anything
        raise ValueError(
            f"{key} must be one of {quoted(known)}, or a module:function that can "
            f"be imported, got {name!r}: {_raised(error)}"
        ) from None
    if not callable(found):
        raise ValueError(f"{key} must name a function, got {name!r}")
    return cast(Maker, found)


def _raised(error: BaseException) -> str:
    """An exception in one line, with the place where it was raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    if not theirs:
        return text
    return f"{text} ({os.path.basename(theirs[-1].filename)}, line {theirs[-1].lineno})"
