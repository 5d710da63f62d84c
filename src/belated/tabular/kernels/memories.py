"""Running means of observed costs, with several discounts.

A memory keeps for every cell (s, a), or (h, s, a), the mean of the costs observed there and the
weight behind it; an observation multiplies the weight of its cell by the memory's `keep` first.
"""

from typing import NamedTuple

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit


class Memories(NamedTuple):
    """M memories over T = 1 or H steps: means, weights (M, T, S, A); keep (M,)."""

    means: Floats
    weights: Floats
    keep: Floats


@njit(cache=True)
def errors(
    pooled: Memories, stepped: Memories, states: Ints, actions: Ints, costs: Floats, found: Floats
) -> None:
    """Write the squared error with which each memory predicts the costs (H,) of a path.

    found: (number of pooled + number of stepped memories,).
    """
    P, N = pooled.means.shape[0], stepped.means.shape[0]
    for m in range(P + N):
        total = 0.0
        for h in range(costs.shape[0]):
            s, a = states[h], actions[h]
            guess = pooled.means[min(m, P - 1), 0, s, a]
            if m >= P:
                guess = pooled.means[0, 0, s, a]
                if stepped.weights[m - P, h, s, a] > 0.0:
                    guess = stepped.means[m - P, h, s, a]
            total += (costs[h] - guess) ** 2
        found[m] = total


@njit(cache=True)
def learn(memories: Memories, states: Ints, actions: Ints, costs: Floats) -> None:
    """Learn from the costs (H,) of a path."""
    means, weights, keep = memories
    T = means.shape[1]
    for m in range(means.shape[0]):
        for h in range(costs.shape[0]):
            t, s, a = min(h, T - 1), states[h], actions[h]
            weight = weights[m, t, s, a] * keep[m] + 1.0
            weights[m, t, s, a] = weight
            means[m, t, s, a] += (costs[h] - means[m, t, s, a]) / weight


@njit(cache=True)
def blend(pooled: Memories, stepped: Memories, shares: Floats, prediction: Floats) -> None:
    """Write the prediction (H, S, A): the memories' means, weighted by their shares.

    The prediction of a cell that was not visited at its step is that of the first pooled memory;
    of a cell that was never visited, it is 0.
    """
    H, S, A = prediction.shape
    P, N = pooled.means.shape[0], stepped.means.shape[0]
    for s in range(S):
        for a in range(A):
            guess = 0.0
            for m in range(P):
                guess += shares[m] * pooled.means[m, 0, s, a]
            prediction[0, s, a] = guess
    for h in range(1, H):
        prediction[h] = prediction[0]
    for m in range(N):
        share = shares[P + m]
        if share > 0.0:
            for h in range(H):
                means, weights, add = stepped.means[m, h], stepped.weights[m, h], prediction[h]
                for s in range(S):
                    for a in range(A):
                        if weights[s, a] > 0.0:
                            add[s, a] += share * means[s, a]
                        else:
                            add[s, a] += share * pooled.means[0, 0, s, a]
