"""The optimistic algorithm for stochastic costs, and what explicit exploration is worth (T23)."""

import itertools
import math

import numpy as np
import pytest

import belated as bl
from belated.parts import Averaged, Confidence, FewVisits


def test_one_state_and_one_step_is_ucb_with_explicit_exploration():
    A, K, d, delta = 4, 400, 7, 0.1
    problem = bl.Problem(1, A, 1)
    limit = 2 * d * math.log(A / delta)
    rng = np.random.default_rng(0)
    for explicit in (False, True):
        agent = bl.DelayedUCBVI(
            problem,
            transitions=Confidence(delta=delta, episodes=K),
            explore=FewVisits(max_delay=d) if explicit else None,
        )
        line, sums, n = bl.DelayLine(), np.zeros(A), np.zeros(A)
        L = math.log(2 * A * K / delta)
        for k in range(K):
            policy = agent.begin_episode().policy[0, 0]
            index = np.where(n > 0, sums / np.maximum(n, 1) - np.sqrt(L / 2 / np.maximum(n, 1)), 0)
            best = np.maximum(index, 0) == np.maximum(index, 0).min()
            greedy = best / best.sum()  # equally good arms equally often
            uniform = explicit and n.sum() <= limit
            np.testing.assert_allclose(policy, np.full(A, 1 / A) if uniform else greedy)
            a = int(rng.choice(A, p=policy))
            cost = float(rng.random() < 0.2 + 0.15 * a)
            line.push([bl.Trajectory(k, [0, 0], [a]), bl.Costs(k, [cost])], d)
            for record in (batch := line.release(k)):
                if isinstance(record, bl.Trajectory):
                    arm = record.actions[0]
                    n[arm] += 1
                else:
                    sums[arm] += record.values[0]
            agent.observe(batch)


def failure(means, H, K):
    """The exact probability that a lowered mean cost of some step exceeds the true mean."""
    agent = bl.DelayedUCBVI(bl.Problem(1, 1, H), transitions=Confidence(episodes=K))
    width, fails = agent._part.hoeffding(agent.problem, agent.begun), np.zeros(len(means))
    for costs in itertools.product((0.0, 1.0), repeat=K):  # of one step; the steps are alike
        part, low = Averaged(), 0.0
        learned = part.start(bl.Problem(1, 1, 1))
        for cost in costs:
            part.learn(learned, bl.Trajectory(0, [0, 0], [0]), np.array([cost]))
            low = max(low, part.lower_bounds(learned, width).max())
        ones = sum(costs)
        fails += (low > means) * means**ones * (1 - means) ** (K - ones)
    return 1 - (1 - fails) ** H


@pytest.mark.parametrize(("H", "K"), [(2, 2), (1, 3), (10, 6)])
def test_delta_is_the_probability_that_a_bonus_fails(H, K):
    """Coins of every mean; with ln(H S A K / (4 delta)) it was 0.112 at H = K = 2, mean 0.24."""
    assert failure(np.array([0.24, *np.linspace(0.01, 0.99, 99)]), H, K).max() <= 0.1


@pytest.mark.parametrize(("arms", "gap", "helps"), [(50, 0.5, True), (10, 0.2, False)])
@pytest.mark.long
def test_when_explicit_exploration_helps(arms, gap, helps):
    """T23, d = 100, K = 4000: about A d gap is lost without it, 2 d ln(A / delta) gap with it.

    Many arms and a large gap: at least a tenth less regret. Few arms: it does not help. Measured
    once, with ties to the smallest arm, with K = 20,000 and 3 seeds (UCB /
    with explicit exploration / UCB without delay):
    A = 50, d = 400: 9794 / 2644 / 694 at gap 0.5, 3916 / 3367 / 1470 at gap 0.2;
    A = 10, d = 400: 1860 / 1839 / 109 and 771 / 739 / 220; A = 50, d = 100: 2752 / 1684 / 694 and
    1921 / 1954 / 1470; A = 10, d = 100: 492 / 445 / 109 and 324 / 359 / 220.
    """
    means = np.full(arms, 0.3 + gap)
    means[arms // 2] = 0.3
    world = bl.environments.bandit(means)

    def regret(seed, explore=None):
        transitions = Confidence(episodes=4000)
        agent = bl.DelayedUCBVI(world.problem, transitions=transitions, explore=explore)
        delays = bl.delays.fixed(100)
        return bl.simulate(world, agent, delays=delays, episodes=4000, seed=seed).regret[-1]

    plain = np.mean([regret(seed) for seed in range(2)])
    explicit = np.mean([regret(seed, FewVisits(max_delay=100)) for seed in range(2)])
    assert (explicit < 0.9 * plain) == helps


@pytest.mark.parametrize("pooled", [True, False])
def test_it_learns_a_chain_from_delayed_bandit_feedback(pooled):
    """RiverSwim: fixed seed; the last tenth is within 10 % of the way from uniform to best."""
    world = bl.environments.chain(4, 12)
    agent = bl.DelayedUCBVI(
        world.problem,
        transitions=Confidence(radius_scale=0.1, episodes=3000),
        costs=Averaged(pooled=pooled),
    )
    run = bl.simulate(world, agent, delays=bl.delays.geometric(5), episodes=3000, seed=1)
    best = run.optimum / 3000
    uniform = bl.planning.policy_values(
        world.mdp, np.full(world.problem.shape, 0.5), world.costs.at(0)
    )[0][0, 0]
    assert run.values[-300:].mean() < best + 0.1 * (uniform - best)
