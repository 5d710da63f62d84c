"""Kinds of a user's own, named `module:function`, work in files, in workers and in reports."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import belated as bl
import recorder
from belated.lab import Results, report, run, store, toml
from belated.lab.task import agent_of, delays_of, rehearse, world_of
from limits import needs_ray

MODULE = """
import numpy as np
import belated as bl
from belated.lab import RunBrief
from recorder import Recorder

def uniform(told: RunBrief):
    return Recorder(told.problem, uses_paths=False)

def cautious(told: RunBrief, /, *, agent, scale=1.0):
    return agent(told)

def wide(told: RunBrief, factor):
    return bl.parts.Confidence(radius_scale=factor * told.problem.horizon)

def half(told: RunBrief):
    return bl.parts.Softmax(learning_rate=0.5)

def corridor(length=3):
    return bl.environments.chain(states=length, horizon=4)

def dear(world, cost):
    return np.full((world.problem.states, world.problem.actions), cost)

def slow_if_dear(most):
    return bl.delays.delay_of(lambda played, rng: int(most * played.outcomes.mean()))

def no_agent(told: RunBrief, /):
    return 3

def seer(told: RunBrief):
    return Recorder(told.problem, "bandit", uses_paths=False)

def broken(told: RunBrief):
    return {}["x"]

def leaves(told: RunBrief):
    raise SystemExit(4)

def forgetful(most):
    bl.delays.fixed(most)

class Short:
    def draw(self, episodes, rng, costs=None):
        return [1, 2]

def short(most):
    return Short()

NUMBER = 3
"""
FILE = """
name = "own"
episodes = 30
seeds = 2

[environment]
kind = "mine:corridor"
length = 5

[costs]
kind = "mine:dear"
cost = 0.5

[delays]
kind = "mine:slow_if_dear"
most = 8

[[agents]]
name = "uniform"
kind = "mine:uniform"

[[agents]]
name = "cautious"
kind = "mine:cautious"
agent = { kind = "oppo", update = { kind = "softmax", learning_rate = 0.1 } }
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with the module and the file; the module is unloaded afterwards."""
    (tmp_path / "mine.py").write_text(MODULE)
    shutil.copy(recorder.__file__, tmp_path)  # for other processes
    (tmp_path / "raises.py").write_text("1 / 0")
    (tmp_path / "own.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    yield tmp_path
    sys.modules.pop("mine", None)


def test_an_experiment_of_own_parts_runs_from_the_shell(place):
    command = [os.path.join(os.path.dirname(sys.executable), "belated"), "run", "own.toml"]
    subprocess.run([*command, "--jobs", "1", "--out", "out"], check=True, capture_output=True)
    rows = store.rows(place / "out")
    assert rows["agent"].unique(maintain_order=True).to_list() == ["uniform", "cautious"]
    np.testing.assert_allclose(rows["value"], 4 * 0.5)  # four steps that cost 0.5 in any case
    assert set(rows["delay"]) == {4}  # 8 times the mean cost
    assert '"kind": "mine:uniform"' in rows["parameters"][0]


@needs_ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.long
def test_ray_gives_the_same_rows(place):
    experiment = toml.loads(FILE)
    run(experiment, place / "local")
    run(experiment, place / "ray", jobs=2, engine="ray")
    assert store.rows(place / "ray").equals(store.rows(place / "local"))


@pytest.mark.long
def test_results_are_read_and_reported_without_the_module(place):
    experiment = toml.loads(FILE)
    run(experiment, place / "out")
    (place / "mine.py").unlink()
    sys.modules.pop("mine", None)
    assert store.spec(place / "out") == experiment
    text = Results(place / "out").report().read_text()
    assert "What each agent was told" in text
    told = report.told(experiment).rows[1][1]
    assert told.startswith("cautious (")
    assert "learning_rate = 0.1" in told


MISTAKES = {
    "mine:uniform": {
        "mien:uniform": r"agents\[0\]\.kind must be .*got 'mien:uniform': .*No mod",
        "mine:unifrm": r"agents\[0\]\.kind must be .*has no attribute 'unifrm'",
        "mine:NUMBER": r"agents\[0\]\.kind must name a function",
        "mine:no_agent": r"agents\[0\] must be an agent, got 3, which has no problem",
        "mine:seer": r"agents\[0\] must be an agent for .*'full', .*got one for 'bandit'",
        "mine:broken": r"agents\[0\]: mine:broken raised KeyError: 'x' \(mine\.py, ",
        "mine:leaves": r"agents\[0\]: mine:leaves raised SystemExit: 4",
        "raises:uniform": r"agents\[0\]\.kind .*ZeroDivisionError.*raises.py, line 1",
        ":uniform": r"agents\[0\]\.kind must be .*module:function",
    },
    "mine:slow_if_dear": {
        "mine:forgetful": r"delays must be a delay model, got None",
        "mine:short": r"delays must hold episodes = 30 numbers, got 2",
        "mine:corridor": r"delays\.most = 8: unknown key",
    },
    "mine:corridor": {"mine:NUMBER": r"environment\.kind must name a function"},
    "length = 5": {"lenght = 5": r"environment\.lenght = 5: unknown key.*did you mean 'length'\?"},
    "cost = 0.5": {
        "cost = 1.5": r"costs must be in \[0, 1\], got",
        "": r"costs\.cost is required for kind 'mine:dear'",
    },
}


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [(right, *wrong) for right, found in MISTAKES.items() for wrong in found.items()],
)
def test_a_mistake_gets_one_line(place, right, wrong, says):
    assert right in FILE
    with pytest.raises(ValueError, match=says) as caught:
        rehearse(toml.loads(FILE.replace(right, wrong)))
    assert "\n" not in str(caught.value)
    assert re.match(r"(agents|environment|costs|delays)", str(caught.value))


def test_parts_of_an_agent_may_be_ones_own(place):
    wide = 'transitions = { kind = "mine:wide", factor = 0.5 }, update = "mine:half"'
    text = FILE.replace('update = { kind = "softmax", learning_rate = 0.1 }', wide)
    experiment = toml.loads(text)
    scene = experiment.scene("")
    world = world_of(scene)
    agent = agent_of(experiment, experiment.agents[1], world, delays_of(scene, world, 0))
    assert agent.configuration()["transitions"] == bl.parts.Confidence(radius_scale=2.0)
    assert agent.configuration()["update"] == bl.parts.Softmax(learning_rate=0.5)
    assert "wide (factor = 0.5), update = half" in report.told(experiment).rows[1][1]
    with pytest.raises(ValueError, match=r"agents\[1\]\.agent\.transitions\.factor is required"):
        rehearse(toml.loads(text.replace(", factor = 0.5", "")))
    with pytest.raises(ValueError, match=r"agents\[1\]\.agent\.kind must be one of .*'oppo'"):
        toml.loads(text.replace('agent = { kind = "oppo"', 'agent = { kind = "opo"'))
