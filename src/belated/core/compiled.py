"""Kernels: functions that numba compiles when one of them is first called.

Importing numba takes half a second, and most programs that name an agent, read a file or print a
list of kinds never need it.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOCK = threading.RLock()
_EXTENSIONS: list[Callable[[], None]] = []


class Kernel(Generic[P, R]):
    """A placeholder for a compiled function until numba is needed.

    On the first call of a kernel, its module and all modules whose kernels it may call have their
    kernels replaced by numba's, which can then call each other.
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function: Any = function
        self._options = options
        self._made: Any = None
        self._ready = False

    def __call__(self, *values: P.args, **named: P.kwargs) -> R:
        """Call the compiled function."""
        if not self._ready:
            with _LOCK:
                _replace(self._function.__globals__)
        return self._made(*values, **named)  # type: ignore[no-any-return]

    def _compiled(self) -> Any:
        if self._made is None:
            from numba import njit as compiler  # noqa: PLC0415 - see above

            self._made = compiler(**self._options)(self._function)
        return self._made


def before_compiling(extend: Callable[[], None]) -> Callable[[], None]:
    """Call a function before the next kernels are compiled; it may extend numba."""
    _EXTENSIONS.append(extend)
    return extend


def discard_old(package: Path) -> None:
    """Delete cached kernels of a package that are older than one of its files with kernels.

    Numba compares a kernel with its own file alone, and would go on using code that contains an
    earlier version of a kernel of another file.
    """
    try:
        sources = [path for path in package.rglob("*.py") if b"njit" in path.read_bytes()]
        newest = max((source.stat().st_mtime for source in sources), default=0.0)
        if newest > time.time():  # a wrong date must not make every start compile
            return
        for index in package.rglob("__pycache__/*.nbi"):
            if index.stat().st_mtime < newest:
                index.unlink(missing_ok=True)
    except OSError:
        return  # another process is deleting them, or nobody may


@functools.cache
def _discard_own() -> None:
    discard_old(Path(__file__).parents[1])


def _replace(module: dict[str, Any]) -> None:
    """Replace the kernels among the names of a module, those of the modules it imports first."""
    _discard_own()
    while _EXTENSIONS:
        _EXTENSIONS.pop()()
    kernels = {name: value for name, value in module.items() if isinstance(value, Kernel)}
    for kernel in kernels.values():
        if kernel._function.__globals__ is not module:
            _replace(kernel._function.__globals__)
    module.update({name: kernel._compiled() for name, kernel in kernels.items()})
    for kernel in kernels.values():
        kernel._ready = True


def njit(**options: Any) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """`numba.njit`, put off until a kernel is called."""
    return lambda function: Kernel(function, options)
