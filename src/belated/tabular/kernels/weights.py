"""Exponential weights in log space."""

import math

from belated.core.arrays import Floats
from belated.core.compiled import njit

DEEPEST = 746.0
"""exp(-x) is 0 from here on."""


@njit(cache=True)
def softmax(total: Floats, rates: Floats, policy: Floats) -> None:
    """Exponential weights of the running total: exp(-rates * total), each row divided by its sum.

    total: (H, S, A), finite; its row minima are subtracted in place, which changes no policy and
    keeps the numbers small. rates: (1 or H,), at least 0. policy: (H, S, A), written.
    """
    H, S, A = total.shape
    for h in range(H):
        rate = rates[min(h, rates.shape[0] - 1)]
        sums, weights = total[h], policy[h]
        for s in range(S):
            lowest, least = sums[s, 0], 0
            for a in range(1, A):
                less = sums[s, a] < lowest
                lowest = sums[s, a] if less else lowest
                least = a if less else least
            for a in range(A):
                sums[s, a] -= lowest
            for i in range(A - 1):  # all but `least`, whose weight is 1; without a branch
                a = i + (1 if i >= least else 0)
                exponent = rate * sums[s, a]
                weights[s, a] = math.exp(-exponent) if exponent < DEEPEST else 0.0
            weights[s, least] = 1.0
        for s in range(S):
            normaliser = 0.0
            for a in range(A):
                normaliser += weights[s, a]
            for a in range(A):
                weights[s, a] /= normaliser


@njit(cache=True)
def are_distributions(rows: Floats, tolerance: float) -> bool:
    """Whether every row is a probability distribution. rows: (R, N)."""
    R, N = rows.shape
    for r in range(R):
        total = 0.0
        for i in range(N):
            if not rows[r, i] >= 0.0:
                return False
            total += rows[r, i]
        if not abs(total - 1.0) <= tolerance:
            return False
    return True
