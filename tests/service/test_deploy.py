"""The deployment files: everything they name exists, and their configuration starts."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from belated.service.config import from_table, new_token
from belated.service.run import application
from serving import InProcess, config

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMTOOL = shutil.which("promtool")
METRIC = re.compile(r"\bbelated_\w+")


def expressions():
    """Every query of the dashboard and of the rules, with its place."""
    board = json.loads((DEPLOY / "grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def test_every_metric_and_label_of_the_files_exists(tmp_path):
    with InProcess(config(tmp_path)) as client:
        base = "/v1/learners/shop"
        client.post(f"{base}/decide", json={"key": "a"})
        client.post(f"{base}/feedback", json={"key": "a", "cost": 0.5, "step": 0})
        shown = client.get("/metrics").text
    samples = re.findall(r"^(belated_\w+)\{([^}]*)\}", shown, re.MULTILINE)
    labels = {name: set(re.findall(r"(\w+)=", given)) for name, given in samples}
    values = {(name, pair) for name, given in samples for pair in re.findall(r"\w+=\"\w+\"", given)}
    found = dict(expressions())
    assert len(found) >= 15
    for where, query in found.items():
        named = METRIC.findall(query)
        assert named or where == "BelatedDown", where
        for name in named:
            assert name in labels, (where, name)
        allowed = set.union(*(labels[name] for name in named)) if named else set()
        for by in re.findall(r"by \(([^)]*)\)", query):
            assert set(by.split(", ")) <= allowed, where
        for name, given in re.findall(r"(belated_\w+)\{([^}]*)\}", query):
            for label, values_ in re.findall(r"(\w+)=~?\"([a-z|]+)\"", given):
                if label == "name":  # each agent has diagnostics of its own
                    continue
                for value in values_.split("|"):
                    assert (name, f'{label}="{value}"') in values, (where, value)


def test_the_panels_do_not_overlap():
    places = set()
    for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & places, panel["title"]
        places |= cells


def test_every_alert_is_tried():
    rules = [where for where, _ in expressions() if where.startswith("Belated")]
    tried = yaml.safe_load((DEPLOY / "alerts_test.yml").read_text())["tests"]
    for test in tried:
        assert [item["alertname"] for item in test["alert_rule_test"]] == rules
    scrape = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    assert scrape["rule_files"] == ["alerts.yml"]
    assert scrape["scrape_configs"][0]["job_name"] == "belated"


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool is installed")
def test_prometheus_reads_the_files_and_the_alerts_fire():
    for command in (
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ):
        done = subprocess.run(
            [PROMTOOL, *command], cwd=DEPLOY, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_of_the_container_needs_a_token_of_your_own(tmp_path):
    table = tomllib.loads((DEPLOY / "belated.toml").read_text())
    with pytest.raises(ValueError, match="tokens are required"):
        application(from_table(table))
    token, digest = new_token()
    table["tokens"] = [{"name": "all", "sha256": digest, "learners": ["*"]}]
    with InProcess({**table, "host": "127.0.0.1", "storage": str(tmp_path)}) as client:
        headers = {"Authorization": f"Bearer {token}"}
        asked = {"features": {"age": 34, "country": "dk"}}
        told = client.post("/v1/learners/mail/decide", json=asked, headers=headers)
        assert told.json()["name"] in table["learners"][0]["actions"]
        assert client.post("/v1/learners/mail/decide", json=asked).status_code == 401


def test_what_the_container_file_copies_exists():
    text = (DEPLOY / "Dockerfile").read_text()
    ignored = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    assert {"src", "deploy", "pyproject.toml", "constraints.txt", "README.md"} <= set(kept)
    assert all((DEPLOY.parent / name).exists() for name in kept)
    for source in re.findall(r"^COPY (\S+) ", text, re.MULTILINE):
        assert (DEPLOY.parent / source).exists(), source
    path = (DEPLOY.parent / "pyproject.toml").read_text()
    assert 'readme = "README.md"' in path
