"""Arrays of NumPy, JAX and PyTorch: which library an array is of, and checks on its values.

The functions that are used here (`exp`, `maximum`, `where`, `clip`, `concatenate`, ...) have the
same names and arguments in the three libraries, so one text serves all of them. PyTorch and old
versions of NumPy have no `__array_namespace__`, so the library is found by type.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from belated.core import checks

Array = Any
"""An array of NumPy, JAX or PyTorch."""
Namespace = Any
"""The module with the functions for such an array."""

SLACK = 1e-4
"""A log-probability may exceed 0 by this much: log-softmax in float16 or float32 rounds."""


def namespace(name: str, array: Array) -> Namespace:
    """The module with the functions for the array."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    raise ValueError(
        f"{name} must be an array of NumPy, JAX or PyTorch, or numbers, got {checks.show(array)}"
    )


def constants(**given: Array) -> tuple[Namespace, list[Array]]:
    """Arrays of floats of one library and one shape, as constants, and the library.

    Lists of numbers become NumPy arrays. No gradient flows through what is returned. An argument
    that is None stays None.
    """
    arrays: list[Array] = []
    first, shape, xp = "", (), None
    for name, value in given.items():
        if value is None:
            arrays.append(None)
            continue
        array = _listed(name, value)
        here = namespace(name, array)
        if not _is_float(here, array):
            raise ValueError(f"{name} must hold floats, got dtype {array.dtype}")
        if xp is None:
            first, shape, xp = name, tuple(array.shape), here
        if here is not xp:
            raise ValueError(
                f"{name} must be an array of the same library as {first} ({xp.__name__}), "
                f"got {here.__name__}"
            )
        if tuple(array.shape) != shape:
            raise ValueError(
                f"{name} must have the shape of {first}, {shape}, got shape {tuple(array.shape)}"
            )
        arrays.append(_constant(xp, array))
    return xp, arrays


def booleans(
    name: str, value: Array, xp: Namespace, shape: tuple[int, ...], first: str = "then"
) -> Array:
    """An array of True and False of the library and the shape of the first argument."""
    array = np.asarray(value) if isinstance(value, list | tuple) else value
    if namespace(name, array) is not xp:
        raise ValueError(f"{name} must be an array of the same library as {first} ({xp.__name__})")
    if str(array.dtype) not in ("bool", "torch.bool"):
        raise ValueError(f"{name} must hold True and False, got dtype {array.dtype}")
    if tuple(array.shape) != shape:
        raise ValueError(
            f"{name} must have the shape of {first}, {shape}, got shape {tuple(array.shape)}"
        )
    return array


def is_known(xp: Namespace, array: Array) -> bool:
    """Whether the array has values yet: inside a compiled function it has none."""
    if xp is np:
        return True
    if xp.__name__ == "torch":
        return not xp.compiler.is_compiling()
    jax = sys.modules.get("jax")
    return jax is None or not isinstance(array, jax.core.Tracer)


def check_finite(xp: Namespace, **given: Array) -> None:
    """Every value that is known is finite."""
    for name, array in given.items():
        if is_known(xp, array) and not bool(xp.all(xp.isfinite(array))):
            raise ValueError(f"{name} must be finite, got {first_where(name, array, np.isfinite)}")


def check_discrete(xp: Namespace, **given: Array) -> None:
    """No value that is known is above 0, but for rounding."""
    for name, array in given.items():
        if is_known(xp, array) and not bool(xp.all(array <= SLACK)):
            found = first_where(name, array, lambda a: a <= SLACK)
            raise ValueError(
                f"{name} must hold log-probabilities of at most 0 where discrete=True, got {found}"
            )


def first_where(name: str, array: Array, holds: Any) -> str:
    """The first entry for which something does not hold, as `name[2, 3] = nan`."""
    if type(array).__module__.startswith("torch"):
        array = array.detach().cpu().double()
    values = np.asarray(array)
    where = tuple(int(i) for i in np.argwhere(~holds(values))[0])
    at = f"[{', '.join(map(str, where))}]" if where else ""
    return f"{name}{at} = {float(values[where])}"


def _listed(name: str, value: Array) -> Array:
    """Numbers and lists of numbers as NumPy arrays; arrays as they are."""
    if isinstance(value, list | tuple | float | int) and not isinstance(value, bool):
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must hold numbers, got {checks.show(value)}") from None
    return value


def _is_float(xp: Namespace, array: Array) -> bool:
    if xp.__name__ == "torch":
        return bool(array.dtype.is_floating_point)
    if xp is np:
        return bool(array.dtype.kind == "f")
    return bool(xp.issubdtype(array.dtype, xp.floating))


def _constant(xp: Namespace, array: Array) -> Array:
    """The array without its gradient."""
    if xp is np:
        return np.asarray(array)
    if xp.__name__ == "torch":
        return array.detach()
    jax = sys.modules.get("jax")
    return array if jax is None else jax.lax.stop_gradient(array)
