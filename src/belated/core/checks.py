"""Checks at the border: one sentence that names the argument, the value and what is allowed."""

import difflib
import math
import operator
from collections.abc import Iterable

import numpy as np

from belated.core.arrays import Floats, Ints

ROW_TOLERANCE = 1e-8
LARGEST_INTEGER = 2**62
"""The largest whole number that is accepted; as a delay it is `belated.NEVER`."""
MOST = 2**53
"""The largest count of anything: floats represent every whole number up to here exactly."""
ROOM = 2**30
"""The largest number of entries in one array of a world or a run: 8 GiB."""


def show(value: object) -> str:
    """The value in one short line."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # thousands of digits, or of lists in each other
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= 80 else text[:77] + "..."


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """A whole number in [low, high]."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is not None and low <= number and (high is None or number <= high):
        return number
    allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
    if high == LARGEST_INTEGER:
        allowed = f"of at least {low} (and at most belated.NEVER)"
    raise ValueError(f"{name} must be a whole number {allowed}, got {show(value)}")


def room(numbers: int, **given: object) -> None:
    """Check that the array whose size these arguments determine is not too large."""
    if numbers > ROOM:
        names = " and ".join(", ".join(given).rsplit(", ", 1))
        values = ", ".join(map(show, given.values()))
        raise ValueError(f"{names} must make arrays of at most {ROOM} numbers, got {values}")


def episodes(value: object) -> int | None:
    """K, a whole number of at least 1, or None where it is not known."""
    return None if value is None else integer("episodes", value, 1, MOST)


def real(
    name: str, value: object, low: float, high: float = math.inf, *, above: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high] where `above` is set."""
    try:
        number = math.nan if isinstance(value, bool | np.bool_ | str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if low <= number <= high and math.isfinite(number) and not (above and number == low):
        return number
    allowed = "a finite number"
    if low != -math.inf:
        allowed += f" above {low:g}" if above else f" at least {low:g}"
    if high != math.inf:
        allowed += f" and at most {high:g}"
    raise ValueError(f"{name} must be {allowed}, got {show(value)}")


def time(now: object) -> None:
    """Check the argument `now`: a finite number, or None where there is no clock."""
    if now is not None:
        real("now", now, -math.inf)


def fix(item: object, name: str, value: object) -> None:
    """Set a field of a frozen dataclass while it is being made."""
    object.__setattr__(item, name, value)


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {show(value)}")
    return bool(value)


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """One of the allowed names."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    hint = nearest(value, names)
    raise ValueError(f"{name} must be one of {quoted(names)}, got {show(value)}{hint}")


def quoted(names: Iterable[str]) -> str:
    """Names in quotation marks, for a message."""
    return ", ".join(map(repr, names))


def nearest(word: object, known: Iterable[str]) -> str:
    """A hint at the known name that is most like a word; empty if there is none."""
    close = difflib.get_close_matches(word, known, n=1) if isinstance(word, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def floats(name: str, value: object, shapes: str, ndim: Iterable[int]) -> Floats:
    """A new C-contiguous array of floats with an allowed number of axes; `shapes` names them."""
    array = numbers(name, value, shapes)
    if array.ndim not in ndim or array.size == 0:
        raise ValueError(f"{name} must have shape {shapes}, got shape {array.shape}")
    return array


def shaped(name: str, value: object, *shapes: tuple[int, ...]) -> Floats:
    """A new array of floats of one of these shapes."""
    allowed = " or ".join(map(str, shapes))
    array = numbers(name, value, allowed)
    if array.shape not in shapes:
        raise ValueError(f"{name} must have shape {allowed}, got shape {array.shape}")
    return array


def numbers(name: str, value: object, shape: str) -> Floats:
    """A new array of floats of any shape; None becomes NaN, and texts are refused."""
    try:
        raw = np.asarray(value)
        texts = raw.dtype.kind == "O" and any(isinstance(one, str | bytes) for one in raw.flat)
        if texts or raw.dtype.kind not in "fiubO":
            raise TypeError
        return np.array(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers of shape {shape}, got {show(value)}") from None


def extremes(numbers: Ints) -> tuple[int, int]:
    """The least and the largest of whole numbers (N,), N at least 1."""
    if numbers.size > 32:
        return int(np.minimum.reduce(numbers)), int(np.maximum.reduce(numbers))
    listed = numbers.tolist()  # faster for a few
    return min(listed), max(listed)


def whole_numbers(name: str, value: object, low: int, high: int | None = None) -> Ints:
    """A new one-dimensional array of whole numbers in [low, high]."""
    allowed = f"at least {low}" if high is None else f"from {low} to {high}"
    try:
        raw = np.asarray(value)
    except ValueError:  # lists of different lengths
        raw = np.zeros(0)
    if raw.dtype.kind not in "iu" or raw.ndim != 1:
        raise ValueError(
            f"{name} must be a one-dimensional array of whole numbers {allowed}, got {show(value)}"
        )
    most = LARGEST_INTEGER if high is None else high
    least, largest = extremes(raw) if raw.size else (low, low)
    if least < low or largest > most:
        i = int(np.argmax((raw < low) | (raw > most)))
        if high is None and raw[i] > most:
            allowed = "at most 2**62"
        raise ValueError(f"{name} must be {allowed}, got {name}[{i}] = {raw[i]}")
    return raw.astype(np.int64)


def instance(name: str, value: object, kind: type, hint: str = "") -> None:
    """Check that the value is of this class; the hint says where to get one."""
    if not isinstance(value, kind):
        a = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"{name} must be {a} {kind.__name__}{hint}, got {show(value)}")


def generator(name: str, value: object) -> None:
    """Check that the value is a random generator and not a seed."""
    instance(name, value, np.random.Generator, " such as numpy.random.default_rng(0)")


def in_unit_interval(name: str, array: Floats, hint: str = "") -> None:
    """Check that every entry is in [0, 1]; NaN is refused. The hint is for finite numbers."""
    least, most = np.minimum.reduce, np.maximum.reduce  # faster than min() and max() when small
    if array.size and not (least(array, axis=None) >= 0.0 and most(array, axis=None) <= 1.0):
        wrong = np.argwhere(~((array >= 0.0) & (array <= 1.0)))[0]
        where = f"{name}[{', '.join(str(int(i)) for i in wrong)}] = " if array.ndim else ""
        entry = array[tuple(wrong)]
        raise ValueError(
            f"{name} must be in [0, 1], got {where}{entry}{hint if math.isfinite(entry) else ''}"
        )


def distributions(name: str, array: Floats) -> Floats:
    """Check that every row over the last axis is a probability distribution, and return them.

    Sums may differ from 1 by the tolerance. Entries that rounding lifted above 1 become 1.
    """
    array = np.where((array > 1.0) & (array <= 1.0 + ROW_TOLERANCE), 1.0, array)
    in_unit_interval(name, array)
    totals = array.sum(axis=-1)
    wrong = np.argwhere(np.abs(totals - 1.0) > ROW_TOLERANCE)
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        row = f"{name}[{', '.join(map(str, where))}]" if where else name
        raise ValueError(
            f"{name} must hold probabilities that sum to 1; {row} sums to {totals[where]:.9g}"
        )
    return array
