"""O-REPS with costs of the next state, and with a last step that leads anywhere."""

import numpy as np
import pytest
from scipy.optimize import minimize

import belated as bl
import oracles
from belated.parts import Confidence

ETA = 0.4


def drive(world, agents, shown, K=25, seed=3):
    """The policies of several agents; shown: what each of them sees of a cost function."""
    rng, waiting, found = np.random.default_rng(seed), {}, []
    H, S, A = world.problem.shape
    for k in range(K):
        found.append([agent.begin_episode().policy for agent in agents])
        path = world.mdp.play(found[-1][0], rng, k)
        costs = rng.random((H if k % 3 else 1, S, A, S))
        waiting.setdefault(k + int(rng.integers(0, 4)), []).append((k, costs))
        for agent, show in zip(agents, shown, strict=True):
            late = [bl.Costs(j, show(values)) for j, values in waiting.get(k, [])]
            agent.observe([path, *late])
    return np.array(found)  # (K, agents, H, S, A)


@pytest.mark.parametrize("homogeneous", [True, False])
def test_with_known_transitions_only_means_matter(homogeneous):
    world = oracles.random_world(np.random.default_rng(0), 3, 3, 2, homogeneous)
    p, known = oracles.dense(world.mdp), {"transitions": world.mdp.transitions}
    agents = [
        bl.DelayedOREPS(world.problem, learning_rate=ETA, next_costs=flag, **known)
        for flag in (True, False)
    ]
    found = drive(world, agents, [lambda c: c, lambda c: (p * c).sum(-1)])
    np.testing.assert_allclose(found[:, 0], found[:, 1], atol=1e-9)
    assert np.ptp(found[-1, 0], axis=-1).max() > 0.1
    told = [agent.diagnostics()["cost"] for agent in agents]
    assert told[0] == pytest.approx(told[1])


@pytest.mark.parametrize("homogeneous", [True, False])
def test_costs_that_ignore_the_next_state_are_ordinary_costs(homogeneous):
    world = oracles.random_world(np.random.default_rng(1), 3, 3, 2, homogeneous)
    agents = [
        bl.DelayedOREPS(
            world.problem, transitions=Confidence(0.01), learning_rate=ETA, next_costs=flag
        )
        for flag in (True, False)
    ]
    same = [lambda c: np.repeat(c[..., :1], 3, axis=3), lambda c: c[..., 0]]
    found = drive(world, agents, same)
    np.testing.assert_allclose(found[:, 0], found[:, 1], atol=1e-9)


def least(low, high, weights, start):
    """argmin over measures (H, S, A, S) of sum q (log q - weights), by SLSQP on (q > 0)."""
    H, S, A, _ = weights.shape
    index = np.arange(weights.size).reshape(weights.shape)
    equal, above = [], []
    for h, s in np.ndindex(H, S):
        row = np.zeros(weights.size)
        row[index[h, s]] = 1.0
        if h:
            row[index[h - 1, :, :, s]] -= 1.0
        equal.append((row, 0.0 if h else start[s]))
    for h, s, a, t in np.ndindex(H, S, A, S):
        for bound, sign in ((low, 1.0), (high, -1.0)):
            row = np.zeros(weights.size)
            row[index[h, s, a, t]] += sign
            row[index[h, s, a]] -= sign * bound[h, s, a, t]
            above.append(row)
    rows, sums = np.array([row for row, _ in equal]), np.array([value for _, value in equal])
    flat = weights.ravel()

    def value(q):
        return np.sum(q * (np.log(q) - flat)), np.log(q) + 1 - flat

    first = np.full(weights.size, 1 / (S * A * S))
    found = minimize(
        value,
        first,
        jac=True,
        method="SLSQP",
        bounds=[(1e-12, 1)] * weights.size,
        constraints=[
            {"type": "eq", "fun": lambda q: rows @ q - sums, "jac": lambda q: rows},
            {
                "type": "ineq",
                "fun": lambda q: np.array(above) @ q,
                "jac": lambda q: np.array(above),
            },
        ],
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return found.x.reshape(weights.shape)


@pytest.mark.parametrize("last_step", ["counted", "free"])
@pytest.mark.parametrize("next_costs", [True, False])
def test_an_update_is_that_of_a_general_solver(last_step, next_costs):
    """Whole runs, dense boxes; the start is drawn, so that every state is within reach."""
    H, S, A, K, scale = 2, 2, 2, 8, 0.01
    rng = np.random.default_rng(2)
    start = (0.6, 0.4)
    world = oracles.random_world(rng, H, S, A, start=start)
    agent = bl.DelayedOREPS(
        world.problem,
        transitions=Confidence(scale, episodes=K),
        learning_rate=ETA,
        last_step=last_step,
        next_costs=next_costs,
    )
    log = np.log(H * S * A * K / 0.4)
    counts, q, paid = np.zeros((H, S, A, S)), np.full((H, S, A, S), 1 / (S * S * A)), 0.0
    for k in range(K):
        n = counts.sum(-1, keepdims=True)
        mean, m = counts / np.maximum(n, 1), np.maximum(n, 1)
        radius = scale * (4 * np.sqrt(mean * (1 - mean) * log / m) + 10 * log / m)
        radius[n[..., 0] == 0] = 1.0
        low, high = np.maximum(mean - radius, 0), np.minimum(mean + radius, 1)
        if last_step == "free":
            low[-1], high[-1] = 0, 1
        q = least(low, high, np.log(q) - paid, np.array(start))
        policy = agent.begin_episode().policy
        expected = q.sum(-1) / q.sum((-1, -2))[..., None]
        np.testing.assert_allclose(policy, expected, atol=2e-4)
        path = world.mdp.play(policy, rng, k)
        np.add.at(counts, (np.arange(H), path.states[:-1], path.actions, path.states[1:]), 1)
        costs = rng.random((H, S, A, S) if next_costs else (H, S, A))
        paid = ETA * (costs if next_costs else costs[..., None])
        agent.observe([path, bl.Costs(k, costs)])


def test_a_free_last_step_does_not_see_where_it_leads():
    world = oracles.random_world(np.random.default_rng(4), 3, 3, 2)
    rng = np.random.default_rng(5)

    def agents(last_step):
        return [
            bl.DelayedOREPS(
                world.problem,
                transitions=Confidence(0.003),
                learning_rate=ETA,
                last_step=last_step,
            )
            for _ in range(2)
        ]

    groups, apart = (
        {"free": agents("free"), "counted": agents("counted")},
        dict.fromkeys(("free", "counted"), 0.0),
    )
    for k in range(30):
        for name, pair in groups.items():
            policies = [agent.begin_episode().policy for agent in pair]
            apart[name] = max(apart[name], np.abs(policies[0] - policies[1]).max())
        path = world.mdp.play(np.full((3, 3, 2), 0.5), rng, k)
        moved = bl.Trajectory(k, [*path.states[:-1], 0], path.actions)
        costs = bl.Costs(k, rng.random((3, 3, 2)))
        for pair in groups.values():
            pair[0].observe([path, costs])
            pair[1].observe([moved, costs])
    assert apart["free"] == 0.0
    assert apart["counted"] > 0.005


def test_what_is_refused_and_what_is_saved(tmp_path):
    world = oracles.random_world(np.random.default_rng(0), 2, 3, 2)
    known = {"transitions": world.mdp.transitions, "learning_rate": ETA}
    with pytest.raises(ValueError, match="last_step must be left out with known transitions"):
        bl.DelayedOREPS(world.problem, last_step="free", **known)
    with pytest.raises(ValueError, match="did you mean 'free'"):
        bl.DelayedOREPS(world.problem, learning_rate=ETA, last_step="fre")
    agent = bl.DelayedOREPS(world.problem, learning_rate=ETA, last_step="free", next_costs=True)
    agent.begin_episode()
    with pytest.raises(bl.FeedbackError, match=r"must have shape \(1, 3, 2, 3\) or \(2, 3, 2, 3\)"):
        agent.observe([bl.Costs(0, np.zeros((2, 3, 2)))])
    plain = bl.DelayedOREPS(world.problem, **known)
    plain.begin_episode()
    with pytest.raises(bl.FeedbackError, match=r"must have shape \(1, 3, 2\) or \(2, 3, 2\)"):
        plain.observe([bl.Costs(0, np.zeros((2, 3, 2, 3)))])
    rng = np.random.default_rng(1)
    agent.observe([bl.Trajectory(0, [0, 1, 2], [0, 1]), bl.Costs(0, rng.random((2, 3, 2, 3)))])
    bl.save(agent, tmp_path / "agent")
    copy = bl.load(tmp_path / "agent")
    assert repr(copy) == repr(agent)
    for _ in range(3):
        k = agent.begun
        assert np.array_equal(agent.begin_episode().policy, copy.begin_episode().policy)
        costs = bl.Costs(k, rng.random((1, 3, 2, 3)))
        for each in (agent, copy):
            each.observe([costs])
