"""Beliefs about the cost of every cell, from the costs observed there.

M memories forget at different speeds; under bandit feedback one more is kept per step. A memory
holds for every cell the sum of the costs and their number, its weight W. Memory 0 never forgets;
its means have a learned prior with two components,

    core   N(m0, t2), with share 1 - eps          slab   N(1/2, 1/12), with share eps,

and every other one has a prior mean with the weight of `noise / SPAN` observations: 1/2 for memory
1, the mean of the next slower memory for a faster one, and the mean of memory 0 for the memory kept
per step. The noise of a cell is phi m (1 - m), where m is its mean with two pseudo-observations of
1/2; phi is learned from the errors of the predictions. So that a few equal costs do not look
certain, the core has at least the noise phi m0 (1 - m0).

A cell is (s, a), and (h, s, a) where whole cost functions that depend on the step are revealed; all
arrays are flat over cells.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit
from belated.core.tree import Entries

SPAN = 1.0 / 12.0
"""The variance of an unknown mean cost: uniform between 0 and 1."""
LEAST_NOISE = 0.004
"""The smallest variance of a cost around its mean."""
LEAST_SPREAD = 2.5e-5
"""The smallest variance of the core."""
WIDE = 0.1
"""The weight of the widest core in the fit of t2, in cells."""
HALF = 1.0
"""The weight of 1/2 in the fit of m0, in cells whose mean is known exactly."""
COINS = 2.0
"""The costs of 1/2 that are added to a cell where its noise is computed."""
ONE_EACH = 1.0
"""The cells of each kind, core and slab, that are added in the fit of eps."""
FIRST_PRIOR = (0.5, SPAN, 0.5)
"""m0, t2 and eps before any cell is visited."""
RATE = 2.0
"""The learning rate of the weights of the memories."""
LEAST = math.log(0.01)
"""The smallest log weight relative to the best memory; with this weight a memory does not count."""


class CostMemories(NamedTuple):
    """Everything that is learned about the costs of C cells by N memories."""

    sums: Annotated[Floats, Entries("M C|D", low=0.0)]
    weights: Annotated[Floats, Entries("M C|D", low=0.0)]
    step_sums: Annotated[Floats, Entries("L C|D", low=0.0)]  # L is 0 or H
    step_weights: Annotated[Floats, Entries("L C|D", low=0.0)]
    scores: Floats  # (N,), log weights of the memories, the largest is 0
    local: Annotated[Floats, Entries("N C|D", low=LEAST, high=0.0)]  # the same for every cell
    errors: Floats  # (N + 1,), squared errors, and sum of mu (1 - mu) of memory 0
    prior: Floats  # (3,): m0, t2, eps


@njit(cache=True)
def noise_factor(errors: Floats) -> float:
    """phi: the errors of the best memory relative to Bernoulli costs with the same means."""
    if errors[-1] <= 0.0:
        return 1.0
    return min(errors[:-1].min() / errors[-1], 1.0)  # type: ignore[no-any-return]


@njit(cache=True)
def _normal(distance: float, variance: float) -> float:
    """The density of a normal distribution, but for a constant factor."""
    return math.exp(-0.5 * distance * distance / variance) / math.sqrt(variance)


@njit(cache=True)
def predict(memories: CostMemories, pending: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The predictions; the prior of memory 0 is fitted to the visited cells.

    A memory with the smallest weight does not count, nor one whose score is minus infinity.
    pending: (C,), visits that reduce the variances as if they had reported.

    Returns the means (M, C) of the pooled memories; costs and variances (H or 1, C) of the weighted
    average of all, one row if the memory kept per step counts nowhere; and the noises (C,).
    """
    sums, weights, step_sums, step_weights, scores, local, errors, prior = memories
    M, C = sums.shape
    N = scores.shape[0]
    phi = noise_factor(errors)
    m0, t2, eps = prior[0], prior[1], prior[2]
    spread, score = np.empty(N), np.zeros(N)
    means, by_step = np.empty((M, C)), False
    pooled, certain, noises, shares = np.empty((4, C))
    cells, slabs = 0.0, 0.0
    flat, centre, steep, excess = HALF / SPAN, 0.5 * HALF / SPAN, 0.0, 0.0
    for c in range(C):
        # stage 1: memory 0 under each component: precision = prior precision + W / noise
        total, weight = sums[0, c], weights[0, c]
        m = (total + 0.5 * COINS) / (weight + COINS)
        noise = max(LEAST_NOISE, phi * m * (1.0 - m))
        among = max(noise, phi * m0 * (1.0 - m0))
        core = 1.0 / (1.0 / t2 + weight / among)
        slab = 1.0 / (1.0 / SPAN + weight / noise)
        core_mean = core * (m0 / t2 + total / among)
        slab_mean = slab * (0.5 / SPAN + total / noise)
        r = eps  # the probability of the slab
        if weight > 0.0:
            y, v = total / weight, among / weight
            inside = (1.0 - eps) * _normal(y - m0, t2 + v)
            outside = eps * _normal(y - 0.5, SPAN + noise / weight)
            r = outside / (inside + outside)
            # stage 2: sums for m0, the mean of the core, and t2, the mean of (y - m0)^2 - v
            cells += 1.0
            slabs += r
            precision = (1.0 - r) / (t2 + v)
            flat += precision
            centre += precision * y
            steep += precision / (t2 + v)
            excess += precision / (t2 + v) * ((y - m0) ** 2 - v)
        mean = (1.0 - r) * core_mean + r * slab_mean
        means[0, c] = mean
        spread[0] = (1.0 - r) * (core + (core_mean - mean) ** 2)
        spread[0] += r * (slab + (slab_mean - mean) ** 2)
        # stage 3: memory m is (sums + kappa * prior mean) / (W + kappa)
        kappa, behind = noise / SPAN, 0.5
        for m in range(1, M):
            behind = (sums[m, c] + kappa * behind) / (weights[m, c] + kappa)
            means[m, c], spread[m] = behind, noise / (weights[m, c] + kappa)
        # stage 4: the average of the pooled memories, by softmax(common score + score of the cell)
        best = -math.inf
        for m in range(N):
            score[m] = scores[m] + local[m, c]
            best = max(best, score[m])
        every, cost, variance, stepped = 0.0, 0.0, 0.0, 0.0
        for m in range(N):
            w = math.exp(score[m] - best) if score[m] - best > LEAST else 0.0
            every += w
            if m < M:
                cost += w * means[m, c]
                variance += w * spread[m]
            else:
                stepped = w
        pooled[c], certain[c], shares[c] = cost / every, variance / every, stepped / every
        noises[c], by_step = noise, by_step or stepped > 0.0
    # stage 5: the memory kept per step, where it counts; pending visits, as if they had reported
    coming, kappas, shape = pending / noises, noises / SPAN, step_sums.shape if by_step else (1, C)
    costs, variances = np.empty(shape), np.empty(shape)
    for h in range(shape[0]):
        for c in range(C):
            cost, variance = pooled[c], certain[c]
            if by_step:
                scale = shares[c] / (step_weights[h, c] + kappas[c])
                cost += (step_sums[h, c] + kappas[c] * means[0, c]) * scale
                variance += noises[c] * scale
            costs[h, c], variances[h, c] = cost, variance / (1.0 + variance * coming[c])
    # stage 6: the prior of the next prediction, with a pseudo-cell of each kind
    if steep > 0.0:
        wide = WIDE * steep / cells
        t2 = min(max((excess + wide * SPAN) / (steep + wide), LEAST_SPREAD), SPAN)
        prior[0], prior[1] = centre / flat, t2
        prior[2] = (ONE_EACH + slabs) / (2.0 * ONE_EACH + cells)
    return means, costs, variances, noises


@njit(cache=True)
def of_steps(memories: CostMemories, means: Floats, noises: Floats) -> tuple[Ints, Floats]:
    """The cells that the memory kept per step has seen, flat over (H, C), and its predictions."""
    seen = np.flatnonzero(memories.step_weights)
    cells = seen % len(noises)
    kappas, behind = noises[cells] / SPAN, means[0][cells]
    sums, weights = memories.step_sums.ravel()[seen], memories.step_weights.ravel()[seen]
    return seen, (sums + kappas * behind) / (weights + kappas)


@njit(cache=True)
def on_path(means: Floats, seen: Ints, values: Floats, cells: Ints, met: Floats) -> None:
    """Write the predictions (N, H) of all memories for the cells (H,) of a path.

    means: (M, C) of the pooled memories. seen, values: (n,), what the memory kept per step predicts
    for some cells, flat over (H, C) and increasing; memory 0 predicts the others for it.
    """
    M, C = means.shape
    for h in range(len(cells)):
        for m in range(M):
            met[m, h] = means[m, cells[h]]
        met[M, h] = means[0, cells[h]]
        place = np.searchsorted(seen, h * C + cells[h])
        if place < len(seen) and seen[place] == h * C + cells[h]:
            met[M, h] = values[place]


@njit(cache=True)
def learn(
    memories: CostMemories,
    keep: Floats,
    said: Floats,
    cells: Ints,
    shares: Floats,
    costs: Floats,
    rate: float,
    penalty: float,
) -> None:
    """Learn from costs (n,) of cells (n,): score the memories by their predictions, then add them.

    keep: (M,). said: (N, n), the predictions of the memories when the episode began. shares: (n,),
    1 / the number of times that the cell occurs: it counts once, since an episode has one cost
    function. rate: the learning rate of the common scores. penalty: the squared error added for all
    memories but the slowest, which thus wins ties. If a memory is kept per step, cost h is that of
    step h.
    """
    sums, weights, step_sums, step_weights, scores, local, errors, _ = memories
    M = sums.shape[0]
    N, n = said.shape
    # stage 1: forget; memory 0 and the one kept per step do not
    for m in range(1, M):
        sums[m] *= keep[m]
        weights[m] *= keep[m]
    # stage 2: scores fall by rate * (error + penalty), and the sums of the memories grow
    for i in range(n):
        c, w = cells[i], shares[i]
        for m in range(N):
            error = w * (costs[i] - said[m, i]) ** 2
            errors[m] += error
            error += 0.0 if m == 0 else w * penalty
            scores[m] -= rate * error
            local[m, c] -= RATE * error
        errors[N] += w * said[0, i] * (1.0 - said[0, i])
        for m in range(M):
            sums[m, c] += w * costs[i]
            weights[m, c] += w
        if N > M:
            step_sums[i, c] += costs[i]
            step_weights[i, c] += 1.0
    # stage 3: log weights relative to the best memory, cut off from below
    scores[:] = np.maximum(scores - scores.max(), LEAST)
    for i in range(n):
        best = local[:, cells[i]].max()
        for m in range(N):
            local[m, cells[i]] = max(local[m, cells[i]] - best, LEAST)
