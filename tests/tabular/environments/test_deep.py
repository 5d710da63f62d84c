"""Worlds in which exploration must go deep, against their descriptions."""

import numpy as np
import pytest

import belated as bl
from belated.planning import best_policy


@pytest.mark.parametrize("seed", [0, 1])
def test_only_a_dive_to_the_very_right_pays(seed):
    n = 6
    world = bl.environments.deep_sea(n, seed=seed)
    means = bl.costs.expected(world.costs, 0)
    policy, value = best_policy(world.mdp, means)
    assert value == pytest.approx((n - 1) * (0.5 + 0.05 / n))  # n - 1 steps cost, the last is free
    path = world.mdp.play(policy, np.random.default_rng(0))
    assert list(path.states) == [*range(n), n - 1]
    short = bl.environments.deep_sea(n, horizon=n - 1, seed=seed)
    assert best_policy(short.mdp, means)[1] == pytest.approx((n - 1) * 0.5)  # then left is best


def test_a_lock_opens_by_its_combination_only():
    world = bl.environments.lock(4, 3, seed=2)
    policy, value = best_policy(world.mdp, world.costs.at(0))
    assert value == pytest.approx(3 + 5 * 0.1)
    wrong = np.roll(policy, 1, axis=2)
    path = world.mdp.play(wrong, np.random.default_rng(0))
    assert set(path.states) == {0}


def test_expected_costs_are_those_without_noise():
    rng = np.random.default_rng(0)
    drift = bl.costs.drifting(rng.random((2, 1, 3, 2)), 10)
    noisy = bl.costs.noisy(drift, seed=1)
    for k in (0, 7, 33):
        np.testing.assert_array_equal(bl.costs.expected(noisy, k), drift.at(k))
        np.testing.assert_array_equal(bl.costs.expected(drift, k), drift.at(k))
    drawn = np.mean([bl.costs.noisy(drift, seed=i).at(7) for i in range(4000)], axis=0)
    np.testing.assert_allclose(drawn, drift.at(7), atol=0.04)  # five standard errors


def test_the_score_on_means_needs_no_draws():
    """The score follows from the mean costs of the policies, whatever costs were drawn."""
    world = bl.environments.bandit([0.2, 0.5, 0.8])
    runs = [
        bl.simulate(world, bl.recommend(world.problem, information="bandit"), seed=s, episodes=60)
        for s in range(2)
    ]
    for run in runs:
        means = np.array([0.2, 0.5, 0.8])
        assert run.means.optimum == pytest.approx(60 * 0.2)
        assert np.all(np.isin(run.mean_values, means))
        assert run.score_on_means == pytest.approx((run.mean_values.mean() - 0.2) / 0.3)
