"""Weights of follow-the-regularised-leader with half-Tsallis and negative entropy, for arms.

The weights x minimise <x, L> - 2 r sum sqrt(x_i) + c sum x_i ln x_i over the simplex. With
x_i = exp(-2 u_i) the condition of optimality is, for one number nu and every i,

    r exp(u_i) + 2 c u_i = L_i + nu,

so u_i is a Lambert W function in the log domain: a convex equation whose Newton steps fall from
above. The sum of the weights is convex in nu, so its Newton steps rise from below.
"""

import math

import numpy as np

from belated.core.arrays import Floats
from belated.core.compiled import njit

MOST_ROUNDS = 200
"""The largest number of Newton steps; ten are usual."""


@njit(cache=True)
def exponent(y: float, r: float, c: float) -> float:
    """The u of r exp(u) + 2 c u = y, for y >= r > 0 and c >= 0."""
    u = math.log(y / r)
    if c > 0.0:
        u = min(u, (y - r) / (2.0 * c))
        for _ in range(MOST_ROUNDS):
            rise = r * math.exp(u)
            step = (rise + 2.0 * c * u - y) / (rise + 2.0 * c)
            u -= step
            if step <= 1e-16 * (1.0 + u):
                break
    return max(u, 0.0)


@njit(cache=True)
def weights(losses: Floats, r: float, c: float) -> Floats:
    """The weights (A,) for losses (A,), r > 0 and c >= 0. They sum to 1."""
    A = losses.shape[0]
    x = np.empty(A)
    least = losses.min()
    nu = r  # gives the best arm all the weight, so the sum is 1 or more
    for _ in range(MOST_ROUNDS):
        # the weights for this nu, their sum, and minus its derivative: dx/dnu = -2 x du/dnu
        total = 0.0
        slope = 0.0
        for i in range(A):
            u = exponent(losses[i] - least + nu, r, c)
            x[i] = math.exp(-2.0 * u)
            total += x[i]
            slope += 2.0 * x[i] / (r * math.exp(u) + 2.0 * c)
        step = (total - 1.0) / slope  # Newton's step towards a sum of 1
        if step <= 1e-16 * nu:
            break
        nu += step
    return x / total
