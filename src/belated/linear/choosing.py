"""The policy of one decision: optimistic Thompson sampling, as exact probabilities.

In each of 64 rounds an action scores m_a + c sigma s_a sqrt(v_a) max(z_a, 0) with independent
standard normal z_a; its probability is the share of the rounds in which it scores best.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from belated.core.arrays import Floats, Ints
from belated.linear.chance import normal_above, uniforms

ROUNDS = 64


@njit(cache=True)
def quadratic(C: Floats, x: Floats) -> float:
    """X' C x; C (d, d), or a diagonal (d, 1)."""
    d, e = C.shape
    total = 0.0
    if e == 1:
        for u in range(d):
            total += C[u, 0] * x[u] * x[u]
        return total
    row = np.zeros(d)
    for u in range(d):
        if x[u] != 0.0:
            for v in range(d):
                row[v] += x[u] * C[u, v]
    for v in range(d):
        total += row[v] * x[v]
    return total


@njit(cache=True)
def shares_of_rounds(means: Floats, widths: Floats, seed: int, number: int) -> Floats:
    """The share of the rounds in which each action is best; a tie is divided. Shape (n,)."""
    n = len(means)
    shares = np.zeros(n)
    if n == 1:
        shares[0] = 1.0
        return shares
    draws = uniforms(seed, number, 1, ROUNDS * n)
    scores = np.empty(n)
    for s in range(ROUNDS):
        best = -math.inf
        ties = 0
        for a in range(n):
            scores[a] = means[a] + widths[a] * normal_above(draws[s * n + a])
            if scores[a] > best:
                best, ties = scores[a], 1
            elif scores[a] == best:
                ties += 1
        for a in range(n):
            if scores[a] == best:
                shares[a] += 1.0 / (ROUNDS * ties)
    return shares


@njit(cache=True)
def scores(
    rows: Floats,
    models: Ints,
    theta: Floats,
    constant: float,
    spread: Floats,
    sigma: float,
    mean: float,
    optimism: float,
) -> tuple[Floats, Floats, Floats]:
    """Mean, width and variance factor of every action at hand: three arrays (n,).

    rows: (n, d) features, or (1, d) for all. mean: of the outcomes where their variance follows
    it, else 0.
    """
    n = len(models)
    means, widths, factors = np.empty(n), np.empty(n), np.ones(n)
    for a in range(n):
        x = rows[a] if len(rows) > 1 else rows[0]
        i = models[a]
        m = constant
        for u in range(len(x)):
            m += theta[i, u] * x[u]
        q = quadratic(spread[i], x)
        if mean > 0.0:
            u_a = max(m / mean, 0.0)
            factors[a] = max(u_a, min(1.0, u_a + q * (sigma / mean) ** 2))
        means[a] = m
        widths[a] = optimism * sigma * math.sqrt(max(q, 0.0) * factors[a])
    return means, widths, factors
