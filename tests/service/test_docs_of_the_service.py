"""The README and the page describe the service as it is."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from belated.service.config import demonstration, from_table
from serving import InProcess, running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_configurations_of_the_page_are_right(tmp_path):
    first, tokens = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    config = from_table(tomllib.loads(first))
    assert [learner.name for learner in config.learners] == ["offers", "fleet", "mail"]
    whole = from_table(
        tomllib.loads(tokens.partition("[[")[0] + first + tokens[tokens.index("[[") :])
    )
    assert whole.tokens[0].verbs == ("begin", "feedback")


def test_every_request_of_the_page_exists(tmp_path):
    table = {
        "learners": [{"name": "shop", "problem": {"states": 1, "actions": 2, "horizon": 1}}],
        "storage": str(tmp_path),
    }
    with InProcess(table) as client:
        paths = set(client.get("/openapi.json").json()["paths"])
    told = set(re.findall(r"`(?:GET|POST|DELETE) (\S+?)`", PAGE))
    told = {path.replace("...", "/v1/learners/NAME").replace("NAME", "{name}") for path in told}
    told = {path.replace("/N", "/{episode}").replace("/ACTION", "/{action}") for path in told}
    told |= {"/metrics", "/healthz", "/readyz"}
    assert told == paths


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_lines_of_the_readme_work_at_once(tmp_path):
    (block,) = re.findall(r"```sh\n(URL=.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    mail = next(one for one in demonstration().learners if one.name == "mail")
    features = {"age": "number", "country": ["dk", "se"]}
    assert repr(mail.problem.features) == "Features(age='number', country=['dk', 'se'])"
    table = {
        "learners": [
            {"name": mail.name, "actions": list(mail.problem.names), "features": features,
             "deadline_seconds": mail.deadline_seconds}
        ],
        "storage": str(tmp_path / "data"),
        "port": 0,
    }  # fmt: skip
    with running(tmp_path, table) as server:
        script = block.replace("http://127.0.0.1:8571", server.url).replace(
            "curl ", "curl -s -w '\\n' "
        )
        done = subprocess.run(
            ["sh", "-e"], input=script, capture_output=True, text=True, check=True
        )
    decided, fed, report = map(json.loads, done.stdout.splitlines())
    assert decided["name"] in mail.problem.names
    assert fed["outcome"] == "taken"
    assert "verdict" in report
