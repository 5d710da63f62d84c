"""Predicted costs: unbiased by exact enumeration, bounded in memory, and good at predicting."""

import itertools

import numpy as np
import pytest

import belated as bl
import oracles
from belated.core.arrays import frozen


def paths(p, policy, start):
    """Every trajectory (states, actions) of a tiny problem and its probability."""
    H, S, A = policy.shape
    for states in itertools.product(range(S), repeat=H + 1):
        for actions in itertools.product(range(A), repeat=H):
            chance = start[states[0]]
            for h in range(H):
                chance *= (
                    policy[h, states[h], actions[h]] * p[h, states[h], actions[h], states[h + 1]]
                )
            if chance > 0.0:
                yield np.array(states), np.array(actions), chance


@pytest.mark.parametrize("trained", [0, 15])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_estimate_is_unbiased_for_known_transitions(trained, share):
    """Its mean over all paths is the cost function itself, whatever was predicted."""
    rng = np.random.default_rng(4)
    H, S, A = 2, 2, 2
    world = oracles.random_world(rng, H, S, A, start=(0.4, 0.6))
    p, start = oracles.dense(world.mdp), world.problem.start_probabilities
    part = bl.parts.Predicted(exploration=0.0)
    costs = rng.random((H, S, A))
    policy = rng.dirichlet(np.ones(A), (H, S))
    played = (1 - share) * policy + share / A

    def agent():
        made = part.start(world.problem)
        other = np.random.default_rng(9)
        for k in range(trained):
            path = world.mdp.play(played, other, k)
            part.learn(made, path, frozen(other.random(H)))
        return made

    from belated.tabular.parts.costs import Observation
    from belated.tabular.parts.transitions import KnownModel

    model = KnownModel(world.problem, world.mdp.transitions)
    mean, weight = np.zeros((H, S, A)), 0.0
    for states, actions, chance in paths(p, played, start):
        path = bl.Trajectory(0, states, actions)
        values = frozen(costs[np.arange(H), states[:-1], actions])
        made = agent()
        lesson = part.learn(made, path, values)
        seen = Observation(values, path, lambda: played, model, 1, lesson)
        mean += chance * part.estimate(made, seen)
        weight += chance
    np.testing.assert_allclose(weight, 1.0)
    np.testing.assert_allclose(mean, costs, atol=1e-12)


def test_exploration_shrinks_towards_the_prediction():
    problem = bl.Problem(1, 2, 1)
    part = bl.parts.Predicted(exploration=1e9)
    learned = part.start(problem)
    path = bl.Trajectory(0, [0, 0], [1])
    for _ in range(50):
        part.learn(learned, path, frozen(np.array([0.8])))
    lesson = part.learn(learned, path, frozen(np.array([0.0])))

    class Sure:
        def reach(self, policy, states):
            return np.ones(1)

    from belated.tabular.parts.costs import Observation

    policy = np.full((1, 1, 2), 0.5)
    seen = Observation(np.array([0.0]), path, lambda: policy, Sure(), 1, lesson)
    np.testing.assert_allclose(part.estimate(learned, seen)[0, 0], [0.0, 0.8], atol=1e-6)


@pytest.mark.parametrize(
    ("law", "best"),
    [
        ("fixed", {"keep": 1.0, "pooled": True}),
        ("per step", {"keep": 1.0, "pooled": False}),
        ("switching", {"keep": 0.9}),
    ],
)
def test_the_memory_that_predicts_best_gets_the_weight(law, best):
    rng = np.random.default_rng(0)
    H, S, A = 3, 2, 2
    world = oracles.random_world(rng, H, S, A, homogeneous=True)
    part = bl.parts.Predicted()
    learned = part.start(world.problem)
    means = rng.random((H, S, A)) if law == "per step" else np.repeat(rng.random((1, S, A)), H, 0)
    for k in range(600):
        if law == "switching" and k % 60 == 0:
            means = np.repeat(rng.random((1, S, A)), H, 0)
        path = world.mdp.play(np.full((H, S, A), 0.5), rng, k)
        cells = (np.arange(H), path.states[:-1], path.actions)
        noise = 0.0 if law == "switching" else 0.3 * (rng.random(H) - 0.5)
        part.learn(learned, path, frozen(np.clip(means[cells] + noise, 0, 1)))
    weights = np.exp(learned.scores)
    winner = int(weights.argmax())
    assert learned.speeds[winner] == best["keep"]
    if "pooled" in best:
        assert (winner < 3) == best["pooled"]
    assert weights.min() >= 0.01 * (1 - 1e-12)


def test_memory_does_not_grow(tmp_path):
    world = bl.environments.random_mdp(states=5, actions=3, horizon=4, seed=0)
    agent = bl.recommend(world.problem, information="bandit")
    sizes = []
    for k in range(400):
        episode = agent.begin_episode()
        path = world.mdp.play(episode.policy, np.random.default_rng(k), k)
        agent.observe([path, bl.Costs(k, np.full(4, 0.5))])
        if k in (100, 399):
            bl.save(agent, tmp_path / "agent")
            sizes.append((tmp_path / "agent").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 0.02 * sizes[0]
