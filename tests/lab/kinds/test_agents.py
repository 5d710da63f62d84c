"""Agents are told what they ask for, and no more."""

import numpy as np
import pytest

import belated as bl
from belated.lab import Experiment, Learner, Told, build, part
from belated.lab.kinds import AGENTS
from belated.lab.kinds.make import make

TUNED = part("softmax", learning_rate="tuned")


WORLD = bl.environments.random_mdp(3, 2, 4)
DELAYS = np.array([2, 0, 50, 1, 1, 0, 3, 0, 0, 0])


def made(kind, information="full", paths="late", **parameters):
    told = Told(WORLD.problem, information, paths, WORLD.mdp.transitions, DELAYS)
    return make("agent", part(kind, **parameters), AGENTS, told)


def rate(agent):
    return agent.configuration()["update"].learning_rate


def test_agents_are_told_what_they_ask_for_and_no_more():
    """K = 10; cut at the end of the run the delays add up to D = 14, the largest is 9."""

    def step(K, D):
        return pytest.approx(1 / (4 * np.sqrt(K + D)))

    tuned = part("oppo", transitions="known", update=TUNED)
    assert rate(made("oppo", **tuned.values)) == step(10, 14)
    radius = part("confidence", radius_scale=0.5)
    assert made("oppo", transitions=radius).configuration()["transitions"] == bl.Confidence(0.5)
    for transitions in ("known", "confidence"):
        oreps = made("oreps", transitions=transitions).configuration()
        assert (oreps["transitions"] == bl.Confidence()) == (transitions == "confidence")
        assert oreps["project"] is None
        assert oreps["learning_rate"] == pytest.approx(np.sqrt(2 * np.log(3 * 2) / (10 + 3 * 14)))
    pipeline = made("pipeline", agent=tuned)
    assert pipeline.max_delay == 9
    assert rate(pipeline.agent) == step(10, 45)  # all delays 9, cut
    bold = made("bold", agent=tuned)
    bold.begin_episode()
    assert rate(bold.agents[0]) == step(10, 0)
    skipping = made("skipping", "bandit", agent=tuned)
    assert skipping.threshold == 3  # sqrt(14), in whole episodes
    setting = bl.tuning.Setting(information="bandit", dynamics="known")
    costs = skipping.agent.configuration()["costs"]
    assert costs.exploration == setting.at(WORLD.problem, 10, 14).exploration


def test_copies_of_parallel_are_tuned_for_their_share_without_delay():
    known = part("oppo", transitions="known", update=TUNED)
    experiment = Experiment(
        name="x",
        environment=part("gridworld", size=3, horizon=4),
        delays=part("fixed", delay=4),
        agents=(Learner("a", part("parallel", agent=known)),),
        episodes=100,
    )
    scene = experiment.scene("")
    world = build.world(scene)
    delays = build.delays(scene, world, 0)
    agent = build.agent(experiment, experiment.agents[0], world, delays)
    agent.begin_episode()
    copy = agent.agents[0]
    assert rate(copy) == bl.tuning.oppo_full(world.problem, 20, 0)["learning_rate"]


def test_oreps_may_project_on_arrival_only():
    agent = made("oreps", project="on arrival")
    assert agent.configuration()["project"] == "on arrival"
    with pytest.raises(ValueError, match=r"agent\.project must be left out with known transitions"):
        made("oreps", project="on arrival", transitions="known")
