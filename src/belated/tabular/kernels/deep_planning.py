"""Optimistic planning, and the expected visits of a plan."""

import math
from typing import NamedTuple

import numpy as np

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit
from belated.tabular.kernels.planning import Rows

PRIOR = 0.05
"""The prior weight of a uniform next state in every row, in visits."""
QUANTUM = 2.0**20
"""Expected visits are whole multiples of 1 / QUANTUM, so that sums of them are exact."""

ROUNDING = 1e-9
"""Values that differ by less are equal."""


class Trust(NamedTuple):
    """Weights of a row: next value = near * observed mean + far * mean over all states.

    near, far: (T, S, A). spread: (T, S, A), the factor of the variance of the next value.
    """

    near: Floats
    far: Floats
    spread: Floats


class PlannedCosts(NamedTuple):
    """Predicted costs: cost, variance, noise, share (S, A); steps, step_weights (H or 0, S, A).

    The cost of a step is cost + share * steps; without a share, the same at every step.
    """

    cost: Floats
    variance: Floats
    share: Floats
    noise: Floats
    steps: Floats
    step_weights: Floats
    span: float


def exactly(costs: Floats) -> PlannedCosts:
    """Costs (1 or H, S, A) without uncertainty."""
    T, S, A = costs.shape
    nothing, one = np.zeros((S, A)), np.ones((S, A))
    if T == 1:
        return PlannedCosts(
            costs[0], nothing, nothing, one, np.zeros((0, S, A)), nothing[None][:0], 1.0
        )
    endless = np.full((T, S, A), np.inf)  # infinitely many visits: no uncertainty
    return PlannedCosts(nothing, nothing, one, one, costs, endless, 1.0)


@njit(cache=True)
def trust(visits: Ints, pending: Floats, made: Trust) -> None:
    """Write the weights of observed frequencies; pending visits count as visits.

    An unvisited row ends the episode, unless a visit is pending. All arrays: (T, S, A).
    """
    near, far, spread = made
    T, S, A = visits.shape
    for t in range(T):
        for s in range(S):
            for a in range(A):
                n, coming = visits[t, s, a], pending[t, s, a]
                if n > 0:
                    near[t, s, a] = n / (n + PRIOR)
                    far[t, s, a] = PRIOR / (n + PRIOR)
                    spread[t, s, a] = 1.0 / (n + coming + PRIOR + 1.0)
                else:
                    near[t, s, a] = 0.0
                    far[t, s, a] = coming / (1.0 + coming)
                    spread[t, s, a] = 0.0


@njit(cache=True)
def plan(
    rows: Rows,
    trusted: Trust,
    costs: PlannedCosts,
    pending: Floats,
    lean: Floats,
    draws: Floats,
    policy: Floats,
) -> None:
    """Backward induction: Q = cost + next value - lean * deviation, clipped to [0, steps left].

    pending: (S, A), pending visits. lean: (S, A), optimism in standard deviations. draws: (H, S),
    uniform on [0, 1). policy: (H, S, A), all 0; the best action of every state and step gets 1.
    If n actions are equally good, it is number floor(draw * n) of them.
    """
    successors, probabilities = rows
    near, far, spread = trusted
    T, S, A, W = successors.shape
    H = policy.shape[0]
    # stage 1: the variance u of costs that do not depend on the step, as if the pending visits
    # had reported: 1 / u grows by pending / noise
    certain = np.empty((S, A))
    for s in range(S):
        for a in range(A):
            u = costs.variance[s, a]
            certain[s, a] = u / (1.0 + u * pending[s, a] / costs.noise[s, a])
    after = np.zeros(S)
    now = np.zeros(S)
    values = np.empty(A)
    for h in range(H - 1, -1, -1):
        t = min(h, T - 1)
        succ, prob = successors[t], probabilities[t]
        # stage 2: first and second moment of the next value under a uniform next state
        mean, square = 0.0, 0.0
        for s in range(S):
            mean += after[s]
            square += after[s] * after[s]
        mean /= S
        square /= S
        left = float(H - h)
        for s in range(S):
            for a in range(A):
                # stage 3: the cost of the row and its variance, with the memory kept per step
                q, u = costs.cost[s, a], certain[s, a]
                share = costs.share[s, a]
                if share > 0.0:
                    noise = costs.noise[s, a]
                    q += share * costs.steps[h, s, a]
                    u = costs.variance[s, a] + share * noise / (
                        noise / costs.span + costs.step_weights[h, s, a]
                    )
                    u /= 1.0 + u * pending[s, a] / noise
                # stage 4: moments of the next value; its variance times spread is added to u
                first, second = 0.0, 0.0
                for w in range(W):
                    p = prob[s, a, w]
                    v = after[np.uint32(succ[s, a, w])]
                    first += p * v
                    second += p * v * v
                first = near[t, s, a] * first + far[t, s, a] * mean
                if spread[t, s, a] > 0.0:
                    second = near[t, s, a] * second + far[t, s, a] * square
                    u += max(second - first * first, 0.0) * spread[t, s, a]
                # stage 5: Q = cost + E V(h + 1) - lean sqrt(u), clipped; V is the least Q
                q += first - lean[s, a] * math.sqrt(u)
                values[a] = min(max(q, 0.0), left)
            now[s] = values.min()
            # stage 6: one of the best actions, up to rounding
            best = values <= now[s] + ROUNDING
            rank = int(draws[h, s] * best.sum())
            for a in range(A):
                if best[a]:
                    if rank == 0:
                        policy[h, s, a] = 1.0
                    rank -= 1
        now, after = after, now


@njit(cache=True)
def expected_visits(
    rows: Rows, ends: Trust, policy: Floats, start: Floats, row_visits: Floats, cell_visits: Floats
) -> None:
    """Write the expected visits of a policy in an episode, at most 1 per row and per cell.

    The successors of an unvisited row are unknown, so its probability mass stops there.
    row_visits: (T, S, A); cell_visits: (S, A); both all 0 at first. The result is rounded down to
    multiples of 1 / QUANTUM.
    """
    successors, probabilities = rows
    T, S, A, W = successors.shape
    H = policy.shape[0]
    # forward: d(h + 1, y) = sum over s, a of d(h, s) pi(a | h, s) p(y | s, a)
    here = start.copy()
    onward = np.zeros(S)
    for h in range(H):
        t = min(h, T - 1)
        onward[:] = 0.0
        for s in range(S):
            if here[s] > 0.0:
                for a in range(A):
                    mass = here[s] * policy[h, s, a]
                    if mass > 0.0:
                        row_visits[t, s, a] += mass
                        cell_visits[s, a] += mass
                        if ends.near[t, s, a] > 0.0:
                            for w in range(W):
                                onward[successors[t, s, a, w]] += mass * probabilities[t, s, a, w]
        here, onward = onward, here
    for t in range(T):
        for s in range(S):
            for a in range(A):
                row_visits[t, s, a] = math.floor(min(row_visits[t, s, a], 1.0) * QUANTUM) / QUANTUM
    for s in range(S):
        for a in range(A):
            cell_visits[s, a] = math.floor(min(cell_visits[s, a], 1.0) * QUANTUM) / QUANTUM
