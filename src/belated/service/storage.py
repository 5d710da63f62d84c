"""What a learner is kept in: an append-only log and snapshots.

One object is one learner, open for one process. `append` returns when everything is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from belated.service.log import LogError, checksum


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

    def add_snapshot(self, number: int, content: bytes) -> None:
        """Keep a snapshot of the learner after this event, and the one before it."""
        ...

    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """Those that are kept, newest first."""
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
            raise LogError(f"event {number} is missing from the log")
        before = checksum(before, row.written)
        if row.checksum != before:
            raise LogError(f"event {number} of the log is damaged: its checksum does not fit")
        yield row
