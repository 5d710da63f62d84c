"""A learner in an SQLite file, with a lock file beside it.

The write-ahead log with synchronous = FULL: a commit is on disk when it returns. Its frames have
checksums, so a page that was torn when the machine stopped is left out, and nothing behind it was
acknowledged. The lock is the operating system's, so it ends with the process that held it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from belated.service.storage import KEPT, SLICE, Row, StorageError, Taken

PAGE = 5_000
"""Events that are read at once beside the writer."""
LAYOUT = 2
"""Of the tables, in `PRAGMA user_version`; events have formats of their own."""
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
STEPS = {
    0: EVENTS + SNAPSHOTS,
    1: "DROP TABLE snapshots;" + SNAPSHOTS,  # those were in one piece; the log was never shortened
}
"""From every older layout to this one."""


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
        if found != "ok":  # a damaged page may hide the newest events, which no checksum misses
            self._db.close()
            raise StorageError(f"{path} is damaged: {' '.join(found.split())}")
        layout = self._db.execute("PRAGMA user_version").fetchone()[0]
        if layout in STEPS:
            self._db.executescript(f"BEGIN;{STEPS[layout]}PRAGMA user_version = {LAYOUT};COMMIT;")
        elif layout != LAYOUT:
            self._db.close()
            raise StorageError(f"{path} has layout {layout}; this release reads {LAYOUT}")
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that the name of a new file lasts too
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
            ).fetchall():  # in pages, so that the write-ahead log is never held back for long
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
        """The whole snapshots, newest first."""
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
        """All of it on disk, or `StorageError` and nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):  # the file will be opened again anyway
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
    """What SQLite cannot read is a `StorageError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"the file cannot be read: {error}") from None
