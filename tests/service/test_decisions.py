"""Decisions over HTTP: one or many per request, feedback by key, the learner of the library."""

import json

import numpy as np
import pytest

import belated as bl
from belated.client import Client
from limits import LIMIT, until
from serving import (
    SHOP,
    InProcess,
    Server,
    config,
    fingerprint,
    learner,
    running,
)
from serving import same_from_snapshot_and_rows as same_after_every_way

MAIL = {
    "name": "mail",
    "actions": ["plain", "question", "discount"],
    "features": {"age": "number", "country": ["dk", "se"], "device": "category:4"},
}
CELLS = {
    "name": "cells",
    "problem": {"states": 4, "actions": 3, "horizon": 1, "start": [0.25, 0.25, 0.25, 0.25]},
    "agent": "posterior_sampling",
}
BASE = "/v1/learners/mail"


def visitor(rng):
    return {"age": int(rng.integers(18, 80)), "country": ["dk", "se", "no"][rng.integers(3)]}


def decide(client, base=BASE, **body):
    answer = client.post(f"{base}/decide", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_decision_is_begun_made_and_logged_in_one_request(tmp_path):
    table = config(tmp_path, learners=[MAIL])
    with InProcess(table) as client:
        told = decide(client, features={"age": 34, "country": "dk"}, key="a")
        assert told["created"]
        assert told["name"] == MAIL["actions"][told["action"]]
        assert decide(client, features={"age": 34, "country": "dk"}, key="a") == {
            **told, "created": False
        }  # fmt: skip
        only = decide(client, features={"age": 34}, among=["discount"])
        assert (only["name"], only["probability"]) == ("discount", 1.0)

        def feed(**record):
            answer = client.post(f"{BASE}/feedback", json=record)
            return answer.status_code, answer.json()["outcome"]

        assert feed(key="a", reward=12.5, event="order-17") == (200, "taken")
        assert feed(key="a", reward=12.5, event="order-17") == (200, "duplicate")
        assert feed(key="a", reward=20, event="order-17") == (409, "conflict")
        assert feed(key="a", reward=-12.5, event="refund of order-17") == (200, "taken")
        assert feed(key="nobody", reward=1) == (404, "unknown")
        assert feed(key="a", episode=0, reward=1) == (422, "invalid")
        assert feed(key="a", cost=0.5)[0] == 422
        assert feed(key="a", end=0) == (422, "invalid")
        assert client.get(BASE).json()["problem"]["names"] == MAIL["actions"]
        wrong = client.post(f"{BASE}/decide", json={"features": {"agee": 3}})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "features")
        for among in (["nothing"], [], [True], [9]):
            body = {"features": {"age": 3}, "among": among}
            wrong = client.post(f"{BASE}/decide", json=body)
            assert wrong.status_code == 422
            assert wrong.json()["field"].startswith("among")
        without = client.post(f"{BASE}/decide", json={}).json()
        assert without["why"].startswith("features must be a table with the features age")
        assert client.post(f"{BASE}/episodes", json={}).status_code == 422
        step = client.post(f"{BASE}/decide", json={"episode": 0, "step": 0, "state": 0})
        assert step.status_code == 422
    found, rows = same_after_every_way(table, "mail")
    assert [len(rows[name]) for name in ("episodes", "decisions", "outcomes")] == [2, 2, 2]
    assert found.runner.agent.begun == 2


def test_a_batch_of_decisions_is_whole_or_not_at_all(tmp_path):
    table = config(tmp_path, learners=[MAIL], limits={"batch": 50})
    rng = np.random.default_rng(0)
    asked = [{"features": visitor(rng), "key": f"k{i}"} for i in range(40)]

    def batch(decisions):
        return client.post(f"{BASE}/decide/batch", json={"decisions": decisions})

    with InProcess(table) as client:
        bad = batch([*asked[:5], {"features": {"age": "old"}}, *asked[5:]])
        assert bad.status_code == 422
        assert bad.json()["why"].startswith("decision 5: ")
        assert batch([asked[0], asked[0]]).status_code == 422
        assert batch(2 * asked).status_code == 413
        assert client.get(BASE).json()["begun"] == 0
        first = batch(asked[:30]).json()["decisions"]
        assert [made["episode"] for made in first] == list(range(30))
        again = batch(asked[20:]).json()["decisions"]  # ten of them were made before
        assert [made["created"] for made in again] == [*10 * [False], *10 * [True]]
        assert [made["action"] for made in again[:10]] == [made["action"] for made in first[20:]]
    _, rows = same_after_every_way(table, "mail")
    assert len({row[3] for row in rows["episodes"]}) == 2  # two requests


def test_the_served_learner_is_the_one_of_the_library(tmp_path):
    """With the same records at the same times, decisions and state are the same."""
    table = config(tmp_path, learners=[MAIL], limits={"snapshot": 20})
    rng = np.random.default_rng(1)
    told = []
    for _ in range(3):  # a nightly batch, and a restart after it
        with InProcess(table) as client:
            asked = [{"features": visitor(rng)} for _ in range(20)]
            made = client.post(f"{BASE}/decide/batch", json={"decisions": asked}).json()
            made = made["decisions"] + [decide(client, features=visitor(rng)) for _ in range(5)]
            records = [
                {"episode": one["episode"], "reward": float(rng.integers(1, 50))}
                for one in made
                if rng.random() < 0.3
            ]
            outcomes = client.post(f"{BASE}/feedback/batch", json={"records": records}).json()
            assert {one["outcome"] for one in outcomes["outcomes"]} == {"taken"}
            told += made
    found, rows = same_after_every_way(table, "mail")
    agent = learner(table, "mail").fresh()
    calls, learned = [], 0  # a row says how many calls the agent had learned from
    asked = {number: row for _, number, _, *row in rows["decisions"]}
    happened = [(row[3], 0, row) for row in rows["episodes"]]
    for row in rows["outcomes"]:
        happened.append((row[-2], 1 + row[-1], row))
    reports = {}
    for seq, place, row in sorted(happened):
        if place:
            _, number, _, value, _, _, at, *_ = row
            reports.setdefault(seq, []).append(bl.Reward(number, value, at=at))
            if [batch for batch, _ in calls[-1:]] != [reports[seq]]:
                calls.append((reports[seq], at))
            continue
        _, number, _, _, version, began, *_ = row
        while calls and learned < version:
            agent.observe(*calls.pop(0))
            learned += 1
        features, allowed, action, probability, *_ = asked[number]
        made = agent.decide(json.loads(features), among=json.loads(allowed), now=began)
        assert (made.number, made.action, made.probability) == (number, action, probability)
        assert told[number]["action"] == action
    for batch, at in calls:
        agent.observe(batch, at)
    assert fingerprint(found.runner.agent) == fingerprint(agent)


def test_states_of_one_step_need_no_end(tmp_path):
    """The agent learns as soon as the reward has come; rewards beyond the range are clipped."""
    cells = {**CELLS, "rewards": [0, 10], "clip": True}
    cells |= {"deadline_episodes": 3, "default_reward": 0}
    table = config(tmp_path, learners=[cells], limits={"snapshot": 7})
    base = "/v1/learners/cells"
    with InProcess(table) as client:
        for state in (0, 3, 2):
            told = decide(client, base, state=state, key=f"v{state}")
            assert 0 <= told["action"] < 3
        record = {"key": "v3", "reward": 25}
        told = client.post(f"{base}/feedback", json=record).json()
        assert (told["outcome"], told.get("awaited")) == ("taken", None)
        begun = client.post(f"{base}/episodes", json={}).json()["episode"]
        decide(client, base, episode=begun, step=0, state=1)
        told = client.post(f"{base}/feedback", json={"episode": begun, "reward": 5}).json()
        assert (told["outcome"], told.get("awaited")) == ("taken", None)
        waits = client.post(f"{base}/episodes", json={}).json()["episode"]
        told = client.post(f"{base}/feedback", json={"episode": waits, "reward": 5}).json()
        assert told["awaited"] == ["path"]
        assert client.post(f"{base}/decide", json={"state": 9}).status_code == 422
        assert client.post(f"{base}/decide", json={"state": 0, "among": [0]}).status_code == 422
        until(lambda: not client.get(base).json()["waiting"])
        assert client.get(base).json()["counts"]["defaulted"] == 1
    found, _ = same_after_every_way(table, "cells")
    assert found.runner.agent.diagnostics()["used"] == 3


def test_a_learner_of_several_steps_says_how_to_decide(tmp_path):
    robot = {"name": "robot", "problem": {"states": 3, "actions": 2, "horizon": 2}}
    with InProcess(config(tmp_path, learners=[robot])) as client:
        answer = client.post("/v1/learners/robot/decide", json={"state": 0})
        assert answer.status_code == 422
        assert "one step" in answer.json()["why"]


@pytest.mark.parametrize("kind", ["thompson_sampling", "zimmert_seldin"])
def test_any_agent_of_the_library_can_be_served(tmp_path, kind):
    table = config(tmp_path, learners=[{**SHOP, "agent": kind}])
    with InProcess(table) as client:
        for k in range(10):
            told = decide(client, "/v1/learners/shop", key=f"k{k}")
            record = {"key": f"k{k}", "step": 0, "cost": 0.1 * told["action"]}
            answer = client.post("/v1/learners/shop/feedback", json=record)
            assert answer.json()["outcome"] == "taken"
    same_after_every_way(table, "shop")


@pytest.mark.slow
def test_the_client_decides_and_feeds_by_key(tmp_path):
    table = config(tmp_path, learners=[MAIL])
    with running(tmp_path, table) as server, Client(server.url, "mail", timeout=LIMIT) as mail:
        one = mail.decide(features={"age": np.int64(34)}, key="v")
        assert mail.decide(features={"age": 34}, key="v").action == one.action
        assert one.name in MAIL["actions"]
        many = mail.decide_many([{"features": {"age": k}} for k in range(600)])
        assert [made.episode for made in many] == list(range(1, 601))
        told = mail.feedback([{"key": "v", "reward": 3.5}, {"key": many[0].key, "reward": 2}])
        assert [outcome["outcome"] for outcome in told] == ["taken", "taken"]
        with pytest.raises(ValueError, match="finite numbers"):
            mail.decide(features={"age": float("nan")})


@pytest.mark.long
def test_decisions_survive_a_kill(tmp_path):
    """Every answer holds after kill -9, and the learner equals one that never stopped."""
    table = config(tmp_path, learners=[MAIL], limits={"snapshot": 60})
    rng = np.random.default_rng(2)
    known, asked_for = {}, {}
    rounds = 3
    for k in range(rounds):
        server = Server(tmp_path, table).ready()
        with Client(server.url, "mail", timeout=LIMIT) as mail:
            asked = [{"features": visitor(rng), "key": f"{k}-{i}"} for i in range(30)]
            asked_for |= {one["key"]: one for one in asked}
            for made in mail.decide_many(asked):
                known[made.key] = made
            for one in asked[:20]:
                again = mail.decide(**one)
                assert (again.action, again.created) == (known[one["key"]].action, False)
                mail.feedback([{"key": one["key"], "reward": float(rng.integers(9))}])
            for key in rng.choice(list(known), 10):
                assert mail.decide(**asked_for[key]).episode == known[key].episode
        server.kill()
    with running(tmp_path, table) as server, Client(server.url, "mail", timeout=LIMIT) as mail:
        for key, made in known.items():
            again = mail.decide(**asked_for[key])
            assert (again.action, again.probability) == (made.action, made.probability)
        assert mail.status()["begun"] == 30 * rounds
    same_after_every_way(table, "mail")


def test_the_unit_of_ages_may_be_fixed_while_outcomes_wait():
    """The hundredth call fixes the unit, and may be an observe right after another one."""
    for last in range(95, 105):
        agent = bl.recommend(bl.Choice(actions=2), silence=0.0)
        for k in range(last):
            agent.decide(now=float(k))
        for k in range(8):
            agent.observe([bl.Reward(k, 1.0)], now=last + 1.5 * k)
        agent.decide(now=last + 20.0)
        assert agent.diagnostics()["reports"] == 8


def test_numbers_beyond_all_units_are_refused_and_harm_nobody(tmp_path):
    """An acknowledged record is learned from after every start, so it must not break the agent."""
    plain = {"name": "plain", "actions": ["a", "b"], "features": 2}
    table = config(tmp_path, learners=[MAIL, plain])
    with InProcess(table) as client:
        for features in ({"age": 1e308}, {"age": -1e13}):
            told = client.post(f"{BASE}/decide", json={"features": features})
            assert (told.status_code, told.json()["field"]) == (422, "features")
        base = "/v1/learners/plain"
        assert client.post(f"{base}/decide", json={"features": [1e20, 1]}).status_code == 422
        for k in range(6):
            made = decide(client, base, features=[1e12, 5e-324 if k % 2 else 1.0])
            number = {"episode": made["episode"]}
            for reward in (1e308, -1e31):
                told = client.post(f"{base}/feedback", json={**number, "reward": reward}).json()
                assert (told["outcome"], told["field"]) == ("invalid", "reward")
                assert told["why"].startswith("reward must be a finite number")
            long = {**number, "reward": 1.0, "event": 201 * "x"}
            told = client.post(f"{base}/feedback", json=long).json()
            assert (told["outcome"], told["field"]) == ("invalid", "event")
            for event, reward in (("most", 1e30), ("least", -1e30), ("tiny", 5e-324)):
                record = {**number, "event": event, "reward": reward}
                assert client.post(f"{base}/feedback", json=record).json()["outcome"] == "taken"
            assert 0.0 < made["probability"] <= 1.0
        assert client.get(f"{base}/report").status_code == 200
    same_after_every_way(table, "plain")
