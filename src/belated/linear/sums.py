"""Sums over past decisions, kept so that a decision costs the same however many are pending.

A young decision counts by its exposure, which grows with its age. So young decisions are summed in
blocks of neighbouring numbers, each with one exposure per model; blocks are merged as they age, so
that their width stays a fraction of their age, as in exponential histograms (Datar, Gionis, Indyk &
Motwani 2002). A block whose outcomes have all but come is settled: it moves into one sum per
memory, which then only decays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from belated.core.arrays import Floats, Ints

PER_LEVEL = 4
"""Blocks of one width before the two oldest of them are merged."""


class Young(NamedTuple):
    """Blocks of decisions, oldest first, by their place in `order`.

    A models, d features, M memories; e is d, or 1 where only the diagonal is kept.
    """

    order: Ints  # (B,) slots, the blocks in use first
    low: Ints  # (B,) the first number
    high: Ints  # (B,) one above the last number
    n: Floats  # (B, A) decisions
    x: Floats  # (B, A, d) their features
    xx: Floats  # (B, A, d, e) products of these
    hits: Floats  # (B, A) decisions that have reported
    r: Floats  # (B, A) outcomes
    rr: Floats  # (B, A) their squares
    rx: Floats  # (B, A, d) outcomes times features
    rp: Floats  # (B, M) outcomes times what each memory predicted
    pp: Floats  # (B, A, M) squares of the predictions


class Old(NamedTuple):
    """Settled sums, each divided by the `scale` of its memory."""

    scale: Floats  # (M,) the discount since the sums were last rescaled
    n: Floats  # (M, A)
    x: Floats  # (M, A, d)
    xx: Floats  # (M, A, d, e)
    r: Floats  # (M, A)
    rx: Floats  # (M, A, d)
    hits: Floats  # (A,) without discount
    rr: Floats  # (A,) without discount
    rp: Floats  # (M,) with the discount of judging
    pp: Floats  # (M,) with the discount of judging
    asked: Floats  # (M, A, d, e) products of the features of all decisions, young ones too


def fresh_young(blocks: int, models: int, d: int, e: int, memories: int) -> Young:
    """No decisions."""
    B, A, M = blocks, models, memories
    numbers = np.zeros(B, dtype=np.int64)
    return Young(
        np.arange(B),
        numbers,
        numbers.copy(),
        np.zeros((B, A)),
        np.zeros((B, A, d)),
        np.zeros((B, A, d, e)),
        np.zeros((B, A)),
        np.zeros((B, A)),
        np.zeros((B, A)),
        np.zeros((B, A, d)),
        np.zeros((B, M)),
        np.zeros((B, A, M)),
    )


def fresh_old(models: int, d: int, e: int, memories: int) -> Old:
    """Nothing settled."""
    A, M = models, memories
    return Old(
        np.ones(M),
        np.zeros((M, A)),
        np.zeros((M, A, d)),
        np.zeros((M, A, d, e)),
        np.zeros((M, A)),
        np.zeros((M, A, d)),
        np.zeros(A),
        np.zeros(A),
        np.zeros(M),
        np.zeros(M),
        np.zeros((M, A, d, e)),
    )


@njit(cache=True)
def add_products(out: Floats, x: Floats, weight: float) -> None:
    """Add weight * x x' to out (d, d), or its diagonal to out (d, 1)."""
    d, e = out.shape
    for u in range(d):
        scaled = weight * x[u]
        if scaled != 0.0:
            if e == 1:
                out[u, 0] += scaled * x[u]
            else:
                for v in range(d):
                    out[u, v] += scaled * x[v]


@njit(cache=True)
def decay(old: Old, discounts: Floats, judging: float) -> None:
    """One decision more: discount the settled sums."""
    for m in range(len(discounts)):
        old.scale[m] *= discounts[m]
        old.rp[m] *= judging
        old.pp[m] *= judging
        if old.scale[m] < 1e-100:
            scale = old.scale[m]
            old.n[m] *= scale
            old.x[m] *= scale
            old.xx[m] *= scale
            old.r[m] *= scale
            old.rx[m] *= scale
            old.asked[m] *= scale
            old.scale[m] = 1.0


@njit(cache=True)
def begin(young: Young, blocks: int, number: int, width: int) -> int:
    """Make place for the next decision; returns the number of blocks. width: of a new block."""
    if blocks:
        newest = young.order[blocks - 1]
        if young.high[newest] - young.low[newest] < width:
            young.high[newest] = number + 1
            return blocks
    blocks = merge(young, blocks)
    if blocks == len(young.order):
        join(young, blocks, 0)
        blocks -= 1
    slot = young.order[blocks]
    young.low[slot], young.high[slot] = number, number + 1
    return blocks + 1


@njit(cache=True)
def merge(young: Young, blocks: int) -> int:
    """Merge the oldest two blocks of every width of which there are more than `PER_LEVEL`."""
    end = blocks
    while end > 0:
        width = _width(young, end - 1)
        first = end - 1
        while first > 0 and _width(young, first - 1) < 2 * width:
            first -= 1
        if end - first <= PER_LEVEL:
            return blocks
        join(young, blocks, first)
        blocks -= 1
        end = first + 1
    return blocks


@njit(cache=True)
def _width(young: Young, place: int) -> int:
    slot = young.order[place]
    return int(young.high[slot] - young.low[slot])


@njit(cache=True)
def join(young: Young, blocks: int, place: int) -> None:
    """Add the block at place + 1 to the one at place, and free it."""
    into, free = young.order[place], young.order[place + 1]
    young.high[into] = young.high[free]
    young.n[into] += young.n[free]
    young.x[into] += young.x[free]
    young.xx[into] += young.xx[free]
    young.hits[into] += young.hits[free]
    young.r[into] += young.r[free]
    young.rr[into] += young.rr[free]
    young.rx[into] += young.rx[free]
    young.rp[into] += young.rp[free]
    young.pp[into] += young.pp[free]
    empty(young, free)
    for later in range(place + 1, blocks - 1):
        young.order[later] = young.order[later + 1]
    young.order[blocks - 1] = free


@njit(cache=True)
def empty(young: Young, slot: int) -> None:
    """Set all sums of a block to 0."""
    young.n[slot] = 0.0
    young.x[slot] = 0.0
    young.xx[slot] = 0.0
    young.hits[slot] = 0.0
    young.r[slot] = 0.0
    young.rr[slot] = 0.0
    young.rx[slot] = 0.0
    young.rp[slot] = 0.0
    young.pp[slot] = 0.0


@njit(cache=True)
def slot_of(young: Young, blocks: int, number: int) -> int:
    """The block that holds a decision; -1 if it is settled."""
    if blocks == 0 or number < young.low[young.order[0]]:
        return -1
    low, high = 0, blocks - 1
    while low < high:
        middle = (low + high + 1) // 2
        if young.low[young.order[middle]] <= number:
            low = middle
        else:
            high = middle - 1
    return int(young.order[low])


@njit(cache=True)
def add_decision(
    young: Young, old: Old, slot: int, i: int, x: Floats, predicted: Floats, weight: float
) -> None:
    """A decision of model i with features x (d,) and predictions (M,) of precision `weight`."""
    young.n[slot, i] += 1.0
    young.x[slot, i] += x
    add_products(young.xx[slot, i], x, 1.0)
    for m in range(len(predicted)):
        young.pp[slot, i, m] += weight * predicted[m] * predicted[m]
        add_products(old.asked[m, i], x, 1.0 / old.scale[m])


@njit(cache=True)
def add_outcome(
    young: Young,
    old: Old,
    slot: int,
    i: int,
    x: Floats,
    predicted: Floats,
    weight: float,
    discounts: Floats,
    judging: float,
    age: int,
    before: float,
    after: float,
    first: bool,
) -> None:
    """The outcome of a decision goes from `before` to `after`.

    slot: of its block, -1 if it is settled. age: decisions begun since, its own included.
    """
    change = after - before
    squares = after * after - before * before
    hit = 1.0 if first else 0.0
    if slot >= 0:
        young.hits[slot, i] += hit
        young.r[slot, i] += change
        young.rr[slot, i] += squares
        for u in range(len(x)):
            young.rx[slot, i, u] += change * x[u]
        for m in range(len(discounts)):
            young.rp[slot, m] += change * weight * predicted[m]
        return
    old.hits[i] += hit
    old.rr[i] += squares
    for m in range(len(discounts)):
        part = change * discounts[m] ** age / old.scale[m]
        old.r[m, i] += part
        for u in range(len(x)):
            old.rx[m, i, u] += part * x[u]
        old.rp[m] += change * weight * predicted[m] * judging**age


@njit(cache=True)
def settle(
    young: Young, old: Old, blocks: int, begun: int, discounts: Floats, judging: float
) -> int:
    """Move the oldest block into the settled sums; returns the number of blocks."""
    slot = young.order[0]
    age = begun - 0.5 * (young.low[slot] + young.high[slot] - 1)
    old.hits[:] += young.hits[slot]
    old.rr[:] += young.rr[slot]
    for m in range(len(discounts)):
        weight = discounts[m] ** age / old.scale[m]
        old.n[m] += weight * young.n[slot]
        old.x[m] += weight * young.x[slot]
        old.xx[m] += weight * young.xx[slot]
        old.r[m] += weight * young.r[slot]
        old.rx[m] += weight * young.rx[slot]
        old.rp[m] += judging**age * young.rp[slot, m]
        old.pp[m] += judging**age * young.pp[slot, :, m].sum()
    empty(young, slot)
    for place in range(blocks - 1):
        young.order[place] = young.order[place + 1]
    young.order[blocks - 1] = slot
    return blocks - 1
