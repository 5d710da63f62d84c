"""Experiments with decisions: worlds, agents and delays by name in files."""

import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchmarks import decision_suite as decisions

import belated as bl
from belated.lab import named, report, run, scenes, toml
from belated.lab.spec import Task
from belated.lab.task import agent_of, perform, rehearse

FILE = """
name = "mails"
episodes = 120
seeds = 2
information = "bandit"
environment = { kind = "conversions", actions = 3, features = 2, rate = 0.3, seed = 4 }
delays = { kind = "by_action", models = ["none", { kind = "fixed", delay = 7 }, "none"] }

[[agents]]
name = "ours"
kind = "recommended"

[[agents]]
name = "LinUCB"
kind = "benchmarks.rivals:ridge"
rule = "ucb"
scale = 0.3
join = "at once"
"""


def frame(experiment, agent="ours", seed=0):
    return pl.read_parquet(io.BytesIO(perform(experiment, Task("", agent, seed))[0]))


def test_a_file_gives_what_simulate_gives():
    experiment = toml.loads(FILE)
    assert toml.loads(toml.dumps(experiment)) == experiment
    rows = frame(experiment, "LinUCB", 1)
    world = bl.environments.conversions(actions=3, features=2, rate=0.3, seed=4)
    delays = bl.delays.by_action([bl.delays.none(), bl.delays.fixed(7), bl.delays.none()])
    scene = experiment.scene("")
    agent = agent_of(experiment, experiment.learner("LinUCB"), world, delays, "", 1)
    found = bl.simulate(world, agent, delays=delays, episodes=scene.episodes, seed=1)
    np.testing.assert_array_equal(rows["value"], found.values)
    np.testing.assert_array_equal(rows["regret"], found.regret)
    np.testing.assert_array_equal(rows["best_so_far"], np.cumsum(found.comparator))
    assert set(rows["delay"].to_list()) <= {-1, 0, 7}


def test_tables_and_figures_of_decisions(tmp_path):
    results = run(toml.loads(FILE), tmp_path / "out", engine="here")
    assert {line.agent for line in results.lines} == {"ours", "LinUCB"}
    assert all(0.0 < line.score.mean < 1.3 for line in results.lines)
    assert results.figure("regret").axes
    assert [row[0] for row in report.told(results.experiment).rows] == ["ours", "LinUCB"]
    assert "LinUCB" in str(results.table("costs"))


def test_a_wrong_file_is_refused_in_one_sentence():
    costs = FILE.replace("[[agents]]", 'costs = "random"\n\n[[agents]]', 1)
    with pytest.raises(ValueError, match="costs must be left out for decisions, got 'random'"):
        rehearse(toml.loads(costs))
    with pytest.raises(ValueError, match="information = 'full', as the file says"):
        rehearse(toml.loads(FILE.replace('information = "bandit"', "")))
    table = FILE.replace(
        'kind = "benchmarks.rivals:ridge"', 'kind = "benchmarks.rivals:q_learning"'
    )
    with pytest.raises(ValueError, match=r"agents\[1\]"):
        rehearse(toml.loads(table.partition("rule")[0]))
    own = FILE.replace("kind = \"conversions\", actions = 3, features = 2, rate = 0.3, seed = 4",
                       'kind = "bandit", means = [0.1, 0.9]')  # fmt: skip
    with pytest.raises(ValueError, match=r"agents\[1\]: .*problem must be a Choice"):
        rehearse(toml.loads(own))


@pytest.fixture(scope="module")
def page():
    path = Path(__file__).parents[2] / "docs" / "decision_suite.py"
    found = importlib.util.spec_from_file_location("decision_suite", path)
    module = importlib.util.module_from_spec(found)
    sys.path.insert(0, str(path.parent))  # for its import of tables
    found.loader.exec_module(module)
    sys.path.pop(0)
    return module


def test_the_page_is_made_of_its_scores(page):
    assert page.text() == page.PAGE.read_text(encoding="utf-8")
    found = {(case, agent) for agent, own in page.read(page.SCORES).items() for case in own}
    wanted = {
        (task.case, task.learner) for task in named("benchmarks.decision_suite:decisions").tasks()
    }
    assert found >= wanted  # without an extra the suite has fewer cases or agents
    assert found == wanted or not (decisions.has_data() and decisions.has_vowpal_wabbit())
    assert page.chosen() == decisions.CHOSEN


@pytest.mark.skipif(not decisions.has_data(), reason="the extra data is not installed")
def test_the_suite_of_decisions_has_the_promised_cases():
    whole, tuning = (
        named("benchmarks.decision_suite:decisions"),
        named("benchmarks.decision_suite:decisions_tuning"),
    )
    assert len(whole.cases) >= 16
    kinds = {case.environment.kind for case in whole.cases}
    assert kinds == {
        *scenes.DECISIONS,
        *(f"benchmarks.linear_worlds:{made}" for made in ("items", "outcomes")),
        *(decisions.REAL + real for real in ("labelled", "landings")),
    }
    assert {"by_action", "nightly", "lost", "of_world"} <= {c.delays.kind for c in whole.cases}
    seeds = {task.seed for task in whole.tasks()}
    assert len(seeds) >= 3
    assert not seeds & {task.seed for task in tuning.tasks()}
    assert {len(settings) for settings in decisions.TRIED.values()} == {6}
    quick = named("benchmarks.decision_suite:decisions_quick")
    assert {case.name for case in quick.cases} == set(decisions.QUICK)
    assert {one.name for one in quick.agents} <= {one.name for one in whole.agents}
    rehearse(quick)
