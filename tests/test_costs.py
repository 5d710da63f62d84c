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
    assert np.array_equal(process.at(7), draws[7])  # any order, same answer
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
