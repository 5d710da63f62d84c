"""The report for people: its words, and its numbers, which equal sums by hand."""

import json

import numpy as np
import pytest

from belated.service.episodes import DAY, DAYS, Entry, LearnerTotals
from serving import SHOP, InProcess, books_fingerprint, config, restored

MAIL = {
    "name": "mail",
    "actions": ["plain", "question"],
    "features": {"age": "number", "country": ["dk", "se"]},
    "agent": {"kind": "linear_sampler", "holdout": 0.2, "floor": 0.02},
}
BASE = "/v1/learners/mail"


def played(client, n, rng, pays):
    """Decisions and the reward of each, reported at once; `pays` is the reward of an action."""
    asked = [
        {"features": {"age": int(rng.integers(18, 80)), "country": "dk"}, "key": f"k{i}"}
        for i in range(n)
    ]
    made = client.post(f"{BASE}/decide/batch", json={"decisions": asked}).json()["decisions"]
    records = [
        {"key": one["key"], "reward": pays[told["action"]]}
        for one, told in zip(asked, made, strict=True)
        if pays[told["action"]] is not None
    ]
    client.post(f"{BASE}/feedback/batch", json={"records": records})
    return made


def test_the_report_counts_what_was_decided_and_what_came(tmp_path):
    table = config(tmp_path, learners=[MAIL])
    with InProcess(table) as client:
        empty = client.get(f"{BASE}/report").json()
        assert (empty["verdict"], empty["warnings"]) == ("Nothing has reported yet.", [])
        assert empty["actions"][0]["mean"] is None
        made = played(client, 60, np.random.default_rng(0), [1.0, 3.0])
        told = client.get(f"{BASE}/report").json()
        status = client.get(BASE).json()
    actions = np.array([one["action"] for one in made])
    for a, row in enumerate(told["actions"]):
        assert (row["name"], row["plays"]) == (MAIL["actions"][a], (actions == a).sum())
        assert row["reports"] == row["plays"]
        assert row["mean"] == pytest.approx([1.0, 3.0][a])
        assert row["low"] < row["mean"] < row["high"]
        assert row["share"] == row["recent_share"] == pytest.approx((actions == a).mean())
    assert sum(row["probability"] for row in told["actions"]) == pytest.approx(1.0)
    assert told["actions"][1]["leads"] > 0.9
    assert told["verdict"].startswith("question ")
    (day,) = told["days"]
    assert (day["decisions"], day["reports"]) == (60, 60)
    assert day["so_far"] == pytest.approx(np.where(actions == 1, 3.0, 1.0).mean())
    weights = 0.2 / (2 * np.array([one["probability"] for one in made]))
    held = (weights * np.where(actions == 1, 3.0, 1.0)).sum() / weights.sum()
    assert told["holdout"]["decisions"] == pytest.approx(weights.sum())
    assert told["holdout"]["mean"] == pytest.approx(held) == day["holdout"]["mean"]
    assert told["holdout"]["low"] < held < told["holdout"]["high"]
    assert (told["pending"], told["overdue"], told["late"]) == (0, 0, 0)
    assert [status[name] for name in ("pending", "overdue", "late")] == [0, 0, 0]
    assert told["delays"]["count"] == 60
    assert told["delays"]["words"].startswith("half within ")
    assert {weight["action"] for weight in told["features"]} == {"plain", "question"}
    stopped, _ = restored(table, "mail")
    never, _ = restored(table, "mail", snapshots=False)
    assert books_fingerprint(stopped.books) == books_fingerprint(never.books)
    assert stopped.books.tally.actions[1].total == 3.0 * (actions == 1).sum()


def test_an_action_that_never_reports_is_named(tmp_path):
    with InProcess(config(tmp_path, learners=[MAIL])) as client:
        played(client, 60, np.random.default_rng(0), [1.0, None])
        kinds = [w["kind"] for w in client.get(f"{BASE}/report").json()["warnings"]]
        assert kinds == ["never_reports"]
        client.post(f"{BASE}/feedback", json={"key": "nobody", "reward": 1})
        kinds = [w["kind"] for w in client.get(f"{BASE}/report").json()["warnings"]]
        assert kinds == ["never_reports"]


def test_a_learner_with_costs_is_reported_in_costs(tmp_path):
    with InProcess(config(tmp_path, learners=[{**SHOP, "default": 1.0}])) as client:
        base = "/v1/learners/shop"
        for i in range(12):
            made = client.post(f"{base}/decide", json={"state": 0}).json()
            if i % 2:
                record = {"episode": made["episode"], "costs": [0.25]}
                client.post(f"{base}/feedback", json=record)
        told = client.get(f"{base}/report").json()
    assert (told["unit"], told["higher_is_better"], told["holdout"]) == ("cost", False, None)
    assert sum(row["plays"] for row in told["actions"]) == 12
    assert told["pending"] == 6
    for row in told["actions"]:
        if row["reports"]:
            assert row["mean"] == pytest.approx(0.25)
            silent = (0.25 * row["reports"] + row["plays"] - row["reports"]) / row["plays"]
            assert row["low"] < 0.25 <= silent < row["high"]


def test_records_that_cannot_be_learned_from_are_a_warning(tmp_path):
    robot = {"name": "robot", "problem": {"states": 3, "actions": 2, "horizon": 2}}
    with InProcess(config(tmp_path, learners=[robot])) as client:
        base = "/v1/learners/robot"
        client.post(f"{base}/episodes", json={})
        client.post(f"{base}/feedback", json={"episode": 0, "step": 0, "cost": 0.5})
        (warning,) = client.get(f"{base}/report").json()["warnings"]
    assert warning["kind"] == "not_learned"
    assert "waits for" in warning["text"]


def test_a_tally_keeps_so_many_days_and_can_be_saved():
    tally, entries = LearnerTotals(), []
    for day in range(DAYS + 3):
        entry = Entry(day * DAY)
        tally.begin(entry)
        entries.append(tally.act(entry, day % 2, 0.25))
    assert len(tally.days) == DAYS
    tally.hear(entries[0], 1e300, 5.0, 5.0)
    heard = tally.hear(entries[DAYS], 2.0, DAYS * DAY + 60.0, 60.0)
    tally.hear(heard, -0.5, DAYS * DAY + 90.0, 90.0)
    day = tally.days[DAYS]
    assert (day.all.reports, day.all.total, day.all.square) == (1.0, 1.5, 2.25)
    assert (day.holdout.decisions, day.holdout.total) == (0.25, 0.375)
    assert tally.delays.count == 2
    again = LearnerTotals.from_state(tally.state())
    assert json.dumps(again.state(), default=np.ndarray.tolist) == json.dumps(
        tally.state(), default=np.ndarray.tolist
    )
    with pytest.raises(ValueError, match="days that are kept"):
        LearnerTotals.from_state({**tally.state(), "plays": np.array([[1, 0, 1]])})
