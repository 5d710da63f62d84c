"""Compiled calls for a decision, for an outcome and for fitting the models.

Each call gets the two arrays of a learner (see `sums.views`) and its log: features x (n, d),
numbers (n, 3) and marks (n, 3) of the decisions from number `base` on.
"""

from __future__ import annotations

import math

import numpy as np

from belated.core.arrays import Floats, Indices, Ints
from belated.core.compiled import njit
from belated.linear.chance import uniform
from belated.linear.choosing import WIDTH, scores, shares_of_rounds
from belated.linear.exposure import (
    BIN,
    CLOCK,
    MODEL,
    STATUS,
    TOTAL,
    USED,
    advance,
    count_report,
    fit,
    share_at,
)
from belated.linear.features import LARGEST
from belated.linear.fitting import (
    PSEUDO,
    WIDE,
    add_one,
    block_shares,
    dot,
    fit_model,
    fit_spread,
    is_stale,
    ridge_of,
)
from belated.linear.sums import (
    BASE,
    BEGUN,
    BLOCKS,
    CONSTANT,
    DISCOUNT,
    EQUAL,
    EXPOSED,
    FIRST,
    FITTED,
    FLOOR,
    FOLLOWS,
    FRESH,
    HITS,
    HOLDOUT,
    JUDGING,
    KINDS,
    KNOWN,
    LAST,
    LEFT,
    MEAN,
    MU,
    NEGATIVE,
    OCTAVES,
    OFFSET,
    OPTIMISM,
    PLAYS,
    PP,
    RATE,
    RAW,
    RAW_SQUARES,
    REPORTED_THEN,
    REPORTS,
    RESIDUALS,
    RING,
    RP,
    SCALE,
    SEED,
    SIGMA,
    SILENT,
    SPREAD,
    SQUARES,
    SUM,
    TERMS,
    THEN,
    TOP,
    UNPREDICTED,
    WEIGHT,
    WHEN,
    State,
    add_moments,
    add_products,
    add_row,
    add_square,
    begin,
    clear,
    decay,
    half_products,
    settle,
    slot_of,
    total,
    views,
)
from belated.linear.sums import TOTAL as REST

SETTLED = 0.995
"""The exposure, at half its age, from which a decision is settled, so that the tail has passed."""
LATER = 20
"""The number of decisions and of reports before the first block is settled."""
SHARED = 0.02
"""The weight that is divided equally among all memories."""
SPREAD_STALE = 0.1
SPREAD_STALE_WIDE = 0.8
"""The share of the decisions that may change before the variances are fitted anew."""
EVERY = 10
"""The number of decisions after which the models are fitted anew, unless outcomes require it."""

UNDECIDED, SILENT_YET, REPORTED, CLOSED = 0, 1, 2, 3
# What `run` does, added up.
BEGIN, CHOOSE, NOTE, FIT = 1, 2, 4, 8


@njit(cache=True)
def note_size(sizes: Floats, span: Ints, size: float) -> None:
    """Count an outcome's distance from silence, or from the mean."""
    if size == 0.0:
        return
    part, octave = math.frexp(size)
    place = 4 * (octave + OCTAVES // 2) + int(8.0 * part) - 4
    sizes[0, place] += 1.0
    sizes[1, place] += size * size
    span[0] = min(span[0], place)
    span[1] = max(span[1], place)


@njit(cache=True)
def clipping_point(sizes: Floats, span: Ints, decisions: int) -> float:
    """Tau with sum min(r^2 / tau^2, 1) = ln(decisions), at most half of the outcomes."""
    total, below = 0.0, 0.0
    for place in range(span[0], span[1] + 1):
        total += sizes[0, place]
        below += sizes[1, place]
    target = min(math.log(decisions + 1.0), 0.5 * total)
    above = 0.0
    for place in range(span[1], span[0] - 1, -1):
        if above >= target:
            break
        square = below / (target - above)
        least = math.ldexp(0.5 + 0.125 * (place % 4), place // 4 - OCTAVES // 2)
        if square >= least * least:
            return math.sqrt(square)
        above += sizes[0, place]
        below -= sizes[1, place]
    return math.inf


@njit(cache=True)
def pick(probabilities: Floats, u: float) -> int:
    """The action at which the cumulative probability passes u times the total."""
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
def bounded(rows: Floats, largest: float) -> bool:
    """Whether all numbers are finite and none is larger."""
    inside = True
    for a in range(rows.shape[0]):
        for u in range(rows.shape[1]):
            inside &= abs(rows[a, u]) <= largest
    return inside


@njit(cache=True)
def whole_rows(given: Floats, constant: int) -> Floats:
    """Features with the constant of a model per action."""
    n, width = given.shape
    rows = np.ones((n, width + constant))
    for a in range(n):
        for u in range(width):
            rows[a, u] = given[a, u]
    return rows


@njit(cache=True)
def run(
    floats: Floats,
    whole: Ints,
    x_log: Floats,
    log: Floats,
    marks: Indices,
    what: int,
    number: int,
    given: Floats,
    models: Ints,
    u: float,
    seen: int,
    time: float,
    clock: float,
    out: Floats,
) -> int:
    """Fit the models, begin a decision, choose, and note the choice; or some of these.

    what: BEGIN, CHOOSE, NOTE and FIT, added up; a decision that begins fits what is due. number: of
    the decision. given: features (n, d) or (1, d). models: of the available actions. u: draws the
    action; if it is negative, the draw depends on seed and number. seen, time: decisions begun at
    the last `observe`, and its time. clock: the time of the decision. out: the probabilities (n,).

    Returns the index of the action among the available ones; -1 if a feature is too large or not a
    number, and then nothing has changed.
    """
    if not bounded(given, LARGEST):
        return -1
    s = views(floats, whole)
    counts, level = s.counts, s.level
    rows = whole_rows(given, counts[CONSTANT])
    if what & FIT or (what & BEGIN and fit_is_due(counts)):
        refresh(s, log, marks, seen, time)
    if what & BEGIN:
        k = number - counts[BASE]
        log[k, CLOCK], log[k, TOTAL], log[k, USED] = clock, 0.0, 0.0
        marks[k, MODEL], marks[k, BIN], marks[k, STATUS] = 0, -1, UNDECIDED
        decay(s.memory, level[JUDGING], s.old, s.asked)
        if counts[SILENT]:
            begin(counts, s.order, s.low, s.high, s.young, number)
            newest = s.order[counts[BLOCKS] - 1]
            if s.low[newest] == number:
                clear(s.shares[newest])
        counts[BEGUN] += 1
    if what & (CHOOSE | NOTE) == 0:
        return 0
    P, columns = np.empty(counts[TERMS]), np.empty((3, len(models)))
    means, widths, factors = columns[0], columns[1], columns[2]
    if len(rows) == 1:
        half_products(rows[0], P)
    scores(rows, P, models, s.theta, s.spread, level, means, widths, factors)
    place = 0
    if what & CHOOSE:
        shares_of_rounds(means, widths, counts[SEED], number, out)
        add_floor(out, models, level, s.reference)
        place = pick(out, uniform(counts[SEED], number) if u < 0.0 else u)
    if what & NOTE:
        x = rows[0]
        if len(rows) > 1:
            x = rows[place]
            half_products(x, P)
        k = number - counts[BASE]
        for v in range(x_log.shape[1]):
            x_log[k, v] = x[v]
        marks[k, MODEL], marks[k, STATUS] = models[place], SILENT_YET
        note(s, number, models[place], x, P, means[place], factors[place])
    return place


@njit(cache=True)
def add_floor(out: Floats, models: Ints, level: Floats, reference: Floats) -> None:
    """Mix the floor and the policy of the holdout into the probabilities."""
    n = len(out)
    floor, holdout = level[FLOOR], level[HOLDOUT]
    total = 0.0
    for a in range(n):
        total += reference[models[a]]
    for a in range(n):
        held = reference[models[a]] / total if total > 0.0 else 1.0 / n
        out[a] = (1.0 - floor) * ((1.0 - holdout) * out[a] + holdout * held) + floor / n


@njit(cache=True)
def note(s: State, number: int, i: int, x: Floats, P: Floats, mean: float, factor: float) -> None:
    """Add a decision of model i with features x (d,) and its predictions to the sums.

    P: the products of the features; see `half_products`.
    """
    counts, memory = s.counts, s.memory
    d, M = len(x), memory.shape[1]
    for u in range(d):
        s.features[0, u] += 1.0 if x[u] != 0.0 else 0.0
        s.features[1, u] += x[u] * x[u]
        s.features[2, u] += x[u]
    s.tally[PLAYS, i] += 1.0
    if counts[KNOWN] == 0:
        counts[UNPREDICTED] = number + 1
    row = s.predicted[number % RING]
    for m in range(M):
        fitted, mu = s.fits[m, i], memory[MU, m]
        row[m] = mu
        row[m] += dot(fitted[:d], x) - mu * dot(fitted[d : 2 * d], x)
    row[M] = mean
    weight = 1.0 / factor if factor > 1e-3 else 1e3
    row[M + 1] = weight
    if not add_one(s.spread[i], x):
        counts[SPREAD] = counts[FITTED] = -1
    if counts[SILENT]:
        sums = s.young[slot_of(counts[BLOCKS], s.order, s.low, number), i]
        last = len(sums) - 2 * M
        sums[0] += 1.0
        add_row(sums[2 : 2 + d], x, 1.0)
        add_square(sums[2 + 2 * d : last], P, d, 1.0)
        for m in range(M):
            sums[last + M + m] += weight * row[m] * row[m]
    else:
        for m in range(M):
            add_square(s.asked[m, i], P, d, 1.0 / memory[SCALE, m])


@njit(cache=True)
def add_up(
    s: State, log: Floats, marks: Indices, came: Floats, silence: float
) -> tuple[Ints, Floats, Floats]:
    """Numbers, current outcomes relative to silence, and times of the first events of decisions.

    came: see `take`; a decision with several events is returned once.
    """
    numbers = np.empty(len(came), dtype=np.int64)
    outcomes, times = np.empty(len(came)), np.empty(len(came))
    count = 0
    for n in range(len(came)):
        number = int(came[n, 0])
        k = number - s.counts[BASE]
        i = marks[k, MODEL]
        before = log[k, TOTAL] - silence if marks[k, STATUS] == REPORTED else 0.0
        if count and numbers[count - 1] == number:
            before = outcomes[count - 1]
        else:
            numbers[count], times[count] = number, came[n, 1]
            count += 1
        log[k, TOTAL] += came[n, 2]
        outcome = log[k, TOTAL] - silence
        outcomes[count - 1] = outcome
        s.tally[RAW, i] += outcome - before
        s.tally[RAW_SQUARES, i] += outcome * outcome - before * before
    return numbers[:count], outcomes[:count], times[:count]


@njit(cache=True)
def take(
    floats: Floats,
    whole: Ints,
    x_log: Floats,
    log: Floats,
    marks: Indices,
    came: Floats,
    silence: float,
) -> None:
    """Learn from the outcomes of decisions.

    came: rows of number, time and value, one per event, in this order.
    """
    s = views(floats, whole)
    numbers, outcomes, times = add_up(s, log, marks, came, silence)
    counts, level, memory, tally = s.counts, s.level, s.memory, s.tally
    M, _, P = s.old.shape
    d = counts[1]
    silent = counts[SILENT] == 1
    begun, base, judging = counts[BEGUN], counts[BASE], level[JUDGING]
    centre = 0.0
    hits, amount = total(tally[HITS]), total(tally[SUM])
    if not silent:
        centre = amount / hits if hits > 0.0 else outcomes[0]
    for n in range(len(numbers)):
        if silent and outcomes[n] == 0.0 and marks[numbers[n] - base, BIN] < 0:
            continue  # a report that equals silence says nothing else
        note_size(s.sizes, s.span, abs(outcomes[n] - centre))
        if counts[KINDS] == 0:
            counts[KINDS], level[EQUAL] = 1, outcomes[n]
        elif outcomes[n] != level[EQUAL]:
            counts[KINDS] = 2
        if outcomes[n] < 0.0:
            counts[NEGATIVE] = 1
    tau = clipping_point(s.sizes, s.span, begun)
    x = np.ones(d)
    for n in range(len(numbers)):
        number = numbers[n]
        k = number - base
        i = marks[k, MODEL]
        for u in range(x_log.shape[1]):
            x[u] = x_log[k, u]
        age = begun - number
        outcome = min(max(outcomes[n], centre - tau), centre + tau)
        marks[k, STATUS] = REPORTED
        first = marks[k, BIN] < 0 and not (silent and outcomes[n] == 0.0)
        row = s.predicted[number % RING]
        if age > RING:  # its predictions are forgotten: the mean counts instead
            row = np.full(M + 2, centre)
            row[M + 1] = 0.0
        elif not silent and number < counts[UNPREDICTED]:
            for m in range(M + 1):  # made before any report: the mean counts as its prediction
                row[m] = centre
        weight = row[M + 1]
        before = log[k, USED]
        if first:
            counts[REPORTS] += 1
            tally[HITS, i] += 1.0
            delay = max(times[n] - log[k, CLOCK], 0.0)
            marks[k, BIN] = count_report(s.edges, s.passed, s.delays, s.within, number, i, delay)
            counts[TOP] = max(counts[TOP], marks[k, BIN])
        change = outcome - before
        if first or change != 0.0:
            counts[FRESH] += 1
        tally[SUM, i] += change
        tally[SQUARES, i] += outcome * outcome - before * before
        slot = slot_of(counts[BLOCKS], s.order, s.low, number) if silent else -1
        new = 1.0 if first and not silent else 0.0
        if not silent:
            error = outcome - row[M]
            level[RESIDUALS] += error * error
            if not first:
                error = before - row[M]
                level[RESIDUALS] -= error * error
        if slot >= 0:
            sums = s.young[slot, i]
            add_moments(sums[:P], x, 0.0, change)
            for m in range(M):
                sums[P + m] += change * weight * row[m]
        else:
            judged = judging**age * weight
            for m in range(M):
                part = memory[DISCOUNT, m] ** age / memory[SCALE, m]
                add_moments(s.old[m, i], x, new * part, change * part)
                memory[RP, m] += change * judged * row[m]
                memory[PP, m] += new * judged * row[m] * row[m]
        log[k, USED] = outcome


@njit(cache=True)
def close(
    floats: Floats,
    whole: Ints,
    x_log: Floats,
    log: Floats,
    marks: Indices,
    number: int,
    seen: int,
    time: float,
) -> None:
    """Close a decision: its outcomes will not be used any more.

    If silence has a meaning, it stays in the sums with its current exposure. Otherwise it is
    removed from the variance if it has not reported.
    """
    s = views(floats, whole)
    counts, memory = s.counts, s.memory
    k = number - counts[BASE]
    status = marks[k, STATUS]
    marks[k, BIN], marks[k, STATUS] = -1, CLOSED
    if status == UNDECIDED:
        return
    M, A, P = s.old.shape
    i = marks[k, MODEL]
    x = np.ones(counts[1])
    for u in range(x_log.shape[1]):
        x[u] = x_log[k, u]
    age = counts[BEGUN] - number
    if counts[SILENT] == 0:
        if status == SILENT_YET:
            for m in range(M):
                part = memory[DISCOUNT, m] ** (age - 1) / memory[SCALE, m]
                add_products(s.asked[m, i], x, -part)
        return
    slot = slot_of(counts[BLOCKS], s.order, s.low, number)
    if slot < 0:
        return
    row = s.predicted[number % RING]
    weight = row[M + 1] if age <= RING else 0.0
    share = np.zeros(A)
    if number < seen:
        share_at(s.edges, s.delays, s.within, time - log[k, CLOCK], share, 1.0)
    r = log[k, USED]
    sums = s.young[slot, i]
    add_moments(sums[:P], x, -1.0, -r)
    judged = s.level[JUDGING] ** age
    for m in range(M):
        rp, pp = r * weight * row[m], weight * row[m] * row[m]
        sums[P + m] -= rp
        sums[P + M + m] -= pp
        memory[RP, m] += judged * rp
        memory[PP, m] += judged * share[i] * pp
        part = memory[DISCOUNT, m] ** age / memory[SCALE, m]
        add_moments(s.old[m, i], x, part * share[i], part * r)


@njit(cache=True)
def recount(
    floats: Floats,
    whole: Ints,
    log: Floats,
    marks: Indices,
    unit: float,
    numbers: Ints,
    delays: Floats,
) -> None:
    """Count delays anew, in another unit; numbers: of the decisions that have reported."""
    s = views(floats, whole)
    scale = unit / s.edges[1]
    for i in range(len(s.delays)):
        for row in range(4):
            clear(s.delays[i, row])
    for j in range(len(s.edges)):
        s.edges[j] *= scale
        s.passed[j] = 0
        s.within[FIRST, j], s.within[LAST, j] = s.edges[j], 0.0
    s.counts[TOP] = 0
    for n in range(len(numbers)):
        k = numbers[n] - s.counts[BASE]
        if marks[k, BIN] >= 0:
            i = marks[k, MODEL]
            found = count_report(s.edges, s.passed, s.delays, s.within, numbers[n], i, delays[n])
            marks[k, BIN] = found
            s.counts[TOP] = max(s.counts[TOP], found)


@njit(cache=True)
def least_of(row: Floats) -> float:
    """The smallest entry of a row."""
    found = math.inf
    for k in range(len(row)):
        found = min(found, row[k])
    return found


@njit(cache=True)
def exposed_until(
    floats: Floats, whole: Ints, log: Floats, least: float, seen: int, time: float
) -> int:
    """The first decision whose exposure at half its age is below a share."""
    s = views(floats, whole)
    share = np.zeros(s.counts[0])
    number = s.counts[BASE]
    while number < seen - LATER:
        clear(share)
        age = 0.5 * (time - log[number - s.counts[BASE], CLOCK])
        share_at(s.edges, s.delays, s.within, age, share, 1.0)
        if least_of(share) < least:
            break
        number += 1
    return int(number)


@njit(cache=True)
def fit_is_due(counts: Ints) -> bool:
    """Whether enough has happened since the models were fitted."""
    since = counts[BEGUN] - counts[FITTED]
    every, fresh = (EVERY, 0.02) if counts[1] <= WIDE else (2 * EVERY, 0.04)
    if counts[FITTED] < 0 or since >= every:
        return True
    return bool(counts[FRESH] > fresh * counts[REPORTS] and since >= 1)


@njit(cache=True)
def ripe(s: State, log: Floats, time: float) -> bool:
    """Whether nearly all outcomes of the oldest block have arrived."""
    counts = s.counts
    if counts[BLOCKS] < 2:
        return False
    last = s.high[s.order[0]] - 1
    if last + LATER >= counts[BEGUN]:
        return False
    if last < counts[BASE]:
        return True
    share = np.zeros(counts[0])
    share_at(
        s.edges, s.delays, s.within, 0.5 * (time - log[last - counts[BASE], CLOCK]), share, 1.0
    )
    return least_of(share) >= SETTLED


@njit(cache=True)
def refresh(s: State, log: Floats, marks: Indices, seen: int, time: float) -> None:
    """Fit exposure, memories and models to all outcomes so far."""
    counts, level, memory, tally = s.counts, s.level, s.memory, s.tally
    A, d, t, M = counts[0], counts[1], counts[TERMS], memory.shape[1]
    begun, base = counts[BEGUN], counts[BASE]
    silent = counts[SILENT] == 1
    # stage 1: the ridge D, and the width of the draws, WIDTH / sqrt(number of nonzero features)
    counts[FITTED], counts[FRESH], counts[KNOWN] = begun, 0, counts[REPORTS]
    ridge = np.empty(d)
    count = ridge_of(s.features, total(tally[PLAYS]), ridge)
    level[OPTIMISM] = WIDTH / math.sqrt(count)
    V = np.empty(t)
    ages, discounts = np.empty(len(s.order)), np.empty((M, len(s.order)))
    hits, amount = total(tally[HITS]), total(tally[SUM])
    squares = max(total(tally[SQUARES]), 0.0)  # refunds may leave less than 0, by rounding
    exposed = np.empty(A)
    for i in range(A):
        exposed[i] = s.old[0, i, 0] if silent else tally[HITS, i]
    # stage 2: the delay distributions F; old blocks are settled, all others get their exposure
    if silent:
        advance(s.edges, s.passed, s.delays, base, log, marks, seen, time)
    if silent and counts[REPORTS] > 0:
        fit(s.delays, counts[TOP])
        while counts[REPORTS] >= LATER and ripe(s, log, time):
            settle(counts, s.order, s.low, s.high, s.young, s.old, memory, level[JUDGING])
        block_shares(s, log, seen, time)
        for i in range(A):
            exposed[i] = s.old[0, i, 0]
    # stage 3: the discounts g^(t-k) of every block, and the exposed decisions of every model
    fading = np.log(memory[DISCOUNT])
    for place in range(counts[BLOCKS]):
        slot = s.order[place]
        ages[slot] = begun - 0.5 * (s.low[slot] + s.high[slot] - 1)
        for m in range(M):
            discounts[m, slot] = math.exp(fading[m] * ages[slot])
        for i in range(A):
            exposed[i] += s.shares[slot, i] * s.young[slot, i, 0]
    # stage 4: sigma and the mean outcome, the weights of the memories, and the stale models
    if counts[REPORTS] > 0:
        if silent:
            measure(s, exposed, hits, amount, squares)
        else:
            mean = amount / hits
            around = max(squares - hits * mean * mean, 0.0)
            residuals = max(level[RESIDUALS], 0.0)
            level[SIGMA] = math.sqrt((residuals + 2.0 * around / hits) / (hits + 2.0))
            level[MEAN], level[FOLLOWS] = mean, 0.0
        if M > 1:
            judge(s, ages)
        for i in range(A):
            for m in range(M):
                if is_stale(s, m, i, exposed[i], count):
                    fit_model(s, m, i, discounts, ridge, V)
                    fitted = s.fits[m, i]
                    fitted[WHEN], fitted[EXPOSED] = begun, exposed[i]
                    fitted[REPORTED_THEN] = tally[HITS, i]
        average(s)
    # stage 5: the inverses A_i^-1 of the variances
    if spread_is_stale(counts, memory, d):
        counts[SPREAD] = begun
        for m in range(M):
            memory[THEN, m] = memory[WEIGHT, m]
        for i in range(A):
            fit_spread(s, i, discounts, ridge, V)


@njit(cache=True)
def spread_is_stale(counts: Ints, memory: Floats, d: int) -> bool:
    """Whether new weights of the memories, or their discounts, change the variances."""
    since = counts[BEGUN] - counts[SPREAD]
    limit = SPREAD_STALE if d <= WIDE else SPREAD_STALE_WIDE
    if counts[SPREAD] < 0 or since > 2.5 * limit * counts[SPREAD]:
        return True
    moved = 0.0
    for m in range(memory.shape[1]):
        moved += memory[WEIGHT, m] * (1.0 - memory[DISCOUNT, m] ** since)
        moved += 0.5 * abs(memory[WEIGHT, m] - memory[THEN, m])
    return moved > limit


@njit(cache=True)
def measure(s: State, exposed: Floats, hits: float, amount: float, squares: float) -> None:
    """The level of the outcomes, and the precisions of decisions that are partly exposed."""
    counts, level, tally = s.counts, s.level, s.tally
    mass = max(total(exposed), hits)  # a decision that has reported was exposed, whatever its F
    mean, rate, variance = amount / mass, hits / mass, squares / mass
    level[SIGMA] = math.sqrt(max(variance - mean * mean, 1e-6 * variance))
    level[MEAN], level[RATE] = mean, rate
    level[FOLLOWS] = 1.0 if counts[NEGATIVE] == 0 and mean > 0.0 else 0.0
    # equal outcomes are successes: a partly exposed one has variance p F (1 - p F)
    equal = counts[KINDS] == 1 and level[EQUAL] != 0.0
    for i in range(len(exposed)):
        p = min((tally[HITS, i] + rate) / (exposed[i] + 1.0), 0.95) if equal else 0.0
        for place in range(counts[BLOCKS]):
            slot = s.order[place]
            s.precisions[slot, i] = (1.0 - p) / (1.0 - p * s.shares[slot, i])


@njit(cache=True)
def judge(s: State, ages: Floats) -> None:
    """Weight the memories by their predictions."""
    counts, level, memory = s.counts, s.level, s.memory
    M, A, P = s.old.shape
    d = counts[1]
    # stage 1: the gain 2 r p - F p^2 of each memory's predictions p over predicting silence
    gains = np.empty(M)
    for m in range(M):
        gains[m] = 2.0 * memory[RP, m] - memory[PP, m]
    if counts[SILENT]:
        level[JUDGING] = 1.0 - min(max(level[RATE] / 100.0, 2e-4), 1e-2)
        fading = math.log(level[JUDGING])
        for place in range(counts[BLOCKS]):
            slot = s.order[place]
            part = math.exp(fading * ages[slot])
            for i in range(A):
                row, share = s.young[slot, i], s.shares[slot, i]
                if row[0] != 0.0:
                    for m in range(M):
                        gains[m] += part * (2.0 * row[P + m] - share * row[P + M + m])
    # stage 2: log weights gain / (2 sigma^2) minus a prior that prefers slow memories
    scale = 2.0 * level[SIGMA] * level[SIGMA]
    best = -math.inf
    for m in range(M):
        prior = float(m)
        if counts[SILENT]:
            cost = 3.0 * A * d * (1.0 - memory[DISCOUNT, m])
            prior = 0.5 * m + cost / max(level[RATE], 1e-9)
        gains[m] = (gains[m] / scale if scale > 0.0 else 0.0) - prior
        best = max(best, gains[m])
    # stage 3: their softmax, with SHARED divided equally
    for m in range(M):
        gains[m] = math.exp(gains[m] - best)
    whole = total(gains)
    for m in range(M):
        memory[WEIGHT, m] = (1.0 - SHARED) * gains[m] / whole + SHARED / M


@njit(cache=True)
def average(s: State) -> None:
    """The constant of every memory, and theta averaged over them."""
    level, memory = s.level, s.memory
    M, A = s.fits.shape[:2]
    d = s.theta.shape[1]
    for i in range(A):
        clear(s.theta[i])
    level[OFFSET] = 0.0
    for m in range(M):
        top, low = PSEUDO * level[MEAN], PSEUDO
        for i in range(A):
            top += s.fits[m, i, REST]
            low += s.fits[m, i, LEFT]
        mu, weight = top / max(low, PSEUDO), memory[WEIGHT, m]
        memory[MU, m] = mu
        level[OFFSET] += weight * mu
        for i in range(A):
            fitted = s.fits[m, i]
            for u in range(d):
                s.theta[i, u] += weight * (fitted[u] - mu * fitted[d + u])
    if level[SIGMA] <= 1e-9 * abs(level[MEAN]) and s.counts[SILENT] == 0:
        for i in range(A):
            clear(s.theta[i])  # all outcomes were equal: rounding must not matter
