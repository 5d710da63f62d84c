"""The optimistic backup and the upper occupancy bound, against linear programs and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import belated as bl
import oracles
from belated.core.arrays import frozen
from belated.tabular.kernels.optimism import (
    FEW,
    Box,
    confident,
    occupancy_bounds,
    plan,
    sort_values,
    with_bonus,
)
from belated.tabular.kernels.planning import Rows
from belated.tabular.parts.transitions import FrequencyModel


def dense_bounds(box, S):
    """Lower and upper bounds (T, S, A, S) of a sparse box."""
    successors, known, lower, width, unseen, _ = box
    low = np.zeros((*known.shape, S))
    high = np.broadcast_to(unseen[..., None], low.shape).copy()
    for row in np.ndindex(known.shape):
        for i in range(known[row]):
            low[row][successors[row][i]] = lower[row][i]
            high[row][successors[row][i]] = lower[row][i] + width[row][i]
    return low, np.minimum(high, 1.0)


def fill(low, high, V):
    """min <p, V>, p in the box and the simplex, by filling up from the smallest value."""
    p, left = low.copy(), 1 - low.sum()
    for s in np.argsort(V, kind="stable"):
        extra = min(left, high[s] - low[s])
        p[s] += extra
        left -= extra
    return p @ V


def program(low, high, V):
    solved = linprog(V, A_eq=np.ones((1, len(V))), b_eq=[1], bounds=np.stack([low, high], 1))
    assert solved.status == 0
    return solved.fun


def random_box(rng, T, S, A, kind):
    """A sparse box that holds a distribution in every row; W = S slots."""
    shape = (T, S, A)
    known = rng.integers(0, S + 1, shape).astype(np.int32)
    if kind == "one successor":
        known[:] = 1
    elif kind == "all successors":
        known[:] = S
    successors = rng.random((*shape, S)).argsort(-1).astype(np.int32)
    centre = rng.dirichlet(np.ones(S) * 0.5, shape)
    scale = {"zero radius": 0.0, "radius of one": 1.5}.get(kind, 1.0)
    lower, width = np.zeros((*shape, S)), np.zeros((*shape, S))
    unseen = np.minimum(1.0, scale * rng.random(shape) * rng.choice([0.02, 0.5], shape))
    for row in np.ndindex(shape):
        n = known[row]
        if n == 0:
            unseen[row] = 1.0
            continue
        p = centre[row][:n] / centre[row][:n].sum()
        radius = unseen[row] + scale * rng.random(n) * 0.3
        lower[row][:n] = np.maximum(0, p - radius)
        width[row][:n] = np.minimum(1, p + radius) - lower[row][:n]
    rest = np.maximum(0.0, 1 - lower.sum(-1))
    return Box(successors, known, lower, width, unseen, rest)


KINDS = ["any", "zero radius", "radius of one", "one successor", "all successors"]


@given(
    st.sampled_from(KINDS),
    st.booleans(),
    st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 3)),
    st.integers(0, 100_000),
)
def test_the_backup_is_the_least_over_box_and_simplex(kind, ties, size, seed):
    H, S, A = size
    rng = np.random.default_rng(seed)
    box = random_box(rng, 1 if seed % 2 else H, S, A, kind)
    low, high = dense_bounds(box, S)
    policy = rng.dirichlet(np.ones(A), (H, S))
    costs, last = rng.random((H, S, A)), rng.random(S)
    if ties:
        costs, last = np.round(costs), np.round(last)
        policy = np.eye(A)[rng.integers(0, A, (H, S))]
    total = np.zeros((H, S, A))
    first = confident(box, frozen(costs), frozen(policy), total, last.copy(), H)
    V = last
    for h in reversed(range(H)):
        t = min(h, len(low) - 1)
        best = [[fill(low[t, s, a], high[t, s, a], V) for a in range(A)] for s in range(S)]
        if seed % 5 == 0:  # and the filling itself against a linear program
            lp = [[program(low[t, s, a], high[t, s, a], V) for a in range(A)] for s in range(S)]
            np.testing.assert_allclose(best, lp, atol=1e-12)
        Q = costs[h] + np.array(best)
        np.testing.assert_allclose(total[h], Q, atol=1e-12)
        V = (policy[h] * Q).sum(-1)
    np.testing.assert_allclose(first, V, atol=1e-12)
    without = confident(box, frozen(costs), frozen(policy), np.zeros((0, 0, 0)), last.copy(), H)
    np.testing.assert_allclose(without, first, atol=1e-12)


@given(st.integers(1, 200), st.sampled_from([0.1, 1, 30]), st.integers(0, 100_000))
def test_sorting_starts_from_any_order(size, skew, seed):
    """The values are spread evenly, have ties, or fall almost all into one bucket."""
    V = np.random.default_rng(seed).random(size) ** skew
    if seed % 3 == 0:
        V = np.round(V, 1)
    order = np.random.default_rng(seed).permutation(len(V)).astype(np.int32)
    rank, prefix = np.zeros(len(V), dtype=np.int32), np.zeros(len(V) + 1)
    room = (np.zeros(len(V) + 1, dtype=np.int32), np.zeros(1, dtype=np.int64))
    sort_values(V, (order, rank, prefix, *room))
    assert np.array_equal(V[order], np.sort(V))
    assert np.array_equal(order[rank], np.arange(len(V)))
    np.testing.assert_allclose(prefix, np.concatenate([[0], np.cumsum(np.sort(V))]), atol=1e-12)


def learned(world, episodes, seed):
    """A confidence set after some episodes of the uniform policy."""
    part = bl.parts.Confidence(radius_scale=0.02, delta=0.1, episodes=100)
    dynamics = part.start(world.problem, bl.parts.Weighted(0.1))
    rng = np.random.default_rng(seed)
    uniform = np.full(world.problem.shape, 1 / world.problem.actions)
    for k in range(episodes):
        dynamics.learn([world.mdp.play(uniform, rng, k)], k + 1)
    return dynamics


def vertices(low, high):
    """All vertices of the box cut by the simplex: all but one coordinate at a bound."""
    S, found = len(low), []
    for free in range(S):
        others = [i for i in range(S) if i != free]
        for ends in itertools.product(*((low[i], high[i]) for i in others)):
            p = np.zeros(S)
            p[others] = ends
            p[free] = 1 - p.sum()
            if low[free] - 1e-12 <= p[free] <= high[free] + 1e-12:
                found.append(p)
    return found


def bounds(dynamics, policy):
    """Upper and lower occupancy (H, S)."""
    return occupancy_bounds(dynamics.set.box, policy, frozen(np.eye(policy.shape[1])[0]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("homogeneous", [True, False])
def test_occupancy_bounds_are_the_extremes_over_all_vertices(seed, homogeneous):
    """T11, on S = 2, A = 1, H = 3: every combination of vertices, row by row and step by step."""
    S, A, H = 2, 1, 3
    world = bl.environments.random_mdp(S, A, H, successors=2, homogeneous=homogeneous, seed=seed)
    dynamics = learned(world, 12, seed)
    low, high = dense_bounds(dynamics.set.box, S)
    policy = frozen(np.ones((H, S, A)))
    largest, least = np.zeros((H, S)), np.ones((H, S))
    # the maximiser may differ by step even when the box does not, so all steps vary freely
    rows = [vertices(low[min(h, len(low) - 1), s, 0], high[min(h, len(low) - 1), s, 0])
            for h in range(H - 1) for s in range(S)]  # fmt: skip
    for choice in itertools.product(*rows):
        mass = np.array([1.0, 0.0])
        for h in range(H):
            largest[h], least[h] = np.maximum(largest[h], mass), np.minimum(least[h], mass)
            if h < H - 1:
                mass = mass @ np.array(choice[2 * h : 2 * h + 2])
    upper, lower = bounds(dynamics, policy)
    np.testing.assert_allclose(upper, largest, atol=1e-12)
    np.testing.assert_allclose(lower, least, atol=1e-12)
    then = dynamics.as_of(12)
    for states in itertools.product(range(S), repeat=H - 1):
        path = np.array([0, *states, 0])
        reach = then.reach(policy, path)
        np.testing.assert_allclose(reach, largest[np.arange(H), path[:H]], atol=1e-12)


@given(st.integers(0, 10_000))
def test_upper_occupancy_bounds_every_member_of_the_set(seed):
    """T11, T12: u is in [0, 1], 1 at the start, and at least the occupancy of any member."""
    rng = np.random.default_rng(seed)
    H, S, A = 4, 4, 2
    world = bl.environments.random_mdp(S, A, H, homogeneous=bool(seed % 2), seed=seed)
    dynamics = learned(world, 15, seed)
    low, high = dense_bounds(dynamics.set.box, S)
    policy = frozen(rng.dirichlet(np.ones(A), (H, S)))
    p = np.zeros((H, S, A, S))
    for h, s, a in np.ndindex(H, S, A):  # a random member: fill the box in a random order
        row = (min(h, len(low) - 1), s, a)
        p[h, s, a] = low[row]
        for i in rng.permutation(S):
            p[h, s, a, i] += min(1 - p[h, s, a].sum(), high[row][i] - low[row][i])
    mdp = bl.MDP(bl.Transitions.from_dense(np.clip(p, 0, 1)), H)
    occupancy = bl.planning.occupancy(mdp, policy).sum(-1)
    upper, lower = bounds(dynamics, policy)
    assert np.all((lower - 1e-12 <= occupancy) & (occupancy <= upper + 1e-12))
    then = dynamics.as_of(15)
    for s in range(S):
        path = np.full(H + 1, s)
        path[0] = 0
        reach = then.reach(policy, path)
        np.testing.assert_allclose(upper[np.arange(H), path[:H]], reach, atol=1e-12)
        assert reach[0] == 1.0
        assert np.all(reach <= 1.0)
        assert np.all(reach >= occupancy[np.arange(H), path[:H]] - 1e-12)


@pytest.mark.parametrize("free", [True, False])
@given(st.integers(0, 10_000), st.floats(0, 2), st.booleans())
def test_the_bonus_backup_is_its_formula(free, seed, scale, homogeneous):
    rng = np.random.default_rng(seed)
    H, S, A = 4, 5, 3
    world = bl.environments.random_mdp(S, A, H, homogeneous=homogeneous, seed=seed)
    dynamics = FrequencyModel(world.problem, scale, free=free)
    T = 1 if homogeneous else H
    counts = np.zeros((T, S, A, S))
    uniform = np.full((H, S, A), 1 / A)
    for k in range(6):
        path = world.mdp.play(uniform, rng, k)
        dynamics.learn([path], k + 1)
        steps = np.minimum(np.arange(H), T - 1)
        np.add.at(counts, (steps, path.states[:-1], path.actions, path.states[1:]), 1)
    n = counts.sum(-1)
    pbar = counts / np.maximum(n, 1)[..., None]
    policy, costs = rng.dirichlet(np.ones(A), (H, S)), rng.random((1, S, A))
    total = np.zeros((H, S, A))
    dynamics.add_q(frozen(costs), frozen(policy), total)
    V = np.zeros(S)
    for h in reversed(range(H)):
        t = min(h, T - 1)
        bonus = 0.0 if h == H - 1 and not free else scale
        Q = costs[0] - bonus / np.sqrt(np.maximum(n[t], 1)) + pbar[t] @ V
        Q = np.clip(Q, 0, H - h)
        Q[(n[t] == 0) & free] = 0
        np.testing.assert_allclose(total[h], Q, atol=1e-12)
        V = (policy[h] * Q).sum(-1)
    read_only = (frozen(costs), frozen(policy))
    seen = (dynamics.counts.visits, dynamics.deviation)
    first = with_bonus(dynamics.rows, *seen, free, *read_only, total)
    np.testing.assert_allclose(first, V, atol=1e-12)
    steps = [pbar[min(h, T - 1)] for h in range(H)]
    plain, _ = oracles.values(steps, oracles.per_step(costs, H), policy)
    assert dynamics.value(*read_only) == pytest.approx(plain[0, 0], abs=1e-12)


@given(st.integers(0, 10_000), st.booleans())
def test_optimistic_planning_is_its_formula(seed, homogeneous):
    rng = np.random.default_rng(seed)
    H, S, A = 3, 4, 3
    T = 1 if homogeneous else H
    p = rng.dirichlet(np.ones(S), (T, S, A))
    t = bl.Transitions.from_dense(p if T > 1 else p[0])
    visits, observed = rng.integers(0, 3, (T, S, A)), rng.integers(0, 3, (H, S, A))
    spread, costs, width = rng.random((T, S, A)) * 0.3, rng.random((H, S, A)), rng.random() * 2
    rows = Rows(t.successors.copy(), t.probabilities.copy())
    found = plan(rows, visits, width * spread, frozen(costs), observed, H)
    V = np.zeros(S)
    for h in reversed(range(H)):
        i = min(h, T - 1)
        Q = np.clip(costs[h] - (H - 1 - h) * width * spread[i] + p[i] @ V, 0, H - h)
        Q[(visits[i] == 0) | (observed[h] == 0)] = 0
        np.testing.assert_allclose(found[h], Q, atol=1e-12)
        V = Q.min(-1)


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_many_successors(seed):
    S, A = 2 * FEW, 2
    rng = np.random.default_rng(seed)
    box = random_box(rng, 1, S, A, "all successors" if seed % 2 else "any")
    low, high = dense_bounds(box, S)
    total, last = np.zeros((1, S, A)), rng.random(S)
    policy = frozen(np.full((1, S, A), 1 / A))
    confident(box, frozen(np.zeros((1, S, A))), policy, total, last.copy(), 1)
    best = [[fill(low[0, s, a], high[0, s, a], last) for a in range(A)] for s in range(S)]
    np.testing.assert_allclose(total[0], best, atol=1e-12)
