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

`seq` counts the rows of a learner; those that one change has written share the number of the last,
and `place` orders its outcomes, so the rows say in which order everything happened. Rows of other
processes have none until the process that learns takes them. `version` is the number of calls that
the agent had learned from when it decided; `model` is the model from which another process decided,
and `known` what that says of the probabilities before the features are seen.

A commit is on disk when it returns: SQLite's write-ahead log has synchronous = FULL, with which
SQLite also syncs the directory of a new file, and PostgreSQL has synchronous_commit = on. One
process has a learner open. An SQLite file has a lock file, which the system releases with the
process; in PostgreSQL the lock belongs to the connection that writes, so that a process that has
lost the lock cannot write.
"""

import contextlib
import fcntl
import functools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

LAYOUT = 6
"""The layout of the tables: `PRAGMA user_version` of SQLite, the comment of a PostgreSQL schema."""
OTHER_LAYOUT = (
    "{} has {}, that of another release; this release reads layout "
    f"{LAYOUT} only: give the learner a fresh {{}}"
)
TAKEN = "another process drives it"
"""Why a learner does not run here."""
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
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS episodes_key ON episodes (learner, key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS episodes_seq ON episodes (learner, seq);
CREATE INDEX IF NOT EXISTS episodes_ended ON episodes (learner, ended) WHERE ended IS NOT NULL;
CREATE INDEX IF NOT EXISTS episodes_open ON episodes (learner, number) WHERE closed IS NULL;
CREATE INDEX IF NOT EXISTS episodes_began ON episodes (learner, began, number) WHERE closed IS NULL;
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
"""The tables and their indexes; of each page that a commit changes, SQLite writes all."""
SHARED = """
CREATE INDEX IF NOT EXISTS episodes_new ON episodes (learner, began) WHERE seq IS NULL;
CREATE INDEX IF NOT EXISTS outcomes_new ON outcomes (learner, number, fact) WHERE seq IS NULL;
CREATE TABLE IF NOT EXISTS models (
    learner TEXT NOT NULL, seq BIGINT NOT NULL, version BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL, content BYTEA NOT NULL,
    PRIMARY KEY (learner, seq)
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
    _busy: tuple[type[Exception], ...] = ()
    _where: str
    _another: Callable[[], "Tables"]
    _db: Any

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """Close what has been opened if something fails."""
        try:
            with contextlib.ExitStack() as opened:
                self._open = opened
                yield
                self._open = opened.pop_all()
        except (OSError, self._error) as error:
            raise self._failure(error) from None

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
    def reader(self) -> Iterator["Tables"]:
        """Another connection, which reads one state while others write; for any thread."""
        with contextlib.closing(self._another()) as made:
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

    def _failure(self, error: Exception) -> StorageError:
        text = " ".join(str(getattr(error, "strerror", None) or error).split())
        return StorageError(
            self._where + (text or type(error).__name__), busy=isinstance(error, self._busy)
        )


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
        self._path, self._where = path, f"{path}: "
        self._another = functools.partial(SQLiteTables, path, lock=False)
        if not create and not path.exists():
            raise StorageError(
                f"{path} was deleted while the learner was open; put it back, or restart the "
                "server to begin anew"
            )
        with self._opening():
            if lock:
                self._take_lock()
            address = f"file:{quote(str(path.resolve()))}?mode={'rw' if lock else 'ro'}"
            self._db = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False
            )
            self._open.callback(self._db.close)
            if lock:
                self._prepare()

    def _take_lock(self) -> None:
        """Lock the lock file of the file, which exists then."""
        path = self._path
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._open.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(f"{path} is open in another process", taken=True) from None
        path.touch(0o600)

    def _prepare(self) -> None:
        """Make the tables; see that a file with tables is whole and of this release."""
        self.all("PRAGMA journal_mode = WAL")
        self.all("PRAGMA synchronous = FULL")
        ((found, layout),) = self.all(
            "SELECT quick_check, user_version FROM pragma_quick_check(1), pragma_user_version"
        )
        if found != "ok":
            raise StorageError(f"{self._path} is damaged: {' '.join(found.split())}")
        if layout not in (0, LAYOUT):
            raise StorageError(OTHER_LAYOUT.format(self._path, f"layout {layout}", "directory"))
        if layout == 0:
            self._db.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version = {LAYOUT};COMMIT;")
        self._file = os.stat(self._path)

    def check(self) -> None:
        """See `Tables`: a commit to a file without a name would be lost."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._path), self._file):
                return
        raise StorageError(f"{self._path} was deleted or replaced while the learner was open")


END_AFTER = "SELECT set_config(name, ?, false) FROM pg_settings WHERE name = 'transaction_timeout'"
"""How to limit the time of transactions, from PostgreSQL 17 on; earlier ones ignore it."""
LOCK = "hashtextextended('belated learner ' || CAST(? AS TEXT), 0)"
"""The number of the advisory lock of a learner, in PostgreSQL."""


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
    _form = staticmethod(lambda text: text.replace("%", "%%").replace("?", "%s"))  # of psycopg

    def __init__(
        self, url: str, learner: str | None, address: str | None = None, *, joins: bool = False
    ) -> None:
        import psycopg  # noqa: PLC0415 - only learners in PostgreSQL need it

        self._error, errors = psycopg.Error, psycopg.errors
        self._busy = (errors.LockNotAvailable, errors.DeadlockDetected)
        self._another = functools.partial(PostgresTables, url, None)
        self._where = "the database does not answer: "
        with self._opening():
            self._db = psycopg.connect(url, autocommit=True, connect_timeout=PATIENCE)
            self._open.callback(self._db.close)
            self._where = ""
            self.all("SET search_path TO belated")
            if learner is not None:
                self._claim(learner, address, joins)

    def _claim(self, learner: str, address: str | None, joins: bool) -> None:
        """Make the tables, and take the lock of a learner or, if allowed, join who has it."""
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
            text = f"{SCHEMA}{SHARED}COMMENT ON SCHEMA belated IS 'layout {LAYOUT}'"
            self.all(text.replace(" WITHOUT ROWID", ""))
        ((free, *where),) = self.all(
            f"SELECT pg_try_advisory_lock({LOCK}), (SELECT address FROM drivers WHERE learner = ?)",
            learner, learner,
        )  # fmt: skip
        if free:
            self.all(END_AFTER, f"{LONGEST}s")
            self.all(
                "INSERT INTO drivers VALUES (?, ?) "
                "ON CONFLICT (learner) DO UPDATE SET address = excluded.address",
                learner, address,
            )  # fmt: skip
            return
        self.taken = StorageError(TAKEN, taken=True, address=where[0])
        if not joins:
            raise self.taken
        self.all(f"SET lock_timeout = {SHORT}")
        self.all(END_AFTER, f"{STANDSTILL}s")
