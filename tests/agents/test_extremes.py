"""Learning rates of 100, degenerate sizes, degenerate costs: no NaN, sensible results."""

import itertools
import math

import numpy as np
import pytest

import belated as bl
import oracles
from belated import Bonus, Confidence, Revealed, Softmax, Weighted
from belated.agents.parts.costs import importance_weighted
from belated.kernels.weights import softmax
from registry import AGENTS

SIZES = [(1, 1, 1), (1, 1, 3), (3, 1, 2), (1, 3, 2), (3, 3, 1), (3, 4, 2)]


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS.keys())
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.slow
def test_degenerate_worlds(make, size):
    H, S, A = size
    mdp = oracles.random_world(np.random.default_rng(0), H, S, A).mdp
    for level, episodes, delays in itertools.product(
        (0.0, 1.0), (1, 30), (bl.delays.geometric(3), bl.delays.fixed(bl.NEVER))
    ):
        world = bl.World(mdp, np.full((1, S, A), level))
        run = bl.simulate(world, make(world), delays=delays, episodes=episodes)
        np.testing.assert_allclose(run.values, level * H, atol=1e-12)
        np.testing.assert_allclose(run.regret, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("transitions", "costs"),
    [
        (None, Revealed()),
        (Confidence(radius_scale=0.01), Revealed()),
        (Bonus(), Revealed()),
        (None, Weighted(1e-9)),
        (Confidence(radius_scale=0.01), Weighted(1e-9)),
    ],
)
def test_a_learning_rate_of_100(transitions, costs):
    world = oracles.random_world(np.random.default_rng(4), 4, 5, 3)
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=transitions or world.mdp.transitions,
        costs=costs,
        update=Softmax(100.0),
    )
    rng = np.random.default_rng(0)
    for k in range(300):
        policy = agent.begin_episode().policy
        assert np.all(np.isfinite(policy))
        np.testing.assert_allclose(policy.sum(-1), 1, atol=1e-12)
        path = world.mdp.play(policy, rng, k)
        function = world.costs.at(k % 40)
        met = function[np.arange(4), path.states[:-1], path.actions]
        agent.observe([path, bl.Costs(k, function if agent.information == "full" else met)])


def test_bandit_without_exploration_survives_impossible_actions():
    """An action of probability 0 may still be reported; the estimate must stay finite."""
    agent = bl.DelayedOPPO(bl.Problem(1, 2, 1), costs=Weighted(), update=Softmax(100.0))
    for k in range(100):
        policy = agent.begin_episode().policy
        assert np.all(np.isfinite(policy))
        assert policy.sum() == pytest.approx(1)
        agent.observe([bl.Trajectory(k, [0, 0], [1]), bl.Costs(k, [1.0])])


def test_many_updates_keep_small_differences_exact():
    """20,000 updates that cancel but for a millionth (a million episodes: `make bench`)."""
    mdp = bl.MDP(bl.Transitions.from_dense(np.ones((1, 3, 1))), 1)
    agent = bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions, update=Softmax(1e-3))
    costs = [np.array([[[0.1, 0.100001, 0.9]]]), np.array([[[0.9, 0.900001, 0.1]]])]
    for k in range(20_000):
        policy = agent.begin_episode().policy
        agent.observe([bl.Costs(k, costs[k % 2])])
    ratio = policy[0, 0, 1] / policy[0, 0, 0]
    assert ratio == pytest.approx(np.exp(-1e-3 * 19_999 * 1e-6), rel=1e-9)


def test_small_weights_are_not_cut_off():
    policy = np.zeros((1, 1, 3))
    softmax(np.array([[[5.0, 705.0, 805.0]]]), np.ones(1), policy)
    assert policy[0, 0, 1] == math.exp(-700.0)
    assert policy[0, 0, 2] == 0.0


def test_rare_costs_get_their_whole_weight():
    path, policy = bl.Trajectory(0, [0, 0], [0]), np.array([[[1e-200, 1.0]]])
    costs = importance_weighted(np.array([0.5]), path, policy, np.array([1e-40]), 0.0)
    assert costs[0, 0, 0] == pytest.approx(0.5e240)
