"""What comes before what: disk before answer, and the agent's calls as the log has them."""

import json
import shutil
import time

from belated.service.learning import Pupil
from belated.service.storage_sqlite import SQLiteStorage
from serving import ROBOT, SHOP, InProcess, books_fingerprint, config, fingerprint, restored


def test_an_answer_is_sent_after_its_event_is_on_disk(tmp_path, monkeypatch):
    """Also that of a duplicate: what it repeats may not be on disk yet."""
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
    learn = Pupil.learn

    def slowly(pupil):
        time.sleep(0.01)
        learn(pupil)

    table = config(tmp_path, learners=[ROBOT], limits={"snapshot": 40})
    base = "/v1/learners/robot"
    with InProcess(table) as client:
        monkeypatch.setattr(Pupil, "learn", slowly)
        for k in range(40):
            client.post(f"{base}/episodes", json={})
            path = {"states": [0, k % 3, 0], "actions": [k % 2, 0]}
            costs = [(k % 5) / 4, (k % 3) / 2]
            for record in ({"path": path}, {"costs": costs}):
                client.post(f"{base}/feedback", json={"episode": k, **record})
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    monkeypatch.setattr(Pupil, "learn", learn)
    crashed = {**table, "storage": str(tmp_path / "crashed")}
    stopped, rows = restored(table, "robot")
    in_between, _ = restored(crashed, "robot")
    never, _ = restored(table, "robot", snapshots=False)
    begun = [e for row in rows if (e := json.loads(row.written))["do"] == "begin"]
    assert any(event["learned"] < 2 * event["episode"] for event in begun)  # some were waiting
    assert 0 < in_between.snapshot < stopped.snapshot
    assert never.pupil.learned == 80
    for found in (stopped, in_between):
        assert fingerprint(found.pupil.agent) == fingerprint(never.pupil.agent)
        assert books_fingerprint(found.books) == books_fingerprint(never.books)
