"""Newton's method for follow-the-regularised-leader with a log barrier, on plain arrays.

The problem: given weights b and c > 0 of the rows (h, s, a), find the occupancy measure w of known
transitions p that minimises ``sum w (log w - b) - sum c log w``.

The unknowns are the multipliers V (H + 1, S) of the flow constraints, with V[H] = 0. The measure
that belongs to V solves, row by row,

    log w - c / w = b - 1 + V(h, s) - sum_y p(y) V(h + 1, y)

With w = c exp(-u) this is exp(u) + u = z, a Lambert W function in the log domain: a convex equation
whose Newton steps fall from above. The barrier keeps every w away from 0, so the dual can be
maximised directly. Its gradient g is the flow into a state minus the flow out, and its Hessian
is -M,

    M(h, h)     = diag(sum_a k) + sum over the rows (s, a) of step h - 1 of k p p^T
    M(h, h + 1) = -sum_a k p                          with k = w^2 / (w + c)

The direction x of M x = g comes from eliminating one step after the other: H S^3 operations for the
factors, H S^2 for a direction. Factors are kept while directions become short quickly.
The dual is self-concordant, so a step is halved until the slope along x is at least minus half of
its first value, and the dual does not fall. The error after a step is estimated by the square of
its largest change of a log w, or by that change times the rate at which directions shorten.
"""

import math

import numpy as np

from belated.core.arrays import Bools, Floats, Indices
from belated.core.compiled import njit
from belated.tabular.oreps.newton import eliminate

CLOSE = 1e-11
"""The estimated error of log w at which a solve is finished."""
SLOW = 0.2
"""Factors are computed anew when a direction is longer than this, or than this part of the last."""
ROUNDS = 60
"""The largest number of Newton steps of a row; five are usual."""
RIDGE = 1e-14
"""The relative ridge on the pivots, so that rounding does not make them zero or negative."""
SHORTEST = 1e-6
"""The shortest part of a Newton step that is tried."""


BarrierRows = tuple[Indices, Floats, Bools, Floats]
"""The transitions: successors, law (T, S, A, W), T is 1 or H; reach (H, S); start (S,)."""


@njit(cache=True)
def exponent(z: float) -> float:
    """The u of exp(u) + u = z."""
    if z < -40.0:  # exp(u) is below the rounding error of u
        return z
    # start above the root: the function is convex, so Newton's steps fall to it
    u = z if z < 1.0 else math.log(z)
    for _ in range(ROUNDS):
        rise = math.exp(u)
        step = (rise + u - z) / (rise + 1.0)
        u -= step
        if abs(step) <= 1e-15 * (1.0 + abs(u)):
            break
    return u


@njit(cache=True)
def evaluate(rows: BarrierRows, b: Floats, c: Floats, V: Floats, w: Floats, flow: Floats) -> float:
    """Write the measure w (H, S, A) and the flow g (H, S) of V (H + 1, S). Returns the dual."""
    successors, law, reach, start = rows
    H, S, A = w.shape
    slots = law.shape[3]
    value = 0.0
    # the constraint of the first step: the inflow is the start distribution
    flow[:] = 0.0
    flow[0, :] = start
    for s in range(S):
        if reach[0, s]:
            value += start[s] * V[0, s]
    for h in range(H):
        t = min(h, law.shape[0] - 1)
        for s in range(S):
            if not reach[h, s]:
                flow[h, s] = 0.0
                continue
            for a in range(A):
                # the row equation log w - c / w = theta, theta = b - 1 + V(h, s) - p V(h + 1)
                theta = b[h, s, a] - 1.0 + V[h, s]
                if h + 1 < H:
                    for j in range(slots):
                        theta -= law[t, s, a, j] * V[h + 1, successors[t, s, a, j]]
                # w = c exp(-u) with exp(u) + u = log c - theta
                weight = c[h, s, a]
                scale = math.log(weight)
                u = exponent(scale - theta)
                mass = weight * math.exp(-u)
                w[h, s, a] = mass
                # the row's part of the dual: c - w - c log w
                value += weight - mass - weight * (scale - u)
                # the mass leaves its state and reaches the next ones: the gradient of the dual
                flow[h, s] -= mass
                if h + 1 < H:
                    for j in range(slots):
                        flow[h + 1, successors[t, s, a, j]] += law[t, s, a, j] * mass
    return value


@njit(cache=True)
def factorise(rows: BarrierRows, c: Floats, w: Floats, factors: Floats) -> None:
    """Eliminate one step of M after the other.

    Writes factors (H, S, 2 S): the pivot of a step as a product of triangles, and beside it
    pivot^-1 M(h, h + 1).
    """
    successors, law, reach, _ = rows
    H, S, A = w.shape
    slots = law.shape[3]
    factors[:] = 0.0
    for h in range(H):
        t = min(h, law.shape[0] - 1)
        table = factors[h]
        for s in range(S):
            if not reach[h, s]:
                table[s, s] = 1.0
                continue
            for a in range(A):
                # k = w^2 / (w + c): k to M(h, h), -k p to M(h, h + 1), k p p^T to M(h + 1, h + 1)
                k = w[h, s, a] * (w[h, s, a] / (w[h, s, a] + c[h, s, a]))
                table[s, s] += k
                if h + 1 < H:
                    for i in range(slots):
                        part = k * law[t, s, a, i]
                        if part > 0.0:
                            y = successors[t, s, a, i]
                            table[s, S + y] -= part
                            for j in range(slots):
                                factors[h + 1, y, successors[t, s, a, j]] += part * law[t, s, a, j]
                            factors[h + 1, y, y] += RIDGE * part
        # eliminate step h: M(h + 1, h + 1) -= M(h + 1, h) M(h, h)^-1 M(h, h + 1)
        before = table[:, S:].copy()
        eliminate(table)
        if h + 1 < H:
            for s in range(S):
                for y in range(S):
                    if before[s, y] != 0.0:
                        below, link = factors[h + 1, y], table[s, S:]
                        for v in range(S):
                            below[v] -= before[s, y] * link[v]


@njit(cache=True, fastmath={"reassoc", "contract"})
def product(left: Floats, right: Floats) -> float:
    """The sum of left * right, both (n,), in any order."""
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@njit(cache=True)
def substitute(table: Floats, side: Floats) -> None:
    """Solve A x = side in place, both (S,), with the A of a table that `eliminate` has solved."""
    S = side.shape[0]
    # the lower triangle, whose diagonal is 1, then the upper one
    for r in range(S):
        side[r] -= product(table[r, :r], side[:r])
    for r in range(S - 1, -1, -1):
        side[r] = (side[r] - product(table[r, r + 1 : S], side[r + 1 :])) / table[r, r]


@njit(cache=True)
def direction(
    rows: BarrierRows, c: Floats, w: Floats, flow: Floats, factors: Floats, x: Floats
) -> tuple[float, float]:
    """Solve M x = g. Writes x (H + 1, S). Returns g x and the largest change of a log w along x."""
    successors, law, reach, _ = rows
    H, S, A = w.shape
    slots = law.shape[3]
    # forward: subtract the contribution of earlier steps, then solve with the pivot; beside it is
    # carried = pivot^-1 M(h, h + 1), and M(h + 1, h) pivot^-1 is its transpose
    x[:H] = flow
    x[H] = 0.0
    for h in range(H):
        if h + 1 < H:
            for s in range(S):
                link = factors[h, s, S:]
                for y in range(S):
                    x[h + 1, y] -= link[y] * x[h, s]
        substitute(factors[h], x[h])
    # backward: x(h) -= carried(h) x(h + 1); d log w = w / (w + c) (x(h, s) - p x(h + 1))
    slope = most = 0.0
    for h in range(H - 1, -1, -1):
        t = min(h, law.shape[0] - 1)
        for s in range(S):
            if not reach[h, s]:
                x[h, s] = 0.0
                continue
            x[h, s] -= product(factors[h, s, S:], x[h + 1])
            slope += flow[h, s] * x[h, s]
            for a in range(A):
                change = x[h, s]
                if h + 1 < H:
                    for j in range(slots):
                        change -= law[t, s, a, j] * x[h + 1, successors[t, s, a, j]]
                most = max(most, abs(change) * w[h, s, a] / (w[h, s, a] + c[h, s, a]))
    return slope, most


@njit(cache=True)
def lead(rows: BarrierRows, b: Floats, c: Floats, V: Floats, w: Floats, steps: int) -> float:
    """Maximise the dual from V (H + 1, S) in at most so many steps. Writes V and w (H, S, A).

    Returns the estimated error of log w; the solve has converged if it is at most `CLOSE`.
    """
    H, S, _ = w.shape
    x, flow = np.zeros(V.shape), np.zeros((H, S))
    factors = np.zeros((H, S, 2 * S))
    value = evaluate(rows, b, c, V, w, flow)
    fresh, last = True, 1.0
    for _ in range(steps):
        if not abs(value) < np.inf:
            break
        # stage 1: the factors of M at this point, unless the old ones are good enough
        if fresh:
            factorise(rows, c, w, factors)
        # stage 2: Newton's direction; with old factors only while directions become short quickly
        slope, most = direction(rows, c, w, flow, factors, x)
        if not (slope >= 0.0 and slope < np.inf and most < np.inf):
            break
        if not fresh and most > SLOW * last:
            fresh = True
            continue
        # the estimated error of log w after this step: quadratic with new factors, else linear
        left = most * most / (1.0 if fresh else last)
        length = 1.0 if most <= 1.0 else 1.0 / most
        before = V.copy()
        # stage 3: halve the step until the slope has not reversed and the dual has not fallen
        while length >= SHORTEST:
            V[:] = before + length * x
            now = evaluate(rows, b, c, V, w, flow)
            if left <= CLOSE:
                return left
            there = (flow * x[:H]).sum()
            if there >= -0.5 * slope and now >= value - 1e-11 * (1.0 + abs(value)):
                break
            length *= 0.5
        if length < SHORTEST:  # rounding dominates: no further progress is possible
            V[:] = before
            evaluate(rows, b, c, V, w, flow)
            break
        value = now
        fresh, last = length < 1.0 or most > SLOW, most
    return np.inf
