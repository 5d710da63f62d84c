"""The life of a learner: actions come and go, settings change, records say when they happened."""

import json

import numpy as np
import pytest

from belated import Reward
from belated.service.config import from_table
from belated.service.tables import StorageError
from limits import until
from serving import InProcess, config, fingerprint, restored
from serving import same_from_snapshot_and_rows as same

MAIL = {"name": "mail", "actions": ["plain", "question"], "features": 2}
BASE = "/v1/learners/mail"


def play(client, n, rng):
    """Decide n times, and report some of them; returns the names of the actions."""
    names = []
    for _ in range(n):
        told = client.post(f"{BASE}/decide", json={"features": rng.normal(size=2).tolist()}).json()
        names.append(told["name"])
        if rng.random() < 0.5:
            record = {"episode": told["episode"], "reward": float(rng.normal())}
            assert client.post(f"{BASE}/feedback", json=record).json()["outcome"] == "taken"
    return names


def test_actions_are_added_and_retired_while_a_learner_runs(tmp_path):
    table = config(tmp_path, learners=[MAIL], limits={"snapshot": 10})
    rng = np.random.default_rng(0)
    with InProcess(table) as client:
        play(client, 10, rng)
        added = client.post(f"{BASE}/actions", json={"name": "video"}).json()
        assert added == {"action": 2, "name": "video", "changed": True}
        again = client.post(f"{BASE}/actions", json={"name": "video"}).json()
        assert again == {**added, "changed": False}
        assert "video" in play(client, 30, rng)
        assert client.delete(f"{BASE}/actions/plain").json()["changed"]
        assert not client.delete(f"{BASE}/actions/0").json()["changed"]
        assert "plain" not in play(client, 10, rng)
        back = client.post(f"{BASE}/actions", json={"name": "plain"})
        assert (back.status_code, back.json()["why"]) == (
            422, "plain was retired; add it under another name"
        )  # fmt: skip
        only = client.post(f"{BASE}/decide", json={"features": [0, 0], "among": ["video"]})
        assert only.json()["name"] == "video"
        assert client.delete(f"{BASE}/actions/nothing").status_code == 404
        assert client.delete(f"{BASE}/actions/7").status_code == 404
        assert client.post(f"{BASE}/actions", json={}).status_code == 422
        assert client.delete(f"{BASE}/actions/question").json()["changed"]
        last = client.delete(f"{BASE}/actions/video")
        assert (last.status_code, last.json()["outcome"]) == (422, "invalid")
        rows = client.get(f"{BASE}/report").json()["actions"]
        assert [(row["name"], row["retired"]) for row in rows] == [
            ("plain", True), ("question", True), ("video", False)
        ]  # fmt: skip
        assert [row["probability"] for row in rows] == [0.0, 0.0, 1.0]
    found, rows = same(table, "mail")
    assert [what for _, _, what, *_ in rows["changes"]] == ["add_action", "retire", "retire"]
    assert found.runner.agent.problem.names == ("plain", "question", "video")
    with InProcess(table) as client:  # the file does not list the new action, and it stays
        play(client, 10, rng)
        assert client.get(BASE).json()["problem"]["names"] == ["plain", "question", "video"]
    same(table, "mail")


def test_a_learner_with_states_keeps_its_actions(tmp_path):
    with InProcess(config(tmp_path)) as client:
        added = client.post("/v1/learners/shop/actions", json={})
        assert (added.status_code, added.json()["outcome"]) == (422, "invalid")
        retired = client.delete("/v1/learners/shop/actions/1")
        assert (retired.status_code, retired.json()["outcome"]) == (422, "invalid")


def test_a_safe_change_of_the_configuration_is_an_event(tmp_path):
    table = config(tmp_path, learners=[MAIL], limits={"snapshot": 10})
    rng = np.random.default_rng(1)
    with InProcess(table) as client:
        play(client, 12, rng)
    changed = {
        **MAIL,
        "actions": ["simple", "question", "discount"],
        "holdout": 0.5,
        "agent": {"kind": "linear_sampler", "floor": 0.1},
    }
    table["learners"] = [changed]
    with InProcess(table) as client:
        assert client.get(BASE).json()["problem"]["names"] == changed["actions"]
        play(client, 25, rng)
        assert client.get(f"{BASE}/report").json()["holdout"]["share"] == 0.5
    found, rows = same(table, "mail")
    assert [(what, json.loads(body)) for _, _, what, body, *_ in rows["changes"]] == [
        ("add_action", {"name": "discount"}),
        ("change", {"names": changed["actions"], "floor": 0.1, "holdout": 0.5}),
    ]
    agent = found.runner.agent
    assert (agent.floor, agent.holdout) == (0.1, 0.5)
    assert found.wanted == []
    table["learners"] = [MAIL]  # put back: names, floor and holdout; the third action stays
    found, _ = restored(table, "mail")
    before = {"names": ["plain", "question", "discount"], "floor": 0.01, "holdout": 0.0}
    assert found.wanted == [("change", before)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"actions": ["question", "plain"]}, "actions must keep their places"),
        ({"actions": ["plain"]}, "actions must keep all 2, got 1"),
        ({"actions": 2}, "actions must be listed as before"),
        ({"features": 3}, "problem must stay as it was"),
        ({"agent": {"kind": "linear_sampler", "silence": 1.0}}, "agent must stay as it was"),
        ({"deadline_seconds": 5.0}, "deadline must stay as it was"),
    ],
)
def test_any_other_change_is_refused_with_the_way_out(tmp_path, change, said):
    table = config(tmp_path, learners=[MAIL])
    with InProcess(table) as client:
        play(client, 2, np.random.default_rng(0))
    table["learners"] = [{**MAIL, **change}]
    with pytest.raises(StorageError, match=said) as refused:
        restored(table, "mail")
    assert "another name" in str(refused.value)
    assert "belated extract" in str(refused.value)


def test_a_holdout_needs_an_agent_that_plays_one(tmp_path):
    with pytest.raises(ValueError, match=r"holdout = 0\.1: unknown key"):
        from_table(config(tmp_path, learners=[{
            "name": "shop", "problem": {"states": 1, "actions": 2, "horizon": 1}, "holdout": 0.1
        }]))  # fmt: skip
    with pytest.raises(ValueError, match="holdout"):
        from_table(config(tmp_path, learners=[{**MAIL, "holdout": 2.0}]))


class Hours:
    """A clock that a test sets forward."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("timed", ["number", "text"])
def test_what_happened_before_the_deadline_is_in_time(tmp_path, monkeypatch, timed):
    """A nightly batch comes after the deadline, within the grace; events say when they happened."""
    clock = Hours()
    monkeypatch.setattr("belated.service.session.steady_clock", lambda after: clock)
    learner = {**MAIL, "deadline_seconds": 100.0, "grace": 1000.0}
    table = config(tmp_path, learners=[learner])

    def moment(seconds):
        if timed == "number":
            return 1_000_000.0 + seconds
        return f"1970-01-12T13:{46 + int((40 + seconds) // 60)}:{int((40 + seconds) % 60):02}+00:00"

    with InProcess(table) as client:
        for i in range(5):
            client.post(f"{BASE}/decide", json={"features": [0, 0], "key": f"k{i}"})
        clock.now += 500.0

        def feed(**record):
            told = client.post(f"{BASE}/feedback", json=record).json()
            return told["outcome"], told.get("used")

        assert feed(key="k0", reward=1, time=moment(90)) == ("taken", None)
        assert feed(key="k1", reward=1, time=moment(110)) == ("late", True)
        assert feed(key="k2", reward=1) == ("late", True)
        assert feed(key="k0", reward=1, time=moment(90)) == ("duplicate", None)
        for wrong in ("yesterday", "2026-01-01T00:00:00", True, 1e13):
            told = client.post(f"{BASE}/feedback", json={"key": "k3", "reward": 1, "time": wrong})
            assert (told.status_code, told.json()["field"]) == (422, "time")
        clock.now += 700.0  # past the grace
        assert feed(key="k3", reward=1, time=moment(90)) == ("late", False)
        told = client.get(f"{BASE}/report").json()
        assert (told["pending"], told["overdue"], told["late"]) == (0, 0, 3)
    found, rows = same(table, "mail")
    assert found.runner.agent.diagnostics()["reports"] == 3  # what came within the grace
    happened = {
        (number, status): when for _, number, _, _, _, _, _, when, status, *_ in rows["outcomes"]
    }
    assert happened[0, "taken"] == 1_000_090.0
    assert happened.keys() == {(0, "taken"), (1, "used"), (2, "used"), (3, "late")}


def test_a_default_waits_for_what_happened_in_time(tmp_path, monkeypatch):
    clock = Hours()
    monkeypatch.setattr("belated.service.session.steady_clock", lambda after: clock)
    shop = {
        "name": "shop",
        "problem": {"states": 1, "actions": 2, "horizon": 1},
        "deadline_seconds": 100.0,
        "grace": 1000.0,
        "rewards": [0, 10],
        "default_reward": 0,
    }
    table = config(tmp_path, learners=[shop])
    base = "/v1/learners/shop"
    with InProcess(table) as client:
        for i in range(3):
            client.post(f"{base}/decide", json={"state": 0, "key": f"k{i}"})

        def feed(**record):
            told = client.post(f"{base}/feedback", json=record).json()
            return told["outcome"], told.get("used")

        clock.now += 500.0
        status = client.get(base).json()
        assert (status["pending"], status["overdue"]) == (0, 3)
        assert feed(key="k0", reward=10, time=1_000_050.0) == ("taken", None)
        assert feed(key="k1", reward=10) == ("late", False)
        assert feed(key="k1", reward=10, time=1_000_200.0) == ("duplicate", None)
        assert feed(key="k2", reward=10, time=1_000_200.0) == ("late", False)
        assert feed(key="k2", reward=10, time=1_000_050.0) == ("taken", None)
        clock.now += 601.0
        status = client.get(base).json()
        assert (status["open"], status["counts"]["defaulted"]) == (0, 1)
        rows = client.get(f"{base}/report").json()["actions"]
        assert sum(row["reports"] for row in rows) == 3
    same(table, "shop")


def test_while_a_default_waits_only_what_is_new_and_well_formed_is_late(tmp_path, monkeypatch):
    clock = Hours()
    monkeypatch.setattr("belated.service.session.steady_clock", lambda after: clock)
    walk = {
        "name": "walk",
        "problem": {"states": 1, "actions": 2, "horizon": 2},
        "deadline_seconds": 100.0,
        "grace": 1000.0,
        "default": 1.0,
    }
    table = config(tmp_path, learners=[walk])
    base = "/v1/learners/walk"
    with InProcess(table) as client:
        episode = client.post(f"{base}/episodes", json={}).json()["episode"]

        def feed(**record):
            told = client.post(f"{base}/feedback", json={"episode": episode, **record})
            return told.json()["outcome"]

        assert feed(step=0, cost=0.25) == "taken"
        clock.now += 500.0
        assert feed(step=0, cost=0.25) == "duplicate"
        assert feed(step=0, cost=0.5) == "conflict"
        assert feed(step=7, cost=0.5) == "invalid"
        assert feed(costs=[0.5, 0.5, 0.5]) == "invalid"
        both = [{"episode": episode, "step": 1, "cost": 0.5}] * 2
        told = client.post(f"{base}/feedback/batch", json={"records": both}).json()["outcomes"]
        assert [one["outcome"] for one in told] == ["late", "duplicate"]
    with InProcess(table) as client:  # read from its snapshot; `feed` uses this client now
        assert feed(step=1, cost=0.5) == "duplicate"
        assert feed(step=1, cost=0.75) == "conflict"
        assert client.get(base).json()["late"] == 1
        clock.now += 601.0
        assert client.get(base).json()["open"] == 0
        assert feed(step=1, cost=0.5) == "duplicate"
    _, rows = same(table, "walk")
    assert [(fact, status) for _, _, fact, *_, status, _, _ in rows["outcomes"]] == [
        ("outcome", "default"), ("step 0", "taken"), ("step 1", "late")
    ]  # fmt: skip


def test_decisions_wait_a_day_for_what_happened_in_time(tmp_path, monkeypatch):
    """Without a stated grace a nightly batch still counts; with grace = 0 it does not."""
    clock = Hours()
    monkeypatch.setattr("belated.service.session.steady_clock", lambda after: clock)
    for grace, expected in (({}, "taken"), ({"grace": 0}, "late")):
        learner = {**MAIL, "name": f"mail-{expected}", "deadline_seconds": 100.0, **grace}
        base = f"/v1/learners/{learner['name']}"
        table = config(tmp_path, learners=[learner])
        with InProcess(table) as client:
            begun = clock.now
            for key in ("a", "b"):
                client.post(f"{base}/decide", json={"features": [0, 0], "key": key})
            clock.now += 80_000.0
            batch = [{"key": "a", "reward": 1.0, "time": begun + 99.0}]
            told = client.post(f"{base}/feedback/batch", json={"records": batch}).json()
            assert [one["outcome"] for one in told["outcomes"]] == [expected]
            clock.now += 10_000.0  # the deadline and the day after it are over
            record = {"key": "b", "reward": 1.0, "time": begun + 99.0}
            late = client.post(f"{base}/feedback", json=record).json()
            assert (late["outcome"], late["used"]) == ("late", False)
        found, _ = same(table, learner["name"])
        assert found.runner.agent.diagnostics()["reports"] == (expected == "taken")


def test_an_empty_batch_tells_the_agent_the_time(tmp_path, monkeypatch):
    clock = Hours()
    monkeypatch.setattr("belated.service.session.steady_clock", lambda after: clock)
    table = config(tmp_path, learners=[MAIL])
    library = from_table(table).learners[0].fresh()
    x, start = [1.0, 0.0], clock.now
    with InProcess(table) as client:

        def decide():
            told = client.post(f"{BASE}/decide", json={"features": x}).json()
            made = library.decide(x, now=clock.now)
            assert (told["action"], told["probability"]) == (made.action, made.probability)

        for _ in range(20):
            decide()
            clock.now += 60.0
        record = {"episode": 3, "reward": 1.0}
        assert client.post(f"{BASE}/feedback", json=record).json()["outcome"] == "taken"
        library.observe([Reward(3, 1.0, at=clock.now)], now=clock.now)
        learned = client.app.learners["mail"].session.runner
        until(lambda: learned.version == 1)
        clock.now += 86_400.0
        told = client.post(f"{BASE}/feedback/batch", json={"records": []})
        assert told.json() == {"outcomes": []}
        library.observe([], now=clock.now)
        for _ in range(5):
            decide()
        nothing = client.post(f"{BASE}/feedback/batch", json={"records": [7]}).json()
        assert nothing["outcomes"][0]["outcome"] == "invalid"  # it does not even tell the time
    found, rows = same(table, "mail")
    assert [what for _, _, what, *_ in rows["changes"]] == ["observe"]
    assert fingerprint(found.runner.agent) == fingerprint(library)
    assert clock.now - start > 86_400.0


@pytest.mark.parametrize("request_", [("POST", "actions", {}), ("DELETE", "actions/0", None)])
def test_tables_say_why_their_actions_stay(tmp_path, request_):
    method, path, body = request_
    arms = {"name": "shop", "problem": {"states": 1, "actions": 2, "horizon": 1}}
    with InProcess(config(tmp_path, learners=[arms])) as client:
        told = client.request(method, f"/v1/learners/shop/{path}", json=body)
        assert (told.status_code, told.json()["outcome"]) == (422, "invalid")
        assert told.json()["why"] == (
            "the actions of this learner are fixed: its tables have one place per action from the "
            "beginning on; linear_sampler, with a model per action, can add and retire them"
        )
