"""The comparison under late bandit feedback: it runs, and the page says what was measured."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from benchmarks import bandit_feedback as later

import belated as bl
from belated import lab
from belated.lab.task import agent_of, delays_of, rehearse, world_of

DOCS = Path(__file__).parents[2] / "docs"
REPORTED = ("bandit-feedback", "bandit-feedback-theory", "delayed-bandits")
TUNINGS = {
    "bandit-feedback-tuning": later.SELECTED,
    "delayed-bandits-tuning": later.SELECTED_ARMS,
}


def named(name):
    return lab.named(f"benchmarks.bandit_feedback:{name.replace('-', '_')}")


@pytest.fixture(scope="module")
def page():
    found = importlib.util.spec_from_file_location("later_page", DOCS / "later.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [*REPORTED, *TUNINGS])
def test_every_case_builds(name):
    rehearse(named(name))


def played(experiment, learner, case, seed, episodes=None):
    scene = experiment.scene(case)
    scene = dataclasses.replace(scene, episodes=episodes or scene.episodes)
    world = world_of(scene, seed)
    delays = delays_of(scene, world, seed)
    agent = agent_of(experiment, learner, world, delays, case, seed)
    return bl.simulate(world, agent, delays=delays, episodes=scene.episodes, seed=seed)


@pytest.mark.parametrize(
    ("name", "agent"), [(name, one.name) for name in REPORTED for one in named(name).learners]
)
def test_every_agent_runs(name, agent):
    whole = named(name)
    for case in (whole.case_names()[1], whole.case_names()[-1]):
        run = played(whole, whole.learner(agent), case, 0, 12)
        assert np.isfinite(run.values).all()


@pytest.mark.parametrize("name", TUNINGS)
def test_factors_were_chosen_on_other_worlds_and_seeds(name, page):
    """No world, costs or seeds of the tuning are reported, and the page has the choice."""
    reported, tuning = named(name.removesuffix("-tuning")), named(name)

    def worlds(experiment):
        scenes = map(experiment.scene, experiment.case_names())
        return {(scene.environment, scene.costs) for scene in scenes}

    assert not worlds(reported) & worlds(tuning)
    assert not {task.seed for task in reported.tasks()} & {task.seed for task in tuning.tasks()}
    assert tuning.select.cases == "together"
    taken = [f"{row['agent']}, {row['setting']}" for row in page.rows(name) if row["taken"]]
    assert tuple(taken) == TUNINGS[name]
    assert set(taken) <= {learner.name for learner in reported.learners}
    best = {
        agent: min((r for r in page.rows(name) if r["agent"] == agent), key=score_of)
        for agent in {row["agent"] for row in page.rows(name)}
    }
    assert all(row["taken"] for row in best.values())


def score_of(row):
    return float(row["mean score"])


@pytest.mark.parametrize("name", REPORTED)
def test_the_numbers_are_those_of_the_experiment(name, page):
    whole = named(name)
    assert {(row["case"], row["agent"]) for row in page.rows(name)} == {
        (case, learner.name) for case in whole.case_names() for learner in whole.learners
    }


def test_the_tables_of_the_page_are_made_of_the_numbers(page):
    assert page.text() == page.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "agent", "case"),
    [
        ("bandit-feedback", later.SELECTED[0], "random MDP"),
        ("bandit-feedback-theory", "DAPO, known", "random MDP"),
        ("delayed-bandits", "Thompson sampling", "5 arms"),
    ],
)
def test_a_number_measured_again(name, agent, case, page):
    """The same seeds, so only rounding may differ; the margin is 0.05."""
    whole = named(name)
    learner = whole.learner(agent)
    runs = [played(whole, learner, case, seed) for seed in range(whole.seeds)]
    (row,) = [r for r in page.rows(name) if (r["case"], r["agent"]) == (case, agent)]
    score = np.mean([run.score_on_means for run in runs])
    assert score == pytest.approx(float(row["score"]), abs=0.05)
