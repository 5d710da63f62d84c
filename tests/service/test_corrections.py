"""Former faults of the service: contradictions, damaged pages, deep bodies, hanging clients."""

import re
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from belated.service.config import from_table
from belated.service.tables import SQLiteTables, StorageError
from limits import FULL, LIMIT
from serving import ROBOT, SHOP, InProcess, config, running, same_from_snapshot_and_rows

BASE = "/v1/learners/shop"


def begin(client, base=BASE, **body):
    return client.post(f"{base}/episodes", json=body).json()["episode"]


def feed(client, base=BASE, **record):
    return client.post(f"{base}/feedback", json=record).json()["outcome"]


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
    same_from_snapshot_and_rows(table, "robot")


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
    newest = SQLiteTables(path)
    rows = newest.all("SELECT * FROM episodes ORDER BY number")
    newest.close()
    size, silent = 4096, []
    for page in range(1, len(whole) // size):
        for byte in range(12):
            for bit in range(8) if FULL else ((page + byte) % 8,):
                damaged = bytearray(whole)
                damaged[page * size + byte] ^= 1 << bit
                path.write_bytes(damaged)
                try:
                    storage = SQLiteTables(path)
                except StorageError:
                    continue
                try:
                    if storage.all("SELECT * FROM episodes ORDER BY number") != rows:
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
