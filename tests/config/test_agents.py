"""Agents are told what they request, and no more."""

import dataclasses

import numpy as np
import pytest

import belated as bl
from belated.config.agents import AGENTS
from belated.config.part import make
from belated.lab import Experiment, Learner, RunBrief, named, part
from belated.lab.task import agent_of, delays_of, world_of

TUNED = part("softmax", learning_rate="tuned")


WORLD = bl.environments.random_mdp(3, 2, 4)
DELAYS = np.array([2, 0, 50, 1, 1, 0, 3, 0, 0, 0])


def made(kind, information="full", paths="late", **parameters):
    told = RunBrief(WORLD.problem, information, paths, WORLD.mdp.transitions, DELAYS)
    return make("agent", part(kind, **parameters), AGENTS, told)


def rate(agent):
    return agent.configuration()["update"].learning_rate


def test_agents_are_told_what_they_ask_for_and_no_more():
    """K = 10. Cut at the end of the run, the delays sum to D = 14; the largest counts as K - 1."""

    def step(K, D):
        return pytest.approx(1 / (4 * np.sqrt(K + D)))

    tuned = part("oppo", transitions="known", update=TUNED)
    assert rate(made("oppo", **tuned.values)) == step(10, 14)
    scaled = part("oppo", transitions="known", update=TUNED.replaced("scale", 3.0))
    assert rate(made("oppo", **scaled.values)) / 3 == step(10, 14)
    radius = part("confidence", radius_scale=0.5)
    assert made("oppo", transitions=radius).configuration()["transitions"] == bl.parts.Confidence(
        0.5
    )
    for transitions in ("known", "confidence"):
        oreps = made("oreps", transitions=transitions).configuration()
        assert (oreps["transitions"] == bl.parts.Confidence()) == (transitions == "confidence")
        assert oreps["project"] is None
        assert oreps["learning_rate"] == pytest.approx(np.sqrt(2 * np.log(3 * 2) / (10 + 3 * 14)))
    pipeline = made("pipeline", agent=tuned)
    assert pipeline.max_delay == 9
    assert rate(pipeline.agent) == step(10, 45)  # all delays are 9, cut at the end of the run
    bold = made("bold", agent=tuned)
    bold.begin_episode()
    assert rate(bold.agents[0]) == step(10, 0)
    skipping = made("skipping", "bandit", agent=tuned)
    assert skipping.threshold == 3  # sqrt(14), in whole episodes
    setting = bl.tuning.BanditFeedback(dynamics="known")
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
    world = world_of(scene)
    delays = delays_of(scene, world, 0)
    agent = agent_of(experiment, experiment.agents[0], world, delays)
    agent.begin_episode()
    copy = agent.agents[0]
    assert rate(copy) == bl.tuning.oppo_full(world.problem, 20, 0)["learning_rate"]


def test_oreps_may_project_on_arrival_only():
    agent = made("oreps", project="on arrival")
    assert agent.configuration()["project"] == "on arrival"
    with pytest.raises(ValueError, match=r"agent: project must be left out with known transitions"):
        made("oreps", project="on arrival", transitions="known")


def test_dapo_is_tuned_and_scaled():
    world = bl.environments.random_mdp(3, 2, 4)
    told = RunBrief(world.problem, "bandit", "late", world.mdp.transitions, np.full(10, 2))

    def made(kind, **parameters):
        return make("agent", part(kind, **parameters), AGENTS, told)

    tuned = bl.tuning.dapo(world.problem, 10, 17)
    known = made("dapo", transitions="known").configuration()
    assert known["learning_rate"] == tuned["learning_rate"]
    assert known["exploration"] == pytest.approx(tuned["exploration"])
    assert known["episodes"] == 10
    unknown = made("dapo", scale=3.0).configuration()
    assert unknown["learning_rate"] == pytest.approx(3 * 4 * tuned["learning_rate"])
    assert unknown["exploration"] == pytest.approx(8 * unknown["learning_rate"])
    apart = made("dapo", transitions="known", scale=3.0, exploration="tuned").configuration()
    assert apart["learning_rate"] == pytest.approx(3 * tuned["learning_rate"])
    assert apart["exploration"] == pytest.approx(tuned["exploration"])
    with pytest.raises(ValueError, match=r"agent: exploration \(if not a number\) must be one of"):
        made("dapo", exploration="large")
    given = made("dapo", learning_rate=0.1, exploration=0.3).configuration()
    assert (given["learning_rate"], given["exploration"], given["episodes"]) == (0.1, 0.3, None)
    skipping = made("skipping", agent=part("dapo", transitions="known"))
    assert skipping.threshold == 1  # sqrt(17) / 4
    with pytest.raises(ValueError, match=r"agent: transitions must be a Transitions, or None"):
        made("dapo", transitions="confidence")


def test_agents_on_measures_are_tuned_and_scaled():
    world = bl.environments.random_mdp(3, 2, 4)
    told = RunBrief(world.problem, "bandit", "late", world.mdp.transitions, np.full(10, 2))

    def made(kind, **parameters):
        return make("agent", part(kind, **parameters), AGENTS, told).configuration()

    practical, printed = made("ftrl", scale=2.0), made("ftrl", max_delay="realised")
    tuned = bl.tuning.ftrl(world.problem, 10, 17)
    assert practical["learning_rate"] == 2 * tuned["learning_rate"]
    assert practical["barrier"] == tuned["barrier"]
    tuned = bl.tuning.ftrl(world.problem, 10, 17, max_delay=2)
    assert {name: printed[name] for name in tuned} == tuned
    assert made("ftrl", learning_rate=0.1, barrier=0.5)["barrier"] == 0.5
    with pytest.raises(ValueError, match="max_delay must be left out"):
        made("ftrl", learning_rate=0.1, max_delay=3)
    inside = part("ftrl")
    assert made("doubling_ftrl", agent=inside, totals="known")["totals"] == (10, 17)
    assert made("doubling_ftrl", agent=inside)["totals"] is None
    with pytest.raises(ValueError, match=r"totals \(if not a number\) must be one of 'known'"):
        made("doubling_ftrl", agent=inside, totals="some")
    uob = made("uob_reps", scale=3.0)
    tuned = bl.tuning.uob_reps(world.problem, 10, 17)
    assert uob["learning_rate"] == uob["exploration"] == 3 * tuned["learning_rate"]
    assert uob["episodes"] == 10
    assert made("uob_reps", learning_rate=0.1, exploration=0.2)["episodes"] is None


def test_the_radius_may_be_told_the_number_of_episodes():
    for kind, copies in (("oppo", 1), ("ucbvi", 1), ("parallel", 10)):
        radius = part("confidence", episodes="known")
        inside = part("oppo", transitions=radius)
        given = {"agent": inside} if kind == "parallel" else {"transitions": radius}
        agent = made(kind, "bandit" if kind == "ucbvi" else "full", **given)
        one = agent.agents[0] if kind == "parallel" else agent
        assert one.configuration()["transitions"].episodes == 10 / copies
    wrong = part("confidence", episodes="realised")
    with pytest.raises(ValueError, match=r"agent.transitions: episodes \(if not a number\)"):
        made("oppo", transitions=wrong)


def test_explicit_exploration_may_follow_the_threshold_of_skipping():
    explore = part("few_visits", max_delay="tuned")
    inside = part("oppo", update=TUNED, explore=explore)
    skipping = made("skipping", agent=inside)
    beta = np.sqrt(14 / (4 * 3))
    assert skipping.threshold == int(beta)
    assert skipping.agent.configuration()["explore"].max_delay == pytest.approx(beta)
    with pytest.raises(ValueError, match='max_delay must be a number here, got "tuned"'):
        made("oppo", explore=explore)


def test_the_papers_table_is_set_up_as_its_theorems_ask():
    """Late paths need explicit exploration and skipping; the printed radius depends on K."""
    table = {learner.name: learner for learner in named("grid-delay").agents}
    late = table["full, unknown, paths late"]
    assert late.agent.kind == "skipping"
    agent = made(late.agent.kind, **late.agent.values)
    assert isinstance(agent.agent.configuration()["explore"], bl.parts.FewVisits)
    assert agent.agent.setting("late").explores
    experiment = dataclasses.replace(named("known-unknown"), episodes=500)
    printed = experiment.agents[-1]
    assert printed.name == "unknown, radius as printed"
    world = world_of(experiment.scene(""))
    delays = np.zeros(500, dtype=np.int64)
    agent = agent_of(experiment, printed, world, delays)
    agent._model.retune(500)
    assert agent._model.set.log_term == pytest.approx(np.log(50 * 100 * 4 * 500 / 0.4))  # 17.03
