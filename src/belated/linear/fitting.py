"""Models from sums: exposures of blocks, ridge regressions, variances.

With x_k the features of the chosen action, r_k the outcome of decision k so far, F_k its exposure,
w_k its precision, g the discount of a memory, and D the ridge:

    V_i = D + sum g^(t-k) w_k F_k x_k x_k'
    b_i = sum g^(t-k) w_k r_k x_k
    f_i = sum g^(t-k) w_k F_k x_k

over the decisions of model i; E[r_k | x_k] = F_k E[outcome | x_k] makes this the regression of the
outcome. One unpenalised constant mu for all models is eliminated in closed form,

    mu = (sum r - sum_i f_i' V_i^-1 b_i) / (sum F - sum_i f_i' V_i^-1 f_i)
    theta_i = V_i^-1 (b_i - mu f_i)

The variance of x' theta_i is sigma^2 x' A_i^-1 x; A_i is D and the sum of x_k x_k' over all
decisions of the model, including pending ones, averaged over the memories by weight. A decision
changes A_i^-1 at once (Sherman & Morrison 1950); the rest is fitted anew when it is stale: see
`is_stale`.

Symmetric matrices are stored as the rows of their upper triangle, or as their diagonal if there are
as many numbers as features; see `solve_each` for the fit in that case.
"""

from __future__ import annotations

import math

import numpy as np

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit
from belated.linear.exposure import CLOCK, share_at
from belated.linear.sums import (
    BASE,
    BEGUN,
    BLOCKS,
    CONSTANT,
    DISCOUNT,
    EXPOSED,
    FEATURES,
    HITS,
    LEFT,
    MASS,
    REPORTED_THEN,
    SCALE,
    SILENT,
    TOTAL,
    WEIGHT,
    WHEN,
    State,
    add_four,
    add_products,
    add_row,
    add_stack,
    clear,
    scale_row,
)

PSEUDO = 0.1
"""The weight of the mean outcome in the constant of all models."""
WIDE = 32
"""The number of features above which the models are fitted less often."""
SAMPLES = 4
"""The number of decisions of a block whose ages determine its exposure."""
FADED = 1e-9
"""The weight below which a block of decisions is left out."""
FAR = 1e6
"""The variance of a decision, in that of an outcome, above which variances are fitted anew."""
PART = 1024
"""The number of products that stay in the fastest cache; see `forms`."""
LEAST_SQUARE = 1e-100
"""The smallest mean square of a feature, so that nothing is divided by 0."""
STALE = 0.1
STALE_WIDE = 0.4
"""The share of a model's decisions that may change before it is fitted anew."""
LITTLE = 0.25
"""The weight of a memory below which three times as much may change."""


@njit(cache=True)
def block_shares(s: State, log: Floats, seen: int, time: float) -> None:
    """Write the mean exposure of each block and model to s.shares.

    log, seen, time: see `exposure.advance`.
    """
    base = s.counts[BASE]
    for place in range(s.counts[BLOCKS]):
        slot = s.order[place]
        width = s.high[slot] - s.low[slot]
        count = min(width, SAMPLES)
        row = s.shares[slot]
        kept = 0
        clear(row)
        for n in range(count):
            k = s.low[slot] + ((2 * n + 1) * width) // (2 * count)
            if k >= base:
                kept += 1
                if k < seen:
                    share_at(s.edges, s.delays, s.within, time - log[k - base, CLOCK], row, 1.0)
        for i in range(len(row)):
            row[i] /= max(kept, 1)


@njit(cache=True, fastmath={"reassoc", "contract"})
def dot(x: Floats, y: Floats) -> float:
    """The sum of the products of two arrays (d,)."""
    total = 0.0
    for u in range(len(x)):
        total += x[u] * y[u]
    return total


@njit(cache=True)
def factor(V: Floats, d: int) -> None:
    """Overwrite V (t,) with the upper triangle of U, V = U'U; a diagonal with its root."""
    if len(V) == d:
        for u in range(d):
            V[u] = math.sqrt(V[u])
        return
    first = 0  # of the row p
    for p in range(0, d, 4):
        n = d - p
        start = first
        for j in range(min(4, n)):
            row = V[start : start + n - j]
            scale_row(row, 1.0 / math.sqrt(row[0]))
            start += n - j
            below = start
            for u in range(1, min(4, n) - j):
                add_row(V[below : below + n - j - u], row[u:], -row[u])
                below += n - j - u
        # four rows are subtracted from those below at once; u is the index of a column in the first
        second, third, fourth = first + n - 1, first + 2 * n - 3, first + 3 * n - 6
        for u in range(4, n):
            a, b, c, e = V[first + u :], V[second + u :], V[third + u :], V[fourth + u :]
            add_four(V[start : start + n - u], a, b, c, e, (-a[0], -b[0], -c[0], -e[0]))
            start += n - u
        first = fourth + n


@njit(cache=True, fastmath={"reassoc", "contract"})
def solve(U: Floats, x: Floats, y: Floats) -> None:
    """Overwrite x (d,) with V^-1 x and y (d,) with V^-1 y, given the factor of V."""
    d = len(x)
    if len(U) == d:
        for u in range(d):
            x[u] /= U[u] * U[u]
            y[u] /= U[u] * U[u]
        return
    start = 0
    for u in range(d):
        x[u] /= U[start]
        y[u] /= U[start]
        row, one, two = U[start + 1 : start + d - u], x[u], y[u]
        above, beside = x[u + 1 :], y[u + 1 :]
        for v in range(d - u - 1):
            above[v] -= one * row[v]
            beside[v] -= two * row[v]
        start += d - u
    for u in range(d - 1, -1, -1):
        start -= d - u
        row, one, two = U[start + 1 : start + d - u], 0.0, 0.0
        above, beside = x[u + 1 :], y[u + 1 :]
        for v in range(d - u - 1):
            one += row[v] * above[v]
            two += row[v] * beside[v]
        x[u] = (x[u] - one) / U[start]
        y[u] = (y[u] - two) / U[start]


@njit(cache=True)
def solve_each(V: Floats, x: Floats, n: float, constant: int, r: float, b: Floats) -> None:
    """Overwrite b (d,) with one regression per feature, each with a constant.

    This is what the squares V (d,) and the sums x (d,) allow without covariances; with one feature
    it is the ordinary regression. n, r: the number of decisions and the sum of the outcomes.
    constant: 1 if the last feature is 1; otherwise that of all models is fitted, not penalised.
    """
    last = len(b) - constant
    count = V[last] if constant else n
    if count <= 0.0:
        return
    mean, shift = r / count, 0.0
    for u in range(last):
        b[u] = (b[u] - mean * x[u]) / (V[u] - x[u] * x[u] / count)
        shift += b[u] * x[u]
    if constant:
        b[last] = mean - shift / count


@njit(cache=True)
def inverse(U: Floats, d: int, out: Floats) -> None:
    """Write V^-1 to out (t,), given the factor of V."""
    if len(U) == d:
        for u in range(d):
            out[u] = 1.0 / (U[u] * U[u])
        return
    # Row u of W is row u of the inverse of U' (lower triangular); V^-1 = W' W.
    W = np.zeros((d, d))
    for u in range(d):
        row = W[u, : u + 1]
        row[u] = 1.0
        place = u  # of U[k, u]
        k = 0
        while k + 4 <= u:
            second = place + d - k - 1
            third = second + d - k - 2
            fourth = third + d - k - 3
            weights = (-U[place], -U[second], -U[third], -U[fourth])
            add_four(row[: k + 4], W[k], W[k + 1], W[k + 2], W[k + 3], weights)
            place = fourth + d - k - 4
            k += 4
        while k < u:
            add_row(row[: k + 1], W[k], -U[place])
            place += d - k - 1
            k += 1
        scale_row(row, 1.0 / U[place])
    clear(out)
    k = 0
    while k < d:
        many = 4 if k + 4 <= d else 1
        start = 0
        for u in range(k + many):
            row = out[start : start + k + many - u]
            if many == 4:
                a, b, c, e = W[k, u:], W[k + 1, u:], W[k + 2, u:], W[k + 3, u:]
                add_four(row, a, b, c, e, (a[0], b[0], c[0], e[0]))
            else:
                add_row(row, W[k, u:], W[k, u])
            start += d - u
        k += many


@njit(cache=True, fastmath={"reassoc", "contract"})
def quadratic(C: Floats, x: Floats) -> float:
    """X' C x; C (t,)."""
    d = len(x)
    total = 0.0
    if len(C) == d:
        for u in range(d):
            total += C[u] * x[u] * x[u]
        return total
    start, u = 0, 0
    while u + 1 < d:  # two rows at a time
        n = d - u
        first, second, rest = C[start + 2 : start + n], C[start + n + 1 :], x[u + 2 :]
        one, two = 0.0, 0.0
        for v in range(n - 2):
            one += first[v] * rest[v]
            two += second[v] * rest[v]
        total += x[u] * (C[start] * x[u] + 2.0 * (C[start + 1] * x[u + 1] + one))
        total += x[u + 1] * (C[start + n] * x[u + 1] + 2.0 * two)
        start += 2 * n - 1
        u += 2
    if u < d:
        total += C[start] * x[u] * x[u]
    return total


@njit(cache=True, fastmath={"reassoc", "contract"})
def dots(x: Floats, y: Floats, z: Floats) -> tuple[float, float]:
    """The sums of the products of x and z, and of y and z, all (d,)."""
    one, two = 0.0, 0.0
    for u in range(len(z)):
        one += x[u] * z[u]
        two += y[u] * z[u]
    return one, two


@njit(cache=True)
def forms(C: Floats, models: Ints, P: Floats, out: Floats) -> None:
    """Write x' C_i x of every model to out (n,); C (A, t), P: of x, see `half_products`.

    A part of P that fits the fastest cache is used for all models before the next part, and for two
    of them at a time.
    """
    n = len(models)
    clear(out)
    for start in range(0, len(P), PART):
        part = P[start : start + PART]
        end = start + len(part)
        for a in range(0, n - 1, 2):
            one, two = dots(C[models[a], start:end], C[models[a + 1], start:end], part)
            out[a] += 2.0 * one
            out[a + 1] += 2.0 * two
        if n % 2:
            out[n - 1] += 2.0 * dot(C[models[n - 1], start:end], part)


@njit(cache=True, fastmath={"reassoc", "contract"})
def product(C: Floats, x: Floats) -> Floats:
    """C x of a symmetric matrix (t,)."""
    d = len(x)
    y = np.zeros(d)
    start = 0
    for u in range(d):
        row, rest, above = C[start + 1 : start + d - u], x[u + 1 :], y[u + 1 :]
        own, total = x[u], C[start] * x[u]
        for v in range(d - u - 1):  # the row, and the column that equals it
            total += row[v] * rest[v]
            above[v] += row[v] * own
        y[u] += total
        start += d - u
    return y


@njit(cache=True)
def add_one(C: Floats, x: Floats) -> bool:
    """Overwrite the inverse C (t,) of a matrix A with that of A + x x'.

    Returns False, and changes nothing, if x is so far from all that A has seen that rounding errors
    would spoil C.
    """
    d = len(x)
    if len(C) == d:
        for u in range(d):
            C[u] /= 1.0 + C[u] * x[u] * x[u]
        return True
    y = product(C, x)
    q = dot(x, y)
    if not 0.0 <= q < FAR:
        return False
    add_products(C, y, -1.0 / (1.0 + q))
    return True


@njit(cache=True)
def ridge_of(features: Floats, plays: float, out: Floats) -> float:
    """Penalties (d,): the mean square of each feature where nonzero, times their mean number.

    Returns that number.
    """
    d = features.shape[1]
    count = 0.0
    for u in range(d):
        count += features[0, u]
    count = max(count / max(plays, 1.0), 1.0)
    for u in range(d):
        square = features[1, u] / features[0, u] if features[0, u] > 0.0 else 1.0
        out[u] = count * max(square, LEAST_SQUARE)
    return count


@njit(cache=True)
def add_ridge(V: Floats, ridge: Floats) -> None:
    """Add the penalties (d,) to the diagonal of V (t,)."""
    d = len(ridge)
    place = 0
    for u in range(d):
        V[place] += ridge[u]
        place += 1 if len(V) == d else d - u


@njit(cache=True)
def is_stale(s: State, m: int, i: int, exposed: float, count: float) -> bool:
    """Whether model i of memory m must be fitted anew.

    The change in weight since the last fit is compared with the weight of the decisions and of the
    ridge, which counts as `count` of them. A report moves a mean by 1 / sqrt(reports) of its
    standard error; with many features a fit is expensive, and waits until the reports have grown by
    a share. exposed: the decisions of the model, by their exposure.
    """
    fit, hits = s.fits[m, i], s.tally[HITS, i]
    if fit[WHEN] < 0.0:
        return True
    wide = s.counts[FEATURES] > WIDE
    limit = STALE_WIDE if wide else STALE
    if s.memory[WEIGHT, m] < LITTLE:
        limit *= 3.0
    enough = 0.5 * limit * hits if wide else 2.0 * limit * math.sqrt(hits)
    if abs(hits - fit[REPORTED_THEN]) > enough:
        return True
    known, since = fit[MASS], s.counts[BEGUN] - fit[WHEN]
    gone = min((1.0 - s.memory[DISCOUNT, m]) * since, 1.0) * known  # at least the true share
    return bool(abs(exposed - fit[EXPOSED]) + gone > limit * (known + count))


@njit(cache=True)
def fit_model(s: State, m: int, i: int, discounts: Floats, ridge: Floats, V: Floats) -> None:
    """Fit model i of memory m, up to the constant, and write it to s.fits.

    discounts: of memories and blocks, by slot. V: working memory (t,).
    """
    d, t = len(ridge), len(V)
    fit = s.fits[m, i]
    b, f = fit[:d], fit[d : 2 * d]
    x = np.zeros(d)
    clear(b)
    clear(V)
    # stage 1: b = sum of w r x, x = sum of w F x and V = sum of w F x x', over the settled sum and
    # all blocks
    blocks = s.counts[BLOCKS]
    slots, weights, count = np.empty_like(s.order), np.empty(blocks), 0
    n, r = 0.0, 0.0
    for place in range(-1, blocks):
        if place < 0:  # its sums are divided by the scale of the memory, which may be tiny
            row, weight = s.old[m, i], s.memory[SCALE, m]
            seen = weight
        else:
            slot = s.order[place]
            row = s.young[slot, i]
            weight = discounts[m, slot] * s.precisions[slot, i]
            seen = weight * s.shares[slot, i]
            if weight < FADED:
                continue
        if row[0] == 0.0:
            continue
        n += seen * row[0]
        r += weight * row[1]
        add_row(b, row[2 + d : 2 + 2 * d], weight)
        if seen > 0.0:
            add_row(x, row[2 : 2 + d], seen)
            if place < 0:
                add_row(V, row[2 + 2 * d : 2 + 2 * d + t], seen)
            else:
                slots[count], weights[count] = slot, seen
                count += 1
    add_stack(V, s.young, i, 2 + 2 * d, slots, weights, count)
    add_ridge(V, ridge)
    # stage 2: V^-1 b and V^-1 f
    clear(f)
    add_row(f, x, 1.0)
    if t == d:
        solve_each(V, x, n, s.counts[CONSTANT], r, b)
        solve_each(V, x, n, s.counts[CONSTANT], n, f)
    else:
        factor(V, d)
        solve(V, b, f)
    # stage 3: the terms of the constant mu: sum r - f' V^-1 b and sum F - f' V^-1 f
    fit[MASS] = n
    fit[TOTAL] = r - dot(x, b)
    fit[LEFT] = n - dot(x, f)


@njit(cache=True)
def fit_spread(s: State, i: int, discounts: Floats, ridge: Floats, V: Floats) -> None:
    """Write A_i^-1, of all decisions of model i averaged over the memories, to s.spread."""
    d, M = len(ridge), s.memory.shape[1]
    clear(V)
    first = 2 + 2 * d
    for m in range(M):
        weight = s.memory[WEIGHT, m] * s.memory[SCALE, m]
        if s.counts[SILENT]:
            add_row(V, s.old[m, i, first:], weight)
        else:  # every outcome reports: `asked` has the sums of all decisions
            add_row(V, s.asked[m, i], weight)
    blocks = s.counts[BLOCKS]
    slots, weights, count = np.empty_like(s.order), np.zeros(blocks), 0
    for place in range(blocks):
        slot = s.order[place]
        if s.young[slot, i, 0] != 0.0:
            for m in range(M):
                weights[count] += s.memory[WEIGHT, m] * discounts[m, slot]
            slots[count] = slot
            count += 1
    add_stack(V, s.young, i, first, slots, weights, count)
    add_ridge(V, ridge)
    factor(V, d)
    inverse(V, d, s.spread[i])
