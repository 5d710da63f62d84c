"""A full disk, a torn page, a damaged row, a second server, a deleted file, another layout."""

import os
import resource
import shutil
import sqlite3
import subprocess
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from belated.service.session import steady_clock
from belated.service.tables import SQLiteTables, StorageError
from limits import LIMIT, until
from serving import (
    SHOP,
    InProcess,
    config,
    fingerprint,
    full,
    restored,
    running,
    same_from_snapshot_and_rows,
)


def play(client, episodes, name="shop", first=0):
    """Begin, decide and feed; returns the records that were acknowledged as taken."""
    taken = []
    for i in range(first, first + episodes):
        begun = client.post(f"/v1/learners/{name}/episodes", json={"key": f"k{i}"})
        if begun.status_code != 200:
            return taken
        record = {"episode": begun.json()["episode"], "costs": [0.25]}
        client.post(
            f"/v1/learners/{name}/decide",
            json={"episode": record["episode"], "step": 0, "state": 0},
        )
        answer = client.post(f"/v1/learners/{name}/feedback", json=record)
        if answer.status_code == 200 and answer.json()["outcome"] == "taken":
            taken.append(record)
    return taken


@contextmanager
def limited(server, data):
    """No file of the server may grow by more than a little."""
    limit = (data / "shop.sqlite-wal").stat().st_size + 400_000
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, hard))
    yield
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def filled(server, data):
    """The disk has only a little room left."""
    ballast = data / "ballast"
    room = os.statvfs(data)
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - 400_000))
    yield
    ballast.unlink()


@pytest.fixture(params=[limited, filled])
def full_disk(request, tmp_path):
    """A way to fill the disk of `tmp_path / "data"`."""
    if request.param is limited:
        yield limited
        return
    data = tmp_path / "data"
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(data)]
    if not full() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs BELATED_FULL_TESTS=1 and the right to mount a small disk")
    yield filled
    subprocess.run(["umount", str(data)], check=True)


@pytest.mark.slow
def test_a_full_disk_acknowledges_nothing_and_the_server_recovers(tmp_path, full_disk):
    table = config(tmp_path, learners=[SHOP])
    with (
        running(tmp_path, table) as server,
        httpx.Client(base_url=server.url, timeout=LIMIT) as web,
    ):
        with full_disk(server, tmp_path / "data"):
            taken = play(web, 1000)
            assert 0 < len(taken) < 1000
            refused = web.post("/v1/learners/shop/episodes", json={})
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert str(tmp_path) not in refused.text
            assert web.get("/healthz").status_code == 200
        again = {"key": "again"}
        until(lambda: web.post("/v1/learners/shop/episodes", json=again).status_code == 200)
        for record in taken:
            answer = web.post("/v1/learners/shop/feedback", json=record)
            assert answer.json()["outcome"] == "duplicate"
    _, rows = same_from_snapshot_and_rows(table, "shop")
    fed = [number for _, number, fact, *_ in rows["outcomes"] if fact == "step 0"]
    assert len(fed) == len(set(fed)) >= len(taken)


@pytest.mark.parametrize("tear", ["cut", "zeros", "noise"])
def test_a_torn_commit_takes_nothing_with_it(tmp_path, tear):
    """The machine stops while a commit is written: all that was acknowledged before it stays."""
    table = config(tmp_path, learners=[SHOP])
    wal = Path("shop.sqlite-wal")
    with InProcess(table) as client:
        taken = play(client, 5)
        whole = (tmp_path / "data" / wal).stat().st_size
        events = client.get("/v1/learners/shop").json()["events"]
        client.post("/v1/learners/shop/episodes", json={"key": "being written"})
        left = tmp_path / "torn"
        shutil.copytree(tmp_path / "data", left)
    _, rows = restored(table, "shop")
    written = (left / wal).read_bytes()
    for place in np.linspace(whole, len(written) - 1, 7, dtype=int):
        behind = len(written) - place
        rest = {"cut": b"", "zeros": bytes(behind), "noise": np.random.default_rng(0).bytes(behind)}
        copy = {**table, "storage": str(tmp_path / f"copy {place}")}
        shutil.copytree(left, copy["storage"])
        (Path(copy["storage"]) / wal).write_bytes(written[:place] + rest[tear])
        found, kept = restored(copy, "shop")
        assert found.seq == events
        for name, some in kept.items():
            assert some == rows[name][: len(some)]
    with InProcess(copy) as client:  # the server goes on from there
        for record in taken:
            answer = client.post("/v1/learners/shop/feedback", json=record)
            assert answer.json()["outcome"] == "duplicate"
        again = client.post("/v1/learners/shop/episodes", json={"key": "being written"}).json()
        assert again == {"episode": 5, "created": True}


@pytest.mark.parametrize("cut", [1, 4096 + 24, 3 * 4096])
def test_a_log_that_ends_early_is_read_up_to_there(tmp_path, cut):
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:
        play(client, 5)
        left = tmp_path / "torn"
        shutil.copytree(tmp_path / "data", left)
    _, whole = restored(table, "shop")
    wal = left / "shop.sqlite-wal"
    wal.write_bytes(wal.read_bytes()[:-cut])
    found, rows = restored({**table, "storage": str(left)}, "shop")
    assert 0 < len(rows["episodes"]) <= len(whole["episodes"])
    assert rows["episodes"][:-1] == whole["episodes"][: len(rows["episodes"]) - 1]
    assert found.seq > 0


def test_rows_that_do_not_fit_together_are_refused(tmp_path):
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:
        play(client, 3)
    path = tmp_path / "data" / "shop.sqlite"
    for change, why in (
        ("DELETE FROM episodes WHERE number = 1", "episode 2 of the tables began as episode 1"),
        ("UPDATE episodes SET version = 99", "more than there was to learn"),
    ):
        copy = tmp_path / why.replace(" ", "-")
        copy.mkdir()
        shutil.copy(path, copy)
        with sqlite3.connect(copy / "shop.sqlite") as db:
            db.execute("DELETE FROM snapshots")
            db.execute(change)
        db.close()
        with pytest.raises(StorageError, match=why):
            restored({**table, "storage": str(copy)}, "shop")


@pytest.mark.parametrize("how", ["file", "directory", "replaced"])
def test_a_server_whose_file_is_gone_acknowledges_nothing(tmp_path, how):
    table = config(tmp_path, learners=[SHOP])
    data = tmp_path / "data"
    base = "/v1/learners/shop"
    with InProcess(table) as client:
        play(client, 3)
        shutil.copytree(data, tmp_path / "saved")
        if how == "directory":
            shutil.rmtree(data)
        else:
            for file in data.glob("shop.sqlite*"):
                file.unlink()
        if how == "replaced":
            for file in (tmp_path / "saved").glob("shop.sqlite*"):
                shutil.copy(file, data)
        answer = client.post(f"{base}/episodes", json={"key": "lost"})
        assert answer.status_code == 503
        if how != "replaced":
            learner = client.app.learners["shop"]
            until(lambda: "was deleted while the learner was open" in learner.why)
            assert client.post(f"{base}/episodes", json={}).status_code == 503
            shutil.rmtree(data, ignore_errors=True)
            shutil.copytree(tmp_path / "saved", data)
        until(lambda: client.get(base).status_code == 200)
        again = client.post(f"{base}/episodes", json={"key": "k2"}).json()
        assert again == {"episode": 2, "created": False}


def test_a_commit_is_on_disk_when_it_returns(tmp_path):
    db = SQLiteTables(tmp_path / "x.sqlite")
    assert db.all("PRAGMA synchronous") == [(2,)]  # FULL
    assert db.all("PRAGMA journal_mode") == [("wal",)]
    db.close()


def test_a_damaged_snapshot_is_left_out(tmp_path):
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:
        play(client, 3)
    before, _ = restored(table, "shop")
    assert before.snapshot == before.seq
    with sqlite3.connect(tmp_path / "data" / "shop.sqlite") as db:
        db.execute("UPDATE snapshots SET content = substr(content, 1, 500)")
    db.close()
    after, _ = restored(table, "shop")
    assert after.snapshot == 0
    assert fingerprint(after.runner.agent) == fingerprint(before.runner.agent)


def test_a_second_server_waits_for_the_learner(tmp_path):
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as first:
        play(first, 2)
        with pytest.raises(StorageError, match="is open in another process"):
            SQLiteTables(tmp_path / "data" / "shop.sqlite")
        second = InProcess.__new__(InProcess)
        second.ready = lambda: None
        second.__init__(table)

        def refusal():
            answer = second.post("/v1/learners/shop/episodes", json={})
            assert answer.status_code == 503
            return answer if "another process" in answer.json()["why"] else None

        refused = until(refusal)
        assert str(tmp_path) not in refused.text
    del second.ready
    second.ready()
    answer = second.post("/v1/learners/shop/episodes", json={"key": "k1"}).json()
    assert answer == {"episode": 1, "created": False}
    second.close()


def test_a_learner_is_not_opened_on_other_terms(tmp_path):
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:
        play(client, 2)
    for change in ({"default": 0.5}, {"agent": {"kind": "oppo"}}, {"deadline_episodes": 9}):
        with pytest.raises(StorageError, match="must stay as it was"):
            restored({**table, "learners": [{**SHOP, **change}]}, "shop")


def test_the_clock_stands_still_rather_than_go_back():
    wall, ticks = [1000.0], [5.0]
    clock = steady_clock(0.0, lambda: wall[0], lambda: ticks[0])
    assert clock() == 1000.0
    wall[0] = 0.0  # stepped while it runs: not seen
    ticks[0] = 6.0
    assert clock() == 1001.0
    later = steady_clock(
        clock(), lambda: wall[0], lambda: ticks[0]
    )  # started with a clock in the past
    assert later() == 1001.0
    ticks[0] = 8.0
    assert later() == 1003.0


def test_a_deadline_in_seconds_passes_without_a_request(tmp_path, clock):
    shop = {**SHOP, "deadline_seconds": 1e5}
    del shop["deadline_episodes"]
    table = config(tmp_path, learners=[shop])
    with InProcess(table) as client:
        client.post("/v1/learners/shop/episodes", json={})
        client.post("/v1/learners/shop/decide", json={"episode": 0, "step": 0, "state": 0})
        clock.step(2e5)
        until(lambda: client.get("/v1/learners/shop").json()["open"] == 0)
        told = client.get("/v1/learners/shop").json()
        assert told["counts"]["defaulted"] == 1
        assert told["history"][0][1:] == [1.0, True]
        late = client.post("/v1/learners/shop/feedback", json={"episode": 0, "costs": [0.0]})
        assert (late.status_code, late.json()["outcome"]) == (200, "late")
    _, rows = same_from_snapshot_and_rows(table, "shop")
    assert [(fact, status) for _, _, fact, *_, status, _, _ in rows["outcomes"]] == [
        ("end", "taken"), ("outcome", "default"), ("path", "taken"), ("step 0", "late")
    ]  # fmt: skip


def test_a_layout_of_another_release_is_refused(tmp_path):
    path = tmp_path / "x.sqlite"
    SQLiteTables(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StorageError, match="layout 9, that of another release"):
        SQLiteTables(path)
