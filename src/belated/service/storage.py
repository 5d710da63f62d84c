"""What a learner is kept in: an append-only log and snapshots.

One object is one learner, open for one process. `append` returns when everything is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from belated.service.events import LogError, checksum

KEPT = 2
"""Snapshots."""
SLICE = 2_000
"""Events that are deleted at once."""


class StorageError(Exception):
    """The storage does not work: full, gone, or locked. What was not acknowledged may be lost."""


class Taken(StorageError):
    """Another process drives this learner. address: where, if it said so."""

    def __init__(self, message: str, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class Row(NamedTuple):
    """An event as it is stored; number counts from 1."""

    number: int
    format: int
    written: str
    checksum: int


class Storage(Protocol):
    """An open learner."""

    def append(self, rows: Sequence[Row]) -> None:
        """Put events at the end: all of them, on disk, or raise `StorageError`."""
        ...

    def events(self, after: int) -> Iterator[Row]:
        """The events behind this number, in order."""
        ...

    def beside(self) -> Iterator[Row]:
        """All events, through a connection of its own, while others are written; in any thread."""
        ...

    def add_piece(self, number: int, place: int, content: bytes, *, last: bool) -> None:
        """Keep a piece of the snapshot after this event; it is whole once the last one is kept."""
        ...

    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """The whole ones, newest first."""
        ...

    def tidy(self, log: int | None) -> bool:
        """Delete a little of what is not needed; returns whether there may be more.

        Not needed are snapshots older than the two newest whole ones and, if the log is to be
        short, events that both of these cover, but for the first event and the newest `log`.
        """
        ...

    def check(self) -> None:
        """Raise `StorageError` if the learner is not ours any more."""
        ...

    def close(self) -> None:
        """Let another process drive the learner."""
        ...


def checked(rows: Iterator[Row], after: int, before: int) -> Iterator[Row]:
    """The rows, if none is missing or damaged. before: checksum of the row `after`."""
    number = after
    for row in rows:
        number += 1
        if row.number != number:
            short = "; a log that was shortened needs a whole snapshot" if after == 0 else ""
            raise LogError(f"event {number} is missing from the log{short}")
        before = checksum(before, row.written)
        if row.checksum != before:
            raise LogError(f"event {number} of the log is damaged: its checksum does not fit")
        yield row
