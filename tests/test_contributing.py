"""CONTRIBUTING.md is true of the code: its walks are short, and its agent works."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import belated as bl

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

spec = importlib.util.spec_from_file_location("walk", ROOT / "tools" / "walk.py")
walk = importlib.util.module_from_spec(spec)
spec.loader.exec_module(walk)


def section(title):
    """The text under a heading."""
    return re.split(r"^## ", PAGE, flags=re.MULTILINE)[
        [part.splitlines()[0] for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)].index(title)
    ]


def test_one_episode_is_a_short_walk():
    files = walk.bandit_episode()
    assert 10 <= len(files) <= walk.EPISODE, files


@pytest.mark.slow
def test_one_feedback_is_a_short_walk():
    pytest.importorskip("msgspec")
    files = walk.http_feedback()
    assert 10 <= len(files) <= walk.FEEDBACK, files


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "here"])
def test_the_demo_is_a_short_walk(engine):
    """What its command does itself, and all of it with the agents that it compares."""
    pytest.importorskip("joblib")
    files = walk.demo(engine)
    own = [file for file in files if file.startswith(("cli", "lab/", "config/"))]
    assert len(files) <= (walk.DEMO_HERE if engine == "here" else walk.DEMO), files
    assert 10 <= len(own) <= walk.DEMO, own


@pytest.mark.long
def test_the_page_names_the_files_of_both_walks():
    told = section("One feedback over HTTP") + section("One episode of the recommended agent")
    files = walk.bandit_episode() + walk.http_feedback()
    assert [file for file in files if file not in told and file != "core/contract.py"] == []


USED = """
import asyncio, httpx
import numpy as np
import belated as bl
from belated import lab, testing
from belated.service.config import from_table
from belated.service.run import application
from belated.tabular.cheapest import CheapestSoFar

problem = bl.Problem(states=3, actions=2, horizon=2)
testing.check_agent(lambda: CheapestSoFar(problem))

agent = bl.Inbox(CheapestSoFar(problem, optimism=2.0), deadline=5)
rng = np.random.default_rng(0)
for _ in range(3):
    episode = agent.begin_episode()
    for h in range(2):
        episode.act(h, 0, rng)
    agent.observe([bl.Costs(episode.number, [0.5, 0.5])])
bl.save(agent, "agent.belated")
again = bl.load("agent.belated")
assert repr(again) == repr(agent)
assert np.array_equal(again.begin_episode().policy, agent.begin_episode().policy)

kind = {"kind": "cheapest_so_far", "optimism": 2.0}
results = lab.run(
    environment={"kind": "random_mdp", "states": 3, "actions": 2, "horizon": 2},
    agents={"cheapest": kind},
    information="bandit",
    episodes=5,
    seeds=1,
    engine="here",
)
assert len(results.rows) > 0

async def served():
    shop = {"name": "shop", "problem": {"states": 1, "actions": 3, "horizon": 1}, "agent": kind}
    app = application(from_table({"learners": [shop], "storage": "data"}))
    transport = httpx.ASGITransport(app)
    async with app.running():
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.01)
            decided = (await client.post("/v1/learners/shop/decide", json={})).json()
            sent = {"episode": decided["episode"], "step": 0, "cost": 0.5}
            answer = await client.post("/v1/learners/shop/feedback", json=sent)
            assert answer.status_code == 200, answer.text

asyncio.run(served())
print("used")
"""


@pytest.mark.slow
def test_an_agent_is_one_file_and_one_line(tmp_path):
    pytest.importorskip("msgspec")
    steps = section("Add an agent: one file and one line")
    code, line = (
        textwrap.dedent(block)
        for block in re.findall(r"^   ```python\n(.*?)^   ```$", steps, re.MULTILINE | re.DOTALL)
    )
    package = tmp_path / "belated"
    shutil.copytree(Path(bl.__file__).parent, package)
    (package / "tabular" / "cheapest.py").write_text(code)
    names = package / "names.py"
    names.write_text(names.read_text().replace("RIVALS = {\n", "RIVALS = {\n    " + line, 1))
    done = subprocess.run(  # noqa: PLW1510 - the message is in the assertion
        [sys.executable, "-c", USED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("used\n"), done.stderr
