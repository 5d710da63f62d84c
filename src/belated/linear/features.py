"""Vectors from named numbers and categories."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.tree import Configured, Entries, call

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
        self.width = 0
        for name, given in fields.items():
            self.fields[name], values = _read(name, given)
            self._places[name] = range(self.width, self.width + values)
            self.width += values + 1
        self.numbers = tuple(name for name, kind in self.fields.items() if kind == "number")

    def vector(self, given: object, scaling: Scaling) -> tuple[Floats, Floats]:
        """The vector (width,) of named values, and the numbers among them, unscaled.

        Absent names are missing values. The scaling does not change: it notes the numbers once the
        vector is used.
        """
        if not isinstance(given, Mapping):
            raise ValueError(
                f"x must be a table with the features {', '.join(self.fields)}, "
                f"got {checks.show(given)}"
            )
        for name in given:
            if name not in self.fields:
                checks.choice("the name of a feature", name, self.fields)
        vector, raw = np.zeros(self.width), np.full(len(self.numbers), math.nan)
        for n, name in enumerate(self.numbers):
            if not _is_missing(given.get(name)):
                raw[n] = checks.real(name, given[name], -LARGEST, LARGEST)
        scaled = dict(zip(self.numbers, scaling.scaled(raw), strict=True))
        for name, places in self._places.items():
            if _is_missing(given.get(name)):
                vector[places.stop] = 1.0
            elif name in scaled:
                vector[places.start] = scaled[name]
            else:
                vector[self._place(name, given[name])] = 1.0
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
        found = []
        for name, kind in self.fields.items():
            if kind == "number":
                found.append(name)
            elif isinstance(kind, str):
                found += [f"{name} in group {group}" for group in range(len(self._places[name]))]
            else:
                found += [f"{name} = {value}" for value in (*kind, "another")]
            found.append(f"{name} missing")
        return found

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


@dataclass(slots=True, eq=False)
class Scaling:
    """Mean and spread of the numbers of a learner's first vectors, which are then fixed.

    Attributes:
        vectors: how many vectors were counted.
        seen: how many numbers of each feature were not missing.
        mean: of these numbers.
        square: the sum of their squared distances from the mean.
    """

    vectors: Annotated[int, Entries(low=0, high=FIRST)]
    seen: Annotated[Floats, Entries("numbers", 0.0, FIRST)]
    mean: Annotated[Floats, Entries("numbers")]
    square: Annotated[Floats, Entries("numbers", 0.0)]

    def note(self, raw: list[Floats]) -> None:
        """Count the numbers (n,) of each vector; NaN is missing."""
        for numbers in raw[: FIRST - self.vectors]:
            if len(numbers):
                self.seen, self.mean, self.square = self._with(numbers)
                self.vectors += 1

    def scaled(self, raw: Floats) -> Floats:
        """Numbers in standard deviations from their mean, with these noted; NaN stays.

        Numbers that hardly differed at first are clipped, so that they stay features.
        """
        seen, mean, square = self._with(raw)
        spread = np.sqrt(square / np.maximum(seen, 1.0))
        scaled = (raw - mean) / np.where(spread > 0.0, spread, 1.0)
        return np.clip(scaled, -LARGEST, LARGEST)

    def _with(self, raw: Floats) -> tuple[Floats, Floats, Floats]:
        """Count, mean and squared distances with these numbers (Welford 1962)."""
        if self.vectors >= FIRST:
            return self.seen, self.mean, self.square
        there = ~np.isnan(raw)
        seen = self.seen + there
        step = np.where(there, raw - self.mean, 0.0)
        mean = self.mean + step / np.maximum(seen, 1.0)
        return seen, mean, self.square + step * np.where(there, raw - mean, 0.0)


def unscaled(features: object) -> Scaling:
    """The scaling of a fresh learner."""
    count = len(features.numbers) if isinstance(features, Features) else 0
    return Scaling(0, np.zeros(count), np.zeros(count), np.zeros(count))


def _is_missing(value: object) -> bool:
    """Whether a value is None or not a number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _read(name: str, given: object) -> tuple[str | tuple[str, ...], int]:
    """The kind of a field, and the number of components of its values."""
    if isinstance(given, list | tuple) and given:
        texts = [str(value) if isinstance(value, bool) else value for value in given]
        return distinct(f"the values of {name}", texts), len(given) + 1
    label, _, places = given.partition(":") if isinstance(given, str) else ("", "", "")
    if label == "category" and places.isascii() and places.isdigit():
        return f"{given}", checks.integer(f"the width of {name}", int(places[:9]), 1, 2**16)
    if given not in ("number", "category"):
        raise ValueError(
            f"{name} must be 'number', 'category', 'category:WIDTH' or a list of values, "
            f"got {checks.show(given)}"
        )
    return str(given), 1 if given == "number" else HASHED


def distinct(name: str, given: Sequence[object]) -> tuple[str, ...]:
    """The texts, if they differ."""
    for value in given:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be texts, got {checks.show(value)}")
    if len(set(given)) < len(given):
        raise ValueError(f"{name} must differ, got {checks.show(list(given))}")
    return tuple(map(str, given))
