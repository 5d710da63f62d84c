"""Checks of the fields of a state that a class reads by itself."""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from belated.core import checks
from belated.core.arrays import frozen
from belated.core.tree import LARGEST_FLOAT, Frozen, exact, freeze, thaw

__all__ = ["LARGEST_FLOAT", "State", "array", "between", "copied", "count", "exact", "finite"]

State = dict[str, Any]
"""The state of an object: its fields by name."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


def array(
    name: str, value: object, dtype: type[_Scalar], shape: Iterable[int | None]
) -> npt.NDArray[_Scalar]:
    """An array of this type and shape, read-only and shared; None stands for any length."""
    expected = tuple(shape)
    if (
        isinstance(value, np.ndarray)
        and value.dtype == dtype
        and value.ndim == len(expected)
        and all(n is None or n == m for n, m in zip(expected, value.shape, strict=True))
    ):
        return frozen(value)
    shown = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else checks.show(value)
    sizes = ", ".join("any" if n is None else str(n) for n in expected)
    raise ValueError(f"{name} must be an array of {np.dtype(dtype)} ({sizes}), got {shown}")


def copied(
    name: str, value: object, dtype: type[_Scalar], shape: Iterable[int | None]
) -> npt.NDArray[_Scalar]:
    """The same as `array`, but a writable copy."""
    return np.array(array(name, value, dtype, shape))


def finite(name: str, value: npt.NDArray[np.float64]) -> None:
    """Check that no entry is NaN, infinite, or so large that sums might become infinite."""
    between(name, value, -LARGEST_FLOAT, LARGEST_FLOAT)


def between(name: str, value: npt.NDArray[Any], low: float, high: float) -> None:
    """Check that every entry is in [low, high]; NaN is refused."""
    if value.size and not (value.min() >= low and value.max() <= high):
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got an entry that is not")


def count(name: str, value: object, high: int = checks.MOST) -> int:
    """The number of times that something has happened: a whole number up to `high`."""
    return checks.integer(name, value, 0, high)


def kept(item: Any) -> Any:
    """An object as a field of a state; later changes of the object do not change it."""
    return Frozen(freeze(item))


def made(value: Any) -> Any:
    """The object that `kept` wrote; objects from a file are made already."""
    return thaw(value.tree) if isinstance(value, Frozen) else value


def twin(item: Any) -> Any:
    """An independent copy of an object."""
    return thaw(freeze(item))


def items(name: str, value: object) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {checks.show(value)}")
    return value
