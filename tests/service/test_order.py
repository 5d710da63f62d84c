"""Answers follow the disk, rows repeat the learner exactly, and keys are unique."""

import asyncio
import contextlib
import shutil
import sqlite3

import numpy as np
import pytest

from belated.service.learner import Learner
from belated.service.tables import SQLiteTables
from limits import until
from serving import (
    ROBOT,
    SHOP,
    InProcess,
    config,
    fingerprint,
    full,
    restored,
    same_from_snapshot_and_rows,
)

BASE = "/v1/learners/shop"
MAIL = {"name": "mail", "actions": ["plain", "question", "discount"], "features": 2}


def test_an_answer_is_sent_after_its_rows_are_on_disk(tmp_path, monkeypatch):
    """The answer to a duplicate waits too: the first copy may not be on disk yet."""
    transaction, stored = SQLiteTables.transaction, []

    @contextlib.contextmanager
    def watched(tables):
        with transaction(tables):
            yield
        stored.append(tables.all("SELECT (SELECT count(*) FROM episodes), "
                                 "(SELECT count(*) FROM outcomes)")[0])  # fmt: skip

    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        monkeypatch.setattr(SQLiteTables, "transaction", watched)
        client.post(f"{BASE}/episodes", json={"key": "a"})
        assert stored[-1] == (1, 0)

        async def twice():
            record = {"episode": 0, "costs": [0.5]}
            pair = [client._client.post(f"{BASE}/feedback", json=record) for _ in range(2)]
            answers = await asyncio.gather(*pair)
            return [(answer.json()["outcome"], stored[-1]) for answer in answers]

        assert sorted(client._call(twice())) == [("duplicate", (1, 2)), ("taken", (1, 2))]


def test_a_key_begins_one_episode_whatever_asks_for_it(tmp_path):
    """Requests with one key at the same time: one of them begins, and the others hear of it."""
    table = config(tmp_path, learners=[SHOP])
    with InProcess(table) as client:

        async def race(key):
            asked = [("episodes", {"key": key}), ("decide", {"key": key, "state": 0})] * 3
            sent = [client._client.post(f"{BASE}/{path}", json=body) for path, body in asked]
            return await asyncio.gather(*sent)

        for i in range(20):
            answers = client._call(race(f"k{i}"))
            good = {answer.json()["episode"] for answer in answers if answer.status_code == 200}
            assert good == {i}
            assert sorted(answer.status_code for answer in answers) == [200] * 3 + [409] * 3
        told = client.get(BASE).json()
        assert (told["begun"], told["open"]) == (20, 20)


def test_a_request_never_hears_the_error_of_another_with_its_key(tmp_path):
    with InProcess(config(tmp_path, learners=[MAIL])) as client:

        async def pair(key):
            wrong = {"features": [1.0], "key": key}
            right = {"features": [1.0, 2.0], "key": key}
            sent = [client._client.post("/v1/learners/mail/decide", json=b) for b in (wrong, right)]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

        for i in range(20):
            assert client._call(pair(f"k{i}")) in ([422, 200], [409, 200])


def test_a_used_key_with_another_body_says_what_differs(tmp_path):
    with InProcess(config(tmp_path, learners=[MAIL])) as client:
        asked = {"features": [1.0, 0.0], "key": "a"}
        first = client.post("/v1/learners/mail/decide", json=asked).json()
        again = client.post("/v1/learners/mail/decide", json={**asked, "features": [1, 0]}).json()
        assert again == {**first, "created": False}
        for change, said in (
            ({"features": "garbage"}, "other features"),
            ({"among": [0]}, "other among"),
        ):
            told = client.post("/v1/learners/mail/decide", json={**asked, **change})
            assert (told.status_code, told.json()["outcome"]) == (409, "conflict")
            assert told.json()["why"] == f"key 'a' was used before with {said}"


class Mixed:
    """Random requests to a robot with deadlines and to a mailer whose actions change."""

    def __init__(self, client, seed):
        self.client, self.rng = client, np.random.default_rng(seed)
        self.begun = 0

    def robot(self):
        base, rng = "/v1/learners/robot", self.rng
        episode = int(rng.integers(max(1, self.begun)))
        kind = rng.integers(6)
        if kind <= 1:
            self.client.post(f"{base}/episodes", json={"key": f"k{rng.integers(10**9)}"})
            self.begun += 1
        elif kind == 2:
            h = int(rng.integers(2))
            body = {"episode": episode, "step": h, "state": 0 if h == 0 else int(rng.integers(3))}
            self.client.post(f"{base}/decide", json=body)
        elif kind == 5 and rng.random() < 0.2:
            self.client.delete(f"{base}/episodes/{episode}")
        else:
            record = [
                {"step": int(rng.integers(2)), "cost": float(rng.random())},
                {"end": int(rng.integers(3))},
                {"costs": rng.random(2).tolist()},
                {"path": {"states": [0, 1, 2], "actions": [1, 0]}},
            ][rng.integers(4)]
            self.client.post(f"{base}/feedback", json={"episode": episode, **record})

    def mail(self):
        base, rng = "/v1/learners/mail", self.rng
        kind = rng.integers(10)
        if kind <= 3:
            asked = [{"features": rng.normal(size=2).tolist()} for _ in range(rng.integers(1, 4))]
            self.client.post(f"{base}/decide/batch", json={"decisions": asked})
            self.begun += len(asked)
        elif kind == 9 and rng.random() < 0.1:
            self.client.post(f"{base}/actions", json={"name": f"n{rng.integers(10**9)}"})
        elif kind == 8:
            self.client.post(f"{base}/feedback/batch", json={"records": []})
        else:
            records = [
                {"episode": int(rng.integers(max(1, self.begun))), "reward": float(rng.normal()),
                 "event": f"e{rng.integers(3)}"}
                for _ in range(rng.integers(1, 5))
            ]  # fmt: skip
            self.client.post(f"{base}/feedback/batch", json={"records": records})


@pytest.mark.parametrize("name", ["robot", "mail"])
def test_a_restart_after_any_request_gives_the_same_learner(tmp_path, name):
    """The files are copied after every request, as a crash would leave them, and opened."""
    robot = {**ROBOT, "deadline_episodes": 6, "default": 0.5}
    made = {"robot": robot, "mail": MAIL}[name]
    table = config(tmp_path, learners=[made], limits={"snapshot": 40})
    requests = 2000 if full() else 60
    with InProcess(table) as client:
        mixed = Mixed(client, 3)
        session = client.app.learners[name].session
        for i in range(requests):
            getattr(mixed, name)()
            until(lambda: session.runner.waiting == 0, pause=0.0005)

            def agent(session):
                session.runner.learn_all()
                return fingerprint(session.runner.agent), session.runner.seq

            live, seq = client._call(client.app.learners[name].ask(agent))
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            for suffix in ("sqlite", "sqlite-wal"):
                shutil.copy(tmp_path / "data" / f"{name}.{suffix}", copy)
            found, _ = restored({**table, "storage": str(copy)}, name)
            assert fingerprint(found.runner.agent) == live, (i, seq)
    same_from_snapshot_and_rows(table, name)


def test_decisions_do_not_wait_for_what_is_reported_and_rows_know(tmp_path, monkeypatch):
    """The agent learns only now and then, so rows of decisions have different versions."""
    learn, steps = Learner._learn, []

    def seldom(learner, session, **named):
        steps.append(1)
        if len(steps) % 3 == 0:
            learn(learner, session, **named)

    table = config(tmp_path, learners=[MAIL], limits={"snapshot": 25})
    with InProcess(table) as client:
        monkeypatch.setattr(Learner, "_learn", seldom)
        mixed = Mixed(client, 4)
        for _ in range(60):
            mixed.mail()
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    monkeypatch.setattr(Learner, "_learn", learn)
    stopped, rows = same_from_snapshot_and_rows(table, "mail")
    versions = [row[4] for row in rows["episodes"]]
    assert versions == sorted(versions)
    assert len(set(versions)) > 5
    found, _ = restored({**table, "storage": str(tmp_path / "crashed")}, "mail")
    assert fingerprint(found.runner.agent) == fingerprint(stopped.runner.agent)


def test_memory_does_not_grow_with_open_episodes(tmp_path):
    """Nothing of the session has an entry per episode: its parts are few, whatever is open."""
    table = config(tmp_path, learners=[MAIL], limits={"open": 10_000})
    with InProcess(table) as client:
        session = client.app.learners["mail"].session

        def sizes():
            parts = {**vars(session), **vars(session.runner)}
            return sum(len(part) for part in parts.values() if hasattr(part, "__len__"))

        asked = [{"features": [0.0, 1.0], "key": f"k{i}"} for i in range(1000)]
        client.post("/v1/learners/mail/decide/batch", json={"decisions": asked[:10]})
        before = sizes()
        client.post("/v1/learners/mail/decide/batch", json={"decisions": asked[10:]})
        records = [{"key": one["key"], "reward": 1.0} for one in asked[:500]]
        client.post("/v1/learners/mail/feedback/batch", json={"records": records})
        until(lambda: session.runner.waiting == 0)
        assert sizes() <= before + 5
        assert client.get("/v1/learners/mail").json()["open"] == 1000


def play(client, episodes, first=0):
    """Play episodes; one in four never reports."""
    for k in range(first, first + episodes):
        episode = client.post(f"{BASE}/episodes", json={"key": f"k{k}"}).json()["episode"]
        client.post(f"{BASE}/decide", json={"episode": episode, "step": 0, "state": 0})
        if k % 4:
            client.post(f"{BASE}/feedback", json={"episode": episode, "costs": [(k % 5) / 4]})


def test_a_shortened_learner_goes_on_and_needs_a_whole_snapshot(tmp_path):
    """Rows of episodes that were closed before both snapshots are deleted, and open ones stay."""
    table = config(tmp_path, learners=[{**SHOP, "deadline_episodes": 10}],
                   limits={"snapshot": 10, "log": 5})  # fmt: skip
    whole = {**table, "storage": str(tmp_path / "whole"), "limits": {"snapshot": 10}}
    for one in (table, whole):
        with InProcess(one) as client:
            play(client, 40)
        with InProcess(one) as client:
            play(client, 5, 40)
    (short, few), (long, many) = (restored(one, "shop") for one in (table, whole))
    assert fingerprint(short.runner.agent) == fingerprint(long.runner.agent)
    assert len(few["episodes"]) < len(many["episodes"]) / 2
    assert few["episodes"][-1][1] == 44
    with InProcess(table) as client:
        told = client.post(f"{BASE}/feedback", json={"episode": 1, "costs": [0.25]}).json()
        assert (told["outcome"], told["used"]) == ("late", False)  # nothing is known of it
        assert client.post(f"{BASE}/episodes", json={"key": "k44"}).json()["created"] is False
    with sqlite3.connect(tmp_path / "data" / "shop.sqlite") as db:
        db.execute("UPDATE snapshots SET content = substr(content, 1, 500)")
    db.close()
    from belated.service.tables import StorageError

    with pytest.raises(StorageError, match="needs a whole snapshot"):
        restored(table, "shop")
