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
from belated.core.tree import Configured, Entries

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
        self._places: dict[str, int] = {}  # where each field begins
        self._known: dict[str, dict[str, int]] = {}  # places of listed values
        self.width = 0
        for name, given in fields.items():
            kind = given if isinstance(given, str) else _values(name, given)
            if not isinstance(kind, str):
                self._known[name] = {value: place for place, value in enumerate(kind)}
            self.fields[name] = kind
            self._places[name] = self.width
            self.width += _width(name, kind)
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
        vector = np.zeros(self.width)
        raw = np.full(len(self.numbers), math.nan)
        for n, name in enumerate(self.numbers):
            value = given.get(name)
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                raw[n] = checks.real(name, value, -LARGEST, LARGEST)
        for name, value, missing in zip(
            self.numbers, scaling.scaled(raw), np.isnan(raw), strict=True
        ):
            vector[self._places[name] + missing] = 1.0 if missing else value
        for name, kind in self.fields.items():
            if kind != "number":
                vector[self._places[name] + self._place(name, kind, given.get(name))] = 1.0
        return vector, raw

    def labels(self) -> list[str]:
        """The name of each component of the vector for people, (width,)."""
        found = []
        for name, kind in self.fields.items():
            if kind == "number":
                found += [name, f"{name} missing"]
            elif isinstance(kind, str):
                places = range(_hashed(name, kind))
                found += [*(f"{name} in group {place}" for place in places), f"{name} missing"]
            else:
                values = (*kind, "another")
                found += [*(f"{name} = {value}" for value in values), f"{name} missing"]
        return found

    def groups(self) -> list[range]:
        """The places of the values of each category; exactly one of them is 1."""
        return [
            range(place, place + _width(name, self.fields[name]))
            for name, place in self._places.items()
            if self.fields[name] != "number"
        ]

    def _place(self, name: str, kind: str | tuple[str, ...], value: object) -> int:
        """The place of a category's value within its field."""
        missing = value is None or (isinstance(value, float) and math.isnan(value))
        if not missing and not isinstance(value, str | int | bool | np.integer | np.bool_):
            raise ValueError(
                f"{name} must be a text, a whole number or None, got {checks.show(value)}"
            )
        if not isinstance(kind, str):
            known, text = self._known[name], str(value)
            if isinstance(value, bool | np.bool_) and text not in known:
                text = text.lower()  # True may be listed as "true"
            return len(kind) + 1 if missing else known.get(text, len(kind))
        places = _hashed(name, kind)
        return places if missing else zlib.crc32(f"{name}={value}".encode()) % places

    def configuration(self) -> dict[str, Any]:
        """The arguments, for people and files."""
        return {
            name: kind if isinstance(kind, str) else list(kind)
            for name, kind in self.fields.items()
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Features):
            return NotImplemented
        return list(self.fields.items()) == list(other.fields.items())

    def __hash__(self) -> int:
        return hash(tuple(self.fields.items()))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={kind!r}" for name, kind in self.configuration().items())
        return f"Features({given})"


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

    def note(self, raw: Floats) -> None:
        """Count the numbers (n,) of a decision; NaN is missing."""
        if self.vectors < FIRST and len(raw):
            self.seen, self.mean, self.square = self._with(raw)
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


def _width(name: str, kind: str | tuple[str, ...]) -> int:
    """The number of components of a field."""
    if kind == "number":
        return 2
    return _hashed(name, kind) + 1 if isinstance(kind, str) else len(kind) + 2


def _hashed(name: str, kind: str) -> int:
    """Places of an open category."""
    label, colon, places = kind.partition(":")
    if label != "category" or (colon and not (places.isascii() and places.isdigit())):
        raise _no_kind(name, kind)
    return checks.integer(f"the width of {name}", int(places[:9]), 1, 2**16) if colon else HASHED


def _no_kind(name: str, kind: object) -> ValueError:
    return ValueError(
        f"{name} must be 'number', 'category', 'category:WIDTH' or a list of values, "
        f"got {checks.show(kind)}"
    )


def _values(name: str, kind: object) -> tuple[str, ...]:
    """The listed values of a category."""
    if not isinstance(kind, list | tuple) or not kind:
        raise _no_kind(name, kind)
    kind = [str(value) if isinstance(value, bool) else value for value in kind]
    for value in kind:
        if not isinstance(value, str):
            raise ValueError(f"the values of {name} must be texts, got {checks.show(value)}")
    if len(set(kind)) < len(kind):
        raise ValueError(f"the values of {name} must differ, got {checks.show(kind)}")
    return tuple(kind)
