"""Regrets on means, against the best of every episode, and against the best so far."""

import numpy as np
import pytest

import belated as bl
from recorder import Recorder


def played(world, policy, episodes, seed=0):
    """A run of an agent that plays one policy and never learns."""
    agent = Recorder(world.problem, uses_paths=False)
    agent.policy = np.broadcast_to(policy, world.problem.shape).copy()
    return bl.simulate(world, agent, episodes=episodes, seed=seed)


MEANS = np.array([0.2, 0.5, 0.9])
SHARES = np.array([0.5, 0.3, 0.2])
GAP = float(SHARES @ (MEANS - 0.2))


@pytest.mark.parametrize("seed", range(3))
def test_regret_on_means_of_arms_is_the_sum_of_the_gaps(seed):
    run = played(bl.environments.bandit(MEANS), SHARES, 40, seed)
    k = np.arange(1, 41)
    for regret in (run.means.regret, run.means.dynamic_regret, run.means.regret_so_far):
        np.testing.assert_allclose(regret, k * GAP, atol=1e-12)
    score = (SHARES @ MEANS - 0.2) / (MEANS.mean() - 0.2)
    assert run.means.score == pytest.approx(score)
    assert run.score_on_means == pytest.approx(score)
    assert run.score != pytest.approx(score)  # the score of the drawn costs is mostly noise
    assert run.regret[-1] == pytest.approx(run.regret_so_far[-1])


def test_without_noise_there_are_no_other_means():
    world = bl.World(bl.environments.bandit(MEANS).mdp, bl.costs.fixed(MEANS[None, None]))
    run = played(world, SHARES, 5)
    assert run.means is None
    assert run.score_on_means == run.score


def test_regrets_against_changing_costs_by_hand():
    """Two arms; the first is best twice, then always the second."""
    mdp = bl.environments.bandit([0.5, 0.5]).mdp
    costs = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    world = bl.World(mdp, bl.costs.sequence(costs[:, None, None, :]))
    run = played(world, [0.25, 0.75], 5)
    values = costs @ [0.25, 0.75]
    np.testing.assert_allclose(run.values, values)
    np.testing.assert_allclose(run.best.each, 0.0)
    np.testing.assert_allclose(run.dynamic_regret, np.cumsum(values))
    np.testing.assert_allclose(run.best.so_far, [0.0, 0.0, 1.0, 2.0, 2.0])
    np.testing.assert_allclose(run.regret_so_far, np.cumsum(values) - [0, 0, 1, 2, 2])
    assert run.regret[0] < 0 < run.regret_so_far[0]  # the second arm wins in the end
    assert run.regret_so_far[-1] == pytest.approx(run.regret[-1])


def test_best_policies_by_brute_force():
    """Two states, two steps: all 16 deterministic policies, for every prefix."""
    world = bl.environments.random_mdp(2, 2, 2, 2, seed=3)
    costs = np.random.default_rng(1).random((6, 2, 2, 2))
    world = bl.World(world.mdp, bl.costs.sequence(costs))
    run = played(world, [0.5, 0.5], 6)
    every = []
    for choice in np.ndindex(2, 2, 2, 2):
        policy = np.eye(2)[np.reshape(choice, (2, 2))]
        start = world.problem.start_probabilities
        every.append(
            [start @ bl.planning.policy_values(world.mdp, policy, one)[0][0] for one in costs]
        )
    every = np.array(every)  # (policies, K)
    np.testing.assert_allclose(run.best.each, every.min(axis=0))
    np.testing.assert_allclose(run.best.so_far, every.cumsum(axis=1).min(axis=0))


def test_noise_around_changing_costs_is_judged_on_its_means():
    functions = np.array([[[[0.1, 0.8]]], [[[0.9, 0.3]]]])
    process = bl.costs.noisy(bl.costs.switching(functions, 2))
    world = bl.World(bl.environments.bandit([0.5, 0.5]).mdp, process)
    run = played(world, [1.0, 0.0], 8)
    np.testing.assert_allclose(run.means.values, [0.1, 0.1, 0.9, 0.9] * 2)
    np.testing.assert_allclose(run.means.best.each, [0.1, 0.1, 0.3, 0.3] * 2)
    np.testing.assert_allclose(run.means.dynamic_regret[-1], 4 * 0.6)
    np.testing.assert_allclose(run.means.regret_so_far[1], 0.0, atol=1e-12)
