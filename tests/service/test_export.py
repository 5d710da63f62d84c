"""The decision log as a table: its content, replays, and the evaluation of policies."""

import csv
import io
import json
import sys

import numpy as np
import polars as pl
import pytest

import belated as bl
from belated.evaluation import DecisionLog
from serving import InProcess, config, learner, restored

MAIL = {
    "name": "mail",
    "actions": ["plain", "question"],
    "features": {"age": "number", "country": ["dk", "se"]},
    "agent": {"kind": "linear_sampler", "floor": 0.2},
}
BASE = "/v1/learners/mail"


def campaign(client, n=120, seed=0):
    """Decisions in which the question pays more; returns the requests and the decisions."""
    rng = np.random.default_rng(seed)
    ages = rng.integers(18, 80, n).tolist()
    countries = rng.choice(["dk", "se", "no"], n).tolist()
    asked = [
        {"features": {"age": age, "country": country}, "key": f"k{i}"}
        for i, (age, country) in enumerate(zip(ages, countries, strict=True))
    ]
    asked[3]["features"] = {"country": "dk"}  # the age is missing
    made = []
    for some in (asked[: n // 2], asked[n // 2 :]):
        answer = client.post(f"{BASE}/decide/batch", json={"decisions": some})
        told = answer.json()["decisions"]
        records = [
            {"key": one["key"], "reward": 1.0 + d["action"]}
            for one, d in zip(some, told, strict=True)
            if rng.random() < 0.8
        ]
        client.post(f"{BASE}/feedback/batch", json={"records": records})
        made += told
    return asked, made


def test_the_export_has_every_decision_with_what_came(tmp_path):
    table = config(tmp_path, learners=[MAIL])
    with InProcess(table) as client:
        asked, made = campaign(client)
        client.post(f"{BASE}/feedback", json={"key": "k5", "reward": -0.5, "event": "refund"})
        client.post(f"{BASE}/decide", json={"features": {"age": 20}, "among": ["plain"]})
        text = client.get(f"{BASE}/decisions").text
        content = client.get(f"{BASE}/decisions?format=parquet").content
        told = client.get(f"{BASE}/evaluation").json()
        assert client.get(f"{BASE}/decisions?format=xml").status_code == 422
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [int(row["episode"]) for row in rows] == list(range(121))
    for one, decision, row in zip(asked, made, rows, strict=False):
        assert row["key"] == one["key"]
        assert row["name"] == decision["name"]
        assert float(row["probability"]) == decision["probability"]
        assert row["features.age"] == str(one["features"].get("age", ""))
        assert row["features.country"] == one["features"]["country"]
        assert (row["outcome"] == "") == (row["reported"] == "") == (row["events"] == "0")
    assert json.loads(rows[-1]["among"]) == ["plain"]
    assert (
        float(rows[5]["outcome"]) == (1.0 + made[5]["action"]) * (int(rows[5]["events"]) > 1) - 0.5
    )
    frame = pl.read_parquet(io.BytesIO(content))
    assert frame.columns == list(rows[0])
    assert frame["probability"].to_list() == [float(row["probability"]) for row in rows]
    assert frame["outcome"].null_count() == sum(row["outcome"] == "" for row in rows)
    assert (told["decisions"], told["left_out"]) == (120, 1)
    values = {row["policy"]: row for row in told["policies"]}
    assert set(values) == {"uniform", "always plain", "always question"}
    assert values["always plain"]["value"] < values["uniform"]["value"]
    assert values["uniform"]["value"] < values["always question"]["value"]
    for row in told["policies"]:
        assert row["low"] <= row["value"] <= row["high"]


def test_an_evaluation_says_where_nothing_is_known(tmp_path):
    with InProcess(config(tmp_path, learners=[MAIL])) as client:
        for age in range(3):
            assert client.post(f"{BASE}/decide", json={"features": {"age": age}}).status_code == 200
        told = client.get(f"{BASE}/evaluation").json()
    assert told["policies"][0]["policy"] == "uniform"
    for row in told["policies"]:
        assert (row["value"], row["low"], row["high"]) == (None, None, None)


def test_an_exported_log_is_replayed_by_a_fresh_agent_that_a_learner_starts_from(tmp_path):
    table = config(tmp_path, learners=[MAIL])
    with InProcess(table) as client:
        campaign(client)
        content = client.get(f"{BASE}/decisions?format=parquet").content
    frame = pl.read_parquet(io.BytesIO(content))
    asked = frame.select(age="features.age", country="features.country").to_dicts()
    columns = (frame[name].to_list() for name in ("action", "probability", "outcome"))
    times = {name: frame[name].to_list() for name in ("decided", "reported")}
    warm = learner(table, "mail").fresh()
    warm.replay(DecisionLog(*columns, **times), asked)
    for number in warm.open_episodes():
        warm.forget(number)
    live = restored(table, "mail")[0].runner.agent
    counts = [[(row.plays, row.reports) for row in agent.table()] for agent in (warm, live)]
    assert counts[0] == counts[1]
    bl.save(warm, tmp_path / "mail.belated")
    started = {k: v for k, v in MAIL.items() if k != "agent"}
    started |= {"name": "next", "start": str(tmp_path / "mail.belated")}
    with InProcess(config(tmp_path, learners=[started])) as client:
        told = {"features": {"age": 30, "country": "se"}}
        assert client.post("/v1/learners/next/decide", json=told).json()["episode"] == 120


def test_without_polars_parquet_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with InProcess(config(tmp_path, learners=[MAIL])) as client:
        told = client.get(f"{BASE}/decisions?format=parquet")
        assert (told.status_code, told.json()["field"]) == (422, "format")
        assert "pip install 'belated[lab]'" in told.json()["why"]
        assert client.get(f"{BASE}/decisions").status_code == 200


def test_decisions_of_episodes_that_were_begun_before_are_exported_too(tmp_path):
    shop = {
        "name": "shop",
        "problem": {"states": 2, "actions": 2, "horizon": 1, "start": [0.5, 0.5]},
    }
    base = "/v1/learners/shop"
    table = config(tmp_path, learners=[shop])
    made = []
    with InProcess(table) as client:
        for i in range(6):
            if i % 2:
                told = client.post(f"{base}/decide", json={"state": 1, "key": f"k{i}"}).json()
            else:
                number = client.post(f"{base}/episodes", json={"key": f"k{i}"}).json()["episode"]
                asked = {"episode": number, "step": 0, "state": 1}
                told = client.post(f"{base}/decide", json=asked).json()
            made.append(told)
            client.post(f"{base}/feedback", json={"key": f"k{i}", "cost": i / 8})
        rows = list(csv.DictReader(io.StringIO(client.get(f"{base}/decisions").text)))
        told = client.get(f"{base}/evaluation?newest=4").json()
        assert (told["decisions"], told["left_out"]) == (4, 2)
        assert client.get(f"{base}/evaluation").json()["decisions"] == 6
        assert client.get(f"{base}/evaluation?newest=1000001").status_code == 422
    for i, (row, one) in enumerate(zip(rows, made, strict=True)):
        assert (row["episode"], row["key"], row["state"]) == (str(i), f"k{i}", "1")
        assert int(row["action"]) == one["action"]
        assert float(row["probability"]) == one["probability"]
        assert (float(row["outcome"]), row["events"]) == (i / 8, "1")


def test_every_step_of_an_episode_is_a_row(tmp_path):
    robot = {"name": "robot", "problem": {"states": 2, "actions": 2, "horizon": 2}}
    base = "/v1/learners/robot"
    with InProcess(config(tmp_path, learners=[robot])) as client:
        client.post(f"{base}/episodes", json={"key": "a"})
        for step, state in ((0, 0), (1, 1)):
            asked = {"episode": 0, "step": step, "state": state}
            assert client.post(f"{base}/decide", json=asked).status_code == 200
        client.post(f"{base}/feedback", json={"episode": 0, "costs": [0.25, 0.75]})
        rows = list(csv.DictReader(io.StringIO(client.get(f"{base}/decisions").text)))
        refused = client.get(f"{base}/evaluation")
    assert [(row["step"], row["state"], row["outcome"]) for row in rows] == [
        ("0", "0", "0.25"),
        ("1", "1", "0.75"),
    ]
    assert refused.status_code == 422
    assert "one step" in refused.json()["why"]


def test_an_evaluation_knows_how_much_can_have_come_by_now(tmp_path, clock):
    """The newest decisions are as old as the clock says, though nothing has come since."""
    with InProcess(config(tmp_path, learners=[MAIL])) as client:
        rng = np.random.default_rng(0)
        for day in range(3):
            asked = [
                {"features": {"age": 30, "country": "dk"}, "key": f"{day}-{i}"} for i in range(80)
            ]
            client.post(f"{BASE}/decide/batch", json={"decisions": asked})
            records = [{"key": one["key"], "reward": 1.0} for one in asked if rng.random() < 0.5]
            for some in [records] if day == 2 else [records[::2], records[1::2]]:
                clock.step(3600.0)
                client.post(f"{BASE}/feedback/batch", json={"records": some})
        clock.step(7 * 86_400.0)
        told = client.get(f"{BASE}/evaluation").json()
    assert told["policies"][0]["policy"] == "uniform"
    assert told["policies"][0]["value"] == pytest.approx(0.5, abs=0.1)


def test_a_log_of_whole_cost_functions_says_nothing_of_single_outcomes(tmp_path):
    """Under full information a report is no outcome of the decision."""
    full = {
        "name": "full",
        "problem": {"states": 1, "actions": 2, "horizon": 1},
        "information": "full",
    }
    base = "/v1/learners/full"
    with InProcess(config(tmp_path, learners=[full])) as client:
        for _ in range(3):
            made = client.post(f"{base}/decide", json={}).json()
            record = {"episode": made["episode"], "costs": [[[0.1, 0.2]]]}
            assert client.post(f"{base}/feedback", json=record).json()["outcome"] == "taken"
        rows = list(csv.DictReader(io.StringIO(client.get(f"{base}/decisions").text)))
        told = client.get(f"{base}/evaluation").json()
        assert client.get(f"{base}/report").json()["delays"]["count"] == 3
    assert [(row["outcome"], row["events"], row["reported"]) for row in rows] == [("", "0", "")] * 3
    assert [one["value"] for one in told["policies"]] == [None] * 3
