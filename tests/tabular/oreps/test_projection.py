"""The O-REPS update against a cone solver, closed forms, and inputs made to break it."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from belated.tabular.kernels.planning import Rows
from belated.tabular.oreps.newton import BoxBounds, choose_law
from belated.tabular.oreps.projection import Dynamics, initial_reference, project
from limits import FULL

# ---------------------------------------------------------------- problems


def random_known(rng, S, A, H, T, spread_start):
    """Rows with one to three successors."""
    W = min(S, 3)
    successors = np.zeros((T, S, A, W), np.int32)
    probabilities = np.zeros((T, S, A, W))
    for row in np.ndindex(T, S, A):
        used = rng.integers(1, W + 1)
        successors[row][:used] = rng.choice(S, used, replace=False)
        probabilities[row][:used] = rng.dirichlet(np.ones(used))
    return Dynamics(Rows(successors, probabilities), random_start(rng, S, spread_start), H)


def random_start(rng, S, spread):
    return rng.dirichlet(np.ones(S)) if spread else np.eye(S)[int(rng.integers(S))]


def random_counts(rng, S, A, T, visits=100):
    """Counts (T, S, A, S); a quarter of the rows was never seen."""
    counts = np.zeros((T, S, A, S), np.int64)
    for row in np.ndindex(T, S, A):
        if rng.random() > 0.25:
            some = rng.choice(S, int(rng.integers(1, S + 1)), replace=False)
            shares = rng.dirichlet(np.ones(some.size))
            counts[row][some] = rng.multinomial(int(rng.integers(1, visits + 1)), shares)
    return counts


def box_from(counts, scale, start, horizon, log_term=3.0):
    """Confidence box of the library: shared radius for unseen successors, scale on every radius."""
    visits = np.maximum(counts.sum(axis=3), 1)
    known = (counts > 0).sum(axis=3).astype(np.int32)
    W = max(1, int(known.max()))
    order = np.argsort(-counts, axis=3, kind="stable")[..., :W]
    mean = np.take_along_axis(counts, order, axis=3) / visits[..., None]
    flat = scale * log_term / visits
    radius = scale * np.sqrt(mean * (1 - mean) * log_term / visits[..., None]) + flat[..., None]
    unseen = np.where(known > 0, np.minimum(flat, 1.0), 1.0)
    lower, upper = np.maximum(mean - radius, 0.0), np.minimum(mean + radius, 1.0)
    bounds = BoxBounds(order.astype(np.int32), known, lower, upper, unseen)
    return Dynamics(bounds, start, horizon)


def grid(size, slip):
    """Successors and probabilities (1, S, 4, W): up, down, right, left; blocked moves stay."""
    S = size * size
    dense = np.zeros((S, 4, S))
    for s in range(S):
        row, column = divmod(s, size)
        for direction, (down, right) in enumerate(((-1, 0), (1, 0), (0, 1), (0, -1))):
            to_row, to_column = row + down, column + right
            inside = 0 <= to_row < size and 0 <= to_column < size
            y = to_row * size + to_column if inside else s
            for a in range(4):
                dense[s, a, y] += slip / 4 + (1 - slip) * (a == direction)
    W = int((dense > 0).sum(axis=2).max())
    order = np.argsort(-dense, axis=2, kind="stable")[:, :, :W]
    return order[None].astype(np.int32), np.take_along_axis(dense, order, axis=2)[None]


def dense_law(dynamics):
    """Known transitions as (T, S, A, S)."""
    successors, probabilities = dynamics.laws
    T, S, A, W = successors.shape
    dense = np.zeros((T, S, A, S))
    for j in range(W):
        where = (*np.indices((T, S, A)), successors[..., j])
        np.add.at(dense, where, probabilities[..., j])
    return dense


def dense_bounds(box):
    """Lower and upper bounds (T, S, A, S)."""
    box = box.laws
    T, S, A, _ = box.successors.shape
    lower = np.zeros((T, S, A, S))
    upper = np.repeat(box.unseen[..., None], S, axis=3)
    for row in np.ndindex(T, S, A):
        for j in range(box.known[row]):
            lower[row][box.successors[row][j]] = box.lower[row][j]
            upper[row][box.successors[row][j]] = box.upper[row][j]
    return lower, upper


def of_step(array, h):
    return array[min(h, array.shape[0] - 1)]


# ---------------------------------------------------------------- what must hold


def check_policy(result):
    assert np.all(result.policy >= 0.0)
    np.testing.assert_allclose(result.policy.sum(axis=2), 1.0, atol=1e-12)
    assert np.isfinite(result.value)
    assert np.isfinite(result.gap)
    assert not np.any(np.isnan(result.log_measure))
    assert not np.any(np.isnan(result.dual))


def check_known(dynamics, result):
    """Start, flow and mass of a measure (H, S, A)."""
    check_policy(result)
    q = np.exp(result.log_measure)
    law = dense_law(dynamics)
    np.testing.assert_allclose(q[0].sum(axis=1), dynamics.start, atol=1e-9)
    for h in range(q.shape[0] - 1):
        inflow = np.einsum("sa,say->y", q[h], of_step(law, h))
        np.testing.assert_allclose(q[h + 1].sum(axis=1), inflow, atol=1e-9)


def check_box(box, result):
    """Start, flow, mass and bounds of a measure (H, S, A, S)."""
    check_policy(result)
    q = np.exp(result.log_measure)
    lower, upper = dense_bounds(box)
    np.testing.assert_allclose(q[0].sum(axis=(1, 2)), box.start, atol=1e-9)
    for h in range(q.shape[0]):
        if h:
            np.testing.assert_allclose(q[h].sum(axis=(1, 2)), q[h - 1].sum(axis=(0, 1)), atol=1e-9)
        mass = q[h].sum(axis=2, keepdims=True)
        assert np.all(q[h] >= of_step(lower, h) * mass - 1e-12)
        assert np.all(q[h] <= of_step(upper, h) * mass + 1e-12)


# ---------------------------------------------------------------- the cone solver


def cone_known(dynamics, b):
    """Two estimates of the optimum for weights b (H, S, A), see `agrees`."""
    H, S, A = b.shape
    law = dense_law(dynamics)
    b = np.where(np.isfinite(b), b, 0.0)
    cp = pytest.importorskip("cvxpy")
    q = [cp.Variable((S, A)) for _ in range(H)]
    constraints = [cp.sum(q[0], axis=1) == dynamics.start]
    for h in range(H - 1):
        inflow = of_step(law, h).reshape(S * A, S).T @ cp.reshape(q[h], (S * A,), order="C")
        constraints.append(cp.sum(q[h + 1], axis=1) == inflow)
    total = sum(cp.sum(-cp.entr(q[h]) - cp.multiply(q[h], b[h])) for h in range(H))
    cp.Problem(cp.Minimize(total), constraints).solve(solver=cp.CLARABEL)
    stated = sum(objective(q[h].value, b[h]) for h in range(H))
    value, d = 0.0, dynamics.start
    for h in range(H):
        pi = normalised(np.maximum(q[h].value, 0.0))
        x = d[:, None] * pi
        value += objective(x, b[h])
        d = np.einsum("sa,say->y", x, of_step(law, h))
    return stated, value


def cone_box(box, b):
    """Two estimates of the optimum for weights b (H, S, A, S); laws are moved into the box."""
    H, S, A, _ = b.shape
    lower, upper = dense_bounds(box)
    cp = pytest.importorskip("cvxpy")
    q = [cp.Variable((S * A, S)) for _ in range(H)]
    rows = np.kron(np.eye(S), np.ones((1, A)))
    constraints = [rows @ cp.sum(q[0], axis=1) == box.start]
    for h in range(H):
        mass = cp.reshape(cp.sum(q[h], axis=1), (S * A, 1), order="C") @ np.ones((1, S))
        constraints.append(q[h] >= cp.multiply(of_step(lower, h).reshape(S * A, S), mass))
        constraints.append(q[h] <= cp.multiply(of_step(upper, h).reshape(S * A, S), mass))
        if h:
            constraints.append(rows @ cp.sum(q[h], axis=1) == cp.sum(q[h - 1], axis=0))
    flat = b.reshape(H, S * A, S)
    total = sum(cp.sum(-cp.entr(q[h]) - cp.multiply(q[h], flat[h])) for h in range(H))
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    cp.Problem(cp.Minimize(total), constraints).solve(solver=cp.CLARABEL, **tight)
    stated = sum(objective(q[h].value, flat[h]) for h in range(H))
    value, d = 0.0, box.start
    for h in range(H):
        measure = np.maximum(q[h].value, 0.0).reshape(S, A, S)
        pi = normalised(measure.sum(axis=2))
        law = normalised(measure)
        law = normalised(np.clip(law, of_step(lower, h), of_step(upper, h)))
        x = d[:, None, None] * pi[:, :, None] * law
        value += objective(x, b[h])
        d = x.sum(axis=(0, 1))
    return stated, value


def normalised(x):
    total = x.sum(axis=-1, keepdims=True)
    return np.where(total > 0, x / np.where(total > 0, total, 1.0), 1.0 / x.shape[-1])


def objective(x, b):
    """sum x (log x - b), with 0 log 0 = 0 and the solver's tiny negative entries set to 0."""
    x = np.maximum(x, 0.0)
    return np.sum(x * (np.log(np.where(x > 0, x, 1.0)) - b))


def agrees(value, estimates):
    """Within 1e-8 (relative) of the cone solver, and never worse.

    The answer of the cone solver gives two estimates, both good to about 1e-8: the objective that
    it states, of a measure that violates the constraints a little, and the objective of the
    feasible measure of its policy and laws, which no minimum can exceed.
    """
    stated, feasible = estimates
    allowed = 1e-8 * max(1.0, abs(feasible))
    assert value <= feasible + allowed
    assert min(abs(value - stated), abs(value - feasible)) <= allowed


def first_measure(dynamics, check, cone):
    """The measure without costs, checked, and as good as that of the cone solver."""
    reference = initial_reference(dynamics)
    first = project(dynamics, reference)
    check(dynamics, first)
    agrees(first.value, cone(dynamics, reference))
    return first


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(60 if FULL else 10))
@pytest.mark.long
def test_known_update_is_as_good_as_the_cone_solver(seed):
    rng = np.random.default_rng(seed)
    S, A, H = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 7))
    dynamics = random_known(rng, S, A, H, int(rng.choice([1, H])), seed % 2 == 0)
    eta = 10.0 ** rng.uniform(-3, 1)
    last = first_measure(dynamics, check_known, cone_known)
    for _ in range(3):
        cost = eta * rng.random((int(rng.choice([1, H])), S, A))
        now = project(dynamics, last.log_measure, cost)
        best = cone_known(dynamics, last.log_measure - cost)
        check_known(dynamics, now)
        assert now.converged
        assert now.gap <= 1e-10
        agrees(now.value, best)
        last = now


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("seed", range(20 if FULL else 3))
@pytest.mark.long
def test_unknown_update_is_as_good_as_the_cone_solver(seed, scale):
    """The counts grow between the updates, so the boxes change and are not nested."""
    rng = np.random.default_rng(1000 + seed)
    S, A, H = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    T = int(rng.choice([1, H]))
    start = random_start(rng, S, seed % 2 == 0)
    counts = random_counts(rng, S, A, T)
    box = box_from(counts, scale, start, H)
    eta = 10.0 ** rng.uniform(-3, 0.7)
    last = first_measure(box, check_box, cone_box)
    for _ in range(2):
        cost = eta * rng.random((int(rng.choice([1, H])), S, A))
        weights = np.where(np.isfinite(last.log_measure), last.log_measure, -np.log(S * S * A))
        now = project(box, last.log_measure, cost)
        check_box(box, now)
        assert now.converged
        best = cone_box(box, weights - cost[..., None])
        agrees(now.value, best)
        last = now
        counts = counts + random_counts(rng, S, A, T, visits=5)
        box = box_from(counts, scale, start, H)


def slsqp(start, b, laws):
    """The optimum over measures (H, S, A, S) for weights b, by scipy's SLSQP.

    Args:
        start: (S,).
        b: (H, S, A, S).
        laws: bounds of the laws, each (H, S, A, S).
    """
    H, S, A, _ = b.shape
    lower, upper = laws

    def flow(x):
        q = x.reshape(b.shape)
        inflow = [start, *q[:-1].sum(axis=(1, 2))]
        return np.concatenate([q[h].sum(axis=(1, 2)) - inflow[h] for h in range(H)])

    def inside(x):
        q = x.reshape(b.shape)
        mass = q.sum(axis=3, keepdims=True)
        return np.concatenate([(q - lower * mass).ravel(), (upper * mass - q).ravel()])

    def jacobian(constraint):
        size = b.size
        zero = constraint(np.zeros(size))
        matrix = np.stack([constraint(row) - zero for row in np.eye(size)], axis=1)
        return {"fun": constraint, "jac": lambda x: matrix}

    found = minimize(
        lambda x: np.sum(x * (np.log(x) - b.ravel())),
        np.full(b.size, 1.0 / (S * A * S)),
        jac=lambda x: np.log(x) + 1 - b.ravel(),
        method="SLSQP",
        bounds=[(1e-12, 1.0)] * b.size,
        constraints=[{"type": "eq", **jacobian(flow)}, {"type": "ineq", **jacobian(inside)}],
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert found.success, found.message
    return found.fun


@pytest.mark.parametrize("scale", [0.3, 0.03])
@pytest.mark.parametrize("seed", range(3))
def test_small_updates_are_as_good_as_slsqp(seed, scale):
    """Problems of 16 or 24 variables: within 1e-6 of SLSQP, and never worse."""
    rng = np.random.default_rng(seed)
    S, A, H = 2, 2, 2 + seed % 2
    box = box_from(1 + rng.integers(0, 20, (1, S, A, S)), scale, random_start(rng, S, True), H)
    lower, upper = (np.broadcast_to(side, (H, S, A, S)) for side in dense_bounds(box))
    last = project(box, initial_reference(box))
    for _ in range(2):
        cost = rng.random((H, S, A))
        now = project(box, last.log_measure, cost)
        check_box(box, now)
        best = slsqp(box.start, last.log_measure - cost[..., None], (lower, upper))
        assert now.converged
        assert -1e-6 < now.value - best < 1e-8
        last = now


def test_small_known_updates_are_those_of_their_dual():
    """The dual has no constraints: max over V of start V_0 - sum exp(b - 1 + V_h - P V_(h+1))."""
    rng = np.random.default_rng(5)
    S, A, H = 3, 2, 3
    dynamics = random_known(rng, S, A, H, H, spread_start=True)
    law = dense_law(dynamics)
    last = project(dynamics, initial_reference(dynamics))
    for _ in range(2):
        cost = rng.random((H, S, A))
        now = project(dynamics, last.log_measure, cost)
        check_known(dynamics, now)
        b = last.log_measure - cost

        def measure(v, b=b):
            V = np.concatenate([v, np.zeros(S)]).reshape(H + 1, S)
            ahead = np.einsum("hsay,hy->hsa", law, V[1:])
            return np.exp(b - 1 + V[:-1, :, None] - ahead)

        def dual(v):
            return measure(v).sum() - dynamics.start @ v[:S]

        def slope(v):
            q = measure(v)
            inflow = [dynamics.start, *np.einsum("hsa,hsay->hy", q, law)[:-1]]
            return (q.sum(axis=2) - np.array(inflow)).ravel()

        found = minimize(dual, np.zeros(H * S), jac=slope, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(np.exp(now.log_measure), measure(found.x), atol=1e-7)
        assert now.value == pytest.approx(-found.fun, abs=1e-9)
        last = now


# ---------------------------------------------------------------- the row problem


@given(
    w=arrays(float, 5, elements=st.floats(-2000, 2000)),
    ends=arrays(float, (2, 5), elements=st.floats(0, 1)),
    inside=arrays(float, 5, elements=st.floats(0, 1)),
    scale=st.sampled_from([1.0, 0.1, 1e-3, 1e-9, 0.0]),
)
@example(np.eye(5)[0] * 37, np.ones((2, 5)), np.eye(5)[1], 0.1)
def test_row_law_is_the_clipped_exponential(w, ends, inside, scale):
    total = inside.sum()
    p = inside / total if total > 1e-3 else np.full(5, 0.2)
    low, high = np.maximum(p - scale * ends[0], 0.0), np.minimum(p + scale * ends[1], 1.0)
    law, log_law, free = np.zeros(5), np.zeros(5), np.zeros(5, np.bool_)
    value = choose_law(w, low, high, law, log_law, free)
    assert np.isfinite(value)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(law >= low - 1e-12)
    assert np.all(law <= high + 1e-12)
    np.testing.assert_allclose(np.exp(log_law), law, rtol=1e-10, atol=1e-300)
    # one multiplier explains every entry: no mass can profitably move from one slot to another
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = np.where(log_law > -np.inf, log_law - w, -np.inf)
    can_shrink, can_grow = law > low + 1e-12, law < high - 1e-12
    if can_shrink.any() and can_grow.any():
        assert pull[can_shrink].max() <= pull[can_grow].min() + 1e-9 * (1 + np.abs(w).max())


# ---------------------------------------------------------------- closed forms and invariances


@pytest.mark.parametrize("unknown", [False, True])
def test_one_step_is_hedge(unknown):
    """H = 1 (T16): the policy is the exponential weighting of the cumulative cost."""
    rng = np.random.default_rng(3)
    S, A = 4, 5
    start = rng.dirichlet(np.ones(S))
    if unknown:
        dynamics = box_from(np.zeros((1, S, A, S), np.int64), 1.0, start, 1)
    else:
        rows = Rows(np.zeros((1, S, A, 1), np.int32), np.ones((1, S, A, 1)))
        dynamics = Dynamics(rows, start, 1)
    last = project(dynamics, initial_reference(dynamics))
    cumulative = np.zeros((1, S, A))
    for _ in range(4):
        cost = 3.0 * rng.random((1, S, A))
        cumulative += cost
        last = project(dynamics, last.log_measure, cost)
        hedge = np.exp(-cumulative) / np.exp(-cumulative).sum(axis=2, keepdims=True)
        np.testing.assert_allclose(last.policy, hedge, rtol=1e-12)
        assert last.steps == 0
        assert last.gap == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_splitting_a_batch_changes_nothing_when_transitions_are_known(seed):
    rng = np.random.default_rng(seed)
    S, A, H = 6, 3, 6
    dynamics = random_known(rng, S, A, H, 1, seed % 2 == 0)
    costs = 2.0 * rng.random((3, H, S, A))
    first = project(dynamics, initial_reference(dynamics), tolerance=1e-22)
    at_once = project(dynamics, first.log_measure, costs.sum(axis=0), tolerance=1e-22)
    leader = project(dynamics, initial_reference(dynamics), costs.sum(axis=0), tolerance=1e-22)
    last = first
    for cost in costs:
        last = project(dynamics, last.log_measure, cost, warm=last, tolerance=1e-22)
    for other in (last, leader):
        np.testing.assert_allclose(other.policy, at_once.policy, atol=1e-10)
        reached = np.isfinite(at_once.log_measure)
        gap = other.log_measure[reached] - at_once.log_measure[reached]
        np.testing.assert_allclose(gap, 0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_box_without_width_is_the_known_case(seed):
    """Also checks the entropy in the reduced first reference."""
    rng = np.random.default_rng(seed)
    S, A, H = 5, 2, 4
    dynamics = random_known(rng, S, A, H, 1, False)
    successors, p = dynamics.laws
    known = (p > 0).sum(axis=3).astype(np.int32)
    bounds = BoxBounds(successors, known, p, p, np.zeros((1, S, A)))
    box = Dynamics(bounds, dynamics.start, H)
    one = project(dynamics, initial_reference(dynamics), tolerance=1e-18)
    two = project(box, initial_reference(box), tolerance=1e-18)
    for _ in range(3):
        np.testing.assert_allclose(two.policy, one.policy, atol=1e-8)
        assert two.value == pytest.approx(one.value, abs=1e-10)
        cost = rng.random((H, S, A))
        one = project(dynamics, one.log_measure, cost, tolerance=1e-18)
        two = project(box, two.log_measure, cost, tolerance=1e-18)


def test_nothing_moves_without_cost_and_with_the_same_box():
    """T15."""
    rng = np.random.default_rng(5)
    box = box_from(random_counts(rng, 5, 2, 1), 0.3, np.eye(5)[0], 5)
    one = project(box, initial_reference(box), rng.random((5, 5, 2)), tolerance=1e-16)
    two = project(box, one.log_measure, tolerance=1e-16)
    assert two.steps == 0
    np.testing.assert_allclose(np.exp(two.log_measure), np.exp(one.log_measure), atol=1e-9)


def test_a_state_that_was_impossible_before_starts_from_the_uniform_measure():
    """Radii of zero rule out state 2; then it is seen."""
    start, counts = np.eye(3)[0], np.zeros((1, 3, 2, 3), np.int64)
    counts[0, :, :, 1] = 4
    before = box_from(counts, 0.0, start, 4)
    last = project(before, initial_reference(before), np.ones((1, 3, 2)))
    check_box(before, last)
    assert np.all(last.log_density[:, 2] == -np.inf)
    counts[0, :, 0, 2] = 4
    after = box_from(counts, 0.0, start, 4)
    now = project(after, last.log_measure, np.ones((1, 3, 2)))
    check_box(after, now)
    assert now.converged
    assert np.all(np.isfinite(now.log_density[1:, 2]))


# ---------------------------------------------------------------- what the theory promises


@pytest.mark.parametrize("seed", range(6))
def test_kl_step_is_bounded_when_transitions_are_known(seed):
    """T14: sum_h KL(q^k_h || q^{k+1}_h) <= sum q^k (eta C)^2 / 2."""
    rng = np.random.default_rng(seed)
    S, A, H = 6, 3, 5
    dynamics = random_known(rng, S, A, H, 1, seed % 2 == 0)
    last = project(dynamics, initial_reference(dynamics), tolerance=1e-14)
    for k in range(20):
        cost = 10.0 ** rng.uniform(-3, 0.5) * rng.random((H, S, A))
        now = project(dynamics, last.log_measure, cost, tolerance=1e-14)
        q = np.exp(last.log_measure)
        change = np.where(q > 0, last.log_measure, 0.0) - np.where(q > 0, now.log_measure, 0.0)
        assert np.sum(q * change) <= np.sum(q * cost**2) / 2 + 1e-9, k
        last = now


@pytest.mark.parametrize("seed", range(4))
def test_regret_bound_with_late_and_lost_feedback(seed):
    """T14: R_K <= 2 H ln(S A) / eta + eta H (K + 3 D_K), for known transitions."""
    rng = np.random.default_rng(seed)
    S, A, H, K = 4, 3, 4, 150
    dynamics = random_known(rng, S, A, H, 1, False)
    costs = (rng.random((K, H, S, A)) < rng.random((H, S, A))).astype(float)
    delays = np.where(rng.random(K) < 0.1, 10 * K, rng.geometric(0.2, K) - 1)
    late = np.minimum(delays, K - 1 - np.arange(K)).sum()
    eta = np.sqrt(2 * np.log(S * A) / (K + 3 * late))
    reference = initial_reference(dynamics)
    seen = np.zeros((H, S, A))
    last, suffered = project(dynamics, reference), 0.0
    for k in range(K):
        suffered += np.sum(np.exp(last.log_measure) * costs[k])
        arrived = costs[np.arange(K) + delays == k].sum(axis=0)
        if np.any(arrived):
            last = project(dynamics, reference - eta * seen, eta * arrived, warm=last)
            seen = seen + arrived
            assert last.converged
    law, ahead = dense_law(dynamics), np.zeros(S)
    for h in range(H - 1, -1, -1):
        ahead = np.min(costs[:, h].sum(axis=0) + of_step(law, h) @ ahead, axis=1)
    best = dynamics.start @ ahead
    assert suffered - best <= 2 * H * np.log(S * A) / eta + eta * H * (K + 3 * late)


# ---------------------------------------------------------------- inputs made to break it


def nasty_cost(draw, H, S, A):
    scale = draw(st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 30.0, 1e3]))
    seed = draw(st.integers(0, 2**16))
    kind = draw(st.sampled_from(["uniform", "sparse", "one state"]))
    rng = np.random.default_rng(seed)
    cost = rng.random((H, S, A))
    if kind == "sparse":
        cost = (cost < 0.2).astype(float)
    if kind == "one state":
        cost = np.ones((H, S, A))
        cost[:, rng.integers(S)] = 0.0
    return scale * cost


@st.composite
def nasty_known(draw):
    S, A, H = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    T = draw(st.sampled_from([1, H]))
    W = draw(st.integers(1, S))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    successors = np.argsort(rng.random((T, S, A, S)), axis=3)[..., :W].astype(np.int32)
    slip = draw(st.sampled_from([0.0, 1e-300, 1e-6, 0.1, 1.0]))
    weights = slip * rng.random((T, S, A, W))
    weights[..., 0] += 1.0
    weights /= weights.sum(axis=3, keepdims=True)
    start = random_start(rng, S, draw(st.booleans()))
    costs = [nasty_cost(draw, H, S, A) for _ in range(3)]
    return Dynamics(Rows(successors, weights), start, H), costs


@given(nasty_known())
def test_known_updates_survive_anything(problem):
    dynamics, costs = problem
    reference = initial_reference(dynamics)
    last = project(dynamics, reference)
    done = np.zeros_like(reference)
    for cost in costs:
        last = project(dynamics, reference - done, cost, warm=last)
        done = done + cost
        check_known(dynamics, last)
        assert last.converged


@st.composite
def nasty_box(draw):
    S, A, H = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    T = draw(st.sampled_from([1, H]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    visits = draw(st.sampled_from([1, 10, 10**4, 10**8]))
    counts = random_counts(rng, S, A, T, visits)
    start = random_start(rng, S, draw(st.booleans()))
    scales = st.sampled_from([1.0, 0.1, 1e-3, 1e-8, 0.0])
    boxes = [box_from(counts, draw(scales), start, H)]
    for _ in range(2):
        counts = counts + random_counts(rng, S, A, T, visits)
        boxes.append(box_from(counts, draw(scales), start, H))
    return boxes, [nasty_cost(draw, H, S, A) for _ in range(3)]


@given(nasty_box())
def test_unknown_updates_survive_anything(problem):
    boxes, costs = problem
    last = project(boxes[0], initial_reference(boxes[0]))
    for box, cost in zip(boxes, costs, strict=True):
        last = project(box, last.log_measure, cost)
        check_box(box, last)
        assert last.converged


def test_an_unfinished_solve_is_feasible_and_says_so():
    rng = np.random.default_rng(1)
    dynamics = random_known(rng, 6, 3, 8, 1, True)
    cost = 50.0 * rng.random((8, 6, 3))
    result = project(dynamics, initial_reference(dynamics), cost, max_steps=0)
    assert not result.converged
    assert result.gap > 1e-10
    check_known(dynamics, result)


def test_cost_is_applied_in_portions_when_the_steps_run_out():
    rng = np.random.default_rng(2)
    dynamics = random_known(rng, 6, 3, 8, 1, True)
    cost = 30.0 * rng.random((8, 6, 3))
    whole = project(dynamics, initial_reference(dynamics), cost)
    parts = project(dynamics, initial_reference(dynamics), cost, max_steps=3)
    assert whole.portions == 1
    assert parts.portions > 1
    assert parts.converged
    assert parts.value == pytest.approx(whole.value, abs=1e-9)


def grid_costs(kind, size, k, rng):
    """Cost (1, S, 4) of update k."""
    cost = np.ones((1, size * size, 4))
    if kind == "fixed":
        cost[0, -1] = 0.0
    elif kind == "moving":
        corners = (size * size - 1, size - 1, size * (size - 1), size * size // 2)
        cost[0, corners[(k // 25) % 4]] = 0.0
    else:
        cost = rng.random(cost.shape)
    return cost


SETTINGS = [
    (slip, kind, batch)
    for slip in (0.1, 1e-6, 0.0)
    for kind in ("fixed", "moving", "random")
    for batch in (1, 20)
]
CHOSEN = [(0.1, "moving", 1), (1e-6, "random", 20), (1e-6, "fixed", 20), (0.0, "moving", 20)]


def updated(dynamics, eta, kind, batch, seed, updates):
    """The projections after each update of a learner on a grid; all reach their tolerance."""
    S, reference, rng = (
        len(dynamics.start),
        initial_reference(dynamics),
        np.random.default_rng(seed),
    )
    done, last = np.zeros((1, S, 4)), project(dynamics, reference)
    for k in range(updates):
        cost = batch * grid_costs(kind, math.isqrt(S), k, rng)
        last = project(dynamics, reference - eta * done, eta * cost, warm=last)
        done = done + cost
        assert last.converged, (k, last.gap, last.portions)
        yield last


@pytest.mark.parametrize(("slip", "kind", "batch"), SETTINGS if FULL else CHOSEN[:2])
@pytest.mark.slow
def test_many_updates_on_the_grid(slip, kind, batch):
    """Every solve reaches its tolerance, also where log-probabilities are below -1000."""
    dynamics = Dynamics(Rows(*grid(10, slip)), np.eye(100)[0], 50)
    updates = 300 if FULL else 10
    for k, last in enumerate(updated(dynamics, 0.3, kind, batch, 0, updates)):
        if k % 10 == 9:
            check_known(dynamics, last)
    check_policy(last)


@pytest.mark.parametrize(("slip", "kind", "batch"), SETTINGS if FULL else SETTINGS[::5])
@pytest.mark.slow
def test_policies_stay_distributions_far_below_the_smallest_float(slip, kind, batch):
    """A small grid and a large step size; log-probabilities go below minus one thousand."""
    dynamics = Dynamics(Rows(*grid(4, slip)), np.eye(16)[0], 12)
    for last in updated(dynamics, 3.0, kind, batch, 1, 60):
        check_known(dynamics, last)
    if kind == "fixed" and batch == 20:
        here = np.isfinite(last.log_density)
        assert (last.log_measure[here] - last.log_density[here][:, None]).min() < -1000.0


@pytest.mark.parametrize("slip", [0.1, 0.0])
@pytest.mark.parametrize("scale", [1.0, 0.01, 0.001])
def test_a_learner_with_unknown_transitions(slip, scale):
    """The box shrinks with the learner's own episodes; every update reaches its tolerance."""
    size, H, eta = 4, 10, 0.5
    successors, probabilities = grid(size, slip)
    S, rng = size * size, np.random.default_rng(0)
    start, counts = np.eye(S)[0], np.zeros((1, S, 4, S), np.int64)
    box = box_from(counts, scale, start, H, log_term=20.0)
    last = project(box, initial_reference(box))
    for k in range(40):
        s = 0
        for h in range(H):
            a = rng.choice(4, p=last.policy[h, s])
            y = rng.choice(successors[0, s, a], p=probabilities[0, s, a])
            counts[0, s, a, y] += 1
            s = y
        box = box_from(counts, scale, start, H, log_term=20.0)
        cost = eta * grid_costs("moving", size, k, rng)
        last = project(box, last.log_measure, cost, warm=last)
        check_box(box, last)
        assert last.converged, (k, last.gap)


@pytest.mark.long
def test_kernels_run_without_compilation():
    code = (
        "import numpy as np\n"
        "from belated.tabular.oreps.projection import *\n"
        "rows = Rows(np.array([[[[0, 1]], [[1, 0]]]], np.int32),\n"
        "            np.array([[[[0.7, 0.3]], [[1.0, 0.0]]]]))\n"
        "bounds = BoxBounds(rows.successors, np.full((1, 2, 1), 1, np.int32),\n"
        "    np.full((1, 2, 1, 2), 0.2), np.full((1, 2, 1, 2), 0.9), np.full((1, 2, 1), 0.5))\n"
        "known, box = (Dynamics(laws, np.eye(2)[0], 3) for laws in (rows, bounds))\n"
        "for d in (known, box):\n"
        "    q = project(d, initial_reference(d), np.array([[[0.0], [1.0]]]))\n"
        "    print(q.converged, round(q.value, 9))\n"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    outputs = []
    for disabled in ("0", "1"):
        env = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=here,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("True") == 2
