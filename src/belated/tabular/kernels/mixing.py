"""The policy of a mixture of two occupancy measures."""

import numpy as np

from belated.core.arrays import Floats
from belated.core.compiled import njit
from belated.tabular.kernels.planning import Rows

SMALL = 1e-12
"""In states with a smaller probability the policies are mixed directly."""


@njit(cache=True)
def mix(
    rows: Rows, first: Floats, second: Floats, weight: float, start: Floats, mixed: Floats
) -> None:
    """Write the policy (H, S, A) of weight * measure of first + (1 - weight) * that of second."""
    successors, probabilities = rows
    T, S, A, W = successors.shape
    H = mixed.shape[0]
    here = np.empty((2, S))
    here[0], here[1] = start, start
    onward = np.empty((2, S))
    for h in range(H):
        t = min(h, T - 1)
        onward[:] = 0.0
        for s in range(S):
            one, two = weight * here[0, s], (1.0 - weight) * here[1, s]
            if one + two > SMALL:
                one, two = one / (one + two), two / (one + two)
            else:
                one, two = weight, 1.0 - weight
            for a in range(A):
                # Rounding must not lift a probability above 1.
                mixed[h, s, a] = min(one * first[h, s, a] + two * second[h, s, a], 1.0)
                mass_one = here[0, s] * first[h, s, a]
                mass_two = here[1, s] * second[h, s, a]
                if mass_one > 0.0 or mass_two > 0.0:
                    for w in range(W):
                        following, p = successors[t, s, a, w], probabilities[t, s, a, w]
                        onward[0, following] += mass_one * p
                        onward[1, following] += mass_two * p
        here, onward = onward, here
