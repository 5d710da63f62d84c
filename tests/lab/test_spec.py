"""Experiments as data: TOML there and back, stable names, one line for every mistake."""

import dataclasses
import sys

import numpy as np
import pytest

import belated as bl
from belated.lab import EXPERIMENTS, Told, named, parts, toml
from belated.lab.parts import part
from belated.lab.spec import Case, Experiment, Learner

GOOD = """
name = "mine"
episodes = 20
seeds = 2

[environment]
kind = "gridworld"
size = 3
horizon = 5

[delays]
kind = "lost"
probability = 0.1
otherwise = { kind = "geometric", mean = 2 }

[[agents]]
name = "Delayed OPPO"
kind = "oppo"
learning_rate = 0.1
optimism = "bonus"

[[agents]]
name = "Copies"
kind = "parallel"
trajectory = "immediate"
agent = { kind = "oppo", transitions = "known", learning_rate = "tuned" }
"""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_named_experiment_survives_toml_and_can_be_built(name):
    experiment = named(name)
    assert experiment.name == name
    assert toml.loads(toml.dumps(experiment)) == experiment
    experiment.rehearse()


def test_a_file_means_what_it_says():
    experiment = toml.loads(GOOD)
    assert experiment.environment == part("gridworld", size=3, horizon=5)
    assert experiment.delays.values["otherwise"] == part("geometric", mean=2)
    assert experiment.agents[1].trajectory == "immediate"
    assert experiment.agents[1].agent.values["agent"].kind == "oppo"
    assert toml.loads(toml.dumps(experiment)) == experiment


def test_run_names_are_stable():
    names = [task.name for task in toml.loads(GOOD).tasks()]
    assert names == ["delayed-oppo/seed-0", "copies/seed-0", "delayed-oppo/seed-1", "copies/seed-1"]
    cased = dataclasses.replace(toml.loads(GOOD), cases=(Case("Mean 2"),), seeds=1)
    assert [task.name for task in cased.tasks()] == [
        "mean-2/delayed-oppo/seed-0",
        "mean-2/copies/seed-0",
    ]


MISTAKES = {
    "learning_rate = 0.1": [
        ("lerning_rate = 0.1", "agents[0].lerning_rate = 0.1", "did you mean 'learning_rate'?"),
        ("learning_rate = -1", "agents[0].learning_rate must be", "at least 0, got -1"),
        ('delta = { kind = "oppo" }', "agents[0].delta must be a plain value", "kind='oppo'"),
        ('learning_rate = "fast"', "agents[0].learning_rate", "'anytime', 'tuned', got 'fast'"),
        ('information = "some"', "agents[0].information must be one of 'full', 'bandit'", "'some'"),
    ],
    'kind = "gridworld"': [
        ('kind = "gridwrld"', "environment.kind must be one of", "(did you mean 'gridworld'?)"),
        ("", "environment.kind must be one of", "got none"),
    ],
    "size = 3": [
        ("size = 0", "environment.size must be a whole number of at least 1", "got 0"),
        ("walls = 3", "environment.walls must be (row, column) pairs", "got 3"),
        ("walls = [[0, 0]]", "environment.walls must leave the start free", "(0, 0)"),
    ],
    "probability = 0.1": [
        ("probability = 2", "delays.probability must be", "at most 1, got 2"),
        ("", "delays.probability must be given for kind 'lost'", "got none"),
    ],
    "mean = 2": [("mean = nan", "delays.otherwise.mean must be", "got nan"),
                 ("men = 2", "delays.otherwise.men = 2", "did you mean 'mean'?")],
    "episodes = 20": [
        ("episodes = 0", "episodes must be a whole number of at least 1", "got 0"),
        ("episode = 20", "episode = 20", "did you mean 'episodes'?"),
        ('trajectory = "late"', "trajectory must be one of 'delayed', 'immediate'", "'late'"),
        ("title = 3", "title must be a text", "got 3"),
        ('against = "time"', "against must be one of 'episodes', 'total_delay'", "'time'"),
        ("agents = 3", "is not TOML", ""),
    ],
    'name = "mine"': [
        (f"name = '{101 * 'x'}'", "name must be a text", "at most 100"),
        ("", "name must be given", "got none"),
        ("name = '?'", "name must be a text", "'?'"),
    ],
    'name = "Copies"': [
        ('name = "delayed oppo"', "agents must have names that differ", "'delayed-oppo' twice"),
        ("", "agents[1].name must be a text", "got ''"),
    ],
    '{ kind = "oppo", transitions = "known", learning_rate = "tuned" }': [
        ('{ kind = "opo" }', "agents[1].agent.kind must be one of", "did you mean 'oppo'?"),
        ('{ kind = "oppo", delta = 0 }', "agents[1].agent.delta must be", "got 0"),
        ('"oppo"', "agents[1].agent must be a table with a kind", "got 'oppo'"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "where", "what"),
    [(right, *case) for right, cases in MISTAKES.items() for case in cases],
)
def test_a_mistake_gets_one_line_with_key_value_and_what_is_allowed(right, wrong, where, what):
    assert right in GOOD
    with pytest.raises(ValueError, match=r"mine\.toml|must") as caught:
        toml.loads(GOOD.replace(right, wrong), "mine.toml").rehearse()
    message = str(caught.value)
    assert "\n" not in message
    assert where in message
    assert what in message


@pytest.mark.parametrize(
    ("place", "made", "says"),
    [
        ("delays", part("trace", delays=[-1]), r"delays\.delays must be"),
        ("costs", part("moving_goal", size=3, goals=5, every=2), r"costs\.goals must be pairs"),
        ("costs", part("moving_goal", size=3, goals=[[1]], every=2), r"costs\.goals\[0\] must be"),
        ("environment", part("gymnasium", env="x", horizon=3), r"environment[.:] ?.*x"),
        ("environment", part("gridworld", size=10**9), r"environment: gridworld raised"),
    ],
)
def test_what_a_part_raises_is_one_line_with_its_key(place, made, says):
    experiment = dataclasses.replace(toml.loads(GOOD), **{place: made})
    with pytest.raises(ValueError, match=says) as caught:
        experiment.rehearse()
    assert "\n" not in str(caught.value)


def test_specifications_are_frozen_and_hashable():
    experiment = toml.loads(GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.episodes = 3
    assert hash(experiment) == hash(toml.loads(GOOD))


def test_all_agents_face_the_delays_that_simulate_would_draw():
    experiment = toml.loads(GOOD)
    setting = experiment.setting("")
    model = bl.delays.lost(0.1, bl.delays.geometric(2))
    world = setting.world()
    agent = bl.DelayedOPPO(world.problem, learning_rate=0.1)
    run = bl.simulate(world, agent, delays=model, episodes=20, seed=7)
    np.testing.assert_array_equal(setting.draw(world, 7), run.delays)


KINDS = {
    "environment": (
        parts.ENVIRONMENTS,
        {
            "bandit": {"means": [0.1, 0.9]},
            "chain": {},
            "delay_lower_bound": {"delay": 2},
            "gridworld": {"size": 3, "horizon": 4},
            "gymnasium": {"env": "FrozenLake-v1", "horizon": 5, "is_slippery": False},
            "random_mdp": {"states": 4},
        },
    ),
    "delays": (
        parts.DELAYS,
        {
            "bursts": {"size": 3},
            "fixed": {"delay": 2},
            "geometric": {"mean": 2},
            "heavy_tailed": {"index": 1.5},
            "lost": {"probability": 0.5},
            "monotone": {"model": part("geometric", mean=3)},
            "none": {},
            "poisson": {"mean": 2},
            "trace": {"delays": [1, 2, 3], "repeat": True},
            "uniform": {"low": 0, "high": 3},
        },
    ),
    "costs": (
        parts.COSTS,
        {
            "blocks": {"length": 3},
            "moving_goal": {"size": 3, "goals": [[2, 2], [0, 2]], "every": 4},
            "random": {},
        },
    ),
    "agent": (
        parts.AGENTS,
        {
            "bold": {"agent": part("oppo")},
            "doubling": {"agent": part("oppo")},
            "oppo": {},
            "oreps": {"transitions": "known"},
            "parallel": {"agent": part("oppo")},
            "pipeline": {"agent": part("oppo")},
            "skipping": {"agent": part("oppo")},
            "ucbvi": {},
        },
    ),
}


@pytest.mark.parametrize(
    ("place", "kind"), [(place, kind) for place, (_, kinds) in KINDS.items() for kind in kinds]
)
def test_every_kind_of_part_can_be_run_from_toml(place, kind):
    made = {"environment": part("gridworld", size=3, horizon=4), "delays": part("fixed", delay=1),
            "costs": None, "agent": part("oppo")}  # fmt: skip
    made[place] = part(kind, **KINDS[place][1][kind])
    agent = Learner("it", made.pop("agent"), information="bandit" if kind == "ucbvi" else None)
    experiment = toml.loads(
        toml.dumps(Experiment(name="x", agents=(agent,), episodes=8, seeds=1, **made))
    )
    experiment.rehearse()
    setting = experiment.setting("")
    world = setting.world()
    delays = setting.draw(world, 0)
    learner = experiment.make(experiment.agents[0], world, delays)
    run = bl.simulate(world, learner, delays=delays, episodes=8)
    assert np.isfinite(run.values).all()


def test_a_kind_whose_package_is_missing_gets_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    lake = part("gymnasium", env="FrozenLake-v1", horizon=5)
    experiment = dataclasses.replace(toml.loads(GOOD), environment=lake)
    with pytest.raises(ValueError, match=r"environment\..*pip install 'belated\[gymnasium\]'"):
        experiment.rehearse()


@pytest.mark.parametrize("place", KINDS)
def test_every_registered_kind_is_tested(place):
    registry, kinds = KINDS[place]
    assert set(registry) == set(kinds)


def test_agents_are_told_what_they_ask_for_and_no_more():
    """K = 10; cut at the end of the run the delays add up to D = 14, the largest is 9."""
    world = bl.environments.random_mdp(3, 2, 4)
    delays = np.array([2, 0, 50, 1, 1, 0, 3, 0, 0, 0])

    def made(kind, information="full", **parameters):
        told = Told(world.problem, information, "delayed", world.mdp.transitions, delays)
        return parts.build_agent("agent", part(kind, **parameters), told)

    def step(K, D):
        return pytest.approx(1 / (4 * np.sqrt(K + D)))

    tuned = part("oppo", transitions="known", learning_rate="tuned")
    assert made("oppo", **tuned.values).parameters["learning_rate"] == step(10, 14)
    assert made("oppo", radius_scale=0.5).parameters["radius_scale"] == 0.5
    for transitions in ("known", "unknown"):
        oreps = made("oreps", transitions=transitions)
        assert oreps.parameters["transitions"] == transitions
        assert oreps.parameters["learning_rate"] == pytest.approx(
            np.sqrt(2 * np.log(3 * 2) / (10 + 3 * 14))
        )
    pipeline = made("pipeline", agent=tuned)
    assert pipeline.max_delay == 9
    assert pipeline.agent.parameters["learning_rate"] == step(10, 45)  # all delays 9, cut
    bold = made("bold", agent=tuned)
    bold.begin_episode()
    assert bold.agents[0].parameters["learning_rate"] == step(10, 0)
    skipping = made("skipping", "bandit", agent=tuned)
    assert skipping.max_delay == 3  # sqrt(14), in whole episodes
    rows = bl.tuning.parameters("bandit, known", world.problem, 10, 14)
    assert skipping.agent.parameters["exploration"] == rows.exploration


def test_copies_of_parallel_are_tuned_for_their_share_without_delay():
    known = part("oppo", transitions="known", learning_rate="tuned")
    experiment = Experiment(
        name="x",
        environment=part("gridworld", size=3, horizon=4),
        delays=part("fixed", delay=4),
        agents=(Learner("a", part("parallel", agent=known)),),
        episodes=100,
    )
    setting = experiment.setting("")
    world = setting.world()
    delays = setting.draw(world, 0)
    agent = experiment.make(experiment.agents[0], world, delays)
    agent.begin_episode()
    copy = agent.agents[0]
    rate = bl.tuning.oppo_full(world.problem, 20, 0)["learning_rate"]
    assert copy.diagnostics()["learning_rate"] == pytest.approx(rate)
