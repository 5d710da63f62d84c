"""The storage of a learner: an append-only log and snapshots.

A `Storage` is one learner, open for one process; here it is an SQLite file with a lock file.

Its write-ahead log has synchronous = FULL: a commit is on disk when it returns. Its frames have
checksums, so a page that was torn when the machine stopped is ignored, and nothing after it was
acknowledged. The lock belongs to the operating system, so it ends with the process that holds it.

Events are committed in groups: the events that arrive while one group is being written form the
next group. A commit costs a few milliseconds whatever its size. So one thread commits, and all
waiting requests share the cost. The log keeps the order in which events were appended: if an event
is on disk, so are all earlier ones. The same thread writes snapshots and deletes old data, a little
after each group, so that no event waits long for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

from belated.service.wire import FORMAT, Event, LogError, checksum, write

KEPT = 2
"""The number of snapshots to keep."""
SLICE = 2_000
"""The number of events that are deleted at once."""
IDLE = 1.0
"""Seconds without events after which the storage is checked."""
Piece = tuple[int, bytes, bool]
"""A piece of a snapshot: its place, its content, and whether it is the last."""
Snapshot = tuple[int, Iterator[Piece]]
PAGE = 5_000
"""The number of events that are read at once while others are written."""
LAYOUT = 2
"""The layout of the tables, in `PRAGMA user_version`; events have their own formats."""
EVENTS = """
CREATE TABLE events (
    number INTEGER PRIMARY KEY, format INTEGER NOT NULL, written TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
"""
SNAPSHOTS = """
CREATE TABLE snapshots (
    number INTEGER NOT NULL, place INTEGER NOT NULL, last INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (number, place)
);
"""


class StorageError(Exception):
    """The storage is full, missing, or locked. Unacknowledged events may be lost."""


class Taken(StorageError):
    """Another process runs this learner. address: its address, if known."""

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
        """Append events: all of them, on disk, or raise `StorageError`."""
        ...

    def events(self, after: int) -> Iterator[Row]:
        """The events after this number, in order."""
        ...

    def beside(self) -> Iterator[Row]:
        """All events, through a separate connection, while others are written; in any thread."""
        ...

    def add_piece(self, number: int, place: int, content: bytes, *, last: bool) -> None:
        """Store a piece of the snapshot after this event; the last piece completes it."""
        ...

    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """The complete snapshots, newest first."""
        ...

    def tidy(self, log: int | None) -> bool:
        """Delete some of the data that is not needed; returns whether there may be more.

        Not needed are snapshots older than the two newest complete ones and, if the log is limited,
        events that both of these cover, except the first event and the newest `log`.
        """
        ...

    def check(self) -> None:
        """Raise `StorageError` if the learner is not ours any more."""
        ...

    def close(self) -> None:
        """Release the learner for other processes."""
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


class SQLiteStorage:
    """A learner in a file. Raises `Taken` if another process has it open."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.with_suffix(".lock")
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise Taken(f"{path} is open in another process") from None
        try:
            self._open(path)
        except sqlite3.Error as error:
            os.close(self._lock)
            raise StorageError(f"{path}: {error}") from None
        except StorageError:
            os.close(self._lock)
            raise

    def _open(self, path: Path) -> None:
        self._path = path
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        (found,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":  # a damaged page may hide the newest events from checksums
            self._db.close()
            raise StorageError(f"{path} is damaged: {' '.join(found.split())}")
        layout = self._db.execute("PRAGMA user_version").fetchone()[0]
        if layout == 0:
            made = f"BEGIN;{EVENTS}{SNAPSHOTS}PRAGMA user_version = {LAYOUT};COMMIT;"
            self._db.executescript(made)
        elif layout != LAYOUT:
            self._db.close()
            raise StorageError(f"{path} has layout {layout}; this release reads {LAYOUT}")
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that the name of a new file is durable too
        finally:
            os.close(directory)

    def append(self, rows: Sequence[Row]) -> None:
        """See `Storage`."""
        with self._transaction():
            self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)

    def events(self, after: int) -> Iterator[Row]:
        """See `Storage`."""
        with _readable():
            found = self._db.execute(
                "SELECT number, format, written, checksum FROM events WHERE number > ? "
                "ORDER BY number",
                (after,),
            )
            yield from map(Row._make, found)

    def beside(self) -> Iterator[Row]:
        """See `Storage`."""
        address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        after = 0
        with (
            _readable(),
            contextlib.closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as db,
        ):
            while found := db.execute(
                "SELECT number, format, written, checksum FROM events WHERE number > ? "
                "ORDER BY number LIMIT ?",
                (after, PAGE),
            ).fetchall():  # in pages, so that the write-ahead log is not blocked for long
                yield from map(Row._make, found)
                after = found[-1][0]

    def add_piece(self, number: int, place: int, content: bytes, *, last: bool) -> None:
        """See `Storage`."""
        with self._transaction():
            if place == 0:
                self._db.execute("DELETE FROM snapshots WHERE number = ?", (number,))
            self._db.execute(
                "INSERT INTO snapshots VALUES (?, ?, ?, ?)", (number, place, last, content)
            )

    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """See `Storage`."""
        with _readable():
            for number in self._whole():
                pieces = self._db.execute(
                    "SELECT content FROM snapshots WHERE number = ? ORDER BY place", (number,)
                )
                yield number, b"".join(piece for (piece,) in pieces)

    def _whole(self) -> list[int]:
        """The complete snapshots, newest first."""
        found = self._db.execute("SELECT number FROM snapshots WHERE last ORDER BY number DESC")
        return [number for (number,) in found]

    def tidy(self, log: int | None) -> bool:
        """See `Storage`."""
        with self._transaction():
            kept = self._whole()[:KEPT]
            if len(kept) < KEPT:
                return False
            deleted = self._db.execute(
                "DELETE FROM snapshots WHERE rowid IN (SELECT rowid FROM snapshots "
                "WHERE number < ? AND number <> ? LIMIT 1)",
                kept,
            ).rowcount
            if log is not None:
                deleted += self._db.execute(
                    "DELETE FROM events WHERE number IN (SELECT number FROM events "
                    "WHERE number > 1 AND number <= ? "
                    "AND number <= (SELECT max(number) FROM events) - ? ORDER BY number LIMIT ?)",
                    (kept[-1], log, SLICE),
                ).rowcount
        return deleted > 0

    def check(self) -> None:
        """See `Storage`; a file stays locked."""

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction that is on disk when it ends; raises `StorageError` otherwise."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):  # the file will be opened again in any case
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            raise StorageError(str(error)) from None

    def close(self) -> None:
        """See `Storage`."""
        try:
            self._db.close()
        finally:
            os.close(self._lock)


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Turn errors of SQLite into `StorageError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"the file cannot be read: {error}") from None


class Committer:
    """Writes the events of a session. `append` and `durable` belong to the event loop.

    Args:
        storage: the storage; used only by the thread, from `start` on.
        number: the number of the last stored event, and its checksum.
        failed: called in the event loop, once, if something cannot be written.
        log: the number of events to keep at least; None: all.
    """

    def __init__(
        self,
        storage: Storage,
        number: int,
        last: int,
        failed: Callable[[str], None],
        log: int | None = None,
    ) -> None:
        self.number = number
        self._checksum = last
        self._storage = storage
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._pending: list[Row] = []
        self._log = log
        self._snapshot: Snapshot | None = None  # the newest one that is not being written
        self._writing: Snapshot | None = None
        self._untidy = True
        self._next: asyncio.Future[None] | None = None  # of the pending events
        self._current: asyncio.Future[None] | None = None  # of the events being written
        self._proof: asyncio.Future[None] | None = None  # that the learner is still ours
        self._ended = False
        self._stopping = False
        self.broken: str | None = None
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)
        self._thread.start()

    def append(self, event: Event) -> int:
        """Append an event to the log; returns its number."""
        written = write(event)
        self.number += 1
        self._checksum = checksum(self._checksum, written)
        row = Row(self.number, FORMAT, written, self._checksum)
        with self._wake:
            self._pending.append(row)
            if self._next is None:
                self._next = self._loop.create_future()
                self._next.add_done_callback(_seen)
            self._wake.notify()
        return self.number

    @property
    def last(self) -> int:
        """Checksum of the last event."""
        return self._checksum

    @property
    def waiting(self) -> int:
        """The number of events that are not on disk yet, without those being written."""
        return len(self._pending)

    async def durable(self) -> None:
        """Wait until everything appended so far is on disk."""
        with self._wake:
            if self.broken is not None:
                raise StorageError(self.broken)
            future = self._next or self._current
            if future is None:
                return
        await asyncio.shield(future)  # a client that disconnects must not stop the others

    async def proven(self) -> None:
        """Wait until the storage has confirmed, after this call, that the learner is ours.

        Another process that has taken over may know what is not known here.
        """
        with self._wake:
            if self.broken is not None or self._ended:
                raise StorageError(self.broken or "the learner was closed")
            if self._proof is None:
                self._proof = self._loop.create_future()
                self._proof.add_done_callback(_seen)
            future = self._proof
            self._wake.notify()
        await asyncio.shield(future)

    def keep(self, number: int, pieces: Iterator[Piece]) -> None:
        """Store a snapshot after the events that it covers; any thread may call this."""
        with self._wake:
            self._snapshot = (number, pieces)
            self._wake.notify()

    def stop(self) -> None:
        """Write what is pending and end; blocks."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                busy = self._pending or self._snapshot or self._writing or self._stopping
                if not (busy or self._untidy or self._proof):
                    self._wake.wait(IDLE)
                rows, self._pending = self._pending, []
                if self._writing is None:
                    self._writing, self._snapshot = self._snapshot, None
                proof, self._proof = self._proof, None
                if not (rows or proof) and self._writing is None and self._stopping:
                    self._ended = True
                    return
                done, self._current, self._next = self._next, self._next, None
            try:
                if rows:
                    self._storage.append(rows)
                with self._wake:
                    self._current = None
                self._tell(done, None)
                if proof or not rows:
                    self._storage.check()
                self._tell(proof, None)
                if self._untidy:
                    self._untidy = self._storage.tidy(self._log)
                if self._writing is not None:
                    number, pieces = self._writing
                    place, content, last = next(pieces)
                    self._storage.add_piece(number, place, content, last=last)
                    if last:
                        self._writing, self._untidy = None, True
            except Exception as error:  # nothing more may be acknowledged
                why = str(error) or type(error).__name__
                with self._wake:
                    self.broken = why
                    waiting = (done, self._next, proof, self._proof)
                    self._next = self._current = self._proof = None
                    self._pending = []
                for future in waiting:
                    self._tell(future, why)
                self._call(functools.partial(self._failed, why))
                return

    def _tell(self, future: asyncio.Future[None] | None, why: str | None) -> None:
        if future is not None:
            self._call(lambda: _settle(future, why))

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits
            self._loop.call_soon_threadsafe(function)


def _settle(future: asyncio.Future[None], why: str | None) -> None:
    if future.done():
        return
    if why is None:
        future.set_result(None)
    else:
        future.set_exception(StorageError(why))


def _seen(future: asyncio.Future[None]) -> None:
    """Mark an error as retrieved, since nothing may be waiting for it."""
    if not future.cancelled():
        future.exception()
