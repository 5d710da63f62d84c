"""Every example runs from another directory and writes its figure."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import belated as bl
from belated.testing import check_agent

EXAMPLES = Path(__file__).parent.parent / "examples"
FIGURES = [
    "first_run",
    "flights",
    "mailer",
    "mailer_served",
    "moving_goal",
    "own_environment",
    "robot",
    "served",
    "shop",
    "watch",
]

SMALLER = {
    "flights": "it.SEEDS, it.flights = 2, lambda whole=it.flights: whole().head(3000)",
    "mailer": "sys.argv[1:] = ['--days', '6', '--seeds', '1']",
    "mailer_served": "it.PER_DAY, it.main.__defaults__ = 60, (it.Plan(12, 3, 4, 9),)",
    "moving_goal": "it.SEEDS, it.EPISODES = 2, 200",
    "robot": "it.SEEDS, it.EPISODES = 2, 120",
    "served": "it.SEEDS, it.SIMULATED = 1, 8",
    "shop": "it.SEEDS, it.VISITS = 2, 1200",
}
"""Changes that shorten slow examples, unless all tests are run."""


def test_no_example_is_left_out():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts - {"drawing", "ucbvi"} == set(FIGURES)


def test_an_agent_of_your_own_obeys_the_contract_and_has_its_score():
    """The page of the suite has its score on the paper's grid; this is a smaller one."""
    found = importlib.util.spec_from_file_location("ucbvi", EXAMPLES / "ucbvi.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    world = bl.environments.gridworld(size=4, horizon=10)
    check_agent(lambda: module.UCBVI(world.problem))
    delays = bl.delays.geometric(10)
    run = bl.simulate(world, module.UCBVI(world.problem), delays=delays, episodes=300, seed=1)
    assert run.score_on_means < 0.2  # 0.13 to 0.16 with seeds 1 to 5; uniform play has 1
    assert "UCBVI of 20 lines" in (EXAMPLES.parent / "docs" / "suite.md").read_text("utf-8")


def test_your_own_environment_takes_thirty_lines():
    text = (EXAMPLES / "own_environment.py").read_text(encoding="utf-8")
    code = [line for line in text.splitlines() if line.strip() and not line.startswith('"""')]
    assert len(code) <= 30


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.long
def test_example_draws_its_figure(name, tmp_path):
    command = [str(EXAMPLES / f"{name}.py")]
    if name in SMALLER and os.environ.get("BELATED_FULL_TESTS") != "1":
        path = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import {name} as it"
        command = ["-c", f"{path}; {SMALLER[name]}; it.main()"]
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
