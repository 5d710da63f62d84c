"""Answers follow the disk, and the agent is called in the order of the log."""

import copy
import json
import shutil
import threading
import time

from belated.service import recovery as replay
from belated.service import snapshot
from belated.service import wire as log
from belated.service.episodes import Books
from belated.service.storage import SQLiteStorage
from belated.service.worker import Pupil
from limits import LIMIT, until
from serving import (
    ROBOT,
    SHOP,
    InProcess,
    books_fingerprint,
    config,
    fingerprint,
    learner,
    restored,
)


def test_an_answer_is_sent_after_its_event_is_on_disk(tmp_path, monkeypatch):
    """The answer to a duplicate waits too: the first copy may not be on disk yet."""
    stored, append = [], SQLiteStorage.append

    def slowly(storage, rows):
        time.sleep(0.05)
        append(storage, rows)
        stored.extend(json.loads(row.written)["do"] for row in rows)

    base = "/v1/learners/shop"
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        monkeypatch.setattr(SQLiteStorage, "append", slowly)
        asked = [
            ("begin", "POST", f"{base}/episodes", {}),
            ("decide", "POST", f"{base}/decide", {"episode": 0, "step": 0, "state": 0}),
            ("feedback", "POST", f"{base}/feedback", {"episode": 0, "costs": [0.5]}),
            ("feedback", "POST", f"{base}/feedback", {"episode": 0, "costs": [0.5]}),
            ("begin", "POST", f"{base}/episodes", {"key": "a"}),
            ("begin", "POST", f"{base}/episodes", {"key": "a"}),
            ("forget", "DELETE", f"{base}/episodes/1", None),
        ]
        for do, method, path, body in asked:
            assert client.request(method, path, json=body).status_code == 200
            assert do in stored
        events = ["begin", "decide", "feedback", "begin", "forget"]
        assert [do for do in stored if do != "made"] == events

        async def twice():
            import asyncio

            record = {"episode": 2, "costs": [0.5]}
            pair = [client._client.post(f"{base}/feedback", json=record) for _ in range(2)]
            answers = await asyncio.gather(*pair)
            return [(answer.json()["outcome"], "feedback" in stored) for answer in answers]

        client.post(f"{base}/episodes", json={})
        stored.clear()
        assert sorted(client._call(twice())) == [("duplicate", True), ("taken", True)]


def test_episodes_begin_before_what_waits_is_learned_and_replay_knows(tmp_path, monkeypatch):
    """The agent learns one call per requested episode, so that more and more wait."""
    learn, add_piece, go, kept = Pupil.learn, SQLiteStorage.add_piece, threading.Event(), [0]

    def held(pupil):
        until(lambda: go.is_set() or session.learning.asked, pause=0.001)
        learn(pupil)

    def noted(storage, number, place, content, *, last):
        add_piece(storage, number, place, content, last=last)
        if last:
            kept.append(number)

    table = config(tmp_path, learners=[ROBOT], limits={"snapshot": 55})
    base = "/v1/learners/robot"
    with InProcess(table) as client:
        session = client.app.state.server.learners["robot"].session
        monkeypatch.setattr(Pupil, "learn", held)
        monkeypatch.setattr(SQLiteStorage, "add_piece", noted)
        for k in range(40):
            if k == 38:  # the second snapshot is asked for by event 110, of episode 36
                until(lambda: kept[-1] >= 110, "no snapshot is made")
            client.post(f"{base}/episodes", json={})
            path = {"states": [0, k % 3, 0], "actions": [k % 2, 0]}
            costs = [(k % 5) / 4, (k % 3) / 2]
            for record in ({"path": path}, {"costs": costs}):
                client.post(f"{base}/feedback", json={"episode": k, **record})
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
        go.set()
    monkeypatch.setattr(Pupil, "learn", learn)
    crashed = {**table, "storage": str(tmp_path / "crashed")}
    stopped, rows = restored(table, "robot")
    in_between, _ = restored(crashed, "robot")
    never, _ = restored(table, "robot", snapshots=False)
    begun = [e for row in rows if (e := json.loads(row.written))["do"] == "begin"]
    assert [event["learned"] for event in begun][1:] == list(range(1, 40))  # others were waiting
    assert 0 < in_between.snapshot < stopped.snapshot
    assert never.pupil.learned == 80
    for found in (stopped, in_between):
        assert fingerprint(found.pupil.agent) == fingerprint(never.pupil.agent)
        assert books_fingerprint(found.books) == books_fingerprint(never.books)


def test_nobody_waits_while_a_snapshot_is_encoded(tmp_path, monkeypatch):
    """The snapshot holds the learner as it was at the time of the request."""
    encode, go, begun = snapshot.write, threading.Event(), threading.Event()

    def slowly(moment):
        begun.set()
        assert go.wait(LIMIT)
        return encode(moment)

    monkeypatch.setattr(snapshot, "write", slowly)
    table = config(tmp_path, learners=[SHOP])
    base = "/v1/learners/shop"

    def play(k):
        assert client.post(f"{base}/episodes", json={}).json() == {"episode": k, "created": True}
        client.post(f"{base}/decide", json={"episode": k, "step": 0, "state": 0})
        record = {"episode": k, "costs": [k / 9]}
        assert client.post(f"{base}/feedback", json=record).json()["outcome"] == "taken"

    with InProcess(table) as client:
        for k in range(4):
            play(k)
        client.post(f"{base}/snapshot", json={})
        assert begun.wait(LIMIT)
        for k in range(4, 8):
            play(k)
        until(lambda: client.get(base).json()["waiting"] == 0, pause=0.01)
        assert client.get(base).json()["diagnostics"]["used"] == 8  # the agent learns, too
        go.set()
    storage = SQLiteStorage(tmp_path / "data" / "shop.sqlite")
    kept = dict(storage.snapshots())
    storage.close()
    assert sorted(kept) == [13, 25]
    made = learner(table, "shop")
    never = replay.Restored(Books(made.terms()), Pupil(made.fresh()))
    _, rows = restored(table, "shop")
    for row in rows[:13]:
        replay.happen(never, log.read(row.written, row.format))
    _, _, books, _ = snapshot.read(kept[13], made.terms())
    assert books_fingerprint(books) == books_fingerprint(never.books)


def test_a_copy_of_the_books_does_not_follow_them(tmp_path):
    robot = {**ROBOT, "deadline_episodes": 3, "grace": 2, "remember": 3}
    table = config(tmp_path, learners=[robot])
    base = "/v1/learners/robot"
    with InProcess(table) as client:
        for k in range(10):
            client.post(f"{base}/episodes", json={"key": f"k{k}"})
            for h in range(2):
                client.post(f"{base}/decide", json={"episode": k, "step": h, "state": 0})
            for record in ({"step": 0, "cost": 0.5}, {"end": 1}, {"step": 1, "cost": k / 9}):
                late = max(0, k - 2 * (k % 3))
                client.post(f"{base}/feedback", json={"episode": late, **record})
    _, rows = restored(table, "robot")
    made = learner(table, "robot")
    never = replay.Restored(Books(made.terms()), Pupil(made.fresh()))
    copies = []
    for row in rows:
        replay.happen(never, log.read(row.written, row.format))
        copies.append((copy.copy(never.books), fingerprint(snapshot.written(never.books))))
    for copied, before in copies:
        assert fingerprint(snapshot.written(copied)) == before
    assert len({before for _, before in copies}) > 40
