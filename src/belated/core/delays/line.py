"""Arrays of delays, and the delay line, in which records wait until they are due."""

import heapq
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints

R = TypeVar("R")

NEVER = checks.LARGEST_INTEGER
"""The delay of feedback that is lost. Models print it as `NEVER`."""


def as_delays(name: str, value: object) -> Ints:
    """Check an array of delays (K,) and return a copy; NaN and infinity become `NEVER`.

    Args:
        name: the name of the argument, for the error message.
        value: whole numbers from 0 to `NEVER`, as integers or as floats; None is NaN.

    Example:
        >>> bl.delays.as_delays('delays', [0, 3])
        array([0, 3])
    """
    array = np.asarray(value)
    if array.dtype == object:  # None, or numbers beyond those of NumPy
        array = checks.numbers(name, value, "(K,)")
    if array.dtype.kind == "f" and array.ndim == 1:
        lost = ~np.isfinite(array) | (array == NEVER)
        numbers = np.where(lost, 0.0, array)
        wrong = (numbers != np.floor(numbers)) | (array < 0) | (numbers > NEVER)
        if np.any(wrong):
            raise ValueError(
                f"{name} must be whole numbers from 0 to 2**62, NaN or infinity, "
                f"got {array[wrong][0]}"
            )
        value = np.where(lost, NEVER, numbers.astype(np.int64))
    return checks.whole_numbers(name, value, 0, NEVER)


def total_delay(delays: Ints) -> int:
    """The sum of the delays (K,) of a run, each cut off at the last episode: min(d_k, K - 1 - k).

    This is D in the theory. Lost feedback counts until the end of the run.

    Example:
        >>> bl.delays.total_delay(np.array([1, 0, 0]))
        1
    """
    left = len(delays) - 1 - np.arange(len(delays))
    return int(np.minimum(delays, left).sum())


def missing_feedback(delays: Ints) -> Ints:
    """For every episode k, the number of episodes up to k whose feedback arrives after k.

    Args:
        delays: the delays (K,) of a run.

    Example:
        >>> bl.delays.missing_feedback(np.array([1, 0, 0]))
        array([1, 0, 0])
    """
    K = len(delays)
    arrival = np.arange(K) + delays
    arrived = np.bincount(arrival[arrival < K], minlength=K)
    missing: Ints = np.arange(1, K + 1) - np.cumsum(arrived)
    return missing


_BY_EPISODE = itemgetter(1, 2)  # sort key: the episode, then the order of arrival


class DelayLine(Generic[R]):
    """A queue of records: a record of episode k with delay d comes out of `release(k + d)`.

    Example:
        >>> line = bl.DelayLine()
        >>> line.push([bl.Costs(0, [0.5])], delay=2)
        >>> [len(line.release(k)) for k in range(4)]
        [0, 0, 1, 0]
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, int, R]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, records: Iterable[R], delay: int) -> None:
        """Add records that share a delay. Lost records (`NEVER`) are dropped to save memory."""
        delay = checks.integer("delay", delay, 0, NEVER)
        batch: list[Any] = list(records)
        for record in batch:
            if not hasattr(record, "episode"):
                raise ValueError(f"records must have an episode number, got {checks.show(record)}")
        for record in batch if delay != NEVER else ():
            due = record.episode + delay
            heapq.heappush(self._waiting, (due, record.episode, self._pushed, record))
            self._pushed += 1

    def release(self, episode: int) -> list[R]:
        """Return and remove the records due by the end of this episode, oldest episode first."""
        due = []
        while self._waiting and self._waiting[0][0] <= episode:
            due.append(heapq.heappop(self._waiting))
        due.sort(key=_BY_EPISODE)
        return [record for _, _, _, record in due]
