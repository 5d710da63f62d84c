"""Delayed FTRL: solves against their conditions and a cone solver, estimates over all paths."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
import oracles
from belated import tuning
from belated.agents.oreps import barrier as kernels
from belated.tuning import Setting


def sparse_world(seed, H=3, S=4, A=2, homogeneous=False, spread=False):
    """Rows with one to three successors, so that some states are out of reach at some steps."""
    rng = np.random.default_rng(seed)
    p = np.zeros((1 if homogeneous else H, S, A, S))
    for row in np.ndindex(p.shape[:3]):
        some = rng.choice(S, int(rng.integers(1, 4)), replace=False)
        p[row][some] = rng.dirichlet(np.ones(some.size))
    start = rng.dirichlet(np.ones(S)) if spread else 0
    mdp = bl.MDP(bl.Transitions.from_dense(p[0] if homogeneous else p), H, start)
    return bl.World(mdp, bl.costs.sequence(rng.random((40, H, S, A)))), oracles.dense(mdp)


def solved(world, eta, rho, L):
    """The measure (H, S, A) of the agent after estimated costs L, and the agent."""
    agent = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=eta, barrier=rho
    )
    agent._total[:] = L
    policy = agent.begin_episode().policy
    assert agent.diagnostics()["unconverged"] == 0
    start = world.problem.start_probabilities
    return oracles.occupancy(oracles.dense(world.mdp), policy, start), agent


def conditions(p, start, eta, rho, L, w):
    """How far the objective is from stationary on the flow constraints, over (h, s, a, s').

    The variables are w(h, s, a) on what is within reach; each enters once per successor.
    """
    H, S, A, _ = p.shape
    used = [(h, s, a) for h, s, a in np.ndindex(H, S, A) if w[h, s, a] > 0]
    flow = np.zeros((H * S, len(used)))
    gradient = np.zeros(len(used))
    for i, (h, s, a) in enumerate(used):
        flow[h * S + s, i] += 1
        if h + 1 < H:
            flow[(h + 1) * S : (h + 2) * S, i] -= p[h, s, a]
        for q in p[h, s, a][p[h, s, a] > 0]:
            x = w[h, s, a] * q
            gradient[i] += q * (math.log(x) + 1) - rho * q / x
        gradient[i] += eta * L[h, s, a]
    multipliers = np.linalg.lstsq(flow.T, gradient, rcond=None)[0]
    return np.max(np.abs(gradient - flow.T @ multipliers) / (1 + np.abs(gradient)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rho", [1e-3, 0.1, 30.0])
def test_solutions_satisfy_their_conditions(seed, rho):
    world, p = sparse_world(seed, homogeneous=seed % 2 == 0, spread=seed % 3 == 0)
    rng = np.random.default_rng(seed)
    L = rng.exponential(30.0, world.problem.shape) * (rng.random(world.problem.shape) < 0.6)
    w, _ = solved(world, 0.05, rho, L)
    assert conditions(p, world.problem.start_probabilities, 0.05, rho, L, w) < 1e-9


def cone(p, start, eta, rho, L):
    """The same problem over (h, s, a, s') as a cone program, with tight tolerances: (H, S, A)."""
    H, S, A, _ = p.shape
    reach = np.zeros((H, S), bool)
    reach[0] = start > 0
    for h in range(H - 1):
        reach[h + 1] = (p[h][reach[h]] > 0).any(axis=(0, 1))
    index = {
        key: i
        for i, key in enumerate(
            (h, s, a, y)
            for h, s, a, y in np.ndindex(H, S, A, S)
            if reach[h, s] and p[h, s, a, y] > 0
        )
    }
    w = cp.Variable(len(index))
    constraints = []
    for h, s in zip(*np.nonzero(reach), strict=True):
        out = sum(w[i] for (g, x, _, _), i in index.items() if (g, x) == (h, s))
        into = start[s]
        if h > 0:
            into = sum(w[i] for (g, _, _, y), i in index.items() if (g, y) == (h - 1, s))
        constraints.append(out == into)
    for h, s, a in dict.fromkeys(key[:3] for key in index):
        first, *others = [(i, p[key]) for key, i in index.items() if key[:3] == (h, s, a)]
        constraints += [w[i] / share == w[first[0]] / first[1] for i, share in others]
    costs = np.array([eta * L[key[:3]] for key in index])
    objective = costs @ w - cp.sum(cp.entr(w)) - rho * cp.sum(cp.log(w))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio"), 1e-14)
    with np.errstate(all="ignore"):
        problem.solve(solver=cp.CLARABEL, **tight, max_iter=300)
    assert problem.status == "optimal"
    found = np.zeros((H, S, A))
    for (h, s, a, _), i in index.items():
        found[h, s, a] += w.value[i]
    return found


@pytest.mark.parametrize("seed", [0, 2, 3, 7])  # at 1, the cone solver stops at 8e-8
def test_solutions_are_those_of_a_cone_solver(seed):
    world, p = sparse_world(seed, H=3, S=3, spread=seed == 2)
    rng = np.random.default_rng(seed)
    L = rng.exponential(20.0, world.problem.shape)
    w, _ = solved(world, 0.05, 0.3, L)
    other = cone(p, world.problem.start_probabilities, 0.05, 0.3, L)
    assert np.max(np.abs(w - other)) < 1e-8


def paths(p, policy, start):
    """Every path (states (H + 1,), actions (H,)) with its probability."""
    H, S, A, _ = p.shape
    for states in itertools.product(range(S), repeat=H + 1):
        for actions in itertools.product(range(A), repeat=H):
            chance = start[states[0]]
            for h, (s, a, y) in enumerate(zip(states, actions, states[1:], strict=False)):
                chance *= policy[h, s, a] * p[h, s, a, y]
            if chance > 0:
                yield chance, np.array(states), np.array(actions)


def test_estimates_are_unbiased_over_all_paths():
    world, p = sparse_world(1, H=2, S=3)
    costs = np.random.default_rng(0).random(world.problem.shape)
    L = np.random.default_rng(1).exponential(20.0, world.problem.shape)
    policy = solved(world, 0.1, 0.01, L)[1]._policy
    start = world.problem.start_probabilities
    mean, total = np.zeros(world.problem.shape), 0.0
    for chance, states, actions in paths(p, policy, start):
        _, agent = solved(world, 0.1, 0.01, L)
        suffered = costs[np.arange(2), states[:-1], actions]
        agent.observe([bl.Trajectory(0, states, actions), bl.Costs(0, suffered)])
        mean += chance * (agent._total - L)
        total += chance
    reached = oracles.occupancy(p, policy, start) > 0
    assert abs(total - 1) < 1e-12
    assert np.max(np.abs(mean - costs * reached)) < 1e-12


def test_feedback_counts_when_it_arrives_and_divides_by_what_was_played():
    world, p = sparse_world(4)
    agent = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=0.2, barrier=0.05
    )
    start, rng = world.problem.start_probabilities, np.random.default_rng(0)
    L, waiting, H = np.zeros(world.problem.shape), {}, world.problem.horizon
    for k in range(20):
        policy = agent.begin_episode().policy
        w = oracles.occupancy(p, policy, start)
        assert conditions(p, start, 0.2, 0.05, L, w) < 1e-9
        path, costs = world.mdp.play(policy, rng, k), rng.random(H)
        waiting.setdefault(k + int(rng.integers(0, 5)), []).append((k, path, costs, w))
        for j, path, costs, w in waiting.pop(k, []):
            at = (np.arange(H), path.states[:-1], path.actions)
            L[at] += costs / w[at]
            agent.observe([path, bl.Costs(j, costs)])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    eta=st.sampled_from([1e-6, 1.0, 1e6]),
    rho=st.sampled_from([1e-6, 1.0, 1e5]),
    size=st.sampled_from([0.0, 1.0, 1e4, 1e12]),
)
def test_policies_are_distributions_whatever_comes(seed, eta, rho, size):
    world, _ = sparse_world(seed, H=1 + seed % 4, S=4, A=1 + seed % 3)
    agent = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=eta, barrier=rho
    )
    rng = np.random.default_rng(seed)
    for _ in range(3):
        policy = agent.begin_episode().policy
        assert np.all(policy >= 0)
        np.testing.assert_allclose(policy.sum(axis=2), 1.0, atol=1e-12)
        agent._total += size * rng.random(agent._total.shape)
        agent._stale = True


def test_the_barrier_row_is_solved_to_the_last_digits():
    for z in (-1e3, -50.0, -40.0, -39.9, -1.0, 0.0, 0.999, 1.0, 3.0, 1e3, 1e12, 1e300):
        u = kernels.exponent(z)
        assert abs(math.exp(u) + u - z) <= 1e-13 * max(1.0, abs(z))


def test_one_step_is_a_bandit_with_the_hybrid_regulariser():
    world = bl.environments.bandit([0.1, 0.5, 0.9])
    agent = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=0.5, barrier=0.2
    )
    agent._total[0, 0] = (0.0, 3.0, 8.0)
    x = agent.begin_episode().policy[0, 0]
    slopes = 0.5 * np.array([0.0, 3.0, 8.0]) + np.log(x) - 0.2 / x
    assert np.ptp(slopes) < 1e-11


def test_constants_of_the_paper_and_of_practice():
    problem = bl.Problem(5, 3, 4)
    for K, D, largest in ((10**3, 2000.0, 2), (10**9, 1e10, 10)):
        stable, N = 4 * (1 + largest) ** 2, 15 * K + D
        eta = min(1 / (256 * stable), 1 / math.sqrt(N * math.log(60 * K)))
        found = tuning.ftrl(problem, K, D, max_delay=largest)
        assert found["learning_rate"] == pytest.approx(eta, rel=1e-14)
        assert found["learning_rate"] / found["barrier"] == pytest.approx(1 / (4096 * stable))
    practical = tuning.ftrl(problem, 1000, 500.0)
    assert practical["learning_rate"] == pytest.approx(math.sqrt(math.log(4 * 15500) / 15500))
    setting = Setting(information="bandit", dynamics="known", ftrl=True)
    assert setting.phase(problem, 15500).learning_rate == practical["learning_rate"]
    assert setting.bound(problem, 100, 400) == pytest.approx(4 * math.sqrt(1500) + 80)


def test_the_printed_step_size_misses_its_bound():
    """The penalty of the proof alone, 2 H ln(S A T) / eta, against all of the bound."""
    problem, T = bl.Problem(2, 2, 2), 2**53
    H, S, A = problem.shape
    eta = tuning.ftrl(problem, T, 0.0, max_delay=0)["learning_rate"]
    log = math.log(H * S * A * T)
    bound = 10 * H * math.sqrt(S * A * T * log) + 7e5 * H**2 * S**2 * A
    assert eta < 1 / (256 * H)
    assert 2 * H * math.log(S * A * T) / eta > 1.5 * bound
    right = math.sqrt(log / (S * A * T))
    assert 2 * H * math.log(S * A * T) / right < 0.3 * bound


def test_the_measure_of_lemma_6_is_not_in_its_set():
    """Where a state is out of reach, w~ is 1 / (T^3 H^2 S^4 A^3) there; the set has A^2."""
    T, H, S, A = 10, 2, 3, 2
    p = np.zeros((H, S, A, S))
    p[..., 0] = 1.0  # states 1 and 2 are never reached
    near = (1 - 1 / (T * H * S * A)) * p + 1 / (T * H * S**2 * A)
    start = np.eye(S)[0]
    uniform = np.full((H, S, A), 1 / A)
    mixed = [
        (1 - 1 / T) * w[..., None] * law + 1 / T * v[..., None] * other
        for w, law, v, other in zip(
            oracles.occupancy(p, uniform, start),
            p,
            oracles.occupancy(near, uniform, start),
            near,
            strict=True,
        )
    ]
    least = 1 / (T**3 * H**2 * S**4 * A**2)
    assert mixed[1].min() == pytest.approx(least / A)
    assert mixed[0][1:].max() == 0.0 < least  # nothing but the start at the first step


@pytest.mark.slow
def test_it_learns_with_delays():
    world = bl.environments.random_mdp(4, 2, 3, seed=5)
    agent = bl.DelayedFTRL(
        world.problem,
        transitions=world.mdp.transitions,
        **tuning.ftrl(world.problem, 1500, 1500 * 5),
    )
    run = bl.simulate(world, agent, delays=bl.delays.fixed(5), episodes=1500, seed=2)
    assert run.score < 0.6
    assert agent.diagnostics()["unconverged"] == 0


def test_transitions_must_be_known():
    problem = bl.Problem(3, 2, 2)
    with pytest.raises(ValueError, match="transitions"):
        bl.DelayedFTRL(problem, transitions=None, learning_rate=0.1, barrier=0.1)
    world, _ = sparse_world(0)
    with pytest.raises(ValueError, match="barrier"):
        bl.DelayedFTRL(
            world.problem, transitions=world.mdp.transitions, learning_rate=0.1, barrier=0.0
        )
