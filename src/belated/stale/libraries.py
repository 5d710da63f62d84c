"""Arrays of NumPy, JAX and PyTorch: which library an array is of, and checks on its values.

The functions that are used here (`exp`, `maximum`, `where`, `clip`, `concatenate`, ...) have the
same names and arguments in the three libraries, so the same code works for all of them. PyTorch has
no `__array_namespace__`, so the library is found by type.
"""

import contextlib
import math
import sys
from collections.abc import Callable
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


def library(name: str, value: Array, kinds: str = "iuf") -> tuple[Namespace, Array]:
    """The module with the functions for an array, and the array without its gradient.

    Numbers and lists of numbers of these kinds become arrays of NumPy.
    """
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(value, torch.Tensor):  # first, for torch.compile
        return torch, value.detach()
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must be a plain array, got a masked one: pass its data, and mask")
    if isinstance(value, np.ndarray | np.generic):
        return np, np.asarray(value)
    if jax is not None and isinstance(value, jax.Array):
        return jax.numpy, jax.lax.stop_gradient(value)
    allowed = "be an array of NumPy, JAX or PyTorch, or numbers"
    if isinstance(value, list | tuple | float | int) and not isinstance(value, bool):
        allowed = "hold numbers"
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # the last from PyTorch
            array = np.asarray(value)
            if array.dtype.kind in kinds:
                return np, array.astype(np.float64)
    raise ValueError(f"{name} must {allowed}, got {checks.show(value)}")


def prepared(
    then: Array, now: Array, mask: Array, discrete: bool, **others: Array
) -> tuple[Namespace, list[Array], Array, Any]:
    """Both log-probabilities and other arrays of floats, checked, as constants of one library.

    Lists of numbers become NumPy arrays. No gradient flows through the returned arrays.

    Returns:
        The library; the arrays in the type that holds them all, float32 at least, since sums and
        squares need it, and 0 where the mask is False; 1 where an entry counts, 0 where the mask is
        False; and the type that holds them all.
    """
    arrays: list[Array] = []
    given = {"then": then, "now": now, **others}
    for name, value in given.items():
        xp, array = library(name, value)
        if "float" not in str(array.dtype):
            raise ValueError(f"{name} must hold floats, got dtype {array.dtype}")
        arrays.append(array)
        _check_like(name, array, arrays[0])
    dtype = reduce(xp.promote_types, (array.dtype for array in arrays))
    wide = xp.promote_types(dtype, xp.float32)
    arrays = [cast(xp, array, wide) for array in arrays]
    zero, one = xp.zeros_like(arrays[0]), xp.ones_like(arrays[0])
    if mask is not None:
        mask = booleans("mask", mask, arrays[0])
        arrays = [xp.where(mask, array, zero) for array in arrays]
        one = xp.where(mask, one, zero)
    checks.flag("discrete", discrete)
    for name, array in zip(given, arrays, strict=True):
        check(xp, name, array, lambda a: abs(a) < math.inf, "be finite")
        if discrete and name in ("then", "now"):
            bound = "hold log-probabilities of at most 0 where discrete=True"
            check(xp, name, array, lambda a: a <= SLACK, bound)
    return xp, arrays, one, dtype


def cast(xp: Namespace, array: Array, dtype: Any) -> Array:
    """The array in a type of its library."""
    return array if array.dtype == dtype else xp.asarray(array, dtype=dtype)


def booleans(name: str, value: Array, then: Array) -> Array:
    """True and False, or 0 and 1, of the library and the shape of `then`, as booleans."""
    (xp, array), wanted = library(name, value, "biuf"), "hold True and False, or 0 and 1"
    _check_like(name, array, then)
    if not any(word in str(array.dtype) for word in ("bool", "int", "float")):
        raise ValueError(f"{name} must {wanted}, got dtype {array.dtype}")
    check(xp, name, array, lambda a: (a == 0) | (a == 1), wanted)
    return array == 1


def check(
    xp: Namespace, name: str, array: Array, holds: Callable[[Array], Array], wanted: str
) -> None:
    """Check that a condition holds for every known value.

    The error has the first value that violates it, as `name[2, 3] = nan`.
    """
    if fails(xp, holds(array)):
        values = np.asarray(array.double().cpu() if xp.__name__ == "torch" else array)
        where = np.argwhere(~holds(values))[0].tolist()
        value = float(values[tuple(where)])
        raise ValueError(f"{name} must {wanted}, got {name}{where or ''} = {value}")


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


def _check_like(name: str, array: Array, then: Array) -> None:
    """The array has the library and the shape of `then`."""
    (here, _), (there, _) = library(name, array), library("then", then)
    if here is not there:
        raise ValueError(
            f"{name} must be an array of the same library as then ({there.__name__}), "
            f"got {here.__name__}"
        )
    if array.shape != then.shape:
        raise ValueError(
            f"{name} must have the shape of then, {tuple(then.shape)}, "
            f"got shape {tuple(array.shape)}"
        )
