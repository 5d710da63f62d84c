"""The tables of a learner, in an SQLite file or in PostgreSQL: one schema, one set of statements.

    learners    the terms on which each learner was made, and its agent at that time
    episodes    one row per episode: key, beginning, sum of its outcomes, and how it was closed
    decisions   one row per decided step: what was observed, what was allowed, what was drawn
    outcomes    one row per reported fact; the same fact again is a duplicate or a conflict
    changes     calls of the agent: changed actions and settings, and batches without records
    policies    the policies of open episodes whose actions are requested step by step
    snapshots   agents as bytes; the two newest are kept
    models      what other processes decide from; the two newest are kept
    leases      blocks of numbers that other processes may give to decisions

`seq` numbers the requests of a learner that changed something, and `place` the outcomes within
one, so the rows say in which order everything happened. Rows of other processes have none until
the process that learns takes them. `version` is the number of calls that the agent had learned from
when it decided; `model` is the model from which another process decided, and `known` what that
says of the probabilities before the features are seen.

A commit is on disk when it returns: SQLite's write-ahead log has synchronous = FULL, PostgreSQL has
synchronous_commit = on. One process has a learner open. An SQLite file has a lock file, which the
system releases with the process; in PostgreSQL the lock belongs to the connection that writes, so
that a process that has lost the lock cannot write.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

LAYOUT = 5
"""The layout of the tables: `PRAGMA user_version` of SQLite, the comment of a PostgreSQL schema."""
OTHER_LAYOUT = (
    "{} has {}, that of another release; this release reads layout "
    f"{LAYOUT} only: give the learner a fresh {{}}"
)
PATIENCE = 5
"""Seconds to connect to a database."""
STANDSTILL = 20
"""Seconds after which PostgreSQL ends a transaction that does nothing, so its locks."""
LONGEST = 15 * STANDSTILL
"""Seconds after which it ends any transaction of the process that learns; of the others, as soon as
one that does nothing. One that was stopped between the rows of a statement is not idle for it."""
SHORT = 100
"""Milliseconds for which a process that does not learn waits for a lock before it tries again."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS learners (
    learner TEXT PRIMARY KEY, terms TEXT NOT NULL, made DOUBLE PRECISION NOT NULL,
    agent BYTEA NOT NULL, shortened BIGINT NOT NULL, leased BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS drivers (learner TEXT PRIMARY KEY, address TEXT);
CREATE TABLE IF NOT EXISTS episodes (
    learner TEXT NOT NULL, number BIGINT NOT NULL, key TEXT, seq BIGINT,
    version BIGINT NOT NULL, began DOUBLE PRECISION NOT NULL, policy TEXT,
    heard DOUBLE PRECISION, total DOUBLE PRECISION,
    closed DOUBLE PRECISION, ended BIGINT, why TEXT, model BIGINT,
    PRIMARY KEY (learner, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS episodes_key ON episodes (learner, key);
CREATE INDEX IF NOT EXISTS episodes_seq ON episodes (learner, seq);
CREATE INDEX IF NOT EXISTS episodes_ended ON episodes (learner, ended) WHERE ended IS NOT NULL;
CREATE INDEX IF NOT EXISTS episodes_open ON episodes (learner, number) WHERE closed IS NULL;
CREATE TABLE IF NOT EXISTS decisions (
    learner TEXT NOT NULL, number BIGINT NOT NULL, step INTEGER NOT NULL,
    observation TEXT NOT NULL, allowed TEXT NOT NULL, action INTEGER NOT NULL,
    probability DOUBLE PRECISION, holdout DOUBLE PRECISION NOT NULL, at DOUBLE PRECISION NOT NULL,
    known TEXT, PRIMARY KEY (learner, number, step)
);
CREATE TABLE IF NOT EXISTS outcomes (
    learner TEXT NOT NULL, number BIGINT NOT NULL, fact TEXT NOT NULL,
    value DOUBLE PRECISION, text TEXT, body TEXT, at DOUBLE PRECISION NOT NULL,
    happened DOUBLE PRECISION NOT NULL, status TEXT NOT NULL,
    seq BIGINT, place INTEGER NOT NULL,
    PRIMARY KEY (learner, number, fact)
);
CREATE INDEX IF NOT EXISTS outcomes_seq ON outcomes (learner, seq, place);
CREATE TABLE IF NOT EXISTS changes (
    learner TEXT NOT NULL, seq BIGINT NOT NULL, what TEXT NOT NULL, body TEXT NOT NULL,
    version BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (learner, seq)
);
CREATE TABLE IF NOT EXISTS policies (
    learner TEXT NOT NULL, digest TEXT NOT NULL, content BYTEA NOT NULL,
    PRIMARY KEY (learner, digest)
);
CREATE TABLE IF NOT EXISTS snapshots (
    learner TEXT NOT NULL, seq BIGINT NOT NULL, version BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL, content BYTEA NOT NULL,
    PRIMARY KEY (learner, seq)
);
"""
SHARED = """
CREATE INDEX IF NOT EXISTS episodes_began ON episodes (learner, began) WHERE closed IS NULL;
CREATE INDEX IF NOT EXISTS episodes_new ON episodes (learner, began) WHERE seq IS NULL;
CREATE INDEX IF NOT EXISTS outcomes_new ON outcomes (learner, number, fact) WHERE seq IS NULL;
CREATE TABLE IF NOT EXISTS models (
    learner TEXT NOT NULL, version BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (learner, version)
);
CREATE TABLE IF NOT EXISTS leases (
    learner TEXT NOT NULL, first BIGINT NOT NULL, past BIGINT NOT NULL,
    process INTEGER NOT NULL, started DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (learner, first)
);
"""
"""What several processes need beside the tables, in PostgreSQL only."""


class StorageError(Exception):
    """The storage is full, missing, damaged or locked; what was not acknowledged may be lost.

    taken: whether another process has the learner open, and address: its address, if known. busy:
    whether another process has locked what a transaction needs, so that it can be tried again.
    """

    def __init__(
        self, why: str, *, taken: bool = False, address: str | None = None, busy: bool = False
    ) -> None:
        super().__init__(why)
        self.taken, self.address, self.busy = taken, address, busy


class Tables:
    """A connection to the tables; see `SQLiteTables` and `PostgresTables`.

    day: the number of days since 1970 at which `e` began. shared: whether several processes can
    write. taken: who has the learner, if another process has.
    """

    day: str
    shared = False
    taken: StorageError | None = None
    _writes = _reads = "BEGIN"
    _form: Callable[[str], str] = str
    _error: type[Exception]
    _db: Any

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        try:
            self._connect()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | self._error):
                raise self._failure(error) from None
            raise

    def _connect(self) -> None:
        raise NotImplementedError

    def all(self, statement: str, *values: Any) -> list[Any]:
        """The rows that a statement returns; `?` stands for a value."""
        try:
            found = self._db.execute(self._form(statement), values)
            return found.fetchall() if found.description else []
        except self._error as error:
            raise self._failure(error) from None

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> int:
        """Execute a statement for each of these rows of values; returns how many rows changed."""
        try:
            cursor = self._db.cursor()
            cursor.executemany(self._form(statement), rows)
            return int(cursor.rowcount)
        except self._error as error:
            raise self._failure(error) from None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that is on disk when it ends, or raises `StorageError`."""
        self.all(self._writes)
        try:
            yield
            self.all("COMMIT")
        except BaseException:
            with contextlib.suppress(StorageError):  # the tables will be opened again in any case
                self.all("ROLLBACK")
            raise
        self.check()

    @contextlib.contextmanager
    def reader(self) -> Iterator[Tables]:
        """Another connection, which reads one state while others write; for any thread."""
        made = self._another()
        with contextlib.closing(made):
            made.all(made._reads)
            yield made

    def check(self) -> None:
        """Raise `StorageError` if the tables are not ours any more, after a commit.

        In PostgreSQL the lock belongs to the connection, so that a commit has seen it.
        """

    def close(self) -> None:
        """Release the learner for other processes."""
        with contextlib.suppress(self._error):
            self._open.close()

    def _another(self) -> Tables:
        raise NotImplementedError

    def _failure(self, error: Exception) -> StorageError:
        return StorageError(self._line(error))

    def _line(self, error: Exception) -> str:
        return " ".join(str(error).split()) or type(error).__name__


class SQLiteTables(Tables):
    """The tables in a file.

    Args:
        path: the file.
        create: whether to create the file if there is none.
        lock: whether to take the lock of the file, to write.
    """

    day = "CAST(e.began / 86400 AS INTEGER)"
    _writes = "BEGIN IMMEDIATE"
    _error = sqlite3.Error

    def __init__(self, path: Path, *, create: bool = True, lock: bool = True) -> None:
        self._path, self._locks = path, lock
        if not create and not path.exists():
            raise StorageError(
                f"{path} was deleted while the learner was open; put it back, or restart the "
                "server to begin anew"
            )
        super().__init__()

    def _connect(self) -> None:
        if self._locks:
            self._open.callback(os.close, _locked(self._path))
        address = f"file:{quote(str(self._path.resolve()))}?mode={'rw' if self._locks else 'ro'}"
        self._db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        self._open.callback(self._db.close)
        if self._locks:
            self._prepare()

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        (layout,) = db.execute("PRAGMA user_version").fetchone()
        if found != "ok":
            raise StorageError(f"{self._path} is damaged: {' '.join(found.split())}")
        if layout not in (0, LAYOUT):
            raise StorageError(OTHER_LAYOUT.format(self._path, f"layout {layout}", "directory"))
        if layout == 0:
            db.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version = {LAYOUT};COMMIT;")
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that the name of a new file is durable too
        finally:
            os.close(directory)
        self._file = os.stat(self._path)

    def _another(self) -> Tables:
        return SQLiteTables(self._path, lock=False)

    def _line(self, error: Exception) -> str:
        return f"{self._path}: {getattr(error, 'strerror', None) or error}"

    def check(self) -> None:
        """See `Tables`: a commit to a file without a name would be lost."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._path), self._file):
                return
        raise StorageError(f"{self._path} was deleted or replaced while the learner was open")


def _locked(path: Path) -> int:
    """The descriptor of the locked lock file of a file, which exists then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise StorageError(f"{path} is open in another process", taken=True) from None
        raise
    return lock


END_AFTER = "SELECT set_config(name, ?, false) FROM pg_settings WHERE name = 'transaction_timeout'"
"""How to limit the time of transactions, from PostgreSQL 17 on; earlier ones ignore it."""
LOCK = "hashtextextended('belated learner ' || CAST(? AS TEXT), 0)"
"""The number of the advisory lock of a learner, in PostgreSQL."""


@functools.lru_cache(maxsize=1000)
def _placed(statement: str) -> str:
    """A statement in the style of psycopg."""
    return statement.replace("%", "%%").replace("?", "%s")


class PostgresTables(Tables):
    """The tables in the schema `belated` of a database.

    Args:
        url: of the database.
        learner: whose lock to take; None for a reader.
        address: of this process, for other processes.
        joins: whether to write beside the process that has the lock, if there is one.
    """

    day = "CAST(floor(e.began / 86400) AS BIGINT)"
    shared = True
    _reads = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    _form = staticmethod(_placed)

    def __init__(
        self, url: str, learner: str | None, address: str | None = None, *, joins: bool = False
    ) -> None:
        import psycopg  # noqa: PLC0415 - only learners in PostgreSQL need it

        self._url, self._psycopg, self._error = url, psycopg, psycopg.Error
        self._learner, self._address, self._joins = learner, address, joins
        super().__init__()

    def _connect(self) -> None:
        try:
            self._db = self._psycopg.connect(self._url, autocommit=True, connect_timeout=PATIENCE)
        except self._error as error:
            raise StorageError(f"the database does not answer: {self._line(error)}") from None
        self._open.callback(self._db.close)
        self.all("SET search_path TO belated")
        if self._learner is not None:
            self._claim(self._learner)

    def _claim(self, learner: str) -> None:
        self.all("SET synchronous_commit = on")
        self.all(f"SET idle_in_transaction_session_timeout = '{STANDSTILL}s'")
        with self.transaction():
            self.all(f"SELECT pg_advisory_xact_lock({LOCK})", "")
            self.all("CREATE SCHEMA IF NOT EXISTS belated")
            ((made, layout),) = self.all(
                "SELECT to_regclass('learners') IS NOT NULL, "
                "coalesce(obj_description('belated'::regnamespace), 'no layout')"
            )
            if made and layout != f"layout {LAYOUT}":
                raise StorageError(OTHER_LAYOUT.format("the schema belated", layout, "database"))
            self.all(f"{SCHEMA}{SHARED}COMMENT ON SCHEMA belated IS 'layout {LAYOUT}'")
        if self.all(f"SELECT pg_try_advisory_lock({LOCK})", learner) != [(True,)]:
            found = self.all("SELECT address FROM drivers WHERE learner = ?", learner)
            where = found[0][0] if found else None
            self.taken = StorageError("another process drives it", taken=True, address=where)
            if not self._joins:
                raise self.taken
            self.all(f"SET lock_timeout = {SHORT}")
            self.all(END_AFTER, f"{STANDSTILL}s")
            return
        self.all(END_AFTER, f"{LONGEST}s")
        self.all(
            "INSERT INTO drivers VALUES (?, ?) "
            "ON CONFLICT (learner) DO UPDATE SET address = excluded.address",
            learner,
            self._address,
        )

    def _another(self) -> Tables:
        return PostgresTables(self._url, None)

    def _failure(self, error: Exception) -> StorageError:
        errors = self._psycopg.errors
        busy = isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected)
        return StorageError(self._line(error), busy=busy)
