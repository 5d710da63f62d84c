"""A log that is kept short: nothing that matters is lost, wherever the server stops."""

import contextlib
import shutil
import sqlite3
import threading
from collections import Counter

import httpx
import numpy as np
import pytest

from belated.core import stored
from belated.service import recovery as replay
from belated.service import snapshot, storage
from belated.service import wire as log
from belated.service.episodes import Books
from belated.service.storage import SQLiteStorage
from belated.service.wire import LogError
from belated.service.worker import Pupil
from limits import LIMIT, until
from serving import (
    ROBOT,
    SHOP,
    InProcess,
    Server,
    books_fingerprint,
    config,
    fingerprint,
    full,
    learner,
    restored,
)


class NeverStopped:
    """The learner that results from the whole log, as far as it has been followed."""

    def __init__(self, table, name):
        made = learner(table, name)
        self.found = replay.Restored(Books(made.terms()), Pupil(made.fresh()))

    def follow(self, rows):
        for row in rows:
            assert row.number == self.found.number + 1
            replay.happen(self.found, log.read(row.written, row.format))
            self.found.number, self.found.checksum = row.number, row.checksum

    def check_same(self, other):
        """Compare another learner, once both have learned what waits for them."""
        assert other.number == self.found.number
        assert other.checksum == self.found.checksum
        mine = self.found.pupil
        pupil = Pupil(stored.twin(mine.agent), 0, mine.waiting)
        pupil.learn_up_to(len(mine.waiting))
        assert fingerprint(other.pupil.agent) == fingerprint(pupil.agent)
        assert books_fingerprint(other.books) == books_fingerprint(self.found.books)


def play(client, name, first, episodes, horizon):
    """Play episodes; one in four never reports."""
    base = f"/v1/learners/{name}"
    for k in range(first, first + episodes):
        begun = client.post(f"{base}/episodes", json={"key": f"k{k}"})
        if begun.status_code != 200:
            return
        episode = begun.json()["episode"]
        for h in range(horizon):
            client.post(f"{base}/decide", json={"episode": episode, "step": h, "state": 0})
        records = [{"episode": episode, "costs": [(k % 5) / 4] * horizon}]
        records += [{"episode": episode, "end": 0}] if name == "robot" else []
        if k % 4:
            client.post(f"{base}/feedback/batch", json={"records": records})


def without_the_newest_snapshot(path):
    """Delete the newest snapshot; returns whether there was one."""
    db = sqlite3.connect(path)
    newest = "(SELECT max(number) FROM snapshots WHERE last)"
    deleted = db.execute(f"DELETE FROM snapshots WHERE number = {newest}").rowcount
    db.commit()
    db.close()
    return deleted > 0


@pytest.mark.slow
def test_a_stop_at_any_step_of_writing_and_deleting_loses_nothing(tmp_path, monkeypatch):
    """The files are copied after every transaction, and each copy is opened."""
    robot = {**ROBOT, "deadline_episodes": 5, "grace": 3, "remember": 6}
    table = config(tmp_path, learners=[robot], limits={"snapshot": 11, "log": 4})
    monkeypatch.setattr(snapshot, "PIECE", 3000)
    monkeypatch.setattr(storage, "SLICE", 3)
    written, stops = [], []

    def watched(name):
        original = getattr(SQLiteStorage, name)

        def step(storage, *given, **named):
            result = original(storage, *given, **named)
            if name == "append":
                written.extend(given[0])
            place = tmp_path / f"stop{len(stops)}"
            place.mkdir()
            for file in ("robot.sqlite", "robot.sqlite-wal"):
                shutil.copy(tmp_path / "data" / file, place)
            stops.append((name, len(written), place))
            return result

        monkeypatch.setattr(SQLiteStorage, name, step)

    for name in ("append", "add_piece", "tidy"):
        watched(name)
    with InProcess(table) as client:
        play(client, "robot", 0, 12, 2)
    monkeypatch.undo()
    never = NeverStopped(table, "robot")
    shortened = Counter()
    for name, number, place in stops:
        never.follow(written[never.found.number : number])
        found, rows = restored({**table, "storage": str(place)}, "robot")
        assert rows == [written[row.number - 1] for row in rows]
        never.check_same(found)
        shortened[name] += len(rows) < number
        if name == "tidy" and without_the_newest_snapshot(place / "robot.sqlite"):
            found, _ = restored({**table, "storage": str(place)}, "robot")
            never.check_same(found)
    assert shortened["tidy"] > 3
    assert shortened["add_piece"] > 3
    assert shortened["append"] > 3


def test_shortening_changes_no_outcome(tmp_path):
    """Duplicates and keys are recognised from the books, not from the log."""
    shop = {**SHOP, "deadline_episodes": 10}
    whole = config(tmp_path, learners=[shop], limits={"snapshot": 10})
    short = {**whole, "storage": str(tmp_path / "short"), "limits": {"snapshot": 10, "log": 0}}
    told = []
    for table in (whole, short):
        with InProcess(table) as client:
            play(client, "shop", 0, 20, 1)
        with InProcess(table) as client:
            answers = []
            for k in range(22):
                for cost in ((k % 5) / 4, 0.3):
                    record = {"episode": k, "costs": [cost]}
                    answers.append(client.post("/v1/learners/shop/feedback", json=record).json())
                begun = client.post("/v1/learners/shop/episodes", json={"key": f"k{k}"}).json()
                answers.append(begun)
            told.append((answers, client.get("/v1/learners/shop").json()["events"]))
    assert told[0] == told[1]
    kinds = {answer.get("outcome") for answer in told[0][0]}
    assert kinds == {"duplicate", "conflict", "late", "taken", "unknown", None}
    (first, all_rows), (second, rows) = restored(whole, "shop"), restored(short, "shop")
    assert len(rows) < len(all_rows) / 2
    assert rows[0].number == 1
    assert second.number == first.number


def test_without_a_whole_snapshot_a_shortened_log_is_refused(tmp_path):
    table = config(tmp_path, learners=[SHOP], limits={"snapshot": 10, "log": 0})
    with InProcess(table) as client:
        play(client, "shop", 0, 20, 1)
    with sqlite3.connect(tmp_path / "data" / "shop.sqlite") as db:
        db.execute("UPDATE snapshots SET content = substr(content, 1, 500)")
    db.close()
    with pytest.raises(LogError, match=r"event 2 is missing.*needs a whole snapshot"):
        restored(table, "shop")


def test_a_log_that_was_kept_whole_is_shortened_when_this_is_asked_for(tmp_path):
    table = config(tmp_path, learners=[SHOP], limits={"snapshot": 10})
    with InProcess(table) as client:
        play(client, "shop", 0, 20, 1)
    before, rows = restored(table, "shop")
    with InProcess({**table, "limits": {"snapshot": 10, "log": 15}}):

        def shortened():
            with sqlite3.connect(tmp_path / "data" / "shop.sqlite") as db:
                (left,) = db.execute("SELECT count(*) FROM events").fetchone()
            db.close()
            return left < len(rows)

        until(shortened)
    after, fewer = restored(table, "shop")
    assert 15 < len(fewer) < len(rows)
    assert fewer == [rows[0], *rows[1 - len(fewer) :]]
    assert fingerprint(after.pupil.agent) == fingerprint(before.pupil.agent)


@pytest.mark.long
@pytest.mark.skipif(not full(), reason="needs BELATED_FULL_TESTS=1: real kills take long")
def test_kills_while_the_log_is_shortened_lose_nothing(tmp_path):
    """kill -9 under load; the test keeps the whole log, since the server keeps only its end."""
    shop = {**SHOP, "deadline_episodes": 30}
    table = config(tmp_path, learners=[shop], limits={"snapshot": 15, "log": 80})
    rng = np.random.default_rng(5)
    outside, number = {}, 0
    for _ in range(10):
        server = Server(tmp_path, table).ready()
        last, after = number + 20 + rng.integers(6), rng.uniform(0.0, 0.02)
        client = httpx.Client(base_url=server.url, timeout=LIMIT)
        with client, contextlib.suppress(httpx.TransportError):
            while True:
                if number == last:
                    threading.Timer(after, server.kill).start()
                play(client, "shop", number, 1, 1)
                number += 1
        server.process.wait()
        found, rows = restored(table, "shop")
        for row in rows:
            assert outside.setdefault(row.number, row) == row
    assert len(rows) < found.number
    assert sorted(outside) == list(range(1, found.number + 1))
    never = NeverStopped(table, "shop")
    never.follow(outside[n] for n in sorted(outside))
    never.check_same(found)
    print(f"{found.number} events, {len(rows)} of them kept")
