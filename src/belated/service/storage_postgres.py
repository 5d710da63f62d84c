"""A learner in a PostgreSQL database, for several server processes.

Exactly one process runs a learner: the one whose connection holds its advisory lock. Everything is
written through that connection, so a process that has lost the lock cannot write. The lock ends
with the connection, and another process takes over.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from belated.service.storage import KEPT, SLICE, Row, StorageError, Taken

TABLES = """
CREATE TABLE IF NOT EXISTS belated_events (
    learner text NOT NULL, number bigint NOT NULL, format int NOT NULL, written text NOT NULL,
    checksum bigint NOT NULL, PRIMARY KEY (learner, number)
);
CREATE TABLE IF NOT EXISTS belated_pieces (
    learner text NOT NULL, number bigint NOT NULL, place int NOT NULL, last boolean NOT NULL,
    content bytea NOT NULL, PRIMARY KEY (learner, number, place)
);
CREATE TABLE IF NOT EXISTS belated_drivers (learner text PRIMARY KEY, address text);
"""
PAGE = 5_000
"""The number of events that are read at once."""
PATIENCE = 5
"""Seconds to connect."""


def lock_of(learner: str) -> int:
    """The number of the advisory lock of a learner."""
    made = hashlib.blake2b(f"belated learner {learner}".encode(), digest_size=8).digest()
    return int.from_bytes(made, "big", signed=True)


class PostgresStorage:
    """A learner in a database. Raises `Taken` if another process runs it.

    address: the address of this process, for other processes.
    """

    def __init__(self, url: str, learner: str, address: str | None = None) -> None:
        self._learner = learner
        self._url = url
        try:
            self._db = psycopg.connect(url, autocommit=True, connect_timeout=PATIENCE)
        except psycopg.Error as error:
            raise StorageError(f"the database does not answer: {_line(error)}") from None
        try:
            self._claim(address)
        except psycopg.Error as error:
            self.close()
            raise StorageError(_line(error)) from None
        except BaseException:
            self.close()
            raise

    def _claim(self, address: str | None) -> None:
        self._db.execute("SET synchronous_commit = on")
        with self._db.transaction():
            self._db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_of(""),))
            self._db.execute(TABLES)
        got = self._db.execute("SELECT pg_try_advisory_lock(%s)", (lock_of(self._learner),))
        if got.fetchone() == (True,):
            self._db.execute(
                "INSERT INTO belated_drivers VALUES (%s, %s) "
                "ON CONFLICT (learner) DO UPDATE SET address = excluded.address",
                (self._learner, address),
            )
            return
        found = self._db.execute(
            "SELECT address FROM belated_drivers WHERE learner = %s", (self._learner,)
        ).fetchone()
        raise Taken("another process drives it", found[0] if found else None)

    def append(self, rows: Sequence[Row]) -> None:
        """See `Storage`."""
        with self._transaction(), self._db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO belated_events VALUES (%s, %s, %s, %s, %s)",
                [(self._learner, *row) for row in rows],
            )

    def events(self, after: int) -> Iterator[Row]:
        """See `Storage`."""
        return self._pages(self._db, after)

    def beside(self) -> Iterator[Row]:
        """See `Storage`."""
        try:
            db = psycopg.connect(self._url, autocommit=True, connect_timeout=PATIENCE)
        except psycopg.Error as error:
            raise StorageError(f"the database does not answer: {_line(error)}") from None
        with contextlib.closing(db):
            yield from self._pages(db, 0)

    def _pages(self, db: psycopg.Connection[Any], after: int) -> Iterator[Row]:
        while True:
            try:
                found = db.execute(
                    "SELECT number, format, written, checksum FROM belated_events "
                    "WHERE learner = %s AND number > %s ORDER BY number LIMIT %s",
                    (self._learner, after, PAGE),
                ).fetchall()
            except psycopg.Error as error:
                raise StorageError(_line(error)) from None
            yield from map(Row._make, found)
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def add_piece(self, number: int, place: int, content: bytes, *, last: bool) -> None:
        """See `Storage`."""
        with self._transaction():
            if place == 0:
                self._db.execute(
                    "DELETE FROM belated_pieces WHERE learner = %s AND number = %s",
                    (self._learner, number),
                )
            self._db.execute(
                "INSERT INTO belated_pieces VALUES (%s, %s, %s, %s, %s)",
                (self._learner, number, place, last, content),
            )

    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """See `Storage`."""
        for number in self._whole():
            with self._transaction():
                found = self._db.execute(
                    "SELECT content FROM belated_pieces WHERE learner = %s AND number = %s "
                    "ORDER BY place",
                    (self._learner, number),
                ).fetchall()
            yield number, b"".join(piece for (piece,) in found)

    def _whole(self) -> list[int]:
        """The complete snapshots, newest first."""
        with self._transaction():
            found = self._db.execute(
                "SELECT number FROM belated_pieces WHERE learner = %s AND last "
                "ORDER BY number DESC",
                (self._learner,),
            ).fetchall()
        return [number for (number,) in found]

    def tidy(self, log: int | None) -> bool:
        """See `Storage`."""
        kept = self._whole()[:KEPT]
        if len(kept) < KEPT:
            return False
        newest, oldest = kept
        with self._transaction():
            deleted = self._db.execute(
                "DELETE FROM belated_pieces WHERE ctid IN (SELECT ctid FROM belated_pieces "
                "WHERE learner = %s AND number < %s AND number <> %s LIMIT 1)",
                (self._learner, newest, oldest),
            ).rowcount
            if log is not None:
                deleted += self._db.execute(
                    "DELETE FROM belated_events WHERE learner = %s AND number IN "
                    "(SELECT number FROM belated_events WHERE learner = %s AND number > 1 "
                    "AND number <= least(%s, (SELECT max(number) FROM belated_events "
                    "WHERE learner = %s) - %s) ORDER BY number LIMIT %s)",
                    (self._learner, self._learner, oldest, self._learner, log, SLICE),
                ).rowcount
        return deleted > 0

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction that is on disk when it ends; raises `StorageError` otherwise."""
        try:
            with self._db.transaction():
                yield
        except psycopg.Error as error:
            raise StorageError(_line(error)) from None

    def check(self) -> None:
        """See `Storage`."""
        with self._transaction():
            self._db.execute("SELECT 1")

    def close(self) -> None:
        """See `Storage`."""
        with contextlib.suppress(psycopg.Error):
            self._db.close()


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
