"""The README and the page describe the service as it is."""

import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
import tomllib
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from belated.client import Client
from belated.service.config import from_table, load
from limits import LIMIT
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
    mail = next(one for one in load(None).learners if one.name == "mail")
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


class FakeStream:
    """A partition of a stream; it forgets where a reader was that ended before its commit."""

    def __init__(self, records, fails):
        self._messages = [SimpleNamespace(value=json.dumps(record)) for record in records]
        self._committed = self._place = 0
        self._fails = fails

    def __iter__(self):
        self._place = self._committed
        while self._place < len(self._messages):
            first, self._place = self._place, self._place + 4
            yield self._messages[first : self._place]

    def commit(self):
        if self._place in self._fails:
            self._fails.remove(self._place)
            raise ConnectionError("the reader ends before its commit")
        self._committed = self._place


@pytest.mark.slow
def test_the_loop_over_a_stream_counts_what_comes_twice_once(tmp_path):
    (loop,) = re.findall(r"```py\n(with Client.*?)```", PAGE, re.DOTALL)
    mail = {"name": "mail", "actions": ["plain", "question"], "features": 1}
    table = {"learners": [mail], "storage": str(tmp_path / "data"), "port": 0}
    patient = partial(Client, timeout=LIMIT, patience=LIMIT)
    with running(tmp_path, table) as server:
        with patient(server.url, "mail") as client:
            for i in range(10):
                client.decide(features=[float(i)], key=f"k{i}")
        records = [{"key": f"k{i}", "reward": 1.0, "event": f"e{i}"} for i in range(10)]
        records.insert(5, {"key": "nobody", "reward": 1.0})
        stream, aside = FakeStream(records, [4, 12]), []
        names = {"Client": patient, "json": json, "stream": stream}
        names["set_aside"] = lambda record, why: aside.append((record["key"], why))
        code = loop.replace("http://127.0.0.1:8571", server.url)
        ended = 0
        for _ in range(3):
            try:
                exec(code, dict(names))
            except ConnectionError:
                ended += 1
        with patient(server.url, "mail") as client:
            told = client.feedback(records)
    assert ended == 2
    assert {name for name, _ in aside} == {"nobody"}
    kinds = [one["outcome"] for one in told]
    assert kinds.count("duplicate") == 10
    assert kinds.count("unknown") == 1
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "mail.sqlite")) as db:
        assert db.execute("SELECT count(*), sum(total) FROM episodes").fetchall() == [(10, 10.0)]
