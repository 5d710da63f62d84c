"""Quantiles of a stream of whole numbers, in bounded memory.

Numbers below 64 are counted exactly; each doubling above that is divided into 32 buckets of equal
width, so that a quantile is too small by less than 1/32 of itself. There are fewer than 2,000
buckets, however many and however large the numbers are.
"""

from __future__ import annotations

from belated.core import checks
from belated.core.tree import Learned

EXACT = 6
"""Numbers of at most this many bits have a bucket each."""
HALF = 1 << (EXACT - 1)


class Quantiles(Learned):
    """The number of values added, and their quantiles."""

    _buckets: dict[int, int]

    def __init__(self) -> None:
        self._buckets = {}

    def __copy__(self) -> Quantiles:
        made = Quantiles()
        made._buckets = self._buckets.copy()
        return made

    def add(self, number: int) -> None:
        """Count a number of at least 0."""
        bucket = number if number < 2 * HALF else _bucket(number)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def count(self) -> int:
        """The number of values added."""
        return sum(self._buckets.values())

    def at(self, *shares: float) -> list[int]:
        """Quantiles of the values so far, one for every share; empty if there are no values."""
        count = self.count
        found = []
        for share in shares if count else ():
            wanted, passed = share * count, 0
            for bucket in sorted(self._buckets):
                passed += self._buckets[bucket]
                if passed >= wanted:
                    found.append(_least(bucket))
                    break
        return found

    def check_learned(self) -> None:
        """Check that every bucket can be one."""
        for bucket, count in self._buckets.items():
            checks.integer("bucket", bucket, 0, _bucket(2**62))
            checks.integer("count", count, 1, checks.MOST)


def _bucket(number: int) -> int:
    """The bucket of a number: the number itself, or its length in bits and its highest bits."""
    shift = max(number.bit_length() - EXACT, 0)
    return HALF * shift + (number >> shift)


def _least(bucket: int) -> int:
    """The least number of a bucket."""
    shift = max(bucket // HALF - 1, 0)
    return (bucket - HALF * shift) << shift
