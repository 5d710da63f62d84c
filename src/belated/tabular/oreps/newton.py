"""Newton's method for the update of Delayed O-REPS, on plain arrays.

The problem: given logarithmic weights b, find the occupancy measure q that minimises
``sum q (log q - b)``. With b = log q_reference - eta * cost this is one step of mirror descent.

The unknowns are multipliers V (H + 1, S) with V[H] = 0. A row is a triple (h, s, a), and p is its
next-state law: p is given if the transitions are known, and chosen inside a box if they are not.
The value of a row is

    phi(h, s, a) = min_p  sum_y p(y) (log p(y) - b(h, s, a, y) + V(h + 1, y))

    (known p: phi = -b(h, s, a) + sum_y p(y) V(h + 1, y), the entropy of p being part of b)

and any V gives a policy pi, and with it a measure that satisfies all constraints:

    W(h, s) = -logsumexp_a(-phi)     pi(a | h, s) = exp(W - phi)     d = density of pi and p

The residual m(h, s) = V - W - log d is zero at the optimum (up to one constant for each step h),
and the duality gap is exactly

    gap = sum_h  log E_d[exp m] - E_d[m]

Newton's direction x solves (I + G) y = -m, y = B x. Here (B x)(h) = x(h) - P(h) x(h + 1), and the
positive operator G is the derivative of the log densities by V. Two kernels solve this system:

    direction_by_gradients   conjugate gradients in the inner product of d; each iteration is one
                             backward and one forward sweep over the sparse rows
    direction_by_blocks      exact elimination of one step after the other; it takes H * S^3
                             operations and stays accurate however small the densities are

The named tuples below group related arrays. Every kernel is compiled for one signature
only, because every array is C-contiguous and always read-only or always writable:

    read-only   log_weights, log_start, the arrays of `BoxBounds`, `successors` of `NewtonRows`
    writable    all other arrays
"""

from typing import NamedTuple

import numpy as np

from belated.core.arrays import Bools, Floats, Indices
from belated.core.compiled import njit

BOX_SLACK = 1e-13  # a box whose bounds sum to 1 within this leaves no choice


class BoxBounds(NamedTuple):
    """A confidence box: successors, lower, upper (T, S, A, W); known, unseen (T, S, A).

    The first known[t, s, a] slots of a row are bounded by lower and upper, all other next states
    by 0 and unseen. T is 1 or H.
    """

    successors: Indices
    known: Indices
    lower: Floats
    upper: Floats
    unseen: Floats


class NewtonRows(NamedTuple):
    """The next-state laws in use and the states they can reach.

    successors: (T, S, A, W), next states by slot; or (1, S, A, S) for a box, whose slot j is
    state j in every row. law, log_law: (T, S, A, W), with probability 0 in slots that are padding;
    T is 1 or H, and H for a box. free: (H, S, A, S), whether a chosen probability is off its bounds
    (not read if the transitions are known). reach: (H, S), whether some policy reaches the state.
    box: whether `evaluate_rows` chooses the laws inside a box.
    """

    successors: Indices
    law: Floats
    log_law: Floats
    free: Bools
    reach: Bools
    box: bool


class Point(NamedTuple):
    """Multipliers and what follows from them, in the notation of the module.

    V: (H + 1, S). W, log_d, d, m: (H, S). log_pi, pi: (H, S, A).
    """

    V: Floats
    W: Floats
    log_pi: Floats
    pi: Floats
    log_d: Floats
    d: Floats
    m: Floats


Quality = tuple[float, float, float, float]
"""How good a point is: the objective, the duality gap, max |m| and the smallest log density.

The last two are taken over the states within reach. A plain tuple is returned to Python faster than
a named one.
"""


@njit(cache=True)
def exponentials(w: Floats, free: Bools, out: Floats) -> tuple[float, float]:
    """Write exp(w - top) to the free entries of out (S,). Returns top = max w, and their sum."""
    # top = max w first, so that no exponential overflows
    top = -np.inf
    for y in range(w.size):
        if free[y]:
            top = max(top, w[y])
    # then exp(w - top) and their sum
    total = 0.0
    for y in range(w.size):
        if free[y]:
            out[y] = np.exp(w[y] - top)
            total += out[y]
    return top, total


@njit(cache=True)
def beyond(
    scale: float, low: Floats, high: Floats, weights: Floats, free: Bools
) -> tuple[float, float]:
    """How much the free shares, weights * scale, are above the box in all, and below it."""
    over = under = 0.0
    for y in range(weights.size):
        if free[y]:
            share = weights[y] * scale
            if share > high[y]:
                over += share - high[y]
            elif share < low[y]:
                under += low[y] - share
    return over, under


@njit(cache=True)
def peg(
    scale: float,
    sides: tuple[bool, bool],
    low: Floats,
    high: Floats,
    p: Floats,
    log_p: Floats,
    free: Bools,
    rest: float,
) -> tuple[float, float]:
    """Peg the free variables beyond a side of the box to their bounds.

    sides: whether it is done above the box, and below it. log_p holds the weights of the free
    variables. Returns the sum of the weights that stay free, and what is left of the rest of p.
    """
    above, below = sides
    total = 0.0
    for y in range(p.size):
        if free[y]:
            share, bound = log_p[y] * scale, -1.0
            if above and share > high[y]:
                bound = high[y]
            elif below and share < low[y]:
                bound = low[y]
            if bound >= 0.0:
                free[y] = False
                p[y] = bound
                log_p[y] = np.log(bound)
                rest -= bound
            else:
                total += log_p[y]
    return total, max(rest, 1e-300)


@njit(cache=True)
def release(
    multiplier: float,
    w: Floats,
    low: Floats,
    high: Floats,
    p: Floats,
    log_p: Floats,
    free: Bools,
    rest: float,
) -> tuple[bool, float]:
    """Free the variables that the multiplier pulls off their bounds, and add their p to the rest.

    Returns whether there are any, and the rest.
    """
    found = False
    for y in range(p.size):
        if not free[y] and low[y] < high[y]:
            pull = log_p[y] - w[y]  # the multiplier at which y would leave its bound
            if (p[y] == high[y] and multiplier < pull - 1e-6) or (
                p[y] == low[y] and multiplier > pull + 1e-6
            ):
                free[y] = found = True
                rest += p[y]
    return found, rest


@njit(cache=True)
def choose_law(
    w: Floats, low: Floats, high: Floats, p: Floats, log_p: Floats, free: Bools
) -> float:
    """Minimise sum p (log p - w) over the box [low, high] and the simplex. All arrays: (S,).

    The minimiser is clip(exp(w + multiplier), low, high). Each round sets the variables that
    violate one side of the box to their bounds, on the side with the larger total violation. These
    variables are pegged: they keep their bounds, so at most S rounds are needed.
    Writes p, log_p and free (whether a variable is not pegged). Returns the minimum.
    """
    S = w.size
    value = mass = 0.0
    # stage 1: a box whose bounds sum to 1 leaves no choice; p is the bounds themselves
    floor, ceiling = low.sum(), high.sum()
    if floor >= 1.0 - BOX_SLACK or ceiling <= 1.0 + BOX_SLACK:
        bounds, sum_of_bounds = (low, floor) if floor >= 1.0 - BOX_SLACK else (high, ceiling)
        free[:] = False
        for y in range(S):
            p[y] = bounds[y] / sum_of_bounds
            log_p[y] = np.log(p[y]) if p[y] > 0.0 else -np.inf
            if p[y] > 0.0:  # 0 log 0 = 0
                value += p[y] * (log_p[y] - w[y])
        return value
    # stage 2: all variables with room start free, with p in proportion to exp(w)
    rest = 1.0  # mass left for the free variables
    free[:] = high > 0.0
    p[:] = 0.0
    log_p[:] = -np.inf
    top, total = exponentials(w, free, log_p)  # log_p holds exp(w - top) until the end
    scale, multiplier = 1.0, 0.0  # log p = w + multiplier for the free variables
    for _ in range(4):  # more than one round only where rounding has pegged too much
        for _ in range(S + 1):
            if total < 1e-30:  # the largest weights are pegged: measure the others from a new top
                top, total = exponentials(w, free, log_p)
                if top == -np.inf:
                    break
            # p = exp(w) scale fills the rest; what leaves the box most is pegged, and fills less
            scale = rest / total
            over, under = beyond(scale, low, high, log_p, free)
            if over == 0.0 and under == 0.0:
                break
            sides = (over >= under, under >= over)
            total, rest = peg(scale, sides, low, high, p, log_p, free, rest)
        multiplier = np.log(scale) - top
        if rest > 1e-9 or top == -np.inf:
            break
        # hardly any mass is left: a rounding error may have pegged one variable too many
        released, rest = release(multiplier, w, low, high, p, log_p, free, rest)
        if not released:
            break
        total = 0.0
    # stage 3: write p and log p = w + multiplier of the free variables; sum p (log p - w)
    for y in range(S):
        if free[y]:
            p[y] = log_p[y] * scale
            log_p[y] = w[y] + multiplier
            mass += p[y]
        elif p[y] > 0.0:
            value += p[y] * (log_p[y] - w[y])
    if mass > 0.0:
        value += mass * multiplier
    return value


@njit(cache=True)
def choose_in_box(
    bounds: BoxBounds,
    row: tuple[int, int, int],
    w: Floats,
    low: Floats,
    high: Floats,
    p: Floats,
    log_p: Floats,
    free: Bools,
) -> float:
    """Choose the law p of a row (t, s, a) inside its box, for the weights w. Returns the minimum.

    The arrays are those of `choose_law`; low and high are written: (S,).
    """
    successors, known, lower, upper, unseen = bounds
    t, s, a = row
    # unseen states lie in [0, unseen], and seen states have bounds of their own
    low[:] = 0.0
    high[:] = unseen[t, s, a]
    for j in range(known[t, s, a]):
        y = successors[t, s, a, j]
        low[y] = lower[t, s, a, j]
        high[y] = upper[t, s, a, j]
    return choose_law(w, low, high, p, log_p, free)


@njit(cache=True)
def evaluate_rows(
    log_weights: Floats, bounds: BoxBounds, rows: NewtonRows, point: Point, start: bool
) -> None:
    """Compute phi from V, and write W, log_pi and pi of the point.

    log_weights: b, of shape (H, S, A, 1) for known transitions and (H, S, A, S) for a box. If there
    is a box, the laws are chosen within the bounds too: law, log_law and free are written. V holds
    a guess of log d if start is True, and W is added to it from the last step to the first. States
    out of reach get W = V = 0 and the uniform policy.
    """
    successors, law, log_law, free, reach, box = rows
    V, W, log_pi, pi, _, _, _ = point
    H, S, A = pi.shape
    slots = law.shape[3]
    weights, low, high = np.empty(S), np.empty(S), np.empty(S)
    # backward over the steps, since phi(h) needs V(h + 1)
    for h in range(H - 1, -1, -1):
        t, r = min(h, law.shape[0] - 1), min(h, bounds.unseen.shape[0] - 1)
        for s in range(S):
            if not reach[h, s]:
                # out of reach: nothing to solve, and the uniform policy
                W[h, s] = V[h, s] = 0.0
                log_pi[h, s, :] = -np.log(A)
                pi[h, s, :] = 1.0 / A
                continue
            top = -np.inf
            for a in range(A):
                # phi(h, s, a) = min_p sum p (log p - b + V(h + 1)), with p in its box or given
                if box:
                    p, log_p, off = law[h, s, a], log_law[h, s, a], free[h, s, a]
                    weights[:] = log_weights[h, s, a] - V[h + 1]
                    phi = choose_in_box(bounds, (r, s, a), weights, low, high, p, log_p, off)
                else:
                    # phi = -b + p V(h + 1)
                    phi = -log_weights[h, s, a, 0]
                    for j in range(slots):
                        phi += law[t, s, a, j] * V[h + 1, successors[t, s, a, j]]
                log_pi[h, s, a] = -phi
                top = max(top, -phi)
            # W = -logsumexp(-phi) and pi = exp(W - phi), measured from the largest -phi
            total = 0.0
            for a in range(A):
                pi[h, s, a] = np.exp(log_pi[h, s, a] - top)
                total += pi[h, s, a]
            W[h, s] = -top - np.log(total)
            for a in range(A):
                pi[h, s, a] /= total
                log_pi[h, s, a] += W[h, s]
            if start:  # V held log d, and m = V - W - log d is 0 with V = log d + W
                V[h, s] += W[h, s]


@njit(cache=True)
def carry_logs(h: int, rows: NewtonRows, point: Point) -> None:
    """Write d(h) and log d(h), summed in logarithms from the densities of the step before.

    First the largest term of every state, then the sum of all terms relative to it.
    """
    successors, _, log_law, _, reach, _ = rows
    _, _, log_pi, _, log_d, d, _ = point
    _, S, A = log_pi.shape
    t, u = min(h - 1, successors.shape[0] - 1), min(h - 1, log_law.shape[0] - 1)
    top = np.full(S, -np.inf)
    d[h, :] = 0.0
    for sweep in range(2):
        for s in range(S):
            if not reach[h - 1, s]:
                continue
            for a in range(A):
                for j in range(log_law.shape[3]):
                    if log_law[u, s, a, j] > -np.inf:
                        y = successors[t, s, a, j]
                        term = log_d[h - 1, s] + log_pi[h - 1, s, a] + log_law[u, s, a, j]
                        if sweep == 0:
                            top[y] = max(top[y], term)
                        else:
                            d[h, y] += np.exp(term - top[y])
    for y in range(S):
        log_d[h, y] = top[y] + np.log(d[h, y]) if reach[h, y] else -np.inf
        d[h, y] = np.exp(log_d[h, y])


@njit(cache=True)
def carry_forward(log_start: Floats, rows: NewtonRows, point: Point) -> Quality:
    """Write the densities log_d, d and the residuals m. Returns how good the point is.

    Densities are summed as plain numbers. A step is summed again in logarithms if one of its
    densities is near the smallest float. m has mean 0 under d at every step. log_start: (S,), -inf
    where the start has no mass.
    """
    successors, law, _, _, reach, _ = rows
    V, W, log_pi, _, log_d, d, m = point
    H, S, A = log_pi.shape
    T, _, _, slots = successors.shape
    value = gap = residual = lowest = 0.0
    # the first step: its density is the start, and m = 0 since V(0) is no multiplier
    log_d[0, :] = log_start
    d[0, :] = np.exp(log_start)
    m[0, :] = 0.0
    for s in range(S):
        if reach[0, s]:
            value += d[0, s] * (log_start[s] + W[0, s])
            lowest = min(lowest, log_start[s])
    for h in range(1, H):
        t, u = min(h - 1, T - 1), min(h - 1, law.shape[0] - 1)
        # d(h) = sum over rows of d(h - 1) pi p, as plain numbers
        d[h, :] = 0.0
        for s in range(S):
            if d[h - 1, s] == 0.0:
                continue
            for a in range(A):
                mass = np.exp(log_d[h - 1, s] + log_pi[h - 1, s, a])
                if mass > 0.0:
                    targets = successors[t, s, a]
                    for j in range(slots):
                        d[h, targets[j]] += mass * law[u, s, a, j]
        small = False
        for y in range(S):
            if reach[h, y] and d[h, y] < 1e-280:
                small = True
            log_d[h, y] = np.log(d[h, y]) if d[h, y] > 0.0 else -np.inf
        if small:
            carry_logs(h, rows, point)
        # the residual m = V - W - log d, less its mean under d
        mean = mass = 0.0
        for y in range(S):
            m[h, y] = V[h, y] - W[h, y] - log_d[h, y] if reach[h, y] else 0.0
            mean += d[h, y] * m[h, y]
            mass += d[h, y]
        value -= mean
        mean /= mass
        # gap(h) = log E_d[exp m] - E_d[m] = log(1 + E_d[exp m - 1 - m]) for m of mean 0;
        # the last factor is a series for small m, and taken with log d for large m
        excess = 0.0
        for y in range(S):
            if reach[h, y]:
                m[h, y] -= mean
                residual = max(residual, abs(m[h, y]))
                lowest = min(lowest, log_d[h, y])
                if d[h, y] == 0.0 or abs(m[h, y]) > 30.0:
                    excess += np.exp(min(log_d[h, y] + m[h, y], 700.0)) - d[h, y] * (1.0 + m[h, y])
                elif abs(m[h, y]) < 1e-3:
                    k = m[h, y]
                    excess += d[h, y] * k * k * (0.5 + k * (1.0 + 0.25 * k) / 6.0)
                else:
                    excess += d[h, y] * (np.expm1(m[h, y]) - m[h, y])
        gap += np.log1p(max(excess, 0.0))
    return value, gap, residual, lowest


@njit(cache=True)
def evaluate(
    log_weights: Floats,
    log_start: Floats,
    bounds: BoxBounds,
    rows: NewtonRows,
    point: Point,
    start: bool,
) -> Quality:
    """Write all of the point that follows from V. Returns how good the point is.

    The arguments are those of `evaluate_rows` and `carry_forward`.
    """
    evaluate_rows(log_weights, bounds, rows, point, start)
    return carry_forward(log_start, rows, point)


@njit(cache=True)
def posteriors(h: int, rows: NewtonRows, point: Point, post: Floats) -> None:
    """Write Pr(row (h, s, a) and slot j | the state of slot j at step h + 1) to post (S, A, W)."""
    successors, law, log_law, _, reach, _ = rows
    _, _, log_pi, _, log_d, d, _ = point
    S, A, slots = post.shape
    t, u = min(h, successors.shape[0] - 1), min(h, law.shape[0] - 1)
    # the posterior divides by d(h + 1); tiny densities are divided by in logarithms
    small, inverse = False, np.zeros(S)
    for y in range(S):
        if reach[h + 1, y]:
            if log_d[h + 1, y] < -600.0:
                small = True
            else:
                inverse[y] = 1.0 / d[h + 1, y]
    # post = d(h, s) pi(a | s) p(y) / d(h + 1, y)
    for s in range(S):
        for a in range(A):
            targets = successors[t, s, a]
            if not reach[h, s]:
                post[s, a, :] = 0.0
            elif small:
                for j in range(slots):
                    term = log_d[h, s] + log_pi[h, s, a] + log_law[u, s, a, j]
                    post[s, a, j] = 0.0
                    if term > -np.inf:
                        post[s, a, j] = np.exp(min(term - log_d[h + 1, targets[j]], 0.0))
            else:
                mass = np.exp(log_d[h, s] + log_pi[h, s, a])
                for j in range(slots):
                    post[s, a, j] = mass * law[u, s, a, j] * inverse[targets[j]]


@njit(cache=True)
def respond(
    y: Floats,
    rows: NewtonRows,
    pi: Floats,
    post: Floats,
    spread: Floats,
    x: Floats,
    u: Floats,
) -> None:
    """Apply G to y (H, S): a backward sweep for x = B^-1 y, then a forward sweep for u = -G y.

    u (H, S) is the change of log d along x (H + 1, S), and x[H] = 0. The transitions must be known.
    post (H - 1, S, A, W) holds the posteriors. x, spread (H, S, A) and u are written.
    """
    successors, law, _, _, reach, _ = rows
    H, S, A = pi.shape
    slots = law.shape[3]
    u[:] = 0.0
    x[:] = 0.0
    # backward: x(h) = y(h) + E_pi[P x(h + 1)]; spread is how far a row is from that mean
    for h in range(H - 1, -1, -1):
        t = min(h, law.shape[0] - 1)
        for s in range(S):
            if not reach[h, s]:
                continue
            mean = 0.0
            if h < H - 1:
                for a in range(A):
                    ahead = 0.0
                    for j in range(slots):
                        ahead += law[t, s, a, j] * x[h + 1, successors[t, s, a, j]]
                    spread[h, s, a] = ahead
                    mean += pi[h, s, a] * ahead
                for a in range(A):
                    spread[h, s, a] -= mean
            x[h, s] = y[h, s] + mean
    # forward: u(h + 1) = posterior mean over rows of u(h) - spread
    for h in range(H - 1):
        t = min(h, law.shape[0] - 1)
        for s in range(S):
            if reach[h, s]:
                for a in range(A):
                    change = u[h, s] - spread[h, s, a]
                    for j in range(slots):
                        u[h + 1, successors[t, s, a, j]] += post[h, s, a, j] * change


@njit(cache=True)
def direction_by_gradients(
    rows: NewtonRows, point: Point, forcing: float, limit: int, x: Floats
) -> tuple[float, bool]:
    """Solve (I + G) y = -m by conjugate gradients, for known transitions.

    The iterations end when the norm of the residual under d is at most forcing times that of m, or
    at the limit. Writes B^-1 y to x (H + 1, S). Returns the slope of the value along x, and whether
    the residual is small enough.
    """
    _, _, _, pi, _, d, m = point
    H, S, A = pi.shape
    y, u = np.zeros((H, S)), np.zeros((H, S))
    spread = np.zeros((H, S, A))
    post = np.zeros((H - 1, S, A, rows.law.shape[3]))
    # what every product with G needs: the posteriors of all steps
    for h in range(H - 1):
        posteriors(h, rows, point, post[h])
    # start at y = 0, where the residual of the system is r = -m and the direction p = r; m(0) = 0
    r = -m
    p = r.copy()
    size = (r * r * d).sum()
    goal = forcing * forcing * size
    done = False
    for _ in range(limit):
        # stop once |r| <= forcing |m|, both under d
        done = size <= goal
        if done:
            break
        respond(p, rows, pi, post, spread, x, u)
        # curvature <p, (I + G) p> in the inner product of d; u = -G p
        curvature = (d[1:] * p[1:] * (p[1:] - u[1:])).sum()
        if not (curvature > 0.0 and curvature < np.inf):
            break
        # the step along p to the least error, then the next conjugate direction
        length, before, size = size / curvature, size, 0.0
        for h in range(1, H):
            for s in range(S):
                y[h, s] += length * p[h, s]
                r[h, s] -= length * (p[h, s] - u[h, s])
                size += r[h, s] * r[h, s] * d[h, s]
        p[1:] = r[1:] + size / before * p[1:]
    # x = B^-1 y, and the slope of the value along it: -<u, m> under d
    respond(y, rows, pi, post, spread, x, u)
    return -(d * u * m).sum(), done


@njit(cache=True, inline="always")
def subtract_four(row: Floats, by: Floats, table: Floats, first: int, start: int) -> None:
    """Subtract four rows of a table, from a column on and each times its entry of `by`."""
    a, b = table[first, start:], table[first + 1, start:]
    c, d = table[first + 2, start:], table[first + 3, start:]
    e, f, g, h = by[first], by[first + 1], by[first + 2], by[first + 3]
    for j in range(row.size):
        row[j] -= e * a[j] + f * b[j] + g * c[j] + h * d[j]


@njit(cache=True)
def eliminate(table: Floats) -> None:
    """Solve A X = B in place for table = [A B] (n, n + k): X replaces B, and A is overwritten.

    No rows are exchanged. A diagonal scaling turns A into a positive definite matrix, and for such
    matrices elimination in order is stable whatever the scaling. LAPACK exchanges rows: where
    densities span 200 powers of e its results have 7 to 10 right digits, and those here 12 (n = 100
    and 400), in about the same time. The loops take four columns at a time, so that they do more
    work for each number they load.
    """
    n, width = table.shape
    # forward: eliminate below the diagonal, four columns at a time
    for first in range(0, n, 4):
        end = min(first + 4, n)
        for i in range(first, end):
            for r in range(i + 1, n):
                f = table[r, i] / table[i, i]
                table[r, i] = f
                for j in range(i + 1, end if r >= end else width):
                    table[r, j] -= f * table[i, j]
        # apply the four columns to the rows below them
        for r in range(end, n):
            subtract_four(table[r, end:], table[r], table, first, end)
    # backward substitution, from the last row to the first:
    # X(i) = (B(i) - sum over r > i of A(i, r) X(r)) / A(i, i), four r at a time
    for i in range(n - 1, -1, -1):
        answer, r = table[i, n:], i + 1
        while r + 3 < n:
            subtract_four(answer, table[i], table, r, n)
            r += 4
        for last in range(r, n):
            for j in range(answer.size):
                answer[j] -= table[i, last] * table[last, n + j]
        answer *= 1.0 / table[i, i]


@njit(cache=True)
def add_chosen(
    h: int, rows: NewtonRows, post: Floats, left: Floats, right: Floats, M: Floats
) -> None:
    """Add what the laws chosen at step h contribute to the M (S, S) of the next step.

    A row without pegged slots contributes diag(post). One with pegged slots has diag(post) less
    post p^T / mass on its free slots, plus post p^T over all; these products of two vectors are
    subtracted together. left, right: (2 S A, S), written.
    """
    S, A, _ = post.shape
    used = 0
    for s in range(S):
        if not rows.reach[h, s]:
            continue
        for a in range(A):
            p, free = rows.law[h, s, a], rows.free[h, s, a]
            mass = 0.0
            for y in range(S):
                if free[y]:
                    mass += p[y]
                    M[y, y] += post[s, a, y]
            if mass <= 1.0 - 1e-12:
                left[used, :] = -post[s, a]
                right[used, :] = p
                used += 1
                if mass > 0.0:
                    left[used, :] = np.where(free, post[s, a], 0.0)
                    right[used, :] = np.where(free, p / mass, 0.0)
                    used += 1
    if used > 0:
        M -= np.dot(left[:used].T, right[:used])


@njit(cache=True)
def add_known(h: int, rows: NewtonRows, post: Floats, M: Floats) -> None:
    """Add posterior * p of the known rows of step h to the M (S, S) of the next step."""
    S, A, slots = post.shape
    t, u = min(h, rows.successors.shape[0] - 1), min(h, rows.law.shape[0] - 1)
    for s in range(S):
        for a in range(A):
            targets = rows.successors[t, s, a]
            for j in range(slots):
                if post[s, a, j] > 0.0:
                    for k in range(slots):
                        M[targets[j], targets[k]] += post[s, a, j] * rows.law[u, s, a, k]


@njit(cache=True)
def substitute_back(
    rows: NewtonRows, point: Point, carried: Floats, offset: Floats, x: Floats
) -> float:
    """Write x(h) = offset(h) + carried(h) x(h + 1), backward. Returns the slope -<d log d, m>."""
    successors, law, _, _, reach, _ = rows
    _, _, _, pi, _, d, m = point
    H, S, A = pi.shape
    T, _, _, slots = successors.shape
    slope = 0.0
    x[:] = 0.0
    for h in range(H - 1, 0, -1):
        t, u = min(h, T - 1), min(h, law.shape[0] - 1)
        for s in range(S):
            if not reach[h, s]:
                continue
            x[h, s] = offset[h, s]
            for y in range(S):
                x[h, s] += carried[h, s, y] * x[h + 1, y]
            answer = m[h, s] + x[h, s]
            for a in range(A):
                targets = successors[t, s, a]
                ahead = 0.0
                for j in range(slots):
                    ahead += law[u, s, a, j] * x[h + 1, targets[j]]
                answer -= pi[h, s, a] * ahead
            slope -= d[h, s] * answer * m[h, s]
    return slope


@njit(cache=True)
def direction_by_blocks(rows: NewtonRows, point: Point, x: Floats) -> float:
    """Solve Newton's system exactly by eliminating the steps 1, 2, ... in turn.

    K is the posterior of the previous state, M = sum over rows of posterior * p, and the system is
    -K x(h - 1) + (I + M) x(h) - P x(h + 1) = -(m(h) - K m(h - 1)). The eigenvalues of the pivots
    lie in [1, 2] however small the densities are. The free slots of a chosen law add their
    covariance to M. Writes x (H + 1, S). Returns the slope of the value along x. The kernel
    allocates arrays of about H * S^2 numbers.
    """
    successors, law, _, _, reach, box = rows
    _, _, _, pi, _, _, m = point
    H, S, A = pi.shape
    T, _, _, slots = successors.shape
    post = np.zeros((S, A, slots))
    carried = np.zeros((H, S, S))  # pivot^-1 P of every step
    offset = np.zeros((H, S))  # pivot^-1 times the right-hand side
    origin = np.zeros((S, S))  # transposed K: origin[s, y] = Pr(s at h - 1 | y at h)
    table = np.zeros((S, 2 * S + 1))  # the pivot of a step, its P and its right-hand side
    most = 2 * S * A if box else S
    left, right = np.zeros((most, S)), np.zeros((most, S))
    for h in range(H):
        # the pivot is M of this step here, made from the rows of the step before
        if h > 0:
            # stage 1: pivot = I + M - K carried(h - 1), and the right-hand side
            # -m(h) + K (offset(h - 1) + m(h - 1))
            if box:
                table[:, :S] -= np.dot(origin.T, carried[h - 1])
            else:
                for s in range(S):
                    for y in range(S):
                        if origin[s, y] > 0.0:
                            for z in range(S):
                                table[y, z] -= origin[s, y] * carried[h - 1, s, z]
            for y in range(S):
                table[y, y] += 1.0
                total = -m[h, y]
                for s in range(S):
                    total += origin[s, y] * (offset[h - 1, s] + m[h - 1, s])
                table[y, 2 * S] = total
        t, u = min(h, T - 1), min(h, law.shape[0] - 1)
        table[:, S : 2 * S] = 0.0
        origin[:] = 0.0
        # stage 2: P of this step (to be carried on), and K of the next one
        if h < H - 1:
            posteriors(h, rows, point, post)
            for s in range(S):
                if reach[h, s]:
                    for a in range(A):
                        targets = successors[t, s, a]
                        for j in range(slots):
                            table[s, S + targets[j]] += pi[h, s, a] * law[u, s, a, j]
                            origin[s, targets[j]] += post[s, a, j]
        # stage 3: carried = pivot^-1 P and offset = pivot^-1 times the right-hand side
        if h > 0:
            eliminate(table)
            offset[h, :] = table[:, 2 * S]
        carried[h, :] = table[:, S : 2 * S]
        table[:, :S] = 0.0
        if h == H - 1:
            break
        # stage 4: M of the next step
        if box:
            add_chosen(h, rows, post, left, right, table[:, :S])
        else:
            add_known(h, rows, post, table[:, :S])
    return substitute_back(rows, point, carried, offset, x)
