"""What happens to the sums at a decision, at an outcome and when the models are fitted anew."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from belated.core.arrays import Floats, Ints
from belated.linear.choosing import scores, shares_of_rounds
from belated.linear.exposure import Exposure, advance, count_report, fit, share_at
from belated.linear.fitting import block_shares, fit_models, fit_spread
from belated.linear.sums import (
    Old,
    Young,
    add_decision,
    add_outcome,
    add_products,
    begin,
    decay,
    settle,
    slot_of,
)

RING = 2**15
"""Decisions whose predictions are remembered."""
SETTLED = 0.995
"""Exposure from which a decision is settled: at half its age, so that the tail is behind it."""
LATER = 20
"""Decisions and reports that must have come before anything is settled."""
SHARED = 0.02
"""Weight that all memories have together, whatever they predict."""

UNDECIDED, SILENT, REPORTED, CLOSED = 0, 1, 2, 3


class Log(NamedTuple):
    """Decisions by number less the first number kept, columns of one length."""

    x: Floats  # (n, d) features of the chosen action
    model: Ints  # (n,) int32: of the chosen action
    clock: Floats  # (n,) time of the decision
    total: Floats  # (n,) sum of the events so far
    used: Floats  # (n,) the outcome as it was learned, clipped
    bin: Ints  # (n,) int8: of the first report's delay, -1 if there is none that counts
    status: Ints  # (n,) int8


class Model(NamedTuple):
    """What was fitted: M memories, A models, d features; e is d, or 1 for a diagonal."""

    theta: Floats  # (M, A, d)
    constant: Floats  # (M,)
    weight: Floats  # (M,)
    average: Floats  # (A, d) theta, averaged over memories
    spread: Floats  # (A, d, e)
    predicted: Floats  # (RING, M + 2) by memory, averaged, and 1 / variance factor


class Level(NamedTuple):
    """Numbers of all models together.

    Attributes:
        sigma: standard deviation of an outcome.
        mean: mean outcome, relative to silence.
        rate: reports per exposed decision.
        judging: discount of what memories predicted, per decision.
        constant: of all models, averaged over memories.
        follows: 1 if the variance follows the mean: outcomes are silence or better.
    """

    sigma: float
    mean: float
    rate: float
    judging: float
    constant: float
    follows: float


class Tails(NamedTuple):
    """Sizes of outcomes by quarter octaves, for clipping."""

    number: Floats  # (L,)
    square: Floats  # (L,)
    span: Ints  # (2,) the smallest and the largest bin in use


def fresh_tails() -> Tails:
    """No outcomes."""
    bins = 4 * 2200
    return Tails(np.zeros(bins), np.zeros(bins), np.array([bins, -1]))


@njit(cache=True)
def note_size(tails: Tails, size: float) -> None:
    """Count an outcome's distance from silence, or from the mean."""
    if size == 0.0:
        return
    part, octave = math.frexp(size)
    place = 4 * (octave + 1100) + int(8.0 * part) - 4
    tails.number[place] += 1.0
    tails.square[place] += size * size
    tails.span[0] = min(tails.span[0], place)
    tails.span[1] = max(tails.span[1], place)


@njit(cache=True)
def clipping_point(tails: Tails, decisions: int) -> float:
    """Tau with sum min(r^2 / tau^2, 1) = ln(decisions), at most half of the outcomes."""
    total, below = 0.0, 0.0
    for place in range(tails.span[0], tails.span[1] + 1):
        total += tails.number[place]
        below += tails.square[place]
    target = min(math.log(decisions + 1.0), 0.5 * total)
    above = 0.0
    for place in range(tails.span[1], tails.span[0] - 1, -1):
        if above >= target:
            break
        square = below / (target - above)
        least = math.ldexp(0.5 + 0.125 * (place % 4), place // 4 - 1100)
        if square >= least * least:
            return math.sqrt(square)
        above += tails.number[place]
        below -= tails.square[place]
    return math.inf


@njit(cache=True)
def decide(
    rows: Floats,
    models: Ints,
    model: Model,
    level: Level,
    optimism: float,
    floor: float,
    uniform: float,
    seed: int,
    number: int,
) -> tuple[Floats, Floats, Floats]:
    """Probabilities, mean outcomes and variance factors of the actions at hand, (n,) each.

    floor: share of all actions together. uniform: share of decisions that play uniformly.
    """
    n = len(models)
    mean = level.mean if level.follows > 0.0 else 0.0
    means, widths, factors = scores(
        rows, models, model.average, level.constant, model.spread, level.sigma, mean, optimism
    )
    shares = shares_of_rounds(means, widths, seed, number)
    kept = 1.0 - floor - uniform + floor * uniform
    for a in range(n):
        shares[a] = kept * shares[a] + (1.0 - kept) / n
    return shares, means, factors


@njit(cache=True)
def pick(probabilities: Floats, u: float) -> int:
    """The action at which the sum of the probabilities passes u times all of it."""
    whole = 0.0
    for a in range(len(probabilities)):
        whole += probabilities[a]
    u *= whole
    total, last = 0.0, 0
    for a in range(len(probabilities)):
        if probabilities[a] > 0.0:
            last = a
            total += probabilities[a]
            if u < total:
                return a
    return last


@njit(cache=True)
def note_decision(
    young: Young,
    old: Old,
    blocks: int,
    model: Model,
    level: Level,
    number: int,
    i: int,
    x: Floats,
    mean: float,
    factor: float,
    silent: bool,
) -> None:
    """Add decision `number` of model i to the sums, with what is predicted of it."""
    M = len(model.weight)
    row = model.predicted[number % RING]
    for m in range(M):
        row[m] = model.constant[m]
        for u in range(len(x)):
            row[m] += model.theta[m, i, u] * x[u]
    row[M] = mean
    row[M + 1] = 1.0 / factor if factor > 1e-3 else 1e3
    if silent:
        slot = slot_of(young, blocks, number)
        add_decision(young, old, slot, i, x, row[:M], row[M + 1])
    else:
        for m in range(M):
            add_products(old.asked[m, i], x, 1.0 / old.scale[m])


@njit(cache=True)
def open_number(
    young: Young,
    old: Old,
    blocks: int,
    number: int,
    width: int,
    discounts: Floats,
    judging: float,
    silent: bool,
) -> int:
    """Make place for decision `number`; returns the number of blocks."""
    decay(old, discounts, judging)
    return begin(young, blocks, number, width) if silent else 0


@njit(cache=True)
def take(
    young: Young,
    old: Old,
    blocks: int,
    exposure: Exposure,
    log: Log,
    base: int,
    begun: int,
    model: Model,
    tails: Tails,
    discounts: Floats,
    level: Level,
    silent: bool,
    numbers: Ints,
    outcomes: Floats,
    times: Floats,
) -> tuple[float, int]:
    """Learn the outcomes of decisions, relative to silence, as they are known now.

    Returns the change of the squared residuals of the predictions, and how many are first reports.
    """
    M = len(discounts)
    residuals, firsts = 0.0, 0
    centre = 0.0
    hits = old.hits.sum()
    if not silent and hits > 0.0:
        centre = old.r[0].sum() / hits
    elif not silent:
        centre = outcomes[0]
    for n in range(len(numbers)):
        note_size(tails, abs(outcomes[n] - centre))
    tau = clipping_point(tails, begun)
    for n in range(len(numbers)):
        number = numbers[n]
        k = number - base
        i = log.model[k]
        x = log.x[k]
        age = begun - number
        outcome = min(max(outcomes[n], centre - tau), centre + tau)
        first = log.status[k] == SILENT
        row = model.predicted[number % RING]
        weight = row[M + 1] if age <= RING else 0.0
        if first:
            firsts += 1
            log.status[k] = REPORTED
            log.bin[k] = count_report(exposure, number, i, max(times[n] - log.clock[k], 0.0))
        slot = slot_of(young, blocks, number) if silent else -1
        if not silent:
            error = outcome - row[M]
            residuals += error * error
            if first:
                for m in range(M):
                    share = discounts[m] ** age / old.scale[m]
                    old.n[m, i] += share
                    old.x[m, i] += share * x
                    add_products(old.xx[m, i], x, share)
                    old.pp[m] += weight * row[m] * row[m] * level.judging**age
            else:
                error = log.used[k] - row[M]
                residuals -= error * error
        add_outcome(
            young,
            old,
            slot,
            i,
            x,
            row[:M],
            weight,
            discounts,
            level.judging,
            age,
            log.used[k],
            outcome,
            first,
        )
        log.used[k] = outcome
    return residuals, firsts


@njit(cache=True)
def freeze(
    young: Young,
    old: Old,
    blocks: int,
    exposure: Exposure,
    log: Log,
    base: int,
    begun: int,
    number: int,
    seen: int,
    time: float,
    model: Model,
    discounts: Floats,
    judging: float,
) -> None:
    """Let a decision stay in the sums with the exposure that it has reached."""
    k = number - base
    slot = slot_of(young, blocks, number)
    if slot < 0:
        return
    M = len(discounts)
    i = log.model[k]
    x = log.x[k]
    age = begun - number
    row = model.predicted[number % RING]
    weight = row[M + 1] if age <= RING else 0.0
    shares = np.zeros(exposure.share.shape[0])
    if number < seen:
        share_at(exposure, time - log.clock[k], shares)
    share = shares[i]
    hit = 1.0 if log.status[k] == REPORTED else 0.0
    r = log.used[k]
    young.n[slot, i] -= 1.0
    young.x[slot, i] -= x
    add_products(young.xx[slot, i], x, -1.0)
    young.hits[slot, i] -= hit
    young.r[slot, i] -= r
    young.rr[slot, i] -= r * r
    young.rx[slot, i] -= r * x
    old.hits[i] += hit
    old.rr[i] += r * r
    for m in range(M):
        young.rp[slot, m] -= r * weight * row[m]
        young.pp[slot, i, m] -= weight * row[m] * row[m]
        old.rp[m] += r * weight * row[m] * judging**age
        old.pp[m] += share * weight * row[m] * row[m] * judging**age
        part = discounts[m] ** age / old.scale[m]
        old.n[m, i] += part * share
        old.x[m, i] += part * share * x
        add_products(old.xx[m, i], x, part * share)
        add_products(old.asked[m, i], x, part / discounts[m] * (share - 1.0))
        old.r[m, i] += part * r
        old.rx[m, i] += part * r * x


@njit(cache=True)
def withdraw(old: Old, i: int, x: Floats, age: int, discounts: Floats) -> None:
    """Take a decision that never reported out of the variance; age: decisions begun since."""
    for m in range(len(discounts)):
        add_products(old.asked[m, i], x, -(discounts[m] ** age) / old.scale[m])


@njit(cache=True)
def ripe(
    exposure: Exposure, young: Young, blocks: int, begun: int, base: int, clock: Floats, time: float
) -> bool:
    """Whether the outcomes of the oldest block have all but come."""
    if blocks < 2:
        return False
    last = young.high[young.order[0]] - 1
    if last + LATER >= begun:
        return False
    if last < base:
        return True
    shares = np.empty(exposure.share.shape[0])
    share_at(exposure, 0.5 * (time - clock[last - base]), shares)
    return bool(shares.min() >= SETTLED)


@njit(cache=True)
def refresh_silent(
    young: Young,
    old: Old,
    blocks: int,
    exposure: Exposure,
    log: Log,
    base: int,
    begun: int,
    seen: int,
    time: float,
    reports: int,
    equal: bool,
    follows: bool,
    discounts: Floats,
    ridge: Floats,
    model: Model,
    level: Level,
    shares: Floats,
    precisions: Floats,
) -> tuple[int, Level]:
    """Fit exposure, memories and models where silence means the outcome 0."""
    M, A, d = model.theta.shape
    advance(exposure, base, log.clock, log.model, log.bin, seen, time)
    if reports == 0:
        fit_spread(old, model.weight, ridge, model.spread)
        return blocks, level
    fit(exposure)
    judging = level.judging
    while reports >= LATER and ripe(exposure, young, blocks, begun, base, log.clock, time):
        blocks = settle(young, old, blocks, begun, discounts, judging)
    block_shares(young, blocks, exposure, base, log.clock, seen, time, shares)
    # Totals without discount: exposed decisions, reports, outcomes and their squares.
    exposed = old.scale[0] * old.n[0]
    hits = old.hits.copy()
    total, squares = old.scale[0] * old.r[0].sum(), old.rr.sum()
    for place in range(blocks):
        slot = young.order[place]
        exposed = exposed + shares[slot] * young.n[slot]
        hits = hits + young.hits[slot]
        total += young.r[slot].sum()
        squares += young.rr[slot].sum()
    mass = max(exposed.sum(), 1e-9)
    mean, rate = total / mass, hits.sum() / mass
    variance = squares / mass
    sigma = math.sqrt(max(variance - mean * mean, 1e-6 * variance))
    # Equal outcomes are successes: the variance of one that is partly exposed is known.
    for place in range(blocks):
        slot = young.order[place]
        for i in range(A):
            precisions[slot, i] = 1.0
            if equal:
                p = min((hits[i] + rate) / (exposed[i] + 1.0), 0.95)
                precisions[slot, i] = (1.0 - p) / (1.0 - p * shares[slot, i])
    if M > 1:
        judging = 1.0 - min(max(rate / 100.0, 2e-4), 1e-2)
        gains = np.empty(M)
        for m in range(M):
            rp, pp = old.rp[m], old.pp[m]
            for place in range(blocks):
                slot = young.order[place]
                age = begun - 0.5 * (young.low[slot] + young.high[slot] - 1)
                part = judging**age
                rp += part * young.rp[slot, m]
                for i in range(A):
                    pp += part * shares[slot, i] * young.pp[slot, i, m]
            prior = 0.5 * m + 3.0 * A * d * (1.0 - discounts[m]) / max(rate, 1e-9)
            gains[m] = (2.0 * rp - pp) / (2.0 * sigma * sigma) - prior if sigma > 0.0 else -prior
        weigh(gains, model.weight)
    fit_models(
        young,
        blocks,
        old,
        shares,
        precisions,
        begun,
        discounts,
        ridge,
        mean,
        model.theta,
        model.constant,
    )
    constant = average(model)
    fit_spread(old, model.weight, ridge, model.spread)
    return blocks, Level(
        sigma, mean, rate, judging, constant, 1.0 if follows and mean > 0.0 else 0.0
    )


@njit(cache=True)
def refresh_told(
    young: Young,
    old: Old,
    reports: int,
    residuals: float,
    begun: int,
    discounts: Floats,
    ridge: Floats,
    model: Model,
    level: Level,
    shares: Floats,
    precisions: Floats,
) -> Level:
    """Fit memories and models where every outcome reports."""
    M = len(discounts)
    if reports == 0:
        fit_spread(old, model.weight, ridge, model.spread)
        return level
    hits = old.hits.sum()
    mean = old.r[0].sum() / hits
    around = max(old.rr.sum() - hits * mean * mean, 0.0)
    sigma = math.sqrt((max(residuals, 0.0) + 2.0 * around / hits) / (hits + 2.0))
    if M > 1:
        gains = np.empty(M)
        for m in range(M):
            gain = (2.0 * old.rp[m] - old.pp[m]) / (2.0 * sigma * sigma) if sigma > 0.0 else 0.0
            gains[m] = gain - m
        weigh(gains, model.weight)
    fit_models(
        young,
        0,
        old,
        shares,
        precisions,
        begun,
        discounts,
        ridge,
        mean,
        model.theta,
        model.constant,
    )
    constant = average(model)
    fit_spread(old, model.weight, ridge, model.spread)
    return Level(sigma, mean, level.rate, level.judging, constant, 0.0)


@njit(cache=True)
def weigh(gains: Floats, weight: Floats) -> None:
    """Softmax of the gains into weight (M,), a small part of it shared out."""
    M = len(gains)
    best = gains.max()
    total = 0.0
    for m in range(M):
        weight[m] = math.exp(gains[m] - best)
        total += weight[m]
    for m in range(M):
        weight[m] = (1.0 - SHARED) * weight[m] / total + SHARED / M


@njit(cache=True)
def average(model: Model) -> float:
    """Average theta over the memories; returns the averaged constant."""
    model.average[:] = 0.0
    constant = 0.0
    for m in range(len(model.weight)):
        model.average[:] += model.weight[m] * model.theta[m]
        constant += model.weight[m] * model.constant[m]
    return constant
