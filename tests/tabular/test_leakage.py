"""T18: on the lower-bound world no learner can do better or worse than chance.

Margin: three standard errors over the seeds, which are fixed.
"""

import numpy as np
import pytest

import belated as bl
from limits import FULL
from recorder import Recorder
from registry import AGENTS

DELAY, BLOCKS, H, S, A, SEEDS = 2, 20, 2, 2, 3, 50
K = BLOCKS * (DELAY + 1)


def exact_regret():
    """H (d + 1) E[max over actions of N / 2 - Bin(N, 1/2)]."""
    from scipy.stats import binom  # slow to import

    wins = np.arange(BLOCKS + 1)
    at_least = binom.sf(wins - 1, BLOCKS, 0.5)  # P(Bin >= m); the fewest ones win
    fewest = np.sum(at_least[1:] ** A)  # E[min] = sum of P(min >= m)
    return H * (DELAY + 1) * (BLOCKS / 2 - fewest)


def regrets(make, delay):
    world = bl.environments.delay_lower_bound(DELAY, S, A, H)
    delays = np.full(K, delay)
    return np.array(
        [
            bl.simulate(world, make(world), delays=delays, episodes=K, seed=seed).regret[-1]
            for seed in range(SEEDS)
        ]
    )


def deviation(sample):
    """Distance of the mean from the exact value, in standard errors."""
    return (sample.mean() - exact_regret()) / (sample.std(ddof=1) / np.sqrt(len(sample)))


SHORT = tuple(AGENTS)[::12]
TRIED = {name: make for name, make in AGENTS.items() if FULL or name in SHORT}
"""All agents; without BELATED_FULL_TESTS=1 every twelfth."""


@pytest.mark.parametrize("make", TRIED.values(), ids=TRIED.keys())
@pytest.mark.slow
def test_no_agent_reads_the_future(make):
    assert abs(deviation(regrets(make, DELAY))) < 3


class FollowsTheLastCosts(Recorder):
    """Plays the action that was cheapest when last seen."""

    def __init__(self, world):
        super().__init__(world.problem, uses_paths=False)

    def observe(self, records, now=None):
        for record in records:
            if isinstance(record, bl.Costs):
                best = np.argmin(record.values[0, 0])
                self.policy = np.broadcast_to(np.eye(A)[best], self.problem.shape).copy()


@pytest.mark.slow
def test_an_agent_that_sees_costs_one_episode_early_is_caught():
    assert abs(deviation(regrets(FollowsTheLastCosts, DELAY))) < 3
    assert deviation(regrets(FollowsTheLastCosts, DELAY - 1)) < -3


def test_the_exact_value_against_sampled_coins():
    """The formula itself: 200,000 draws of its coins, within 1 %."""
    coins = np.random.default_rng(0).binomial(BLOCKS, 0.5, (200_000, A))
    sampled = H * (DELAY + 1) * (BLOCKS / 2 - coins.min(1)).mean()
    assert sampled == pytest.approx(exact_regret(), rel=0.01)
