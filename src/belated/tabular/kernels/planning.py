"""Dynamic programming over known transitions: values, best policies, occupancies, samples."""

from typing import NamedTuple

import numpy as np

from belated.core.arrays import Floats, Indices, Ints
from belated.core.compiled import njit


class Rows(NamedTuple):
    """The transitions of every (step, state, action): successors, probabilities (T, S, A, W)."""

    successors: Indices
    probabilities: Floats


@njit(cache=True, inline="always")
def plus_next(q: float, prob: Floats, succ: Indices, after: Floats, s: int, a: int) -> float:
    """Add the expected value of what comes after (s, a) to q, one successor after the other.

    prob, succ: (S, A, W). after: (S,). Four successors, as on a grid, are a case of their own,
    because a loop of unknown length takes half as long again; the sum and its order are the same.
    """
    W = prob.shape[2]
    if W == 4:
        q += prob[s, a, 0] * after[np.uint32(succ[s, a, 0])]
        q += prob[s, a, 1] * after[np.uint32(succ[s, a, 1])]
        q += prob[s, a, 2] * after[np.uint32(succ[s, a, 2])]
        q += prob[s, a, 3] * after[np.uint32(succ[s, a, 3])]
    else:
        for w in range(W):
            q += prob[s, a, w] * after[np.uint32(succ[s, a, w])]
    return q


@njit(cache=True)
def evaluate(rows: Rows, costs: Floats, policy: Floats, total: Floats) -> Floats:
    """Add the Q-function of a policy to a running total, in one backward pass.

    costs: (1 or H, S, A); policy: (H, S, A). total: (H, S, A), changed in place.
    Returns V: (H + 1, S), V[H] = 0.
    """
    successors, probabilities = rows
    H, S, A = policy.shape
    V = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        t = min(h, successors.shape[0] - 1)
        succ, prob, cost = successors[t], probabilities[t], costs[min(h, costs.shape[0] - 1)]
        weights, add, after, now = policy[h], total[h], V[h + 1], V[h]
        for s in range(S):
            value = 0.0
            for a in range(A):
                q = plus_next(cost[s, a], prob, succ, after, s, a)
                add[s, a] += q
                value += weights[s, a] * q
            now[s] = value
    return V


@njit(cache=True)
def start_value(rows: Rows, costs: Floats, policy: Floats, start: Floats) -> float:
    """Expected cost of one episode of a policy. start: (S,), the rest as in `evaluate`."""
    successors, probabilities = rows
    H, S, A = policy.shape
    after = np.zeros(S)
    now = np.zeros(S)
    for h in range(H - 1, -1, -1):
        t = min(h, successors.shape[0] - 1)
        succ, prob, cost = successors[t], probabilities[t], costs[min(h, costs.shape[0] - 1)]
        weights = policy[h]
        for s in range(S):
            value = 0.0
            for a in range(A):
                weight = weights[s, a]
                if weight > 0.0:
                    value += weight * plus_next(cost[s, a], prob, succ, after, s, a)
            now[s] = value
        now, after = after, now
    return (start * after).sum()  # type: ignore[no-any-return]


@njit(cache=True)
def best(rows: Rows, costs: Floats, horizon: int) -> tuple[Ints, Floats]:
    """Backward induction; ties go to the smallest action.

    costs: (1 or H, S, A), of any size. Returns the actions (H, S) and V (H + 1, S).
    """
    successors, probabilities = rows
    _, S, A, _ = successors.shape
    V = np.zeros((horizon + 1, S))
    actions = np.zeros((horizon, S), dtype=np.int64)
    for h in range(horizon - 1, -1, -1):
        t = min(h, successors.shape[0] - 1)
        succ, prob, cost = successors[t], probabilities[t], costs[min(h, costs.shape[0] - 1)]
        after, now, chosen = V[h + 1], V[h], actions[h]
        for s in range(S):
            lowest = np.inf
            action = 0
            for a in range(A):
                q = plus_next(cost[s, a], prob, succ, after, s, a)
                better = q < lowest  # selected without a branch, which would be unpredictable
                action = a if better else action
                lowest = q if better else lowest
            now[s] = lowest
            chosen[s] = action
    return actions, V


@njit(cache=True)
def state_occupancy(rows: Rows, policy: Floats, start: Floats) -> Floats:
    """Probability of being in s at step h, in one forward pass. Returns (H, S)."""
    successors, probabilities = rows
    H, S, A = policy.shape
    W = successors.shape[3]
    reach = np.zeros((H, S))
    reach[0] = start
    for h in range(H - 1):
        t = min(h, successors.shape[0] - 1)
        succ, prob, weights, onward = successors[t], probabilities[t], policy[h], reach[h + 1]
        for s in range(S):
            if reach[h, s] > 0.0:
                for a in range(A):
                    mass = reach[h, s] * weights[s, a]
                    if mass > 0.0:
                        for w in range(W):
                            onward[np.uint32(succ[s, a, w])] += mass * prob[s, a, w]
    return reach


@njit(cache=True)
def _pick(weights: Floats, uniform: float) -> int:
    """Index drawn from a distribution by inversion; never one of probability 0."""
    picked = 0
    below = 0.0
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            picked = i
            below += weights[i]
            if uniform < below:
                break
    return picked


@njit(cache=True)
def sample(rows: Rows, policy: Floats, start: Floats, uniforms: Floats) -> tuple[Ints, Ints]:
    """Play one episode. uniforms: (2 H + 1,) in [0, 1). Returns states (H + 1,), actions (H,)."""
    successors, probabilities = rows
    H = policy.shape[0]
    last_t = successors.shape[0] - 1
    states = np.zeros(H + 1, dtype=np.int64)
    actions = np.zeros(H, dtype=np.int64)
    states[0] = _pick(start, uniforms[0])
    for h in range(H):
        t = min(h, last_t)
        s = states[h]
        a = _pick(policy[h, s], uniforms[2 * h + 1])
        actions[h] = a
        states[h + 1] = successors[t, s, a, _pick(probabilities[t, s, a], uniforms[2 * h + 2])]
    return states, actions
