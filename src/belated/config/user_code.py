"""Your own functions as kinds: their names.

The name of a function that can be imported is `module:function`, as in a file. Any other (of a
script, a notebook cell, or inside another function) also has a fingerprint, such as
`__main__:agent#3f2a91c04b`, so that results of an older version of a function are not mistaken for
those of the new one. The fingerprint covers the text of the function, its plain defaults and its
closure, but not the functions that it calls.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable
from typing import Any

MARK = "#"
PLAIN = (bool, int, float, str, tuple, type(None))


def named(function: Callable[..., Any]) -> str:
    """The kind of a function."""
    module = getattr(function, "__module__", None) or "__main__"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if _importable(function, module, name):
        return f"{module}:{name}"
    return f"{module}:{name}{MARK}{_fingerprint(function)}"


def is_session(kind: str) -> bool:
    """Whether a kind names a function that exists only in the session that made it."""
    return MARK in kind


def brief(kind: str) -> str:
    """A kind in titles and names: the function without its module."""
    name = kind.partition(MARK)[0].rpartition(":")[2].rpartition(".")[2]
    return "of a function" if name == "<lambda>" else name


def _importable(function: object, module: str, name: str) -> bool:
    if module == "__main__" or "." in name:
        return False
    try:
        return getattr(importlib.import_module(module), name, None) is function
    except Exception:  # importing runs code that may raise anything
        return False


def _fingerprint(function: Callable[..., Any]) -> str:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = repr((code.co_code, code.co_names)) if code else type(function).__qualname__
    cells = getattr(function, "__closure__", None) or ()
    closed = [_content(cell) for cell in cells]
    values = [*(getattr(function, "__defaults__", None) or ()), *closed]
    values += sorted((getattr(function, "__kwdefaults__", None) or {}).items())
    plain = [repr(value) for value in values if isinstance(value, PLAIN)]
    return hashlib.sha256("\n".join([text, *plain]).encode()).hexdigest()[:10]


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
