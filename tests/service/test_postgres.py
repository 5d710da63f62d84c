"""PostgreSQL: one process drives a learner, another takes over, a restart loses nothing."""

import asyncio
import contextlib
import csv
import re
import signal
import socket
import sqlite3
import time
import warnings
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

from belated.service.tables import PostgresTables, StorageError
from killing import LEARNERS, SHAPES, Audit, Load, same_as_never_stopped
from limits import LIMIT, until
from serving import (
    SHOP,
    TLS,
    Forked,
    InProcess,
    Server,
    config,
    fingerprint,
    full,
    restored,
    same_from_snapshot_and_rows,
)

pytestmark = pytest.mark.slow
BASE = "/v1/learners/shop"


@pytest.fixture
def table(database, tmp_path):
    with psycopg.connect(database.get_uri(), autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS belated CASCADE")
    return config(tmp_path, learners=[SHOP], storage=database.get_uri())


def feed(client, records, key):
    """Play one episode, and keep its record if it is acknowledged; returns the last status."""
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


def test_a_learner_is_kept_and_another_process_is_told_where(table):
    records = []
    with InProcess({**table, "url": "http://first:1"}) as first:
        for i in range(10):
            assert feed(first, records, f"k{i}") == 200
        with pytest.raises(StorageError, match="another process drives it") as found:
            PostgresTables(table["storage"], "shop")
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
    stopped, _ = same_from_snapshot_and_rows(table, "shop")
    assert stopped.snapshot > 0


def test_a_restarted_database_loses_nothing(database, table):
    records, number = [], 0
    with InProcess(table) as client:
        for _ in range(10 if full() else 1):
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
    same_from_snapshot_and_rows(table, "shop")


def test_a_lost_connection_is_noticed_without_a_request(database, table):
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


class Anywhere(httpx.AsyncBaseTransport):
    """Sends requests for `fleet` to one of the servers, which may be dead."""

    def __init__(self, servers, rng):
        self._servers = servers
        self._rng = rng
        self._web = httpx.AsyncHTTPTransport(verify=TLS)

    async def handle_async_request(self, request):
        if request.url.host == "fleet":
            any_ = httpx.URL(self._servers[self._rng.integers(len(self._servers))].url)
            request.url = request.url.copy_with(host=any_.host, port=any_.port)
            request.headers["host"] = any_.netloc.decode()
        return await self._web.handle_async_request(request)

    async def aclose(self):
        await self._web.aclose()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def no_long_pauses(monkeypatch):
    monkeypatch.setattr("belated.client.FIRST_PAUSE", 0.05)
    monkeypatch.setattr("belated.client.LONGEST_PAUSE", 0.2)


@pytest.mark.parametrize(
    "terms", [{"deadline_seconds": 60.0}, {"deadline_episodes": 2, "grace": 1}]
)
def test_questions_are_answered_as_on_sqlite(table, tmp_path, terms):
    learner = {"name": "shop", "problem": SHOP["problem"], **terms}
    told = []
    for storage in (str(tmp_path / "data"), table["storage"]):
        with InProcess({**table, "learners": [learner], "storage": storage}) as client:
            feed(client, [], "a")
            for key in "bcdef":
                client.post(f"{BASE}/episodes", json={"key": key})
            status = client.get(BASE).json()
            words = ("begun", "open", "pending", "overdue", "late", "counts")
            asked = client.get(f"{BASE}/episodes?after=1").json()["episodes"]
            episodes = [(one["episode"], one["overdue"], one["decided"]) for one in asked]
            report = client.get(f"{BASE}/report").json()
            metrics = re.findall(r"belated_episodes_\w+{.*", client.get("/metrics").text)
            policy = client.get(f"{BASE}/episodes/5/policy").json()
            named = [status[word] for word in words]
            told.append((named, episodes, report["actions"], metrics, policy))
            assert client.get(f"{BASE}/decisions").text.count("\n") == 2
            assert client.get(f"{BASE}/evaluation").status_code == 200
    assert told[0][:2] == told[1][:2]
    assert told[0][3:] == told[1][3:]
    assert [row["reports"] for row in told[1][2]].count(1) == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6) if full() else [2])
def test_killed_processes_are_replaced_and_nothing_acknowledged_is_lost(
    table, tmp_path, no_long_pauses, seed
):
    """Processes are killed under load; clients follow redirections to the new driver."""
    kills, size = (25, 3) if full() else (2, 2)
    table = {**table, "learners": LEARNERS, "limits": {"snapshot": 150}}
    ports = [free_port() for _ in range(size)]
    rng = np.random.default_rng(seed)
    servers = []

    def started(i):
        directory = tmp_path / str(i)
        directory.mkdir(exist_ok=True)
        url = f"http://127.0.0.1:{ports[i]}"
        return Forked(directory, {**table, "port": ports[i], "url": url})

    def read(name, statement):
        with psycopg.connect(table["storage"], autocommit=True) as db:
            db.execute("SET search_path TO belated")
            return db.execute(f"{statement} WHERE learner = %s", (name,)).fetchall()

    def drivers():
        with psycopg.connect(table["storage"], autocommit=True) as db:
            return [address for (address,) in db.execute("SELECT address FROM belated.drivers")]

    load = Load(rng, LIMIT, lambda: Anywhere(servers, rng), workers=4)
    audit = Audit(read, leased=["mail"])
    driving, took = 0, []

    async def replace(i):
        servers[i] = await asyncio.to_thread(started, i)

    async def killing():
        nonlocal driving
        load.start("http://fleet")
        starting = {}
        for left in reversed(range(kills)):
            await load.more(6)
            while sum(i not in starting or starting[i].done() for i in range(size)) < 2:
                await asyncio.sleep(0.05)
            up = [i for i in range(size) if i not in starting or starting[i].done()]
            urls = [servers[i].url for i in up]
            i = int(rng.choice(up)) if driving else up[urls.index(drivers()[0])]
            lost = drivers().count(servers[i].url)
            servers[i].kill()
            driving += lost > 0
            start = time.monotonic()
            if left:
                starting[i] = asyncio.create_task(replace(i))
            await load.check("http://fleet")  # waits until all learners are driven again
            if lost:
                took.append(time.monotonic() - start)
            audit.check(load)
        await asyncio.gather(*starting.values())
        await load.stop()

    try:
        servers.extend(started(i) for i in range(size))
        for server in servers:
            server.ready()
        asyncio.run(killing())
        kept = audit.check(load)
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.stop()
    assert driving > 0
    for name in SHAPES:
        events = same_as_never_stopped(table, name)
        print(f"{name}: {kills} kills, {driving} of a driver, answered and checked within "
              f"{max(took):.1f} s, {events} events, {kept[name]} acknowledged records")  # fmt: skip
    assert min(kept.values()) >= 5 * kills


def test_a_server_that_has_lost_its_learner_does_not_say_unknown(table, tmp_path):
    """The server is paused, another one takes over, and the first goes on from its memory."""
    ports = [free_port(), free_port()]
    servers = []
    for i, port in enumerate(ports):
        directory = tmp_path / str(i)
        directory.mkdir()
        url = f"http://127.0.0.1:{port}"
        servers.append(Server(directory, {**table, "port": port, "url": url}).ready())
    stopped, other = servers
    bodies = [b'{"episode": %d, "costs": [0.5]}' % k for k in range(4)]
    asked = [(b"POST", b"/feedback", body) for body in bodies] + [
        (b"POST", b"/decide", b'{"episode": 4, "step": 0, "state": 0}'),
        (b"DELETE", b"/episodes/5", b""),
        (b"GET", b"/episodes/5/policy", b""),
    ]
    heads = [
        b"%b %b%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % (method, BASE.encode(), address, len(body))
        for method, address, body in asked
    ]
    links = [socket.create_connection(("127.0.0.1", ports[0])) for _ in asked]
    for link, head, (_, _, body) in zip(links, heads, asked, strict=True):
        if body:  # the process reads the head before it is paused, and waits for the body
            link.sendall(head)
    for _ in range(3):  # the server reads the heads above before it answers these
        assert httpx.get(f"{stopped.url}/readyz", timeout=LIMIT).status_code == 200
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        with psycopg.connect(table["storage"], autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks "
                "WHERE locktype = 'advisory' AND granted"
            )
        with httpx.Client(base_url=other.url, timeout=LIMIT) as web:
            until(lambda: web.get(BASE).status_code == 200)
            for k in range(6):
                assert web.post(f"{BASE}/episodes", json={"key": f"k{k}"}).json()["episode"] == k
        for link, head, (_, _, body) in zip(links, heads, asked, strict=True):
            link.sendall(body or head)  # it waits in the kernel until the process goes on
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    answers = [link.recv(65536).split(b"\r\n")[0] for link in links]
    for link in links:
        link.close()
    for server in servers:
        server.stop()
    assert {answer.split()[1] for answer in answers} <= {b"503", b"307"}, answers


def test_no_database_is_one_line():
    with pytest.raises(StorageError, match="does not answer"):
        PostgresTables("postgresql://nobody@127.0.0.1:1/x", "shop")


def test_a_short_learner_is_that_of_all_rows(table, database):
    """Two snapshots cover the deleted rows; commits are on disk when they return."""
    short = {**table, "limits": {"snapshot": 12, "log": 20}}
    records = []
    for first in (0, 20):
        with InProcess(short) as client:
            for i in range(first, first + 20):
                feed(client, records, f"k{i}")
            check(client, records[-3:])
    found, rows = restored(short, "shop")
    assert len(rows["episodes"]) < 30
    with psycopg.connect(database.get_uri(), autocommit=True) as db:
        db.execute("DROP SCHEMA belated CASCADE")
    with InProcess(table) as client:
        for i in range(40):
            feed(client, [], f"k{i}")
    never, rows = restored(table, "shop", snapshots=False)
    assert len(rows["episodes"]) == 40
    assert fingerprint(found.runner.agent) == fingerprint(never.runner.agent)
    db = PostgresTables(table["storage"], "other")
    assert db.all("SHOW synchronous_commit") == [("on",)]
    db.close()


def test_hostile_texts_are_stored_or_refused(table):
    """PostgreSQL has no NUL in texts; such a key must not stop the learner."""
    mail = {"name": "mail", "actions": ["plain", "question"], "features": {"land": "category"}}
    base = "/v1/learners/mail"
    with InProcess({**table, "learners": [mail]}) as client:
        for key in ("a\0b", "\N{SNOWMAN}", "%s", "?", "'; DROP TABLE episodes; --"):
            asked = {"features": {"land": "a\0b"}, "key": key}
            first = client.post(f"{base}/decide", json=asked)
            assert first.status_code == (422 if "\0" in key else 200)
            record = {"key": key, "reward": 1.0, "event": key}
            told = client.post(f"{base}/feedback", json=record)
            assert told.status_code == (404 if "\0" in key else 200)
        told = client.post(f"{base}/feedback", json={"episode": 0, "reward": 1, "event": "a\0b"})
        assert (told.status_code, told.json()["field"]) == (422, "event")
        assert client.get(base).json()["begun"] == 4


QUERIES = re.findall(
    r"```sql\n(.*?)```",
    (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8"),
    re.DOTALL,
)


@pytest.mark.parametrize("storage", ["postgres", "sqlite"])
def test_the_queries_for_analysts_say_what_happened(table, tmp_path, storage):
    """The queries of the documentation, on the tables as the service writes them."""
    mail = {"name": "mail", "actions": ["plain", "question"], "features": 1}
    table = {**table, "learners": [mail]}
    if storage == "sqlite":
        table["storage"] = str(tmp_path / "data")
    made = []
    with InProcess(table) as client:
        for i in range(12):
            asked = {"features": [float(i)], "key": f"k{i}"}
            made.append(client.post("/v1/learners/mail/decide", json=asked).json()["action"])
            for part in range(i % 3):
                record = {"key": f"k{i}", "reward": 1.5, "event": f"e{part}"}
                client.post("/v1/learners/mail/feedback", json=record)
        exported = list(csv.DictReader(client.get("/v1/learners/mail/decisions").text.splitlines()))
        told = client.get("/v1/learners/mail/report").json()
        status = client.get("/v1/learners/mail").json()
        assert client.get("/v1/learners/mail/evaluation").json()["decisions"] == 12
        assert len(client.get("/v1/learners/mail/episodes").json()["episodes"]) == 12
        assert 'belated_episodes_open{learner="mail"} 12.0' in client.get("/metrics").text
    assert [float(row["outcome"] or 0) for row in exported] == [1.5 * (i % 3) for i in range(12)]
    assert told["days"][0]["decisions"] == sum(row["plays"] for row in told["actions"]) == 12
    assert (told["pending"], status["open"], sum(status["delays"])) == (4, 12, 8)
    if storage == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "mail.sqlite")) as db:
            plays, days, waits = (db.execute(query).fetchall() for query in QUERIES)
    else:
        with psycopg.connect(table["storage"]) as db:
            db.execute("SET search_path TO belated")
            plays, days, waits = (db.execute(query).fetchall() for query in QUERIES)
    expected = [
        (
            action,
            made.count(action),
            sum(i % 3 > 0 for i, a in enumerate(made) if a == action),
            sum(1.5 * (i % 3) for i, a in enumerate(made) if a == action) or None,
        )
        for action in sorted(set(made))
    ]
    assert plays == expected
    assert [(number, reward) for number, *_, reward in days] == [
        (i, 1.5 * (i % 3)) for i in range(12) if i % 3
    ]
    assert waits == [(4,)]
