"""The diagnostics of every agent, against counts that the test makes and the definitions."""

import math

import numpy as np
import pytest
from benchmarks import rivals
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core.episodes import Quantiles
from registry import AGENTS

WORLD = oracles.random_world(np.random.default_rng(0), 3, 4, 2)
ARMS = bl.environments.bandit([0.2, 0.6, 0.9])
RIVALS = {
    "q-learning": (WORLD, rivals.QLearning),
    "actor-critic": (WORLD, rivals.ActorCritic),
    "posterior sampling": (WORLD, bl.PosteriorSampling),
    "ucb1": (ARMS, rivals.UCB1),
    "thompson sampling": (ARMS, bl.ThompsonSampling),
    "exp3": (ARMS, rivals.Exp3),
}
MADE = {name: (WORLD, lambda make=make: make(WORLD)) for name, make in AGENTS.items()} | {
    name: (world, lambda world=world, make=make: make(world.problem))
    for name, (world, make) in RIVALS.items()
}
DELAYS = np.array([0, 3, 1, bl.NEVER, 0, 2, 2, bl.NEVER, 1, 0, 4, 1, 0, 0, 2, 1, 30, 0, 1, 0])
LETS_GO = ("skipping", "doubling", "pipeline", "inbox", "locked")


@pytest.mark.parametrize("name", MADE)
def test_every_agent_tells_what_to_watch(name):
    world, make = MADE[name]
    agent = make()
    before = agent.diagnostics()
    assert (before["begun"], before["open"], before["used"]) == (0, 0, 0)
    run = bl.simulate(world, agent, delays=DELAYS, episodes=len(DELAYS))
    told = run.diagnostics
    K = len(DELAYS)
    came = K - np.arange(K) > DELAYS
    assert told["begun"] == K
    assert told["open"] == len(agent.open_episodes())
    assert 0 <= told["entropy"] <= math.log(world.problem.actions) + 1e-12
    assert 0 <= told["cost"] <= world.problem.horizon * 10  # weighted estimates may be large
    assert told["visits"] == world.problem.horizon * (told["visits"] // world.problem.horizon)
    assert all(math.isfinite(value) for value in told.values())
    if not name.startswith(LETS_GO):
        assert (told["used"], told["open"], told["forgotten"]) == (came.sum(), K - came.sum(), 0)
        assert told["delay_50"] == np.sort(DELAYS[came])[math.ceil(0.5 * came.sum()) - 1] == 1
        assert (told["delay_90"], told["delay_99"]) == (3, 4)
        assert told["overdue"] == sum(19 - k > 2 * 4 + 8 for k in np.flatnonzero(~came))
        assert told["visits"] == (world.problem.horizon * came.sum() if agent.uses_paths else 0)


def test_entropy_and_cost_are_those_of_the_policy_that_is_played():
    """Known transitions, full information: the value of the policy for the newest costs."""
    mdp = WORLD.mdp
    agent = bl.DelayedOPPO(WORLD.problem, transitions=mdp.transitions)
    for k in range(6):
        policy = agent.begin_episode().policy
        if k == 5:
            break
        agent.observe(
            [mdp.play(policy, np.random.default_rng(k), k), bl.Costs(k, WORLD.costs.at(k))]
        )
    told = agent.diagnostics()
    rows = policy.reshape(-1, policy.shape[-1])
    entropies = [-sum(p * math.log(p) for p in row) for row in rows]
    assert told["entropy"] == pytest.approx(np.mean(entropies))
    values, _ = bl.planning.policy_values(mdp, policy, WORLD.costs.at(4))
    assert told["cost"] == pytest.approx(WORLD.problem.start_probabilities @ values[0])


def test_the_cost_without_a_model_of_costs_is_a_mean_of_the_newest():
    agent = rivals.QLearning(WORLD.problem)
    totals = []
    for k in range(40):
        path = WORLD.mdp.play(agent.begin_episode().policy, np.random.default_rng(k), k)
        values = np.random.default_rng(k).random(3)
        totals.append(values.sum())
        agent.observe([path, bl.Costs(k, values)])
    assert agent.diagnostics()["cost"] == pytest.approx(np.mean(totals[-32:]))


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.99]))
def test_quantiles_are_too_small_by_less_than_a_thirtysecond(numbers, share):
    quantiles = Quantiles()
    for number in numbers:
        quantiles.add(number)
    exact = sorted(numbers)[max(math.ceil(share * len(numbers)), 1) - 1]
    (found,) = quantiles.at(share)
    assert exact * (1 - 1 / 32) <= found <= exact
    if exact < 64:
        assert found == exact
    again = Quantiles()
    oracles.refill(again, _buckets=quantiles._buckets)
    assert (again.at(share), sum(again._buckets.values())) == ([found], len(numbers))


def test_quantiles_take_bounded_memory():
    quantiles = Quantiles()
    for number in np.random.default_rng(0).pareto(0.3, 20_000):
        quantiles.add(int(min(number * 10, 2**61)))
    assert len(quantiles._buckets) < 2000
