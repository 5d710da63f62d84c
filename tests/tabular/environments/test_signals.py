"""Arms with signals: exact values by hand, and what a signal that is seen at once is worth."""

import numpy as np
import pytest

import belated as bl

LAWS = np.array([[0.9, 0.1, 0.0], [0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])
MEANS = np.array([0.9, 0.4, 0.1])


def test_the_cost_of_an_arm_is_that_of_its_signals():
    world = bl.environments.signals(LAWS, MEANS)
    assert world.problem.shape == (2, 4, 3)
    means = bl.costs.expected(world.costs, 0)
    policy, value = bl.planning.best_policy(world.mdp, means)
    assert value == pytest.approx(min(LAWS @ MEANS))
    assert policy[0, 0].argmax() == np.argmin(LAWS @ MEANS)
    run = bl.simulate(world, bl.recommend(world.problem), episodes=5)
    np.testing.assert_allclose(run.means.uniform, np.mean(LAWS @ MEANS))


def test_a_signal_comes_before_its_cost():
    world = bl.environments.signals(LAWS, MEANS)
    agent, seen = bl.recommend(world.problem), []

    def rule(happened, rng):
        seen.append((happened.actions[0], happened.states[1] - 1, *happened.outcomes))
        return 3

    bl.simulate(world, agent, delays=bl.delays.delay_of(rule), episodes=300, paths="at once")
    actions, signals, first, second = np.array(seen).T
    assert set(first) == {0.0}
    assert set(second) == {0.0, 1.0}
    assert not np.any((actions == 0) & (signals == 2))  # the first arm never gives this signal


@pytest.mark.parametrize(
    ("laws", "means", "why"),
    [
        ([0.5, 0.5], [0, 1], r"laws must have shape \(A, M\)"),
        ([[0.5, 0.5]], [0.5], "means must be 2, one for every signal, got 1"),
        (
            [[0.5, 0.6]],
            [0, 1],
            r"laws must hold probabilities that sum to 1; laws\[0\] sums to 1.1",
        ),
        ([[0.5, 0.5]], [0, 2], "means"),
    ],
)
def test_what_is_no_law_is_refused(laws, means, why):
    with pytest.raises(ValueError, match=why):
        bl.environments.signals(laws, means)


def test_signals_at_once_help_where_costs_are_late():
    """Ten arms, two signals, costs after 150 of 300 episodes; means of 24 seeds.

    The difference is 0.09 with a standard error of 0.014 over 40 seeds, so 0.019 over 24: the
    margin of 0.05 is two of them below it and more than two above 0.
    """
    rng = np.random.default_rng(5)
    good = rng.permutation(np.linspace(0.1, 0.6, 10))
    world = bl.environments.signals(np.stack([1 - good, good], axis=1), [0.9, 0.1])

    def score(paths):
        runs = [
            bl.simulate(
                world,
                bl.recommend(world.problem),
                delays=bl.delays.fixed(150),
                episodes=300,
                seed=seed,
                paths=paths,
            )
            for seed in range(24)
        ]
        return np.mean([run.score_on_means for run in runs])

    assert score("at once") < score("late") - 0.05
