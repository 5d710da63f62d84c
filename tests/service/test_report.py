"""The report for people: its words, and its numbers, which equal sums by hand."""

from dataclasses import replace

import numpy as np
import pytest

import belated as bl
from belated.config.part import part
from belated.service.config import LearnerConfig
from serving import SHOP, InProcess, config

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


def test_the_table_of_a_learner_states_the_terms_of_its_verdict(tmp_path, clock):
    """Window, range and level are those of the library; an outcome outside is no error."""
    terms = {"window": 600.0, "range": [0.0, 3.0], "level": 0.8, "unit": "euros"}
    mail = {"name": "mail", "actions": ["plain", "question"], **terms}
    table = config(tmp_path, learners=[mail | {"agent": {"kind": "linear_sampler", "floor": 1.0}}])
    with InProcess(table) as client:
        made = client.post(f"{BASE}/decide/batch", json={"decisions": [{}] * 400}).json()
        records = [
            {"episode": one["episode"], "reward": 3.0}
            for one in made["decisions"]
            if one["action"] == 1
        ]
        client.post(f"{BASE}/feedback/batch", json={"records": records})
        told = {}
        for reward in (4.0, 1.0):  # the latter tells the time at which the former is final
            clock.step(700.0)
            one = client.post(f"{BASE}/decide", json={}).json()["episode"]
            client.post(f"{BASE}/feedback", json={"episode": one, "reward": reward})
            told[reward] = client.get(f"{BASE}/report").json()
            if reward == 4.0:
                (leads,) = (row["leads"] for row in told[4.0]["actions"] if row["action"] == 1)
                metrics = client.get("/metrics").text
        assert 'belated_winner{action="question",learner="mail"} 1.0' in metrics
        assert f'belated_leads{{action="question",learner="mail"}} {leads}' in metrics
        assert 'belated_at_stake{learner="mail"} 0.0' in metrics
        assert "belated_winner{" not in client.get("/metrics").text
        assert 'belated_leads{action="question",learner="mail"}' in client.get("/metrics").text
    assert told[4.0]["winner"] == "question"
    assert "sure at every look (80 %, exact)" in told[4.0]["verdict"]
    assert told[1.0]["winner"] is None
    assert told[1.0]["unit"] == "euros"
    assert "An outcome is outside of the stated range" in told[1.0]["verdict"]
    sampler = LearnerConfig(name="mail", problem=bl.Choice(2), agent=part("linear_sampler"))
    with pytest.raises(ValueError, match=r"level must be a finite number at least 0\.5"):
        replace(sampler, level=2.0)
    greedy = replace(sampler, problem=bl.Choice(2, 1), range=(0.0, 1.0))
    assert greedy.fresh().made == 0
    with pytest.raises(ValueError, match="range must be None with features and a floor of 0"):
        replace(greedy, agent=part("linear_sampler", floor=0.0)).fresh()
    with pytest.raises(ValueError, match="level must be left out of a learner with states"):
        LearnerConfig(name="mail", problem=bl.Problem(2, 2, 1), level=0.9)


def test_a_holdout_that_plays_a_policy_is_weighted_by_that_policy(tmp_path):
    policy = np.array([0.9, 0.1])
    agent = {"kind": "linear_sampler", "holdout": 0.3, "reference": policy.tolist()}
    with InProcess(config(tmp_path, learners=[{**MAIL, "agent": agent}])) as client:
        made = played(client, 80, np.random.default_rng(0), [1.0, 3.0])
        told = client.get(f"{BASE}/report").json()["holdout"]
    actions = np.array([one["action"] for one in made])
    weights = 0.3 * policy[actions] / [one["probability"] for one in made]
    assert told["decisions"] == pytest.approx(weights.sum())
    held = (weights * np.where(actions == 1, 3.0, 1.0)).sum() / weights.sum()
    assert told["mean"] == pytest.approx(held)


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
        assert row["mean"] == pytest.approx([1.0, 3.0][a], abs=0.2)  # for all visitors
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


def test_the_verdict_and_the_table_are_in_the_unit_of_the_learner(tmp_path):
    mail = {"name": "mail", "actions": ["plain", "question"], "unit": "euros"}
    with InProcess(config(tmp_path, learners=[mail])) as client:
        made = client.post(f"{BASE}/decide/batch", json={"decisions": [{}] * 60}).json()
        records = [
            {"episode": one["episode"], "reward": 1.0 + 0.1 * (k % 7)}
            for k, one in enumerate(made["decisions"])
        ]
        client.post(f"{BASE}/feedback/batch", json={"records": records})
        told = client.get(f"{BASE}/report").json()
    assert told["unit"] == "euros"
    assert " euros a decision." in told["verdict"]


@pytest.mark.parametrize("silence", [5.0, None])
def test_the_interval_of_the_holdout_is_that_of_its_weighted_outcomes(tmp_path, silence):
    """A decision without a report counts as silence; where all report, it does not count yet."""
    agent = {**MAIL["agent"], "silence": silence}
    with InProcess(config(tmp_path, learners=[{**MAIL, "agent": agent}])) as client:
        made = played(client, 60, np.random.default_rng(0), [None, 3.0])
        told = client.get(f"{BASE}/report").json()["holdout"]
    weights = 0.2 / (2 * np.array([one["probability"] for one in made]))
    outcomes = np.array([3.0 if one["action"] == 1 else np.nan for one in made])
    known = ~np.isnan(outcomes) if silence is None else np.full(60, True)
    outcomes = np.nan_to_num(outcomes, nan=silence or 0.0)[known]
    mean = np.average(outcomes, weights=weights[known])
    error = np.sqrt((weights[known] ** 2 * (outcomes - mean) ** 2).sum()) / weights[known].sum()
    assert told["mean"] == pytest.approx(mean)
    assert told["high"] - told["low"] == pytest.approx(2 * 1.96 * error, rel=1e-3, abs=1e-6)
    assert told["decisions"] == pytest.approx(weights.sum())


def test_a_category_of_which_no_listed_value_comes_is_named(tmp_path):
    learner = {**MAIL, "features": {"age": "number", "country": ["DK", "SE"]}}
    with InProcess(config(tmp_path, learners=[learner])) as client:
        played(client, 60, np.random.default_rng(0), [1.0, 3.0])
        (warning,) = client.get(f"{BASE}/report").json()["warnings"]
    assert warning["kind"] == "unlisted"
    assert warning["text"].startswith("No value of country was a listed one, in 60 decisions:")


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


def test_days_and_sums_are_those_of_the_decisions(tmp_path, clock):
    """A refund on a later day counts on the day of its decision; sums survive a restart."""
    table = config(tmp_path, learners=[MAIL])
    for _ in range(2):
        with InProcess(table) as client:
            for key, reward, event in (("a", 2.0, "x"), ("b", None, None)):
                asked = {"features": {"age": 30}, "key": f"{key}{clock.days}"}
                client.post(f"{BASE}/decide", json=asked)
                if reward is not None:
                    record = {"key": asked["key"], "reward": reward, "event": event}
                    client.post(f"{BASE}/feedback", json=record)
            clock.step(86_400.0)
            record = {"key": f"a{clock.days - 1}", "reward": -0.5, "event": "refund"}
            assert client.post(f"{BASE}/feedback", json=record).json()["outcome"] == "taken"
            told = client.get(f"{BASE}/report").json()
    days = [(day["decisions"], day["reports"], day["so_far"]) for day in told["days"]]
    assert days == [(2.0, 1.0, 0.75)] * 2
    assert told["delays"]["count"] == 2
