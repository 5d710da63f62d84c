"""Delayed FTRL: solutions against their conditions and cone solvers, estimates over all paths."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
import oracles
from belated import tuning
from belated.tabular.oreps import barrier as kernels
from belated.tabular.oreps.doubling import DoublingFTRL
from settings import Setting


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


def solved(world, eta, rho, L, **given):
    """The measure (H, S, A) of the agent after estimated costs L, and the agent."""
    agent = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=eta, barrier=rho, **given
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


GAPS = ("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio")


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
    cp = pytest.importorskip("cvxpy")
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
    with np.errstate(all="ignore"):
        problem.solve(solver=cp.CLARABEL, **dict.fromkeys(GAPS, 1e-14), max_iter=300)
    assert problem.status == "optimal"
    found = np.zeros((H, S, A))
    for (h, s, a, _), i in index.items():
        found[h, s, a] += w.value[i]
    return found


@pytest.mark.parametrize("seed", [0, 2, 3, 7])
@pytest.mark.long
def test_solutions_are_those_of_a_cone_solver(seed):
    world, p = sparse_world(seed, H=3, S=3, spread=seed == 2)
    L = np.random.default_rng(seed).exponential(20.0, world.problem.shape)
    w, _ = solved(world, 0.05, 0.3, L)
    other = cone(p, world.problem.start_probabilities, 0.05, 0.3, L)
    assert np.max(np.abs(w - other)) < 1e-8


class Reduced:
    """The problem on the w(h, s, a) within reach: flow w = right, and the terms of the objective.

    The objective is the sum of linear w + w ln w - barrier ln w; `linear` holds the costs and the
    entropy of p.
    """

    def __init__(self, p, start, eta, rho, L):
        H, S, A, _ = p.shape
        self.reach = oracles.occupancy(p, np.full((H, S, A), 1 / A), start) > 0
        rows = np.argwhere(self.reach)
        states = [tuple(state) for state in np.argwhere(self.reach.any(axis=2))]
        self.flow = np.zeros((len(states), len(rows)), np.longdouble)
        self.right = np.array([start[s] if h == 0 else 0 for h, s in states], np.longdouble)
        self.linear = np.zeros(len(rows), np.longdouble)
        self.barrier = np.zeros(len(rows), np.longdouble)
        for i, (h, s, a) in enumerate(rows):
            law = p[h, s, a].astype(np.longdouble)
            self.flow[states.index((h, s)), i] += 1
            for y in np.nonzero(law)[0] if h + 1 < H else ():
                self.flow[states.index((h + 1, y)), i] -= law[y]
            law = law[law > 0]
            self.linear[i] = eta * L[h, s, a] + np.sum(law * np.log(law))
            self.barrier[i] = rho * len(law)

    def measure(self, w):
        found = np.zeros(self.reach.shape)
        found[self.reach] = w
        return found


@pytest.mark.long
def test_solutions_are_those_of_another_cone_solver():
    """At this seed Clarabel stops early, as it says itself ("optimal_inaccurate"), 8e-8 off."""
    world, p = sparse_world(1, H=3, S=3)
    L = np.random.default_rng(1).exponential(20.0, world.problem.shape)
    given = Reduced(p, world.problem.start_probabilities, 0.05, 0.3, L)
    flow, right, linear, barrier = (
        part.astype(float) for part in (given.flow, given.right, given.linear, given.barrier)
    )
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(len(linear))
    objective = linear @ w - cp.sum(cp.entr(w)) - barrier @ cp.log(w)
    problem = cp.Problem(cp.Minimize(objective), [flow @ w == right])
    problem.solve(solver=cp.SCS, eps_abs=1e-11, eps_rel=1e-11, max_iters=200_000)
    assert problem.status == "optimal"
    ours, _ = solved(world, 0.05, 0.3, L)
    assert np.max(np.abs(ours - given.measure(w.value))) < 1e-9


def in_long_double(p, start, eta, rho, L):
    """The solution by Newton's method on w and the multipliers of its flow, in long double."""
    given = Reduced(p, start, eta, rho, L)
    flow, right, linear, barrier = given.flow, given.right, given.linear, given.barrier
    w, multipliers = np.full(len(linear), np.longdouble(0.1)), np.zeros(len(right), np.longdouble)
    for _ in range(60):
        off = linear + 1 + np.log(w) - barrier / w - flow.T @ multipliers
        curved = 1 / w + barrier / w**2
        side = right - flow @ w + flow @ (off / curved)
        change = eliminated((flow / curved) @ flow.T, side)
        step = (flow.T @ change - off) / curved
        length = min(1, 0.99 / max(np.max(-step / w), 1e-9))
        w, multipliers = w + length * step, multipliers + length * change
    assert max(np.abs(off).max(), np.abs(flow @ w - right).max()) < 1e-14
    return given.measure(w)


def eliminated(matrix, side):
    """The solution of matrix x = side in their precision; the matrix is positive definite."""
    n = len(side)
    both = np.column_stack([matrix, side])
    for i in range(n):
        both[i] /= both[i, i]
        for j in range(n):
            if j != i:
                both[j] -= both[j, i] * both[i]
    return both[:, n]


@pytest.mark.parametrize("seed", range(4))
def test_solutions_are_those_in_higher_precision(seed):
    world, p = sparse_world(seed, H=3, S=3, spread=seed == 2)
    L = np.random.default_rng(seed).exponential(20.0, world.problem.shape)
    for rho in (0.01, 0.3, 16.0):
        w, _ = solved(world, 0.05, rho, L)
        wanted = in_long_double(p, world.problem.start_probabilities, 0.05, rho, L)
        assert np.max(np.abs(w - wanted)) < 1e-10


def printed(p, start, eta, rho, L, T):
    """Line 3 as printed: p within 1 / (T H S A), w at least 1 / (T^3 H^2 S^4 A^2). (H, S, A).

    At the first step only start states have rows: with other rows nothing is feasible (L5).
    Variables of impossible transitions are measured in 1 / (T H S A).
    """
    cp = pytest.importorskip("cvxpy")
    H, S, A, _ = p.shape
    eps, least = 1 / (T * H * S * A), 1 / (T**3 * H**2 * S**4 * A**2)
    constraints, objective, found, last = [], 0, [], None
    for h in range(H):
        states = np.nonzero(start)[0] if h == 0 else np.arange(S)
        law = p[h, states].reshape(-1, S)
        units = np.where(law > 0, 1.0, eps)
        x = cp.Variable(law.shape)
        w = cp.multiply(units, x)
        mass = cp.sum(w, axis=1)
        spread = cp.reshape(mass, (len(law), 1), order="C") @ np.ones((1, S))
        constraints += [
            x <= cp.multiply((law + eps) / units, spread),
            x >= cp.multiply(np.maximum(law - eps, 0) / units, spread),
            x >= least / units,
        ]
        for i, s in enumerate(states):
            into = start[s] if h == 0 else cp.sum(last[:, s])
            constraints.append(cp.sum(mass[i * A : (i + 1) * A]) == into)
        objective += eta * L[h, states].ravel() @ mass - cp.sum(cp.entr(w))
        objective -= rho * cp.sum(cp.log(x))
        found.append((states, mass))
        last = w
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, **dict.fromkeys(GAPS, 1e-10), max_iter=300)
    assert problem.status == "optimal"
    measure = np.zeros((H, S, A))
    for h, (states, mass) in enumerate(found):
        measure[h, states] = mass.value.reshape(-1, A)
    return measure


def from_the_printed_set(world, p, constants, T, impossible):
    """How far policies are from those of the printed set, after costs of the order of T."""
    eta, rho = constants(world.problem, T)
    L = T * np.random.default_rng(T).random(world.problem.shape)
    _, agent = solved(world, eta, rho, L, impossible=impossible)
    policy = agent.begin_episode().policy
    w = printed(p, world.problem.start_probabilities, eta, rho, L, T)
    mass = w.sum(axis=2, keepdims=True)
    *_, within, _ = agent._rows
    return np.max(np.abs(w / np.where(mass > 0, mass, 1) - policy)[within])


def as_printed(problem, T):
    return tuple(tuning.ftrl(problem, T, 0.0, max_delay=1).values())


def for_practice(problem, T):
    return tuple(tuning.ftrl(problem, T, 0.0).values())


@pytest.mark.long
@pytest.mark.parametrize(
    ("constants", "T"),
    [
        (as_printed, 10),
        (as_printed, 100),
        (as_printed, 1000),
        (for_practice, 10),
        (for_practice, 100),
    ],
)
def test_the_printed_set_differs_by_a_multiple_of_1_over_T(constants, T):
    """At most 0.2 / T where every transition is possible; with `impossible`, everywhere."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(2), size=(2, 2, 2))
    mdp = bl.MDP(bl.Transitions.from_dense(p), 2, np.array([0.6, 0.4]))
    world = bl.World(mdp, bl.costs.sequence(rng.random((1, 2, 2, 2))))
    assert from_the_printed_set(world, p, constants, T, impossible=False) < 0.2 / T
    world, p = sparse_world(7, H=3, S=3)
    assert from_the_printed_set(world, p, constants, T, impossible=True) < 0.2 / T
    if constants is as_printed:
        assert 0.1 < from_the_printed_set(world, p, constants, T, impossible=False) < 0.3


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


def printed_constants(problem, N, rows, largest):
    H = problem.horizon
    eta = min(1 / (256 * H * (1 + largest) ** 2), 1 / math.sqrt(N * math.log(H * rows)))
    return eta, eta * 4096 * H * (1 + largest) ** 2


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("told", [False, True])
def test_doubling_over_the_largest_delay_is_algorithm_4(literal, told):
    """Every policy solves the program of its epoch. Without K and D, N is 2^e of Doubling."""
    world, p = sparse_world(4)
    problem, T, D = world.problem, 60, 300.0
    inside = bl.DelayedFTRL(problem, transitions=world.mdp.transitions, learning_rate=1, barrier=1)
    agent = DoublingFTRL(inside, literal=literal, totals=(T, D) if told else None)
    start, rng, H = problem.start_probabilities, np.random.default_rng(0), problem.horizon
    delays = rng.integers(0, 3, T)
    delays[[10, 25, 26, 40]] = 9, 3, 20, 2
    e, first, seen, L, waiting, epochs = 1, 0, [0], np.zeros(problem.shape), {}, []
    rows = problem.states * problem.actions * T
    for k in range(T):
        before = agent.phase, e
        if max(seen) >= 2**e:
            e += 1
            while not literal and max(seen) >= 2**e:
                e += 1
        policy = agent.begin_episode().policy
        N = 2.0**agent.phase
        eta, rho = printed_constants(problem, rows + D if told else N, rows if told else N, 2**e)
        if ((0 if told else agent.phase), e) != ((0 if told else before[0]), before[1]):
            first, L = k, np.zeros(problem.shape)
        epochs.append(e)
        assert agent.delay_phase == e
        assert inside.diagnostics()["learning_rate"] == pytest.approx(eta, rel=1e-13)
        assert inside.diagnostics()["barrier"] == pytest.approx(rho, rel=1e-13)
        w = oracles.occupancy(p, policy, start)
        assert conditions(p, start, eta, rho, L, w) < 1e-9
        path, costs = world.mdp.play(policy, rng, k), rng.random(H)
        waiting.setdefault(k + delays[k], []).append((k, path, costs, w))
        for j, path, costs, w in waiting.pop(k, []):
            seen.append(k - j)
            if j >= first:
                at = (np.arange(H), path.states[:-1], path.actions)
                L[at] += costs / w[at]
            agent.observe([path, bl.Costs(j, costs)])
    assert L.any()
    steps = set(np.diff(epochs))
    assert epochs[-1] == 5
    assert steps == ({0, 1} if literal else {0, 1, 2})


def test_only_ftrl_is_doubled_over_the_largest_delay():
    problem = bl.Problem(3, 2, 2)
    world, _ = sparse_world(0)
    ftrl = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=1, barrier=1
    )
    with pytest.raises(ValueError, match=r"agent must be a DelayedFTRL, got UOBREPS"):
        DoublingFTRL(bl.UOBREPS(problem, learning_rate=1, exploration=1))
    for totals in ((10,), 10, (0, 1), (10, -1)):
        with pytest.raises(ValueError, match="totals"):
            DoublingFTRL(ftrl, totals=totals)


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


def surest(p, h, s, a):
    """A policy that reaches s at step h with the largest probability, and plays a there."""
    H, S, A, _ = p.shape
    policy, chance = np.full((H, S, A), 1 / A), np.eye(S)[s]
    policy[h, s] = np.eye(A)[a]
    for t in reversed(range(h)):
        q = p[t] @ chance
        policy[t], chance = np.eye(A)[q.argmax(1)], q.max(1)
    return policy


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("K", [2, 50])
@pytest.mark.parametrize("impossible", [False, True])
def test_the_facts_that_replace_lemma_6(seed, K, impossible):
    """The page's proof: w~ loses at most 2 H and is not far from w^1, nor is its regulariser."""
    world, p = sparse_world(seed, spread=seed == 2)
    (H, S, A), start = world.problem.shape, world.problem.start_probabilities
    eta, rho = 0.05, 0.3
    first, _ = solved(world, eta, rho, np.zeros((H, S, A)), impossible=impossible)
    cells = np.ndindex(H, S, A)
    mean = np.mean([oracles.occupancy(p, surest(p, *cell), start) for cell in cells], axis=0)
    used = first[..., None] * p > 0
    rng = np.random.default_rng(seed)

    def regulariser(w):
        x = (w[..., None] * p)[used]
        logs = np.sum(np.log(x))
        if impossible:  # all next states count, impossible ones with the mass of the row
            rows = first > 0
            logs += np.sum((S - (p > 0).sum(axis=3))[rows] * np.log(w[rows]))
        return np.sum(x * np.log(x)) / eta - rho / eta * logs

    for _ in range(5):
        best = oracles.occupancy(p, np.eye(A)[rng.integers(A, size=(H, S))], start)
        near = (1 - 1 / K) * best + mean / K
        assert np.all(near >= first / (H * S * A * K) - 1e-15)
        assert K * np.max(np.abs(near - best).sum()) <= 2 * H
        most = H * math.log(S * S * A) / eta
        most += rho / eta * H * S * S * A * math.log(H * S * A * K)
        assert regulariser(near) - regulariser(first) <= most


def test_the_printed_bound_says_nothing_about_a_run():
    """Theorem 7 is below H K, the cost that cannot be exceeded, from K = 2.7e8 on."""
    H, S, A, d = 3, 4, 2, 1

    def useful(K):
        log = math.log(H * S * A * K)
        bound = 10 * H * (math.sqrt(S * A * K * log) + math.sqrt(d * K * log))
        return bound + 7e5 * H**2 * S**2 * A * (1 + d) ** 2 < H * K

    assert not useful(2.71e8)
    assert useful(2.73e8)


@pytest.mark.long
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
