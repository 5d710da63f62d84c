"""A clear sentence for an argument that a function or a constructor does not have."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Item = TypeVar("Item", bound=Callable[..., Any])


def explained(item: Item) -> Item:
    """The function or class, whose calls name an argument that does not exist and the nearest one.

    A call that succeeds passes through one more function; arguments are looked at only when it has
    failed.
    """
    if isinstance(item, type):
        item.__init__ = _calling(item.__init__)  # type: ignore[misc]
        return item
    made: Item = _calling(item)
    return made


def _calling(function: Any) -> Any:
    if hasattr(function, "_explained"):
        return function

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError:
            wrong = _wrong(function, given, named)
            if wrong is None:
                raise
        raise TypeError(wrong)

    called._explained = True  # type: ignore[attr-defined]
    return called


def _wrong(function: Any, given: tuple[Any, ...], named: dict[str, Any]) -> str | None:
    """What is wrong with the names of the arguments; None if all of them exist."""
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [name for name in named if name not in known]
    if not unknown or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    name = function.__name__
    if name == "__init__":
        name, known = type(given[0]).__name__, known[1:]
    close = difflib.get_close_matches(unknown[0], known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    takes = ", ".join(known) or "no arguments"
    return f"{name} has no argument {unknown[0]!r}{hint}; it takes {takes}"
