"""Experiments with decisions: worlds, agents and delays by name in files."""

import io

import numpy as np
import polars as pl
import pytest

import belated as bl
from belated.lab import build, knowledge, run, toml
from belated.lab.spec import Task
from belated.lab.task import perform

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
kind = "ridge"
rule = "ucb"
scale = 0.3
join = "at once"
"""


def frame(experiment, agent="ours", seed=0):
    return pl.read_parquet(io.BytesIO(perform(experiment, Task("", agent, seed)).parquet))


def test_a_file_gives_what_simulate_gives():
    experiment = toml.loads(FILE)
    assert toml.loads(toml.dumps(experiment)) == experiment
    rows = frame(experiment, "LinUCB", 1)
    world = bl.environments.conversions(actions=3, features=2, rate=0.3, seed=4)
    delays = bl.delays.by_action([bl.delays.none(), bl.delays.fixed(7), bl.delays.none()])
    scene = experiment.scene("")
    agent = build.agent(experiment, experiment.learner("LinUCB"), world, delays, "", 1)
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
    told = knowledge.sentences(results.experiment)
    assert "outcomes with the sign turned" in told[0]
    assert "LinUCB" in str(results.table("costs"))


def test_what_cannot_be_is_said_in_one_sentence():
    costs = FILE.replace("[[agents]]", 'costs = "random"\n\n[[agents]]', 1)
    with pytest.raises(ValueError, match="costs must be left out for decisions, got 'random'"):
        build.rehearse(toml.loads(costs))
    with pytest.raises(ValueError, match="information = 'full', as the file says"):
        build.rehearse(toml.loads(FILE.replace('information = "bandit"', "")))
    table = FILE.replace('kind = "ridge"', 'kind = "q_learning"')
    with pytest.raises(ValueError, match=r"agents\[1\]"):
        build.rehearse(toml.loads(table.partition("rule")[0]))
    own = FILE.replace("kind = \"conversions\", actions = 3, features = 2, rate = 0.3, seed = 4",
                       'kind = "bandit", means = [0.1, 0.9]')  # fmt: skip
    with pytest.raises(ValueError, match=r"agents\[1\]: problem must be a Choice"):
        build.rehearse(toml.loads(own))
