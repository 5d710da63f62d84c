"""Predictions of revealed costs: means with several discounts, weighted by their past errors.

M memories hold means (M, T, S, A) of the cost functions that arrived, T is 1 or H. Memory 0 never
forgets and wins ties, because a toll is added to the errors of all others. Its predictions have the
learned prior of `beliefs`, which moves one step with every arrival; without the prior a plan would
follow differences that are mostly chance. In every cell (s, a) the weight of a memory follows from
a common score and a score of the cell; a memory with the smallest weight does not count.
"""

import math
from typing import NamedTuple

import numpy as np

from belated.core.arrays import Floats
from belated.core.compiled import njit
from belated.tabular.kernels.beliefs import (
    KEEP_ERRORS,
    LEAST,
    RATE,
    fit_prior,
    noise_factor,
    posterior,
)

TOLL = 0.002
"""The squared error added for all memories but the slowest, which thus wins ties."""


class Means(NamedTuple):
    """Everything that is learned about revealed costs."""

    means: Floats  # (M, 1 or H, S, A)
    weights: Floats  # (M,), the number of cost functions in a mean
    scores: Floats  # (M,), log weights of the memories, the largest is 0
    local: Floats  # (M, S, A), the same for every cell
    errors: Floats  # (M + 1,), squared errors, and mu (1 - mu) of memory 0
    prior: Floats  # (3,): m0, t2, eps of `beliefs`


@njit(cache=True)
def say(learned: Means, said: Floats) -> None:
    """Write the predictions of the memories, (M, 1 or H, S, A)."""
    _, T, S, A = said.shape
    said[:] = learned.means
    phi, weight = noise_factor(learned.errors), learned.weights[0]
    for t in range(T):
        for s in range(S):
            for a in range(A):
                total = weight * learned.means[0, t, s, a]
                said[0, t, s, a] = posterior(total, weight, learned.prior, phi)[0]


@njit(cache=True)
def expected(learned: Means, said: Floats, costs: Floats) -> None:
    """Write the expected costs (1 or H, S, A) from the predictions of the memories."""
    scores, local = learned.scores, learned.local
    M, T, S, A = said.shape
    for s in range(S):
        for a in range(A):
            best = scores[0] + local[0, s, a]
            for m in range(1, M):
                best = max(best, scores[m] + local[m, s, a])
            total = 0.0
            for t in range(T):
                costs[t, s, a] = 0.0
            for m in range(M):
                score = scores[m] + local[m, s, a] - best
                if score > LEAST:
                    w = math.exp(score)
                    total += w
                    for t in range(T):
                        costs[t, s, a] += w * said[m, t, s, a]
            for t in range(T):
                costs[t, s, a] /= total


@njit(cache=True)
def learn(learned: Means, keep: Floats, said: Floats, costs: Floats, horizon: int) -> None:
    """Score the memories by their predictions when the episode began, then update them.

    keep: (M,). said: (M, 1 or H, S, A). costs: (1 or H, S, A); the means have at least as many
    steps.
    """
    means, weights, scores, local, errors, prior = learned
    M, T, S, A = means.shape
    rate = RATE * math.sqrt(horizon) / (S * A)
    errors *= KEEP_ERRORS
    for s in range(S):
        for a in range(A):
            best = -math.inf
            for m in range(M):
                error = 0.0
                for t in range(T):
                    mu = said[m, min(t, said.shape[1] - 1), s, a]
                    error += (costs[min(t, costs.shape[0] - 1), s, a] - mu) ** 2 / T
                    if m == 0:
                        errors[M] += mu * (1.0 - mu) / (T * S * A)
                errors[m] += error / (S * A)
                error += 0.0 if m == 0 else TOLL
                scores[m] -= rate * error
                local[m, s, a] -= RATE * error
                best = max(best, local[m, s, a])
            for m in range(M):
                local[m, s, a] = max(local[m, s, a] - best, LEAST)
    best = scores.max()
    for m in range(M):
        scores[m] = max(scores[m] - best, LEAST)
        weights[m] = weights[m] * keep[m] + 1.0
        for t in range(T):
            for s in range(S):
                for a in range(A):
                    cost = costs[min(t, costs.shape[0] - 1), s, a]
                    means[m, t, s, a] += (cost - means[m, t, s, a]) / weights[m]
    seen = np.full((T * S, A), weights[0])
    fit_prior(weights[0] * means[0].reshape(T * S, A), seen, prior, noise_factor(errors))
