"""Small promises: evaluation, exports, names of actions, a standby, and compiling early."""

import csv
import io
import logging
from pathlib import Path

import httpx
import pytest

from belated import cli
from belated.service import run
from belated.service.config import load
from limits import LIMIT, until
from serving import SHOP, InProcess, Listening, config

BASE = "/v1/learners/mail"
DEPLOY = Path(__file__).parents[2] / "deploy"


def campaign(client, n, first=0, **asked):
    for i in range(first, first + n):
        made = client.post(f"{BASE}/decide", json={"key": f"k{i}", **asked}).json()
        record = {"key": f"k{i}", "reward": 1.0 + made["action"]}
        assert client.post(f"{BASE}/feedback", json=record).json()["outcome"] == "taken"


def test_decisions_without_features_are_evaluated(tmp_path, clock):
    mail = {"name": "mail", "actions": ["plain", "question"],
            "agent": {"kind": "linear_sampler", "floor": 1.0}}  # fmt: skip
    with InProcess(config(tmp_path, learners=[mail])) as client:
        campaign(client, 60)  # equal shares: draws do not depend on what is learned by when
        clock.step(86_400.0)  # and all outcomes that can come have come, however slow this was
        told = client.get(f"{BASE}/evaluation").json()
    values = {row["policy"]: row["value"] for row in told["policies"]}
    assert told["decisions"] == 60
    assert values["always plain"] == pytest.approx(1.0, abs=0.2)
    assert values["always question"] == pytest.approx(2.0, abs=0.2)


def test_an_evaluation_uses_decisions_from_before_actions_changed(tmp_path):
    mail = {"name": "mail", "actions": ["plain", "question"], "features": 1,
            "agent": {"kind": "linear_sampler", "floor": 0.2}}  # fmt: skip
    with InProcess(config(tmp_path, learners=[mail])) as client:
        campaign(client, 40, features=[1.0])
        client.post(f"{BASE}/actions", json={"name": "video"})
        assert client.get(f"{BASE}/evaluation").json()["decisions"] == 40
        campaign(client, 40, 40, features=[1.0])
        client.delete(f"{BASE}/actions/plain")
        told = client.get(f"{BASE}/evaluation").json()
    assert (told["decisions"], told["left_out"]) == (80, 0)
    assert [row["policy"] for row in told["policies"]] == [
        "uniform", "always question", "always video"
    ]  # fmt: skip


def test_a_spreadsheet_takes_exported_texts_for_texts(tmp_path):
    mail = {"name": "mail", "actions": ["=1+1", "plain"], "features": {"land": "category"}}
    keys = ["=cmd()", "+1", "-1", "@x", "plain"]
    with InProcess(config(tmp_path, learners=[mail])) as client:
        for key in keys:
            client.post(f"{BASE}/decide", json={"features": {"land": "=x"}, "key": key})
        rows = list(csv.DictReader(io.StringIO(client.get(f"{BASE}/decisions").text)))
    assert [row["key"] for row in rows] == ["'=cmd()", "'+1", "'-1", "'@x", "plain"]
    assert {row["features.land"] for row in rows} == {"'=x"}
    assert {row["name"] for row in rows} <= {"'=1+1", "plain"}
    assert {float(row["probability"]) for row in rows} == {0.5}


def test_an_action_of_any_name_can_be_retired(tmp_path):
    mail = {"name": "mail", "actions": ["plain", "a/b", "0", "x y"], "features": 1}
    with InProcess(config(tmp_path, learners=[mail])) as client:
        for name, number in (("a%2Fb", 1), ("0", 2), ("x%20y", 3)):
            told = client.delete(f"{BASE}/actions/{name}").json()
            assert (told["action"], told["changed"]) == (number, True)


def test_a_standby_says_that_it_waits(tmp_path, caplog):
    table = config(tmp_path, learners=[SHOP])
    caplog.set_level(logging.INFO, "belated.service")
    with InProcess(table):
        second = InProcess.__new__(InProcess)
        second.ready = lambda: None
        second.__init__(table)
        until(lambda: "learner shop waits" in caplog.text)
        second.close()
    waits = [record for record in caplog.records if "waits" in record.getMessage()]
    assert {record.levelname for record in waits} == {"INFO"}


def test_what_a_container_needs_is_compiled_before_it_starts(capsys):
    """The configuration of the image has no token yet when the image is built."""
    assert cli.main(["warmup", str(DEPLOY / "belated.toml")]) == 0
    assert capsys.readouterr().out == "compiled: mail\n"
    assert "belated warmup belated.toml" in (DEPLOY / "Dockerfile").read_text()


def test_the_customers_of_the_demonstration_are_simulated_and_said_to_be(tmp_path, monkeypatch):
    mail = load(None).learners[0]
    table = config(
        tmp_path,
        learners=[{"name": mail.name, "actions": list(mail.problem.names), "note": mail.note,
                   "features": {"age": "number", "country": ["dk", "se"]}}],
    )  # fmt: skip
    monkeypatch.setattr(run, "DELAY", 1e-3)
    with Listening(table) as server:
        left = [30]

        def pause(seconds):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(run.time, "sleep", pause)
        with pytest.raises(KeyboardInterrupt):
            run.visit(server.url)
        told = httpx.get(f"{server.url}{BASE}", timeout=LIMIT).json()
    assert (told["begun"], told["note"]) == (31, "The customers of this learner are simulated.")
