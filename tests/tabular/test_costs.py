import numpy as np
import pytest

import belated as bl


def test_fixed_switching_and_drifting():
    a, b = np.zeros((2, 3)), np.ones((2, 3))
    assert np.array_equal(bl.costs.fixed(a).at(17), a[None])
    turns = bl.costs.switching([a, b], every=3)
    assert [turns.at(k).mean() for k in range(8)] == [0, 0, 0, 1, 1, 1, 0, 0]
    drift = bl.costs.drifting([a, b], every=4)
    assert [drift.at(k).mean() for k in range(9)] == [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0]
    assert not turns.at(0).flags.writeable


def test_sequence_ends():
    process = bl.costs.sequence(np.random.default_rng(0).random((3, 1, 2, 2)))
    assert process.at(2).shape == (1, 2, 2)
    with pytest.raises(ValueError, match="from 0 to 2"):
        process.at(3)


@pytest.mark.parametrize("noise", ["bernoulli", "uniform"])
def test_stochastic_costs_have_their_means(noise):
    means = np.array([[[0.1, 0.5, 0.95, 0.0, 1.0]]])
    process = bl.costs.stochastic(means, noise=noise, seed=5)
    draws = np.array([process.at(k) for k in range(4000)])
    assert np.all((draws >= 0) & (draws <= 1))
    np.testing.assert_allclose(draws.mean(0), means, atol=4 * 0.5 / np.sqrt(4000))
    assert np.array_equal(process.at(7), draws[7])  # in any order, the same answer
    assert np.array_equal(process.means, means)
    assert draws.std() > 0.1


def test_seeds_are_given_once():
    free = bl.costs.stochastic(np.full((2, 2), 0.5))
    assert not np.array_equal(free.seeded(1).at(0), free.seeded(4).at(0))
    pinned = bl.costs.stochastic(np.full((2, 2), 0.5), seed=1)
    assert np.array_equal(pinned.seeded(2).at(0), free.seeded(1).at(0))


def test_blocks_are_constant_fair_and_independent():
    process = bl.costs.blocks(2, 3, length=4).seeded(1)
    coins = np.array([process.at(k) for k in range(4000)])
    assert np.array_equal(np.unique(coins), [0.0, 1.0])
    blocks = coins.reshape(1000, 4, 2, 3)
    assert np.all(blocks == blocks[:, :1, :1, :])
    per_block = blocks[:, 0, 0]
    assert per_block.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(3000))
    assert abs(np.corrcoef(per_block.T)[0, 1]) < 4 / np.sqrt(1000)


def test_changing_happens_once():
    process = bl.costs.changing([np.zeros((2, 3)), np.ones((2, 3))], at=[4])
    assert [process.at(k).mean() for k in (0, 3, 4, 400)] == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="at must hold 1 episodes"):
        bl.costs.changing([np.zeros((2, 3)), np.ones((2, 3))], at=[])
    with pytest.raises(ValueError, match="at must not decrease"):
        bl.costs.changing([np.zeros((2, 3))] * 3, at=[4, 2])


def test_noise_around_costs_that_change():
    means = bl.costs.switching([np.zeros((2, 3)), np.ones((2, 3)), np.full((2, 3), 0.5)], every=50)
    process = bl.costs.noisy(means).seeded(3)
    draws = np.array([process.at(k) for k in range(150)]).reshape(3, 50, 6)
    assert draws[0].max() == 0
    assert draws[1].min() == 1
    assert draws[2].mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(300))
    stochastic = bl.costs.stochastic(np.full((2, 3), 0.5), seed=3)
    assert np.array_equal(process.at(120), stochastic.at(120))
    with pytest.raises(ValueError, match="process must be a cost process"):
        bl.costs.noisy(np.ones((2, 3)))


def test_a_walk_is_reflected_and_the_same_in_any_order():
    start = np.array([[0.02, 0.5, 0.99]])
    process = bl.costs.walking(start, step=0.05).seeded(1)
    path = np.array([process.at(k) for k in range(700)])
    assert np.array_equal(bl.costs.walking(start, 0.05, seed=1).at(600), path[600])
    assert np.array_equal(process.at(3), path[3])
    assert path.min() >= 0
    assert path.max() <= 1
    assert np.abs(np.diff(path, axis=0)).max() < 0.3  # no jump at a border or between stretches
    free, rng = start.copy(), np.random.Generator(np.random.Philox(key=1, counter=(0, 0, 0, 0)))
    for k, move in enumerate(0.05 * rng.standard_normal((256, 1, 1, 3))):
        folded = free.copy()
        while ((folded < 0) | (folded > 1)).any():  # mirrored at 0 and at 1
            folded = 1 - np.abs(1 - np.abs(folded))
        np.testing.assert_allclose(path[k, 0], folded, atol=1e-9)
        free = free + move[0]
    assert not np.array_equal(process.at(9), bl.costs.walking(start, 0.05).seeded(2).at(9))
    np.testing.assert_allclose(bl.costs.walking(start, 0.0).at(999)[0], start, atol=1e-12)
