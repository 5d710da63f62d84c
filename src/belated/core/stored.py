"""Reading back what a class wrote of itself.

A state is a dictionary of plain values: None, numbers, texts, arrays, lists and dictionaries of
these, and objects of classes that `saving` knows. Each class writes its own and reads it back with
the checks below, so that a state with a missing or an unknown field, a wrong shape or an index out
of range is refused before anything is made of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from belated.core import checks
from belated.core.arrays import frozen

LARGEST = 1e280
"""The largest number that a learned array may hold."""

State = dict[str, Any]
"""What a class says of itself: its fields by name."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


class Stateful(Protocol):
    """A class that can be written and read back."""

    def state(self) -> State:
        """Everything that decides what the object does next, as it is now: it does not follow."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """An object that continues where the one that wrote the state was."""
        ...


class Stateless:
    """A part that learns nothing: its state is empty, and a new phase changes nothing."""

    __slots__ = ()

    def restart(self, parameters: object) -> None:
        """Nothing depends on the phase."""

    def state(self) -> State:
        """Nothing was learned."""
        return {}

    def restore(self, saved: State) -> None:
        """There is nothing to restore."""
        exact(saved)


def exact(state: object, *names: str) -> State:
    """The state, if it is a dictionary with exactly these fields."""
    if not isinstance(state, dict):
        raise ValueError(f"a state must be a dictionary, got {checks.show(state)}")
    if set(state) != set(names):
        missing = ", ".join(sorted(set(names) - set(state))) or "none"
        unknown = ", ".join(sorted(map(str, set(state) - set(names)))) or "none"
        raise ValueError(
            f"a state must have exactly the fields {', '.join(names)}; "
            f"missing: {missing}, unknown: {unknown}"
        )
    return state


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
    """The same as a writable copy."""
    return np.array(array(name, value, dtype, shape))


def policy(name: str, value: object, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """A policy whose rows are distributions, read-only and shared."""
    H, S, A = shape
    array(name, value, np.float64, shape)
    return checks.policy(name, value, (H, S, A))


def within(name: str, value: npt.NDArray[Any], high: int) -> None:
    """Every entry is an index from 0 to high - 1; kernels do not check again."""
    if value.size and (value.min() < 0 or value.max() >= high):
        raise ValueError(f"{name} must be an index from 0 to {high - 1}, got one outside")


def finite(name: str, value: npt.NDArray[np.float64]) -> None:
    """No entry is NaN, infinite or so large that sums and multiples might become infinite."""
    between(name, value, -LARGEST, LARGEST)


def between(name: str, value: npt.NDArray[Any], low: float, high: float) -> None:
    """Every entry is in [low, high]; NaN is not."""
    if value.size and not (value.min() >= low and value.max() <= high):
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got an entry that is not")


def count(name: str, value: object, high: int = checks.MOST) -> int:
    """A number of things that happened: whole, and no larger than could have happened."""
    return checks.integer(name, value, 0, high)


@dataclass(frozen=True, slots=True)
class Kept:
    """An object inside a state, as it was when the state was written.

    Attributes:
        cls: its class.
        state: its state; the object itself, copied, if the class has none.
    """

    cls: type
    state: Any


def kept(item: Any) -> Kept:
    """An object as a field of a state; it does not follow the object."""
    return Kept(type(item), item.state() if hasattr(item, "from_state") else copy.deepcopy(item))


def made(value: Any) -> Any:
    """The object that `kept` wrote, new in every call; what a file gave is new already."""
    if not isinstance(value, Kept):
        return value
    cls: Any = value.cls
    return cls.from_state(value.state) if hasattr(cls, "from_state") else copy.deepcopy(value.state)


def twin(item: Any) -> Any:
    """An object that continues where this one is and shares nothing that changes with it."""
    return made(kept(item))


def items(name: str, value: object) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {checks.show(value)}")
    return value
