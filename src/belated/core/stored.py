"""Declarations of learned values: how they are written to a state and checked when read back.

A state is a dictionary of plain values: None, numbers, texts, arrays, lists and dictionaries of
these, and objects of classes that `saving` knows.

A class that learns declares every learned value with a field: `Array` (axes, type, range),
`Distributions` (rows that sum to 1), `Count`, `Real`, `Flag`, and `Maybe`, `Each`, `Several` and
`Inside` for combinations of these. The first value, the state and the checks all follow from the
declaration, so that a state with a missing or an unknown field, a wrong shape or an index out of
range is refused before it is used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from belated.core import checks
from belated.core.arrays import frozen

LARGEST_FLOAT = 1e280
"""The largest number that a learned array may hold."""

State = dict[str, Any]
"""The state of an object: its fields by name."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


class Field(Protocol):
    """The declaration of one learned value."""

    def fresh(self) -> Any:
        """The value before anything was learned."""
        ...

    def write(self, value: Any) -> Any:
        """The value as part of a state; later changes of the value do not change the state."""
        ...

    def read(self, name: str, saved: Any) -> Any:
        """The inverse of `write`: the value, or a ValueError that names the field."""
        ...


@dataclass(frozen=True, slots=True)
class Array:
    """An array that its owner changes in place, or shares and never changes.

    Attributes:
        shape: the lengths of the axes. None stands for any length, a tuple for one of several.
        dtype: the type of the entries.
        low: the smallest allowed entry.
        high: the largest allowed entry.
        fill: the first value of every entry.
        shared: whether the array is read-only and other objects may hold it too.
    """

    shape: tuple[int | tuple[int, ...] | None, ...]
    dtype: Any = np.float64
    low: float = -LARGEST_FLOAT
    high: float = LARGEST_FLOAT
    fill: float = 0.0
    shared: bool = False

    def fresh(self) -> npt.NDArray[Any]:
        """An array filled with one number; axes of variable length have their smallest length."""
        lengths = [n[0] if isinstance(n, tuple) else n or 0 for n in self.shape]
        made = np.zeros(lengths, dtype=self.dtype)  # takes no memory before it is used
        if self.fill:
            made[:] = self.fill
        return frozen(made) if self.shared else made

    def write(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy, unless the array never changes."""
        return value if self.shared else value.copy()

    def read(self, name: str, saved: Any) -> npt.NDArray[Any]:
        """The array, if type, shape and range are valid."""
        lengths = [None if isinstance(n, tuple) else n for n in self.shape]
        found: npt.NDArray[Any] = array(name, saved, self.dtype, lengths)
        for allowed, length in zip(self.shape, found.shape, strict=True):
            if isinstance(allowed, tuple) and length not in allowed:
                sizes = " or ".join(map(str, allowed))
                raise ValueError(f"{name} must have an axis of length {sizes}, got {length}")
        between(name, found, self.low, self.high)
        return found if self.shared else np.array(found)


@dataclass(frozen=True, slots=True)
class Distributions:
    """A read-only array whose rows over the last axis sum to 1; uniform at first."""

    shape: tuple[int, ...]

    def fresh(self) -> npt.NDArray[np.float64]:
        """Uniform rows."""
        return frozen(np.full(self.shape, 1.0 / self.shape[-1]))

    def write(self, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The array itself, which never changes."""
        return value

    def read(self, name: str, saved: Any) -> npt.NDArray[np.float64]:
        """The array, if its rows are distributions."""
        found = array(name, saved, np.float64, self.shape)
        between(name, found, 0.0, 1.0 + checks.ROW_TOLERANCE)
        if np.any(np.abs(found.sum(axis=-1) - 1.0) > checks.ROW_TOLERANCE):
            raise ValueError(f"{name} must hold probabilities that sum to 1, got a row that is off")
        return found


class _Plain:
    """A number or a flag, which is its own state."""

    __slots__ = ()

    def write(self, value: Any) -> Any:
        """The value itself."""
        return value


@dataclass(frozen=True, slots=True)
class Count(_Plain):
    """A whole number in [low, high]; `first` before anything was learned."""

    high: int = checks.MOST
    low: int = 0
    first: int = 0

    def fresh(self) -> int:
        """The first value."""
        return self.first

    def read(self, name: str, saved: Any) -> int:
        """The number, if it is whole and within its range."""
        return checks.integer(name, saved, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Real(_Plain):
    """A number in [low, high], or in (low, high] where `above` is set.

    endless: whether infinity is allowed too.
    """

    first: float = 0.0
    low: float = 0.0
    high: float = LARGEST_FLOAT
    above: bool = False
    endless: bool = False

    def fresh(self) -> float:
        """The first value."""
        return self.first

    def read(self, name: str, saved: Any) -> float:
        """The number, if it is within its range."""
        if self.endless and isinstance(saved, float) and saved == np.inf:
            return saved
        return checks.real(name, saved, self.low, self.high, above=self.above)


@dataclass(frozen=True, slots=True)
class AnyReal(_Plain):
    """A float that no computation uses: it may be infinite or NaN."""

    def fresh(self) -> float:
        """Zero."""
        return 0.0

    def read(self, name: str, saved: Any) -> float:
        """The number."""
        if not isinstance(saved, float):
            raise ValueError(f"{name} must be a number, got {checks.show(saved)}")
        return saved


@dataclass(frozen=True, slots=True)
class Flag(_Plain):
    """True or False."""

    first: bool = False

    def fresh(self) -> bool:
        """The first value."""
        return self.first

    def read(self, name: str, saved: Any) -> bool:
        """The flag."""
        return checks.flag(name, saved)


@dataclass(frozen=True, slots=True)
class Episodes:
    """Episode numbers in their order, each once, as the keys of a dictionary."""

    def fresh(self) -> dict[int, None]:
        """None."""
        return {}

    def write(self, value: dict[int, None]) -> list[int]:
        """The episode numbers as a list."""
        return list(value)

    def read(self, name: str, saved: Any) -> dict[int, None]:
        """The numbers, if they increase."""
        found = [checks.integer(name, number, 0, checks.MOST) for number in items(name, saved)]
        if any(later <= earlier for earlier, later in pairwise(found)):
            raise ValueError(f"{name} must be episodes in their order, each once")
        return dict.fromkeys(found)


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value that may be None, and is None at first."""

    field: Field

    def fresh(self) -> None:
        """Nothing."""

    def write(self, value: Any) -> Any:
        """The value, or None."""
        return None if value is None else self.field.write(value)

    def read(self, name: str, saved: Any) -> Any:
        """The value, or None."""
        return None if saved is None else self.field.read(name, saved)


@dataclass(frozen=True, slots=True)
class Each:
    """A list of values, one for each of several fields."""

    fields: Sequence[Field]

    def fresh(self) -> list[Any]:
        """The first values."""
        return [field.fresh() for field in self.fields]

    def write(self, value: list[Any]) -> list[Any]:
        """The values as a list."""
        return [field.write(item) for field, item in zip(self.fields, value, strict=True)]

    def read(self, name: str, saved: Any) -> list[Any]:
        """The values, if there are as many as fields."""
        found = items(name, saved)
        if len(found) != len(self.fields):
            raise ValueError(f"{name} must be {len(self.fields)}, got {len(found)}")
        return [field.read(name, item) for field, item in zip(self.fields, found, strict=True)]


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a class that `saving` knows; None at first."""

    def fresh(self) -> None:
        """Nothing."""

    def write(self, value: Any) -> KeptObject:
        """The object as it is now."""
        return kept(value)

    def read(self, name: str, saved: Any) -> Any:
        """The object."""
        return made(saved)


@dataclass(frozen=True, slots=True)
class Many:
    """A list of any length, empty at first, of values of one kind."""

    field: Field

    def fresh(self) -> list[Any]:
        """Nothing."""
        return []

    def write(self, value: list[Any]) -> list[Any]:
        """The values as a list."""
        return [self.field.write(item) for item in value]

    def read(self, name: str, saved: Any) -> list[Any]:
        """The values, if each of them is valid."""
        return [self.field.read(name, item) for item in items(name, saved)]


@dataclass(frozen=True, slots=True)
class Several:
    """Values with names, as a dataclass or a named tuple keeps them.

    Attributes:
        make: makes the object from its fields.
        fields: the declarations of the fields that are saved, by name.
    """

    make: Callable[..., Any]
    fields: Mapping[str, Field]

    def fresh(self) -> Any:
        """An object whose fields have their first values."""
        return self.make(**{name: field.fresh() for name, field in self.fields.items()})

    def write(self, value: Any) -> State:
        """The values by name."""
        return {name: field.write(getattr(value, name)) for name, field in self.fields.items()}

    def read(self, name: str, saved: Any) -> Any:
        """The object, if each of its values is valid."""
        found = exact(saved, *self.fields)
        return self.make(**{n: field.read(n, found[n]) for n, field in self.fields.items()})


@dataclass(frozen=True, slots=True)
class Inside:
    """An object with a state of its own, `state()` and `restore(saved)`; or None.

    last: whether it is read after the open episodes of an agent; `restore` then also gets the
    number of episodes begun.
    """

    item: Any
    last: bool = False

    def fresh(self) -> Any:
        """The object."""
        return self.item

    def write(self, value: Any) -> State | None:
        """Its state."""
        if value is None:
            return None
        if not hasattr(value, "state"):
            raise ValueError(f"{type(value).__name__} has no state(), which saving needs")
        written: State = value.state()
        return written

    def read(self, name: str, saved: Any, *begun: int) -> Any:
        """The object, restored."""
        if self.item is None:
            if saved is not None:
                raise ValueError(f"{name} must be None, got {checks.show(saved)}")
            return None
        self.item.restore(saved, *begun)
        return self.item


class Declared:
    """An object whose learned values are declared; they are its attributes."""

    _fields: dict[str, Field]

    def declare(self, **fields: Field) -> None:
        """Declare learned values and set each to its first value.

        An attribute may begin with an underscore; its name in a state does not.
        """
        self._fields = {**getattr(self, "_fields", {}), **fields}
        for name, field in fields.items():
            setattr(self, name, field.fresh())

    def state(self) -> State:
        """Everything that was learned so far; later changes do not change the state."""
        return {n.lstrip("_"): field.write(getattr(self, n)) for n, field in self._fields.items()}

    def restore(self, saved: State) -> None:
        """Continue from the state of another object; this one must be fresh."""
        read = exact(saved, *(name.lstrip("_") for name in self._fields))
        for name, field in self._fields.items():
            begun = [self.begun] if getattr(field, "last", False) else []  # type: ignore[attr-defined]
            setattr(self, name, field.read(name.lstrip("_"), read[name.lstrip("_")], *begun))
        self.restored()

    def restored(self) -> None:
        """Compute derived values, and check that the values of the state are consistent."""


class Learned(Declared):
    """What a part has learned: a plain object whose attributes are declared.

    Args:
        fields: the declarations of learned values, by name.
        fixed: attributes that never change and are not saved.
    """

    def __init__(self, fields: Mapping[str, Field] | None = None, **fixed: Any) -> None:
        self.__dict__.update(fixed)
        self.declare(**(fields or {}))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


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
    """The same as `array`, but a writable copy."""
    return np.array(array(name, value, dtype, shape))


def policy(name: str, value: object, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """A policy whose rows are distributions, read-only and shared."""
    H, S, A = shape
    array(name, value, np.float64, shape)
    return checks.policy(name, value, (H, S, A))


def within(name: str, value: npt.NDArray[Any], high: int) -> None:
    """Check that every entry is an index from 0 to high - 1; kernels do not check again."""
    if value.size and (value.min() < 0 or value.max() >= high):
        raise ValueError(f"{name} must be an index from 0 to {high - 1}, got one outside")


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


@dataclass(frozen=True, slots=True)
class KeptObject:
    """An object inside a state, as it was when the state was written.

    Attributes:
        cls: its class.
        state: its state; the object itself, copied, if the class has none.
    """

    cls: type
    state: Any


def kept(item: Any) -> KeptObject:
    """An object as a field of a state; later changes of the object do not change it."""
    return KeptObject(
        type(item), item.state() if hasattr(item, "from_state") else copy.deepcopy(item)
    )


def made(value: Any) -> Any:
    """The object that `kept` wrote, new in every call; objects from a file are new already."""
    if not isinstance(value, KeptObject):
        return value
    cls: Any = value.cls
    return cls.from_state(value.state) if hasattr(cls, "from_state") else copy.deepcopy(value.state)


def twin(item: Any) -> Any:
    """An independent copy of an object."""
    return made(kept(item))


def items(name: str, value: object) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {checks.show(value)}")
    return value
