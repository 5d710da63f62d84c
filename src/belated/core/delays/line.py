"""The delay line: records wait here until they are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from belated.core import checks
from belated.core.delays.arithmetic import NEVER


class Numbered(Protocol):
    """Anything that belongs to an episode."""

    @property
    def episode(self) -> int:
        """The number of the episode."""
        ...


R = TypeVar("R", bound=Numbered)

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
        batch = list(records)
        for record in batch:
            if not hasattr(record, "episode"):
                raise ValueError(f"records must have an episode number, got {checks.show(record)}")
        for record in batch:
            if delay != NEVER:
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
