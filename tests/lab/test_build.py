"""Objects made from data: one world and one draw of delays for all agents, and their seeds."""

import dataclasses

import numpy as np
import pytest

import belated as bl
from belated.config import agents as config
from belated.config.part import accepted
from belated.lab import part
from belated.lab.spec import Learner, Scene
from belated.lab.task import agent_of, delays_of, perform, world_of
from lab.small import TINY


def test_all_agents_face_the_delays_that_simulate_would_draw():
    delays = part("lost", probability=0.1, otherwise=part("geometric", mean=2))
    scene = Scene(part("gridworld", size=3, horizon=5), None, delays, 20)
    model = bl.delays.lost(0.1, bl.delays.geometric(2))
    world = world_of(scene)
    agent = bl.DelayedOPPO(world.problem)
    run = bl.simulate(world, agent, delays=model, episodes=20, seed=7)
    np.testing.assert_array_equal(delays_of(scene, world, 7), run.delays)


DRAWING = sorted(name for name, make in config.AGENTS.kinds.items() if "seed" in accepted(make))
RIVALS = ("otf_lin_ucb", "ridge", "thompson_by_hand", "vowpal_wabbit")
DECIDING = ["linear_sampler", *(f"benchmarks.rivals:{name}" for name in RIVALS)]
"""The agents that draw and decide with features."""
TABLES = sorted(set(DRAWING) - {*DECIDING, "informed_planner"})  # it takes full information
ARMS = dataclasses.replace(TINY, environment=part("bandit", means=(0.2, 0.5, 0.6, 0.7)),
                           information="bandit", episodes=20)  # fmt: skip


def described(kind):
    """An agent that draws, alone and inside another one."""
    return {"alone": part(kind), "inside": part("skipping", agent=part(kind), threshold=3)}


def test_the_agents_that_draw_are_known():
    assert {"posterior_sampling", "thompson_sampling"} <= set(DRAWING)


def policies(experiment, seed, number=10):
    """The policies of an agent before any feedback."""
    scene = experiment.scene("")
    world = world_of(scene, seed)
    delays = delays_of(scene, world, seed)
    agent = agent_of(experiment, experiment.agents[0], world, delays, seed=seed)
    return np.array([agent.begin_episode().policy for _ in range(number)])


@pytest.mark.parametrize("where", ["alone", "inside"])
@pytest.mark.parametrize("kind", TABLES)
def test_repetitions_of_an_agent_that_draws_differ_and_each_can_be_repeated(kind, where):
    experiment = dataclasses.replace(ARMS, agents=(Learner("A", described(kind)[where]),))
    one, other = policies(experiment, 0), policies(experiment, 1)
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(policies(experiment, 0), one)
    fixed = dataclasses.replace(experiment, agents=(Learner("A", part(kind, seed=5)),))
    np.testing.assert_array_equal(policies(fixed, 0), policies(fixed, 1))


@pytest.mark.parametrize("kind", DECIDING)
def test_repetitions_of_an_agent_that_decides_differ_and_each_can_be_repeated(kind):
    if kind.endswith("vowpal_wabbit"):
        pytest.importorskip("vowpalwabbit", reason="needs pip install 'belated[vw]'")
    visitors = part("conversions", actions=3, features=2, rate=0.3, seed=4)
    experiment = dataclasses.replace(
        ARMS, environment=visitors, agents=(Learner("A", part(kind, seed="run")),), episodes=40
    )

    def decided(seed):
        scene = experiment.scene("")
        world = world_of(scene, seed)
        delays = delays_of(scene, world, seed)
        agent = agent_of(experiment, experiment.agents[0], world, delays, seed=seed)
        return [agent.decide(np.array([0.5, -0.5])).action for _ in range(40)]

    assert decided(0) != decided(1)
    assert decided(0) == decided(0)


@pytest.mark.parametrize("kind", TABLES)
def test_a_repetition_is_the_same_whatever_runs_beside_it(kind):
    alone = dataclasses.replace(ARMS, agents=(Learner("A", part(kind)),))
    beside = dataclasses.replace(
        ARMS,
        agents=(Learner("B", part("benchmarks.rivals:ucb1")), Learner("A", part(kind))),
        seeds=4,
    )
    wanted = {task.seed: task for task in beside.tasks() if task.learner == "A"}
    for task in reversed(alone.tasks()):
        perform(beside, beside.tasks()[task.seed])
        assert perform(alone, task)[0] == perform(beside, wanted[task.seed])[0]


def test_the_seed_of_the_run_makes_another_world_with_other_costs():
    random = part("random_mdp", states=3, actions=2, horizon=2, seed="run")
    scene = Scene(random, part("random", seed="run"), part("none"), 5)
    one, other = (world_of(scene, seed) for seed in (0, 1))
    again = world_of(scene, 0)
    dense = [world.mdp.transitions.dense() for world in (one, other, again)]
    costs = [world.costs.means for world in (one, other, again)]
    for first, second, third in (dense, costs):
        assert not np.array_equal(first, second)
        np.testing.assert_array_equal(first, third)
    fixed = Scene(random.replaced("seed", 3), None, part("none"), 5)
    same = [world_of(fixed, seed).mdp.transitions.dense() for seed in (0, 1)]
    np.testing.assert_array_equal(*same)


def twice(seed, other):
    """A delay model that a user's function makes; it draws the delay."""
    return bl.delays.fixed(int(np.random.default_rng(seed).integers(1000)) + other)


def test_the_seed_of_the_run_reaches_own_functions_and_parts_inside():
    delays = part("bursts", size=2, within=part(twice, seed="run", other=1))
    scene = Scene(part("gridworld", size=2, horizon=2), None, delays, 6)
    world = world_of(scene)
    drawn = [delays_of(scene, world, seed).tolist() for seed in (0, 1, 0)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_what_is_told_has_the_seed():
    seen = []

    def own(told):
        seen.append(told.seed)
        return bl.DelayedOPPO(told.problem)

    experiment = dataclasses.replace(TINY, agents=(Learner("A", part(own)),))
    scene = experiment.scene("")
    for seed in (0, 1, 0):
        world = world_of(scene, seed)
        delays = delays_of(scene, world, seed)
        agent_of(experiment, experiment.agents[0], world, delays, seed=seed)
    assert seen[0] == seen[2] != seen[1]
