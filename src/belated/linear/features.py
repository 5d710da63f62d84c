"""Vectors from named numbers and categories."""

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.tree import Configured, call

LARGEST = 1e12
"""The largest feature: sums of its square still tell what is added to them."""
HASHED = 16
"""The default width of an open category."""
FIRST = 100
"""The number of first vectors that determine the scale, which is then fixed."""


class Features(Configured):
    """The conversion of named values to a vector.

    A number becomes its distance from the mean in standard deviations. A category with listed
    values has an indicator for each and one for all other values. An open category is hashed to a
    fixed number of indicators, also for values that were never seen. Each has one more indicator,
    for a missing value.

    >>> Features(age="number", device=["phone", "desktop"], country="category:8").width
    15

    Args:
        fields: for each name, "number", a list of the values of a category, "category", or
            "category:64" for 64 indicators.
    """

    def __init__(self, /, **fields: str | Sequence[str]) -> None:
        if not fields:
            raise ValueError("features must be at least one, got none")
        self.fields: dict[str, str | tuple[str, ...]] = {}
        self._places: dict[str, range] = {}  # of the values of a field; after them a missing one
        self._labels: list[str] = []
        for name, given in fields.items():
            self.fields[name], labels = _read(name, given)
            self._places[name] = range(len(self._labels), len(self._labels) + len(labels))
            self._labels += [*labels, f"{name} missing"]
        self.width = len(self._labels)
        self.numbers = tuple(name for name, kind in self.fields.items() if kind == "number")

    def vector(self, given: object, scaling: Floats) -> tuple[Floats, Floats]:
        """The vector (width,) of named values, and the numbers among them, unscaled.

        Absent names are missing values. The numbers are scaled as if they had been noted already.
        """
        if not isinstance(given, Mapping):
            raise ValueError(
                f"x must be a table with the features {', '.join(self.fields)}, "
                f"got {checks.show(given)}"
            )
        for name in given:
            if name not in self.fields:
                checks.choice("the name of a feature", name, self.fields)
        there = {
            name: value
            for name, value in given.items()
            if not (value is None or (isinstance(value, float) and math.isnan(value)))
        }
        numbers = (
            checks.real(name, there[name], -LARGEST, LARGEST) if name in there else math.nan
            for name in self.numbers
        )
        raw = np.fromiter(numbers, np.float64)
        scaled = dict(zip(self.numbers, standardised(raw, scaling), strict=True))
        vector = np.zeros(self.width)
        for name, places in self._places.items():
            if name not in there:
                vector[places.stop] = 1.0
            elif name in scaled:
                vector[places.start] = scaled[name]
            else:
                vector[self._place(name, there[name])] = 1.0
        return vector, raw

    def _place(self, name: str, value: object) -> int:
        """The place of a category's value."""
        if not isinstance(value, str | int | np.integer | np.bool_):
            raise ValueError(
                f"{name} must be a text, a whole number or None, got {checks.show(value)}"
            )
        kind, places, text = self.fields[name], self._places[name], str(value)
        if isinstance(kind, str):
            return places[zlib.crc32(f"{name}={text}".encode()) % len(places)]
        if isinstance(value, bool | np.bool_) and text not in kind:
            text = text.lower()  # True may be listed as "true"
        return places[kind.index(text) if text in kind else -1]

    def labels(self) -> list[str]:
        """The name of each component of the vector for people, (width,)."""
        return self._labels.copy()

    def groups(self) -> list[range]:
        """The places of each category, of which exactly one is 1."""
        return [
            range(places.start, places.stop + 1)
            for name, places in self._places.items()
            if name not in self.numbers
        ]

    def configuration(self) -> dict[str, Any]:
        """The arguments, for people and files."""
        return {
            name: kind if isinstance(kind, str) else list(kind)
            for name, kind in self.fields.items()
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return call(self, **self.configuration())


def unscaled(features: object) -> Floats:
    """The scaling of a fresh learner, (4, numbers): what its first vectors say of their numbers.

    Its rows are the number of vectors, that of values which were not missing, their mean, and the
    sum of their squared distances from it.
    """
    return np.zeros((4, len(features.numbers) if isinstance(features, Features) else 0))


def noted(scaling: Floats, raw: list[Floats]) -> Floats:
    """The scaling with the numbers (n,) of more vectors; NaN is missing (Welford 1962)."""
    for numbers in raw if scaling.size else ():
        vectors, seen, mean, square = scaling
        if vectors[0] >= FIRST:
            break
        there = ~np.isnan(numbers)
        seen = seen + there
        step = np.where(there, numbers - mean, 0.0)
        mean = mean + step / np.maximum(seen, 1.0)
        square = square + step * np.where(there, numbers - mean, 0.0)
        scaling = frozen(np.array([vectors + 1.0, seen, mean, square]))
    return scaling


def standardised(raw: Floats, scaling: Floats) -> Floats:
    """Numbers in standard deviations from their mean, with these noted; NaN stays.

    Numbers that hardly differed at first are clipped, so that they stay features.
    """
    _, seen, mean, square = noted(scaling, [raw])
    spread = np.sqrt(square / np.maximum(seen, 1.0))
    scaled: Floats = (raw - mean) / np.where(spread > 0.0, spread, 1.0)
    return scaled.clip(-LARGEST, LARGEST)


def _read(name: str, given: object) -> tuple[str | tuple[str, ...], list[str]]:
    """The kind of a field, and the names of the components of its values."""
    if isinstance(given, list | tuple) and given:
        texts = [str(value) if isinstance(value, bool) else value for value in given]
        values = distinct(f"the values of {name}", texts)
        return values, [f"{name} = {value}" for value in (*values, "another")]
    if given == "number":
        return "number", [name]
    label, _, width = str(given).partition(":")
    if label != "category" or not (given == label or (width.isascii() and width.isdigit())):
        raise ValueError(
            f"{name} must be 'number', 'category', 'category:WIDTH' or a list of values, "
            f"got {checks.show(given)}"
        )
    groups = checks.integer(f"the width of {name}", int(width[:9] or HASHED), 1, 2**16)
    return str(given), [f"{name} in group {group}" for group in range(groups)]


def bounded(name: str, given: Floats, largest: float) -> None:
    """Check that no number is larger."""
    wrong = given[~(np.abs(given) <= largest)]
    if wrong.size:
        raise ValueError(f"{name} must hold finite numbers of at most {largest:g}, got {wrong[0]}")


def distinct(name: str, given: Sequence[object]) -> tuple[str, ...]:
    """The texts, if they differ."""
    for value in given:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be texts, got {checks.show(value)}")
    if len(set(given)) < len(given):
        raise ValueError(f"{name} must differ, got {checks.show(list(given))}")
    return tuple(map(str, given))
