"""Optimistic planning, and the expected visits of a plan."""

import math

import numpy as np

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit
from belated.tabular.kernels.planning import Rows, state_occupancy

PRIOR = 0.05
"""The prior weight of a uniform next state in the mean of every row, in visits."""
MOST = 1.0
"""The most visits that an open episode has on their way in a row: its costs will count once."""
QUANTUM = 2.0**20
"""Expected visits are whole multiples of 1 / QUANTUM, so that sums of them are exact."""
ROUNDING = 1e-9
"""Values that differ by less are equal."""


Trust = tuple[Floats, Floats, Floats]
"""Weights of a row: next value = near * observed mean + far * mean over all states.

near, far: (T, S, A). spread: (T, S, A), the factor of the observed variance of the next value.
"""


@njit(cache=True)
def trust(visits: Ints, pending: Floats, new: float, made: Trust) -> None:
    """Write the weights of observed frequencies; pending visits count as visits.

    An unvisited row ends the episode, unless a visit is pending; new: the weight, in visits, with
    which a visited one does. All arrays: (T, S, A).
    """
    near, far, spread = made
    T, S, A = visits.shape
    for t in range(T):
        for s in range(S):
            for a in range(A):
                n, coming = visits[t, s, a], pending[t, s, a]
                if n > 0:
                    near[t, s, a] = n / (n + PRIOR + new)
                    far[t, s, a] = PRIOR / (n + PRIOR + new)
                    spread[t, s, a] = 1.0 / (n + coming + 1.0)
                else:
                    near[t, s, a] = 0.0
                    far[t, s, a] = coming / (1.0 + coming)
                    spread[t, s, a] = 0.0


@njit(cache=True)
def plan(
    rows: Rows,
    trusted: Trust,
    costs: Floats,
    variances: Floats,
    optimism: float,
    draws: Floats,
    policy: Floats,
) -> None:
    """Backward induction: Q = cost + next value - optimism * deviation, at least 0.

    costs, variances: (1 or H, S, A). optimism: in standard deviations. draws: (H, S), uniform on
    [0, 1). policy: (H, S, A), all 0; the best action of every state and step gets 1. If n actions
    are equally good, it is number floor(draw * n) of them.
    """
    successors, probabilities = rows
    near, far, spread = trusted
    T, S, A, W = successors.shape
    H = policy.shape[0]
    after, now = np.zeros(S), np.zeros(S)
    values = np.empty(A)
    for h in range(H - 1, -1, -1):
        t, c = min(h, T - 1), min(h, costs.shape[0] - 1)
        succ, prob = successors[t], probabilities[t]
        # stage 1: the next value under a uniform next state
        mean = after.mean()
        for s in range(S):
            lowest = np.inf
            for a in range(A):
                # stage 2: observed moments of the next value; its variance times spread is added
                first, second = 0.0, 0.0
                for w in range(W):
                    p = prob[s, a, w]
                    v = after[np.uint32(succ[s, a, w])]
                    first += p * v
                    second += p * v * v
                u = variances[c, s, a] + max(second - first * first, 0.0) * spread[t, s, a]
                first = near[t, s, a] * first + far[t, s, a] * mean
                # stage 3: Q, at least 0; V is the least Q
                values[a] = max(costs[c, s, a] + first - optimism * math.sqrt(u), 0.0)
                lowest = min(lowest, values[a])
            now[s] = lowest
            # stage 4: one of the best actions, found without a branch that depends on values
            best, passed, chosen = 0, 0, 0
            for a in range(A):
                best += values[a] <= lowest + ROUNDING
            rank = int(draws[h, s] * best)
            for a in range(A):
                passed += values[a] <= lowest + ROUNDING
                chosen += passed <= rank
            policy[h, s, chosen] = 1.0
        now, after = after, now


@njit(cache=True)
def expected_visits(rows: Rows, policy: Floats, start: Floats, visits: Floats) -> None:
    """Write the expected visits (T, S, A) of a policy in an episode, at most MOST per row.

    The probabilities of an unvisited row are 0, so the mass stops there. visits: all 0 at first.
    The result is rounded down to multiples of 1 / QUANTUM.
    """
    H, S, A = policy.shape
    reach = state_occupancy(rows, policy, start)
    for h in range(H):
        added, weights = visits[min(h, visits.shape[0] - 1)], policy[h]
        for s in range(S):
            if reach[h, s] > 0.0:
                for a in range(A):
                    added[s, a] += reach[h, s] * weights[s, a]
    visits[:] = np.floor(np.minimum(visits, MOST) * QUANTUM) / QUANTUM
