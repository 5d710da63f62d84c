"""Arrays of NumPy, JAX and PyTorch: which library an array is of, and checks on its values.

The functions that are used here (`exp`, `maximum`, `where`, `clip`, `concatenate`, ...) have the
same names and arguments in the three libraries, so the same code works for all of them. PyTorch has
no `__array_namespace__`, so the library is found by type.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce
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
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):  # first, for torch.compile
        return torch
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"{name} must be a plain array, got a masked one: pass its data, and mask")
    if isinstance(array, np.ndarray | np.generic):
        return np
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        return jax.numpy
    raise ValueError(
        f"{name} must be an array of NumPy, JAX or PyTorch, or numbers, got {checks.show(array)}"
    )


def constants(**given: Array) -> tuple[Namespace, list[Array]]:
    """Arrays of floats of one library, shape and type, as constants, and the library.

    Lists of numbers become NumPy arrays. Arrays of different types get the type that holds them
    all. No gradient flows through the returned arrays.
    """
    arrays: list[Array] = []
    first, shape = "", ()
    xp: Namespace = None
    for name, value in given.items():
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
    wide = reduce(xp.promote_types, (array.dtype for array in arrays))
    return xp, [cast(xp, array, wide) for array in arrays]


def cast(xp: Namespace, array: Array, dtype: Any) -> Array:
    """The array in a type of its library."""
    return array if array.dtype == dtype else xp.asarray(array, dtype=dtype)


def single(xp: Namespace, arrays: Sequence[Array]) -> list[Array]:
    """The arrays in float32 if they have fewer bits: sums and squares need more precision."""
    wide = xp.promote_types(arrays[0].dtype, xp.float32)
    return [cast(xp, array, wide) for array in arrays]


def booleans(name: str, value: Array, xp: Namespace, shape: tuple[int, ...]) -> Array:
    """True and False, or 0 and 1, of the library and the shape of `then`, as booleans."""
    array = np.asarray(value) if isinstance(value, list | tuple) else value
    if namespace(name, array) is not xp:
        raise ValueError(f"{name} must be an array of the same library as then ({xp.__name__})")
    if tuple(array.shape) != shape:
        raise ValueError(
            f"{name} must have the shape of then, {shape}, got shape {tuple(array.shape)}"
        )
    if xp is np and array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold True and False, or 0 and 1, got dtype {array.dtype}")
    if fails(xp, (array == 0) | (array == 1)):
        found = first_where(name, array, lambda a: (a == 0) | (a == 1))
        raise ValueError(f"{name} must hold True and False, or 0 and 1, got {found}")
    return array == 1


def fails(xp: Namespace, condition: Array) -> bool:
    """Whether a condition is known to be false somewhere.

    In a compiled function it is not known, even if it is about arrays from outside.
    """
    if xp.__name__ == "torch":
        return not xp.compiler.is_compiling() and not bool(condition.all())
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(condition, jax.core.Tracer):
        return False
    return not bool(xp.all(condition))


def check_finite(xp: Namespace, **given: Array) -> None:
    """Check that every known value is finite."""
    for name, array in given.items():
        if fails(xp, xp.isfinite(array)):
            raise ValueError(f"{name} must be finite, got {first_where(name, array, np.isfinite)}")


def check_discrete(xp: Namespace, **given: Array) -> None:
    """Check that no known value is above 0, except for rounding."""
    for name, array in given.items():
        if fails(xp, array <= SLACK):
            found = first_where(name, array, lambda a: a <= SLACK)
            raise ValueError(
                f"{name} must hold log-probabilities of at most 0 where discrete=True, got {found}"
            )


def first_where(name: str, array: Array, holds: Any) -> str:
    """The first entry that violates a condition, as `name[2, 3] = nan`."""
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
        except (TypeError, ValueError, RuntimeError):  # PyTorch raises the last of them
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
