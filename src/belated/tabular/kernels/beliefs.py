"""Beliefs about the cost of every cell (s, a), from the costs suffered on paths.

M memories pool all steps and forget at different speeds; if there are several steps, one more
memory is kept per step and does not forget. A memory holds the sum of the costs and their number,
its weight W. Memory 0 never forgets; its means have a learned prior with two components,

    core   N(m0, t2), with share 1 - eps          slab   N(1/2, 1/12), with share eps,

and every other one has a prior mean with the weight of `noise / SPAN` observations: 1/2 for memory
1, the mean of the next slower memory for a faster one, and the mean of memory 0 for the memory kept
per step. The noise of a cell is phi m (1 - m), where m is its mean with two pseudo-observations of
1/2; phi is learned from the errors of the predictions. So that a few equal costs do not look
certain, the test whether a cell belongs to the core uses at least the noise of the core,
phi m0 (1 - m0).
"""

import math
from typing import NamedTuple

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit

SPAN = 1.0 / 12.0
"""The variance of an unknown mean cost: uniform between 0 and 1."""
LEAST_NOISE = 0.004
"""The smallest variance of a cost around its mean."""
LEAST_PHI = 0.016
"""The smallest factor phi of the noise."""
LEAST_SPREAD = 2.5e-5
"""The smallest variance of the core."""
FIRST_PRIOR = (0.5, SPAN, 0.5)
"""m0, t2 and eps before any cell is visited."""
RATE = 2.0
"""The learning rate of the weights of the memories."""
LEAST = math.log(0.01)
"""The smallest log weight of a memory, relative to the best one."""
TOLL = 0.01
"""The squared error added for all memories but the slowest, which thus wins ties."""
KEEP_ERRORS = 0.998
"""The factor by which each arrival discounts the sums that phi is computed from."""


class CostMemories(NamedTuple):
    """Everything that is learned about costs. N is M + 1, or M if there is one step only."""

    sums: Floats  # (M, S, A)
    weights: Floats  # (M, S, A)
    step_sums: Floats  # (H, S, A), or (0, S, A)
    step_weights: Floats  # the same
    scores: Floats  # (N,), log weights of the memories, the largest is 0
    local: Floats  # (N, S, A), the same for every cell
    errors: Floats  # (N + 1,), squared errors, and sum of mu (1 - mu) of memory 0
    prior: Floats  # (3,): m0, t2, eps


@njit(cache=True)
def noise_factor(errors: Floats) -> float:
    """phi: the errors of the best memory relative to Bernoulli costs with the same means."""
    N = errors.shape[0] - 1
    if errors[N] <= 0.0:
        return 1.0
    least: float = errors[:N].min() / errors[N]
    return min(max(least, LEAST_PHI), 1.0)


@njit(cache=True)
def cell_noise(total: float, weight: float, phi: float) -> float:
    """The variance of the costs of a cell around their mean."""
    m = (total + 1.0) / (weight + 2.0)
    return max(LEAST_NOISE, phi * m * (1.0 - m))


@njit(cache=True)
def slab_share(y: float, v: float, core_v: float, m0: float, t2: float, eps: float) -> float:
    """Posterior probability of the slab for a mean y with variance v, or core_v in the core."""
    core = (1.0 - eps) * math.exp(-0.5 * (y - m0) ** 2 / (t2 + core_v)) / math.sqrt(t2 + core_v)
    slab = eps * math.exp(-0.5 * (y - 0.5) ** 2 / (SPAN + v)) / math.sqrt(SPAN + v)
    return slab / (core + slab)


@njit(cache=True)
def _in_slab(
    total: float, weight: float, phi: float, m0: float, t2: float, eps: float
) -> tuple[float, float, float]:
    """Of a visited cell: its mean y, the variance v of y in the core, and r."""
    y, noise = total / weight, cell_noise(total, weight, phi)
    v = max(noise, phi * m0 * (1.0 - m0)) / weight
    return y, v, slab_share(y, noise / weight, v, m0, t2, eps)


@njit(cache=True)
def fit_prior(sums: Floats, weights: Floats, prior: Floats, phi: float) -> None:
    """Move the prior (3,) one step towards an empirical Bayes fit of the visited cells (S, A)."""
    S, A = sums.shape
    m0, t2, eps = prior[0], prior[1], prior[2]
    cells, slabs = 0, 0.0
    # stage 1: r, the probability of the slab, of every cell; m0 is the mean of y over the core,
    # weighted by (1 - r) / (t2 + v)
    total, mean = 12.0, 6.0  # 1/2 with the weight of one cell known exactly
    for s in range(S):
        for a in range(A):
            if weights[s, a] > 0.0:
                y, v, r = _in_slab(sums[s, a], weights[s, a], phi, m0, t2, eps)
                cells += 1
                slabs += r
                total += (1.0 - r) / (t2 + v)
                mean += y * (1.0 - r) / (t2 + v)
    if cells == 0:
        return
    mean /= total
    # stage 2: t2 by the method of moments, E (y - m0)^2 - v, weighted by (1 - r) / (t2 + v)^2
    weight, spread = 0.0, 0.0
    for s in range(S):
        for a in range(A):
            if weights[s, a] > 0.0:
                y, v, r = _in_slab(sums[s, a], weights[s, a], phi, m0, t2, eps)
                w = (1.0 - r) / (t2 + v) ** 2
                weight += w
                spread += w * ((y - mean) ** 2 - v)
    wide = 0.1 * weight / cells  # the weight of the widest core
    target = SPAN
    if weight > 0.0:
        target = min(max((spread + wide * SPAN) / (weight + wide), LEAST_SPREAD), SPAN)
    # stage 3: one damped step of t2; eps is the mean of r with one pseudo-cell of each kind
    prior[0] = mean
    prior[1] = t2 + 0.2 * (target - t2)
    prior[2] = (1.0 + slabs) / (2.0 + cells)


@njit(cache=True)
def posterior(total: float, weight: float, prior: Floats, phi: float) -> tuple[float, float, float]:
    """The posterior mean and variance of a cell in memory 0, and the noise of the cell."""
    m0, t2, eps = prior[0], prior[1], prior[2]
    noise = cell_noise(total, weight, phi)
    among = max(noise, phi * m0 * (1.0 - m0))
    # each component: precision = prior precision + W / noise, mean weighted by precision
    core = 1.0 / (1.0 / t2 + weight / among)
    slab = 1.0 / (1.0 / SPAN + weight / noise)
    core_mean = core * (m0 / t2 + total / among)
    slab_mean = slab * (0.5 / SPAN + total / noise)
    r = eps
    if weight > 0.0:
        r = slab_share(total / weight, noise / weight, among / weight, m0, t2, eps)
    # moments of the mixture of core and slab
    mean = (1.0 - r) * core_mean + r * slab_mean
    variance = (1.0 - r) * (core + (core_mean - mean) ** 2)
    variance += r * (slab + (slab_mean - mean) ** 2)
    return mean, variance, noise


@njit(cache=True)
def predict(
    memories: CostMemories,
    phi: float,
    means: Floats,
    variances: Floats,
    noise: Floats,
    steps: Floats,
) -> None:
    """Write the predictions of every memory.

    means, variances: (M, S, A); noise: (S, A); steps: (H or 0, S, A), the means of the memory that
    is kept per step.
    """
    sums, weights = memories.sums, memories.weights
    M, S, A = sums.shape
    for s in range(S):
        for a in range(A):
            mean, variance, g = posterior(sums[0, s, a], weights[0, s, a], memories.prior, phi)
            means[0, s, a], variances[0, s, a], noise[s, a] = mean, variance, g
            # memory m: (sums + kappa * prior mean) / (W + kappa); the slower memory is the prior
            kappa = g / SPAN
            behind = 0.5
            for m in range(1, M):
                behind = (sums[m, s, a] + kappa * behind) / (weights[m, s, a] + kappa)
                means[m, s, a] = behind
                variances[m, s, a] = g / (weights[m, s, a] + kappa)
    # the memory kept per step has memory 0 as its prior
    for h in range(steps.shape[0]):
        for s in range(S):
            for a in range(A):
                kappa = noise[s, a] / SPAN
                steps[h, s, a] = (memories.step_sums[h, s, a] + kappa * means[0, s, a]) / (
                    memories.step_weights[h, s, a] + kappa
                )


@njit(cache=True)
def combine(
    memories: CostMemories,
    means: Floats,
    variances: Floats,
    alone: int,
    cost: Floats,
    variance: Floats,
    share: Floats,
) -> None:
    """Average the memories cell by cell; a memory with the smallest weight does not count.

    alone: use this memory only; -1 for all. Written: cost and variance (S, A), the contribution of
    the pooled memories; share (S, A), the weight of the memory that is kept per step.
    """
    scores, local = memories.scores, memories.local
    M, S, A = means.shape
    N = scores.shape[0]
    for s in range(S):
        for a in range(A):
            if alone >= 0:
                cost[s, a], variance[s, a] = means[alone, s, a], variances[alone, s, a]
                share[s, a] = 0.0
                continue
            # weights are softmax(common score + score of the cell)
            best = scores[0] + local[0, s, a]
            for m in range(1, N):
                best = max(best, scores[m] + local[m, s, a])
            total, mean, spread, stepped = 0.0, 0.0, 0.0, 0.0
            for m in range(N):
                score = scores[m] + local[m, s, a] - best
                if score > LEAST:
                    w = math.exp(score)
                    total += w
                    if m < M:
                        mean += w * means[m, s, a]
                        spread += w * variances[m, s, a]
                    else:
                        stepped = w
            cost[s, a], variance[s, a], share[s, a] = mean / total, spread / total, stepped / total


@njit(cache=True)
def learn(
    memories: CostMemories, keep: Floats, said: Floats, states: Ints, actions: Ints, costs: Floats
) -> None:
    """Learn from the costs (H,) of a path: score the memories by their predictions, then add them.

    keep: (M,). said: (N, H), the predictions of the memories for the path when its episode began.
    states, actions: (H + 1,), (H,). A cell that was visited several times counts once, since an
    episode has one cost function.
    """
    M = memories.sums.shape[0]
    N, H = said.shape
    scores, local, errors = memories.scores, memories.local, memories.errors
    # stage 1: forget; memory 0 and the one kept per step do not
    for m in range(1, M):
        memories.sums[m] *= keep[m]
        memories.weights[m] *= keep[m]
    for m in range(N + 1):
        errors[m] *= KEEP_ERRORS
    # stage 2: every visit counts 1 / visits of its cell; scores fall by rate * (error + toll),
    # and the sums of the memories grow by the cost
    rate = RATE / math.sqrt(H)
    for h in range(H):
        s, a = states[h], actions[h]
        visits = 0
        for other in range(H):
            visits += states[other] == s and actions[other] == a
        w = 1.0 / visits
        for m in range(N):
            error = w * (costs[h] - said[m, h]) ** 2
            errors[m] += error
            judged = error if m == 0 else error + w * TOLL
            scores[m] -= rate * judged
            local[m, s, a] -= RATE * judged
        errors[N] += w * said[0, h] * (1.0 - said[0, h])
        for m in range(M):
            memories.sums[m, s, a] += w * costs[h]
            memories.weights[m, s, a] += w
        if N > M:
            memories.step_sums[h, s, a] += costs[h]
            memories.step_weights[h, s, a] += 1.0
    # stage 3: log weights relative to the best memory, cut off from below
    best = scores.max()
    for m in range(N):
        scores[m] = max(scores[m] - best, LEAST)
    for h in range(H):
        s, a = states[h], actions[h]
        best = local[0, s, a]
        for m in range(1, N):
            best = max(best, local[m, s, a])
        for m in range(N):
            local[m, s, a] = max(local[m, s, a] - best, LEAST)
