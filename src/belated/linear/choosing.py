"""The policy of one decision: optimistic Thompson sampling, as exact probabilities.

In each of 64 rounds an action scores m_a + c sigma s_a sqrt(v_a) max(z_a, 0) with independent
standard normal z_a; its probability is the share of the rounds in which it scores best.

c is .35 / sqrt(n), n the number of nonzero features: s_a grows with sqrt(n), and what is learned of
an action from one visitor applies to the others. c is up to 1 if few reports are expected: with
q = x' A^-1 x, about 1 / q decisions inform about an action, and rate / q of them report. Without
that, an action whose first twenty decisions have no outcome would be dropped, although it may be
the best.
"""

from __future__ import annotations

import math

import numpy as np

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit
from belated.linear.chance import ABOVE, LEVELS, PARTS, hashed, key_of
from belated.linear.fitting import dot, forms, quadratic
from belated.linear.sums import FOLLOWS, MEAN, OFFSET, OPTIMISM, RATE, SIGMA

ROUNDS = 64
WIDTH = 0.35
"""The width of a draw in standard deviations, for one feature."""
FEW = 8.0
"""The expected number of reports of an action below which its draws are wider."""


@njit(cache=True)
def shares_of_rounds(means: Floats, widths: Floats, seed: int, number: int, out: Floats) -> None:
    """Write the share of the rounds in which each action is best to out (n,); ties are divided."""
    n = len(means)
    best = -math.inf
    for a in range(n):
        out[a] = 0.0
        best = max(best, means[a])
    # stage 1: the actions that can be best in some round
    rivals = np.empty(n, dtype=np.int64)
    count = 0
    for a in range(n):
        if means[a] + widths[a] * ABOVE[LEVELS - 1] >= best:
            rivals[count] = a
            count += 1
    if count == 1:
        out[rivals[0]] = 1.0
        return
    # stage 2: the scores m_a + width_a max(z_a, 0) of all rounds, and the best of each round
    each = (ROUNDS + PARTS - 1) // PARTS
    key = key_of(seed, number, 1)
    scored = np.empty((count + 2, each * PARTS))
    top, ties = scored[count], scored[count + 1]
    for s in range(ROUNDS):
        top[s], ties[s] = -math.inf, 0.0
    for c in range(count):
        a = rivals[c]
        row = scored[c]
        for h in range(each):
            bits = hashed(key, each * a + h)
            for p in range(PARTS):
                row[PARTS * h + p] = ABOVE[int(bits & np.uint64(LEVELS - 1))]
                bits >>= np.uint64(12)
        for s in range(ROUNDS):
            row[s] = means[a] + widths[a] * row[s]
            top[s] = max(top[s], row[s])
    # stage 3: the share of the rounds in which an action has the best score
    for c in range(count):
        row = scored[c]
        for s in range(ROUNDS):
            ties[s] += 1.0 if row[s] == top[s] else 0.0
    for c in range(count):
        row = scored[c]
        share = 0.0
        for s in range(ROUNDS):
            share += 1.0 / ties[s] if row[s] == top[s] else 0.0
        out[rivals[c]] = share / ROUNDS


@njit(cache=True)
def scores(
    rows: Floats,
    P: Floats,
    models: Ints,
    theta: Floats,
    spread: Floats,
    level: Floats,
    means: Floats,
    widths: Floats,
    factors: Floats,
) -> None:
    """Write mean, width and variance factor of every available action to three arrays (n,).

    rows: (n, d) features, or (1, d) for all, whose products are P; see `sums.half_products`.
    """
    sigma, mean = level[SIGMA], level[MEAN]
    if len(rows) == 1:
        forms(spread, models, P, widths)
    else:
        for a in range(len(models)):
            widths[a] = quadratic(spread[models[a]], rows[a])
    for a in range(len(models)):
        x = rows[a if len(rows) > 1 else 0]
        i = models[a]
        m = level[OFFSET] + dot(theta[i], x)
        q = max(widths[a], 0.0)
        factors[a] = 1.0
        if level[FOLLOWS] > 0.0:
            ratio = max(m / mean, 0.0)
            factors[a] = max(ratio, min(1.0, ratio + q * (sigma / mean) ** 2))
        means[a] = m
        optimism = level[OPTIMISM]
        if level[RATE] > 0.0:
            optimism = max(optimism, min(1.0, optimism * FEW * q / level[RATE]))
        widths[a] = optimism * sigma * math.sqrt(q * factors[a])
