"""Former faults of the service: contradictions, lost keys, missed deadlines, damaged pages."""

import asyncio
import re
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from belated.service import session as sessions
from belated.service.config import from_table
from belated.service.storage import SQLiteStorage, StorageError
from limits import FULL, LIMIT, until
from serving import (
    ROBOT,
    SHOP,
    InProcess,
    books_fingerprint,
    config,
    fingerprint,
    restored,
    running,
)

BASE = "/v1/learners/shop"


def session_of(client, name="shop"):
    return client.app.state.server.learners[name].session


def begin(client, base=BASE, **body):
    return client.post(f"{base}/episodes", json=body).json()["episode"]


def feed(client, base=BASE, **record):
    return client.post(f"{base}/feedback", json=record).json()["outcome"]


class Script:
    """A clock that gives these readings, then the last one for ever."""

    def __init__(self, *readings):
        self._readings = list(readings)

    def __call__(self):
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


def test_a_deadline_between_two_readings_of_the_clock_is_in_the_log(tmp_path):
    """The time of an event is the reading at which deadlines were checked, not a later one."""
    shop = {**SHOP, "deadline_seconds": 100.0}
    del shop["deadline_episodes"]
    table = config(tmp_path, learners=[shop], limits={"snapshot": 10_000})
    with InProcess(table) as client:
        session = session_of(client)
        start = session.clock()
        session.clock = Script(start)
        for number in range(2):
            begin(client)
            client.post(f"{BASE}/decide", json={"episode": number, "step": 0, "state": 0})
        assert feed(client, episode=1, costs=[0.25]) == "taken"
        session.clock = Script(start + 100.0, start + 100.5, start + 99.0)
        assert feed(client, episode=1, costs=[0.25]) == "duplicate"  # it is in no event
        session.clock = Script(start + 100.2)
        client.post(f"{BASE}/snapshot", json={})
    stopped, rows = restored(table, "shop")
    never, _ = restored(table, "shop", snapshots=False)
    assert stopped.snapshot == len(rows)
    assert stopped.books.counts() == never.books.counts()
    assert fingerprint(stopped.pupil.agent) == fingerprint(never.pupil.agent)
    assert books_fingerprint(stopped.books) == books_fingerprint(never.books)


def test_books_with_calls_that_no_event_explains_are_given_up(tmp_path):
    """A snapshot of such books would be wrong; the learner is read again from the log."""
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:
        begin(client)
        session = session_of(client)
        client._call(_do(lambda: session.books._calls.append(0)))
        client.post(f"{BASE}/snapshot", json={})
        live = client.app.state.server.learners["shop"]
        until(lambda: live.session not in (session, None), "the learner is not read again")
        assert client.get(BASE).json()["open"] == 1


async def _do(function):
    function()


def test_a_key_that_is_let_go_while_its_answer_waits_is_answered(tmp_path):
    """One closed episode is remembered; its key is evicted while a retry waits for the disk."""
    table = config(tmp_path, learners=[{**SHOP, "remember": 1}])
    with InProcess(table) as client:
        session = session_of(client)
        numbers = [begin(client, key=key) for key in ("a", "b")]
        for number in numbers:
            client.post(f"{BASE}/decide", json={"episode": number, "step": 0, "state": 0})
        assert feed(client, episode=0, costs=[0.5]) == "taken"

        async def retried():
            asked = asyncio.create_task(session.begin("a"))
            other = asyncio.create_task(session.feed([_costs(1)]))
            slow = sessions.Committer.durable

            async def durable(committer):
                await asyncio.sleep(0.05)
                await slow(committer)

            sessions.Committer.durable = durable
            try:
                return await asyncio.gather(asked, other)
            finally:
                sessions.Committer.durable = slow

        (number, created), (outcome,) = client._call(retried())
        assert (number, created, outcome.kind) == (0, False, "taken")
        assert "a" not in session.books.keys


def _costs(episode):
    from belated import Costs

    return Costs(episode, [0.5])


class Robot:
    """A learner of three states and two steps."""

    base = "/v1/learners/robot"

    def __init__(self, client):
        self._client = client
        self.episode = begin(client, self.base)

    def feed(self, **record):
        return feed(self._client, self.base, episode=self.episode, **record)

    def decide(self, step, state):
        body = {"episode": self.episode, "step": step, "state": state}
        return self._client.post(f"{self.base}/decide", json=body)

    def batch(self, *records):
        body = {"records": [{"episode": self.episode, **record} for record in records]}
        told = self._client.post(f"{self.base}/feedback/batch", json=body).json()
        return [outcome["outcome"] for outcome in told["outcomes"]]


PATH = {"states": [0, 1, 2], "actions": [1, 0]}


def test_path_end_and_decisions_must_agree(tmp_path):
    table = config(tmp_path, learners=[ROBOT], limits={"snapshot": 9})
    with InProcess(table) as client:
        path_first = Robot(client)
        assert path_first.feed(path=PATH) == "taken"
        assert path_first.feed(end=1) == "conflict"
        assert path_first.feed(end=2) == "duplicate"
        denied = path_first.decide(1, 2)
        assert denied.status_code == 409
        assert "decided in state 1" in denied.json()["why"]
        assert path_first.decide(1, 1).json()["action"] == 0  # as the path says

        end_first = Robot(client)
        assert end_first.feed(end=1) == "taken"
        assert end_first.feed(path=PATH) == "conflict"
        assert end_first.feed(path={**PATH, "states": [0, 1, 1]}) == "taken"

        together = Robot(client)
        assert together.batch({"path": PATH}, {"end": 1}) == ["taken", "conflict"]
        other_way = Robot(client)
        assert other_way.batch({"end": 1}, {"path": PATH}, {"costs": [0.5, 0.5]}) == [
            "taken", "conflict", "taken"
        ]  # fmt: skip

        closed = Robot(client)
        assert closed.batch({"path": PATH}, {"costs": [0.5, 0.5]}) == ["taken", "taken"]
        assert closed.feed(end=1) == "conflict"
        assert closed.feed(end=2) == "duplicate"
        bad = Robot(client)  # an invalid record contradicts nothing
        assert bad.batch({"path": {**PATH, "states": [0, 1, 7]}}, {"end": 1}) == [
            "invalid", "taken"
        ]  # fmt: skip
    stopped, rows = restored(table, "robot")
    never, _ = restored(table, "robot", snapshots=False)
    assert stopped.snapshot == len(rows)
    assert fingerprint(stopped.pupil.agent) == fingerprint(never.pupil.agent)
    assert books_fingerprint(stopped.books) == books_fingerprint(never.books)


def test_live_and_replayed_books_remember_the_same_keys(tmp_path):
    """Duplicates are not in the log, so the order of a batch must not decide what is forgotten."""
    shop = {**SHOP, "remember": 3, "deadline_episodes": 10_000}
    table = config(tmp_path, learners=[shop], limits={"snapshot": 100_000})
    with InProcess(table) as client:
        for k in range(40):
            begin(client, key=f"k{k}")
            client.post(f"{BASE}/decide", json={"episode": k, "step": 0, "state": 0})
        records = [{"episode": k, "costs": [0.5]} for k in (33, 1, 32, 16, 0, 17, 8, 24, 39)]
        unlike = [{"episode": k, "costs": [7]} for k in (0, 8, 24, 33, 1)]  # invalid
        client.post(f"{BASE}/feedback/batch", json={"records": [*unlike, *records]})
        live = dict(session_of(client).books.keys)
    never, _ = restored(table, "shop", snapshots=False)
    assert list(live.items()) == list(never.books.keys.items())
    assert len(live) == 40 - 9 + 3


def test_every_damaged_page_header_is_seen(tmp_path):
    """A flipped bit in the header of a page may hide the newest events behind valid checksums."""
    table = config(tmp_path, learners=[{**SHOP, "deadline_episodes": 10_000}])
    with InProcess(table) as client:
        for k in range(60):
            begin(client, key=f"a long key that fills pages {k}" * 3)
    path = tmp_path / "data" / "shop.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    whole = path.read_bytes()
    newest = SQLiteStorage(path)
    rows = list(newest.events(0))
    newest.close()
    size, silent = 4096, []
    for page in range(1, len(whole) // size):
        for byte in range(12):
            for bit in range(8) if FULL else range(page % 2, 8, 2):
                damaged = bytearray(whole)
                damaged[page * size + byte] ^= 1 << bit
                path.write_bytes(damaged)
                try:
                    storage = SQLiteStorage(path)
                except StorageError:
                    continue
                try:
                    if list(storage.events(0)) != rows:
                        silent.append((page, byte, bit))
                except StorageError:
                    pass
                finally:
                    storage.close()
    assert silent == []


def test_extract_says_in_one_line_that_a_file_is_damaged(tmp_path):
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:
        for k in range(30):
            begin(client, key=f"key {k}")
    path = tmp_path / "data" / "shop.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    import tomli_w

    (tmp_path / "my.toml").write_text(tomli_w.dumps(table))
    made = subprocess.run(
        [sys.executable, "-m", "belated", "extract", "my.toml", "shop", "out.belated"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 2
    assert "Traceback" not in made.stderr
    assert "learner shop" in made.stderr
    assert "damaged" in made.stderr or "malformed" in made.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("served")
    with running(path, config(path, learners=[SHOP, ROBOT])) as found:
        yield found


def test_no_depth_of_json_is_an_error_of_the_server(server):
    shapes = (
        ("feedback", lambda d: '{"episode":0,"costs":' + "[" * d + "]" * d + "}"),
        ("feedback/batch", lambda d: '{"records":[' + '{"a":' * d + "1" + "}" * d + "]}"),
        ("episodes", lambda d: '{"key":' + "[" * d + "]" * d + "}"),
    )
    found = set()
    with httpx.Client(base_url=server.url, timeout=LIMIT) as web:
        for path, shape in shapes:
            for depth in (*range(925, 975), 5_000, 100_000):
                answer = web.post(
                    f"{BASE}/{path}", content=shape(depth),
                    headers={"Content-Type": "application/json"},
                )  # fmt: skip
                found.add(answer.status_code)
    assert found <= {200, 400, 422}


@pytest.mark.slow  # the test waits until the server closes the connections
def test_clients_that_hang_at_shutdown_leave_no_traceback(tmp_path):
    with running(tmp_path, config(tmp_path, learners=[SHOP])) as server:
        host, port = re.fullmatch(r"http://(.*):(\d+)", server.url).groups()
        hanging = [socket.create_connection((host, int(port))) for _ in range(3)]
        for link in hanging:
            link.sendall(
                b"POST /v1/learners/shop/feedback HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
            )
        for _ in range(3):  # the server reads the requests above before it answers these
            assert httpx.get(f"{server.url}/readyz", timeout=LIMIT).status_code == 200
        server.stop()
    text = Path(server.log.name).read_text()
    assert "Cancel 3 running task" in text
    assert "Traceback" not in text
    for link in hanging:
        assert b" 503 " in link.recv(1000)
        link.close()


def test_a_scheme_that_is_not_known_makes_no_directory(tmp_path):
    for storage in ("mysql://user@host/x", "sqlite://shop"):
        with pytest.raises(ValueError, match="storage must be a directory or start with postgres"):
            from_table(config(tmp_path, storage=storage))


def test_a_range_that_is_not_that_of_the_learner_is_invalid(tmp_path):
    table = config(tmp_path, learners=[{**SHOP, "rewards": [0, 10]}])
    with InProcess(table) as client:
        for k in range(3):
            begin(client)
            client.post(f"{BASE}/decide", json={"episode": k, "step": 0, "state": 0})
        told = client.post(
            f"{BASE}/feedback", json={"episode": 0, "step": 0, "reward": 8, "range": [0, 100]}
        )
        assert (told.status_code, told.json()["field"]) == (422, "range")
        assert "that of the learner, [0.0, 10.0]" in told.json()["why"]
        assert feed(client, episode=0, step=0, reward=8, range=[0, 10]) == "taken"
        assert feed(client, episode=1, rewards=[8]) == "taken"
