"""Delayed OPPO with known transitions: T1 to T4, T16, T20, T24."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core.arrays import frozen
from belated.parts import Softmax, Weighted
from belated.tabular.parts.costs import importance_weighted
from belated.tabular.parts.transitions import Model
from twins import Counting


def plain_oppo(p, costs, eta, K):
    """OPPO without delays, one scalar at a time; yields the policies."""
    H, S, A = costs[0].shape
    total = [[[0.0] * A for _ in range(S)] for _ in range(H)]
    policy = [[[1.0 / A] * A for _ in range(S)] for _ in range(H)]
    for k in range(K):
        yield np.array(policy)
        after = [0.0] * S
        for h in reversed(range(H)):
            now = []
            for s in range(S):
                value = 0.0
                for a in range(A):
                    q = float(costs[k][h, s, a])
                    for s2 in range(S):
                        q += float(p[h, s, a, s2]) * after[s2]
                    total[h][s][a] += q
                    value += policy[h][s][a] * q
                now.append(value)
            after = now
        for h in range(H):
            for s in range(S):
                row = total[h][s]
                least = min(row)
                row[:] = [x - least for x in row]
                weights = [math.exp(-(eta * x)) for x in row]
                normaliser = 0.0
                for w in weights:
                    normaliser += w
                policy[h][s] = [w / normaliser for w in weights]


def played(agent, costs, delays):
    """Policies of an agent that sees full information, with these delays."""
    line = bl.DelayLine()
    for k in range(len(delays)):
        yield agent.begin_episode().policy
        line.push([bl.Costs(k, costs[k])], int(delays[k]))
        agent.observe(line.release(k))


@pytest.mark.parametrize("seed", range(5))
def test_without_delay_it_is_plain_oppo_bit_for_bit(seed):
    """T1."""
    world = oracles.random_world(np.random.default_rng(seed))
    costs = [world.costs.at(k) for k in range(40)]
    agent = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions, update=Softmax(0.7))
    plain = plain_oppo(oracles.dense(world.mdp), costs, 0.7, 40)
    for mine, other in zip(played(agent, costs, np.zeros(40)), plain, strict=True):
        assert np.array_equal(mine, other)


@given(st.integers(0, 10_000), st.floats(0.01, 3.0))
def test_softmax_of_the_sum_is_the_multiplicative_update(seed, eta):
    """T2 with delays: pi^{k+1} = pi^k exp(-eta sum of Q^j) / Z, Q^j of the policy of episode j."""
    rng = np.random.default_rng(seed)
    world = oracles.random_world(rng)
    costs = [world.costs.at(k) for k in range(40)]
    delays = oracles.random_delays(rng, 40, largest=6)
    agent = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions, update=Softmax(eta))
    p, history, policy = oracles.dense(world.mdp), [], np.full((3, 4, 3), 1 / 3)
    for k, mine in enumerate(played(agent, costs, delays)):
        np.testing.assert_allclose(mine, policy, atol=1e-10)
        np.testing.assert_allclose(mine.sum(-1), 1.0, atol=1e-14)
        history.append(policy)
        for j in range(k + 1):
            if j + delays[j] == k:
                policy = policy * np.exp(-eta * oracles.values(p, costs[j], history[j])[1])
        policy = policy / policy.sum(-1, keepdims=True)


def random_run(seed, learning_rate=None, scale=1.0):
    rng = np.random.default_rng(seed)
    H, S, A = (int(rng.integers(1, 5)) for _ in range(3))
    world = oracles.random_world(rng, H, S, A, homogeneous=bool(rng.integers(2)))
    extreme = rng.random() < 0.5
    costs = rng.random((40, H, S, A))
    world = bl.World(world.mdp, bl.costs.sequence(np.round(costs) if extreme else costs))
    delays = oracles.random_delays(rng, 40, rng.random() * 0.5, int(rng.integers(0, 40)))
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=world.mdp.transitions,
        update=Softmax(learning_rate, scale),
    )
    return world.problem, bl.simulate(world, agent, delays=delays, episodes=40)


@given(st.integers(0, 100_000), st.floats(1e-3, 10.0))
def test_regret_bound_of_a_constant_rate(seed, eta):
    """T3: exact, for every cost sequence and delays, lost feedback included."""
    problem, run = random_run(seed, eta)
    H, A = problem.horizon, problem.actions
    squares = H * (H + 1) * (2 * H + 1) / 6
    bound = H * math.log(A) / eta + eta * (40 + run.total_delay) * squares
    assert run.regret[-1] <= bound + 1e-9


@given(st.integers(0, 100_000), st.sampled_from([1.0, 0.2, 5.0]))
def test_regret_bound_of_the_anytime_rule_at_every_episode(seed, c):
    """T4: for all K at once, against any fixed policy, here the best of the whole run."""
    problem, run = random_run(seed, scale=c)
    H, A = problem.horizon, problem.actions
    factor = (c + 1 / c) / 2 * H * (H + 1)
    bound = factor * math.sqrt(2 * math.log(A) * (40 + run.total_delay))
    assert run.regret[-1] <= bound + 1e-9
    pending = np.cumsum(np.concatenate([[0], run.missing[:-1]]) + 1)
    assert np.all(run.regret <= factor * np.sqrt(2 * math.log(A) * pending) + 1e-9)


def bandit_problem(A):
    return bl.MDP(bl.Transitions.from_dense(np.ones((1, A, 1))), 1)


@pytest.mark.parametrize(("rate", "gamma"), [(0.2, 0.05), (None, None)])
def test_one_state_and_one_step_is_delayed_exp3(rate, gamma):
    """T16: EXP3-IX in closed form, constant and anytime, transitions known or not."""
    A, K = 4, 200
    mdp = bandit_problem(A)
    rng = np.random.default_rng(0)
    delays = oracles.random_delays(rng, K, 0.1, 12)
    costs = rng.random((K, A))
    agents = [
        bl.DelayedOPPO(
            mdp.problem, transitions=transitions, costs=Weighted(gamma), update=Softmax(rate)
        )
        for transitions in (mdp.transitions, bl.parts.Confidence())
    ]
    total, history, pulled, weight = np.zeros(A), [], [], 0.0
    line, counting = bl.DelayLine(), Counting(A)
    for k in range(K):
        weight += A + counting.begin(k)[0]
        eta = math.sqrt(math.log(A) / (2 * weight)) if rate is None else rate
        pi = np.exp(-eta * (total - total.min()))
        pi /= pi.sum()
        history.append(pi)
        for agent in agents:
            np.testing.assert_allclose(agent.begin_episode().policy[0, 0], pi, atol=1e-12)
        pulled.append(int(rng.choice(A, p=pi)))
        records = [
            bl.Trajectory(k, [0, 0], pulled[k : k + 1]),
            bl.Costs(k, costs[k, pulled[k] :][:1]),
        ]
        line.push(records, int(delays[k]))
        released = line.release(k)
        for agent in agents:
            agent.observe(released)
        for j in range(k + 1):
            if j + delays[j] == k:
                counting.arrive(j, k)
                a = pulled[j]
                total[a] += costs[j, a] / (history[j][a] + (gamma or 0.0))


def test_full_information_with_one_state_is_delayed_hedge():
    A, K, eta = 3, 100, 0.4
    mdp = bandit_problem(A)
    rng = np.random.default_rng(1)
    delays, costs = oracles.random_delays(rng, K), rng.random((K, 1, 1, A))
    agent = bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions, update=Softmax(eta))
    arrival = np.arange(K) + delays
    for k, policy in enumerate(played(agent, costs, delays)):
        weights = np.exp(-eta * costs[arrival < k].sum(0).reshape(A))
        np.testing.assert_allclose(policy[0, 0], weights / weights.sum(), atol=1e-12)


@given(st.integers(0, 10_000), st.floats(1e-3, 2.0))
def test_bandit_estimates_are_bounded_and_optimistic(seed, gamma):
    """T19, T20: E[c-hat] = c q pi / (q pi + gamma), c-hat <= 1 / gamma, Q <= H / gamma."""
    rng = np.random.default_rng(seed)
    world = oracles.random_world(rng, 3, 3, 2)
    policy = frozen(rng.dirichlet(np.ones(2), (3, 3)))
    q, costs = bl.planning.occupancy(world.mdp, policy), world.costs.at(0)
    known = Model(world.problem, world.mdp.transitions)
    path = world.mdp.play(policy, rng)
    steps = np.arange(3)
    visited = (steps, path.states[:-1], path.actions)
    reach = known.reach(policy, path.states)
    np.testing.assert_allclose(reach, q.sum(-1)[steps, path.states[:-1]], atol=1e-13)
    estimate = importance_weighted(costs[visited], path, policy, reach, gamma)
    assert estimate.max() <= 1 / gamma + 1e-9
    expected = np.zeros((3, 3, 2))
    expected[visited] = (costs / (q + gamma))[visited]
    np.testing.assert_allclose(estimate, expected, atol=1e-12)
    total = np.zeros((3, 3, 2))
    known.add_q(estimate, policy, total)
    assert total.max() <= 3 / gamma + 1e-9


def test_mean_of_the_bandit_estimate():
    """T19: over 20,000 paths of a fixed policy, within 4.5 standard errors in all 18 cells."""
    rng = np.random.default_rng(7)
    world = oracles.random_world(rng, 3, 3, 2)
    policy = frozen(rng.dirichlet(np.ones(2), (3, 3)))
    q, costs, gamma, n = bl.planning.occupancy(world.mdp, policy), world.costs.at(0), 0.1, 20_000
    known = Model(world.problem, world.mdp.transitions)
    total = np.zeros((3, 3, 2))
    for _ in range(n):
        path = world.mdp.play(policy, rng)
        met = costs[np.arange(3), path.states[:-1], path.actions]
        total += importance_weighted(met, path, policy, known.reach(policy, path.states), gamma)
    expected = costs * q / (q + gamma)
    error = costs / (q + gamma) * np.sqrt(q * (1 - q) / n)
    assert np.all(np.abs(total / n - expected) <= 4.5 * error + 1e-12)
    assert np.all(expected <= costs)


@given(st.integers(0, 10_000), st.sampled_from([None, 0.5]))
def test_order_in_a_batch_and_constant_costs_of_a_step_do_not_matter(seed, learning_rate):
    """T24."""
    rng = np.random.default_rng(seed)
    world = oracles.random_world(rng)
    costs = [0.5 * world.costs.at(k) for k in range(40)]
    shifted = [c + rng.random((3, 1, 1)) * 0.5 for c in costs]
    delays = oracles.random_delays(rng, 40, largest=10)
    agents = [
        bl.DelayedOPPO(
            world.problem, transitions=world.mdp.transitions, update=Softmax(learning_rate)
        )
        for _ in range(3)
    ]
    line, shifted_line = bl.DelayLine(), bl.DelayLine()
    for k in range(40):
        one, two, three = (agent.begin_episode().policy for agent in agents)
        assert np.array_equal(one, two)
        np.testing.assert_allclose(one, three, atol=1e-10)
        line.push([bl.Costs(k, costs[k])], int(delays[k]))
        shifted_line.push([bl.Costs(k, shifted[k])], int(delays[k]))
        batch = line.release(k)
        agents[0].observe(batch)
        agents[1].observe([batch[i] for i in rng.permutation(len(batch))])
        agents[2].observe(shifted_line.release(k))


def test_bandit_feedback_learns_where_it_can():
    """A chain of two decisions; fixed seeds; the last fifth is at least 3 times closer to best."""
    p = np.zeros((2, 2, 2))
    p[:, 0, 0] = p[:, 1, 1] = 1
    mdp = bl.MDP(bl.Transitions.from_dense(p), 2)
    costs = np.array([[[0.9, 0.8], [0.9, 0.1]]])
    world = bl.World(mdp, bl.costs.stochastic(costs))
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=mdp.transitions,
        costs=Weighted(0.02),
        update=Softmax(0.01),
    )
    run = bl.simulate(world, agent, delays=bl.delays.geometric(5), episodes=2000, seed=3)
    gap = run.values - bl.planning.best_policy(mdp, costs)[1]
    # exact values of noisy episodes: average before comparing
    assert gap[-400:].mean() < gap[:400].mean() / 3


def test_needs_of_bandit_feedback_are_said():
    problem = bl.Problem(3, 2, 4)
    with pytest.raises(ValueError, match=r"Weighted\(exploration\) must be.*tuning.oppo_bandit"):
        bl.DelayedOPPO(problem, costs=Weighted(), update=Softmax(0.1))
    with pytest.raises(ValueError, match=r"Softmax\(learning_rate\) must be.*tuning.oppo_bandit"):
        bl.DelayedOPPO(problem, costs=Weighted(0.1))
    tuned = bl.tuning.oppo_bandit(problem, episodes=1000, total_delay=5000)
    costs, update = Weighted(tuned["exploration"]), Softmax(tuned["learning_rate"])
    bl.DelayedOPPO(problem, costs=costs, update=update)
    N = 2**1.5 * 1000 + 5000
    assert tuned == {"learning_rate": N ** (-2 / 3) / 4, "exploration": N ** (-1 / 3)}
    full = bl.tuning.oppo_full(problem, episodes=1000, total_delay=5000)
    assert full["learning_rate"] == pytest.approx(1 / (4 * math.sqrt(6000)))
    best = bl.tuning.oppo_full(problem, 1000, 5000, log_actions=True)["learning_rate"]
    assert best == pytest.approx(math.sqrt(math.log(2) / 6000) / 4)


@given(st.integers(0, 10_000))
def test_tuned_agents_stay_under_their_bound(seed):
    problem, reference = random_run(seed)
    tuned = bl.tuning.oppo_full(problem, 40, reference.total_delay)
    _, run = random_run(seed, tuned["learning_rate"])
    H, A = problem.horizon, problem.actions
    squares = H * (H + 1) * (2 * H + 1) / 6
    scale = math.sqrt(40 + run.total_delay)
    assert run.regret[-1] <= scale * (H * H * math.log(A) + squares / H) + 1e-9


def test_the_scale_of_the_anytime_bandit_rule():
    agent = bl.DelayedOPPO(bl.Problem(1, 3, 1), costs=Weighted(), update=Softmax(scale=2.0))
    agent.begin_episode()
    assert agent.diagnostics()["learning_rate"] == pytest.approx(2 * math.sqrt(math.log(3) / 6))
