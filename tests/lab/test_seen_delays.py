"""Delays that depend on what happened, in the lab and in files."""

import io

import numpy as np
import polars as pl
import pytest

import belated as bl
from belated import lab
from belated.config.agents import RunBrief
from belated.lab import named, toml
from belated.lab.spec import Task
from belated.lab.task import delays_of, perform, rehearse, world_of

FILE = """
name = "rare"
episodes = 40
seeds = 1
information = "bandit"
environment = { kind = "bandit", means = [0.5, 0.9] }
delays.kind = "by_outcome"
delays.model = { kind = "fixed", delay = 9 }
delays.otherwise = "none"
delays.threshold = 0.5

[[agents]]
name = "ours"
kind = "recommended"
"""


def test_a_file_names_delays_that_look_at_the_outcome():
    experiment = toml.loads(FILE)
    assert toml.loads(toml.dumps(experiment)) == experiment
    rows = _rows(experiment)
    failed = rows["realised"].to_numpy() > 0.5
    assert failed.any()
    assert not failed.all()
    np.testing.assert_array_equal(rows["delay"].to_numpy(), np.where(failed, 9, 0))


def test_a_file_names_delays_by_action():
    given = 'delays = { kind = "by_action", models = [{ kind = "fixed", delay = 3 }, "none"] }'
    others = [line for line in FILE.splitlines() if not line.startswith("delays")]
    rows = _rows(toml.loads("\n".join([given, *others])))
    assert set(rows["delay"].to_list()) == {0, 3}


def test_an_agent_that_must_know_the_delays_is_refused():
    text = FILE.replace(
        'kind = "recommended"',
        'kind = "oppo"\nupdate = { kind = "softmax", learning_rate = "tuned" }',
    )
    with pytest.raises(ValueError, match="delays must not depend on what happens for an agent"):
        rehearse(toml.loads(text))
    told = RunBrief(bl.Problem(1, 2, 1), "bandit", "late", None, None, length=7)
    assert told.episodes == 7
    with pytest.raises(ValueError, match="told the largest delay"):
        told.said("max_delay", "realised")


def test_the_suite_has_two_cases_of_rare_late_successes():
    whole = named("benchmarks.suite:suite")
    for name in ("4 arms, rare late successes", "rare late successes"):
        scene = whole.scene(name)
        world = world_of(scene)
        means = bl.costs.expected(world.costs.seeded(0), 0)
        assert means.min() >= 0.9
        delays = delays_of(scene, world, 0)
        assert not bl.delays.is_oblivious(delays)


def _rows(experiment):
    return pl.read_parquet(io.BytesIO(perform(experiment, Task("", "ours", 0))[0]))


def test_a_function_of_ones_own_gives_delays_that_look_at_the_action():
    experiment = lab.experiment(
        environment=lab.part("bandit", means=[0.5, 0.9]),
        delays=lambda: bl.delays.delay_of(lambda happened, rng: 4 * happened.action),
        agents={"ours": "recommended"},
        information="bandit",
        episodes=30,
        seeds=1,
    )
    assert set(_rows(experiment)["delay"].to_list()) == {0, 4}
