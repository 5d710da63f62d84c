"""Experiments as data: TOML there and back, stable names, one line for every mistake."""

import dataclasses

import pytest

from belated.lab import EXPERIMENTS, Case, named, part, toml
from belated.lab.task import rehearse
from lab.small import TINY

HERE = "here"
"""The engine."""

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
transitions = "bonus"
update = { kind = "softmax", learning_rate = 0.1 }

[[agents]]
name = "Copies"
kind = "parallel"
paths = "at once"
agent = { kind = "oppo", update = { kind = "softmax", learning_rate = "tuned" } }
"""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_named_experiment_survives_toml_and_can_be_built(name):
    experiment = named(name)
    assert experiment.name == name
    assert toml.loads(toml.dumps(experiment)) == experiment
    rehearse(experiment)


def test_a_file_means_what_it_says():
    experiment = toml.loads(GOOD)
    assert experiment.environment == part("gridworld", size=3, horizon=5)
    assert experiment.delays.values["otherwise"] == part("geometric", mean=2)
    assert experiment.agents[1].paths == "at once"
    inside = experiment.agents[1].agent.values["agent"]
    assert inside == part("oppo", update=part("softmax", learning_rate="tuned"))
    assert toml.loads(toml.dumps(experiment)) == experiment


def test_other_seeds_and_agents_of_some_cases():
    some = dataclasses.replace(
        TINY,
        agents=(TINY.agents[0], dataclasses.replace(TINY.agents[1], cases=("late",))),
        cases=(Case("soon"), Case("late", delays=part("fixed", delay=3))),
        seeds=2,
        first_seed=7,
    )
    assert toml.loads(toml.dumps(some)) == some
    assert [task.name for task in some.tasks()] == [
        f"{run}/seed-{seed}" for seed in (7, 8) for run in ("soon/a", "late/a", "late/b")
    ]
    assert some.cases_of("B") == ["late"]
    swept = dataclasses.replace(some, sweep={"delays.delay": [1, 2]}, delays=part("fixed", delay=1))
    with pytest.raises(ValueError, match=r"agents\[1\]\.cases must be one of 'soon', 'late'"):
        dataclasses.replace(
            some, agents=(TINY.agents[0], dataclasses.replace(TINY.agents[1], cases=("no",)))
        )
    with pytest.raises(ValueError, match=r"cases must be names of cases, got 'late'"):
        dataclasses.replace(
            some, agents=(TINY.agents[0], dataclasses.replace(TINY.agents[1], cases="late"))
        )
    with pytest.raises(ValueError, match="first_seed must be a whole number"):
        dataclasses.replace(TINY, first_seed=-1)
    assert len(swept.cases_of("B")) == 2
    assert len(swept.tasks()) == 2 * (4 + 2)


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
        (
            "lerning_rate = 0.1",
            "agents[0].update.lerning_rate = 0.1: unknown key; kind 'softmax' takes",
            "did you mean 'learning_rate'?",
        ),
        ("learning_rate = -1", "agents[0].update: learning_rate must be", "at least 0, got -1"),
        ('learning_rate = "fast"', "agents[0].update: learning_rate", "'tuned', got 'fast'"),
        (
            'scale = { kind = "softmax" }',
            "agents[0].update.scale must be a plain value",
            "kind='softmax'",
        ),
    ],
    'transitions = "bonus"': [
        ('transitions = "bonsu"', "agents[0].transitions.kind must be", "did you mean 'bonus'?"),
        ("transitions = 3", "agents[0].transitions must be a table with a kind", "got 3"),
        ("transitions = {}", "agents[0].transitions.kind is required: one of", "'confidence'"),
        ('costs = "avreaged"', "agents[0].costs.kind must be", "did you mean 'averaged'?"),
        ('costs = "averaged"', "agents[0] must be an agent for information = 'full'", "'bandit'"),
        ('explore = { kind = "few_visits", threshold = -1 }', "agents[0].explore: threshold", "-1"),
        ('information = "some"', "agents[0].information must be one of 'full', 'bandit'", "'some'"),
        ('paths = "immediate"', "agents[0].paths must be one of 'late', 'at once'", "'immediate'"),
        ('trajectory = "delayed"', "agents[0].trajectory = 'delayed': unknown key", "'oppo'"),
    ],
    'kind = "gridworld"': [
        ('kind = "gridwrld"', "environment.kind must be one of", "(did you mean 'gridworld'?)"),
        ("", "environment.kind is required: one of", "'gridworld'"),
    ],
    "size = 3": [
        ("size = 0", "environment: size must be a whole number of at least 1", "got 0"),
        ("walls = 3", "environment: walls must be (row, column) pairs", "got 3"),
        ("walls = [[0, 0]]", "environment: walls must leave the start free", "(0, 0)"),
    ],
    "probability = 0.1": [
        ("probability = 2", "delays: probability must be", "at most 1, got 2"),
        ("", "delays.probability is required for kind 'lost'", ""),
    ],
    "mean = 2": [("mean = nan", "delays.otherwise: mean must be", "got nan"),
                 ("men = 2", "delays.otherwise.men = 2: unknown key", "did you mean 'mean'?")],
    "episodes = 20": [
        ("episodes = 0", "episodes must be a whole number from 1 to", "got 0"),
        ("episode = 20", "episode = 20: unknown key; an experiment", "did you mean 'episodes'?"),
        ('paths = "delayed"', "paths must be one of 'late', 'at once'", "'delayed'"),
        ("cases = [{ seeds = 3 }]", "cases[0].seeds = 3: unknown key; a case takes", "'delays'"),
        ("title = 3", "title must be a text", "got 3"),
        ('against = "time"', "against must be one of 'episodes', 'total_delay'", "'time'"),
        ("agents = 3", "is not TOML", ""),
    ],
    'name = "mine"': [
        (f"name = '{101 * 'x'}'", "name must be a text", "1 to 100 letters"),
        ("", "name is required", ""),
        ("name = '?'", "name must be a text", "'?'"),
    ],
    'name = "Copies"': [
        ('name = "delayed oppo"', "agents must have names that differ", "'delayed-oppo' twice"),
        ("", "agents[1].name must be a text", "got ''"),
    ],
    '{ kind = "oppo", update = { kind = "softmax", learning_rate = "tuned" } }': [
        ('{ kind = "opo" }', "agents[1].agent.kind must be one of", "did you mean 'oppo'?"),
        (
            '{ kind = "oppo", transitions = { kind = "confidence", delta = 0 } }',
            "agents[1].agent.transitions: delta must be",
            "got 0",
        ),
        ("3", "agents[1].agent must be a table with a kind", "got 3"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "where", "what"),
    [(right, *case) for right, cases in MISTAKES.items() for case in cases],
)
def test_a_mistake_gets_one_line_with_key_value_and_what_is_allowed(right, wrong, where, what):
    assert right in GOOD
    with pytest.raises(ValueError, match=r"mine\.toml|must") as caught:
        rehearse(toml.loads(GOOD.replace(right, wrong), "mine.toml"))
    message = str(caught.value)
    assert "\n" not in message
    assert where in message
    assert what in message


@pytest.mark.parametrize(
    ("place", "made", "says"),
    [
        ("delays", part("trace", delays=[-1]), r"delays: delays must be"),
        ("costs", part("moving_goal", size=3, goals=5, every=2), r"costs: goals must be pairs"),
        ("costs", part("moving_goal", size=3, goals=[[1]], every=2), r"costs: goal must be"),
        ("environment", part("gymnasium", env="x", horizon=3), r"environment[.:] ?.*x"),
        ("environment", part("gridworld", size=10**9), r"environment: size must make arrays of"),
    ],
)
def test_what_a_part_raises_is_one_line_with_its_key(place, made, says):
    experiment = dataclasses.replace(toml.loads(GOOD), **{place: made})
    with pytest.raises(ValueError, match=says) as caught:
        rehearse(experiment)
    assert "\n" not in str(caught.value)


def test_specifications_are_frozen_and_hashable():
    experiment = toml.loads(GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.episodes = 3
    assert hash(experiment) == hash(toml.loads(GOOD))


def test_a_kind_alone_is_a_part_without_parameters():
    rehearse(toml.loads(GOOD.replace('"bonus"', '{ kind = "bonus" }')))
    whole = toml.loads('environment = "chain"\n' + GOOD[: GOOD.index("[environment]")]
                       + GOOD[GOOD.index("[delays]") :])  # fmt: skip
    assert whole.environment == part("chain")
