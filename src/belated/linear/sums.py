"""Sums over past decisions, such that the cost of a decision does not depend on the pending ones.

A young decision counts by its exposure, which grows with its age. So young decisions are summed in
blocks of neighbouring numbers, each with one exposure per model; blocks are merged as they age, so
that their width stays a fraction of their age, as in exponential histograms (Datar, Gionis, Indyk &
Motwani 2002). A block whose outcomes have nearly all arrived is settled: it moves into one sum per
memory, which then only decays.

All numbers of a learner are in two arrays, one of floats and one of whole numbers, so that a
compiled call has few arguments; `views` names their parts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit

PER_LEVEL = 3
"""The number of blocks of one width above which the two oldest are merged."""
EDGES = 96
"""The number of edges between delays: two per octave, so ages up to 2**47 units."""
RING = 2**14
"""The number of decisions whose predictions are remembered."""
OCTAVES = 2200
"""The number of octaves of outcome sizes that are counted, a quarter of one per bin."""

# Whole numbers, by their place in `counts`.
(
    MODELS,  # A
    FEATURES,  # d, with the constant of a model per action
    TERMS,  # t: products of two features, d (d + 1) / 2, or d where only squares are kept
    MEMORIES,  # M
    ROOM,  # B
    CONSTANT,  # 1 if the last feature is the constant 1, which callers do not pass
    SILENT,  # 1 if silence has a meaning
    WIDTH,  # decisions in a new block
    SEED,
    BEGUN,  # decisions
    BASE,  # the first decision in the log
    BLOCKS,  # in use
    REPORTS,
    FRESH,  # reports since the models were fitted
    FITTED,  # decisions begun when they were, -1 before
    KNOWN,  # reports then
    UNPREDICTED,  # decisions below this number were made before any report
    KINDS,  # of outcomes: 0 none yet, 1 all equal, 2 several
    NEGATIVE,  # 1 if one was below silence
    TOP,  # the largest bin of a delay
    SPREAD,  # decisions begun when the variances were fitted, -1 before
    COUNTS,
) = range(22)

# Floats, by their place in `level`.
(
    SIGMA,  # standard deviation of an outcome
    MEAN,  # mean outcome, relative to silence
    RATE,  # reports per exposed decision
    JUDGING,  # discount of what memories predicted, per decision
    OFFSET,  # constant of all models, averaged over memories
    FOLLOWS,  # 1 if the variance follows the mean: outcomes are silence or better
    RESIDUALS,  # squared, of predictions made at decision time
    EQUAL,  # the outcome that all reports have had
    OPTIMISM,  # standard deviations that a draw is wide
    FLOOR,
    HOLDOUT,
    LEVEL,
) = range(12)

# Rows of `memory`.
DISCOUNT, SCALE, RP, PP, WEIGHT, MU, THEN = range(7)
# Rows of `tally`.
PLAYS, HITS, SUM, SQUARES, RAW, RAW_SQUARES = range(6)
# Rows of `delays` of a model.
CAME, RISK, EARLY, SHARE = range(4)
# Rows of `within`.
FIRST, LAST = range(2)
# The last places of a row of `fits`.
TOTAL, LEFT, MASS, WHEN, EXPOSED, REPORTED_THEN = -6, -5, -4, -3, -2, -1


class State(NamedTuple):
    """The parts of a learner.

    A models, d features, t products of two, M memories, B blocks, E edges. A row of moments is
    (n, r, x (d), r x (d), x x' (t)): decisions, outcomes and features; only the upper triangle of
    x x' is kept, row by row, or its diagonal.
    """

    level: Floats  # (LEVEL,)
    edges: Floats  # (E,)
    delays: Floats  # (A, 4, E)
    within: Floats  # (2, E) the smallest and the largest delay in each bin; of none the edge and 0
    tally: Floats  # (6, A) plays, reports, outcomes as learned and as they came, their squares
    features: Floats  # (3, d) how often not 0, squares, sums
    memory: Floats  # (7, M) the last row: weights when variances were fitted
    reference: Floats  # (A,) the policy of the holdout
    theta: Floats  # (A, d) averaged over memories
    spread: Floats  # (A, t)
    shares: Floats  # (B, A) exposure by block
    precisions: Floats  # (B, A)
    fits: Floats  # (M, A, 2 d + 6) V^-1 b, V^-1 f, what the constant needs, when and on what
    young: Floats  # (B, A, 2 + 2 d + t + 2 M) moments; outcomes times predictions, their squares
    old: Floats  # (M, A, 2 + 2 d + t) settled moments, each divided by the scale of its memory
    asked: Floats  # (M, A, t) x x' of all decisions; (1, 1, 1) where silence has a meaning
    sizes: Floats  # (2, 4 OCTAVES) number and squares of outcomes by size
    predicted: Floats  # (RING, M + 2) by memory, averaged, and 1 / variance factor
    counts: Ints  # (COUNTS,)
    order: Ints  # (B,) slots of blocks, oldest first, those in use first
    low: Ints  # (B,) the first number of a block, by slot
    high: Ints  # (B,) one above its last number
    passed: Ints  # (E,) the number of the next decision that reaches each edge
    span: Ints  # (2,) the smallest and the largest bin of `sizes` in use


def room(A: int, d: int, t: int, M: int, B: int, told: bool) -> tuple[int, int]:
    """The numbers of floats and whole numbers of a learner."""
    P = 2 + 2 * d + t
    floats = (
        LEVEL + 3 * EDGES + A * 4 * EDGES + 6 * A + 3 * d + 7 * M + A + A * d + A * t + 2 * B * A
    )
    floats += M * A * (2 * d + 6) + B * A * (P + 2 * M) + M * A * P
    floats += (M * A * t if told else 1) + 8 * OCTAVES + RING * (M + 2)
    return floats, COUNTS + 3 * B + EDGES + 2


def part(array: Any, first: int, shape: tuple[int, ...]) -> Any:
    """A part of an array that begins at a place, with a shape."""
    return array[first : first + math.prod(shape)].reshape(shape)


def _without_references() -> None:
    """Compile `part` without reference counts: the array outlives every call that gets it."""
    from numba import carray, types  # type: ignore[attr-defined]  # noqa: PLC0415
    from numba.extending import intrinsic, overload  # noqa: PLC0415

    @intrinsic
    def start(_: object, array: types.Array) -> tuple[Any, Any]:
        """Where the numbers of an array are."""

        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return context.make_array(signature.args[0])(context, builder, given[0]).data

        return types.CPointer(array.dtype)(array), code  # type: ignore[no-untyped-call]

    @overload(part)
    def compiled_part(array: Any, first: int, shape: Any) -> Any:
        def found(array: Any, first: int, shape: Any) -> Any:
            return carray(start(array[first:]), shape)  # type: ignore[call-arg]

        return found


_without_references()


def parts_of(floats: Floats, whole: Ints) -> State:
    """The parts of both arrays, as views; the sizes are the first whole numbers."""
    A, d, t, M, B = whole[0], whole[1], whole[2], whole[3], whole[4]
    P = 2 + 2 * d + t
    E = EDGES
    m, a, n = (1, 1, 1) if whole[SILENT] else (M, A, t)
    edges = LEVEL
    delays = edges + E
    within = delays + A * 4 * E
    tally = within + 2 * E
    features = tally + 6 * A
    memory = features + 3 * d
    reference = memory + 7 * M
    theta = reference + A
    spread = theta + A * d
    shares = spread + A * t
    precisions = shares + B * A
    fits = precisions + B * A
    young = fits + M * A * (2 * d + 6)
    old = young + B * A * (P + 2 * M)
    asked = old + M * A * P
    sizes = asked + m * a * n
    predicted = sizes + 8 * OCTAVES
    order = COUNTS
    passed = order + 3 * B
    return State(
        part(floats, 0, (LEVEL,)),
        part(floats, edges, (E,)),
        part(floats, delays, (A, 4, E)),
        part(floats, within, (2, E)),
        part(floats, tally, (6, A)),
        part(floats, features, (3, d)),
        part(floats, memory, (7, M)),
        part(floats, reference, (A,)),
        part(floats, theta, (A, d)),
        part(floats, spread, (A, t)),
        part(floats, shares, (B, A)),
        part(floats, precisions, (B, A)),
        part(floats, fits, (M, A, 2 * d + 6)),
        part(floats, young, (B, A, P + 2 * M)),
        part(floats, old, (M, A, P)),
        part(floats, asked, (m, a, n)),
        part(floats, sizes, (2, 4 * OCTAVES)),
        part(floats, predicted, (RING, M + 2)),
        part(whole, 0, (COUNTS,)),
        part(whole, order, (B,)),
        part(whole, order + B, (B,)),
        part(whole, order + 2 * B, (B,)),
        part(whole, passed, (E,)),
        part(whole, passed + E, (2,)),
    )


views = njit(cache=True)(parts_of)
"""The same in a compiled call; the parts are valid as long as the call."""


@njit(cache=True)
def total(row: Floats) -> float:
    """The sum of a row."""
    found = 0.0
    for k in range(len(row)):
        found += row[k]
    return found


@njit(cache=True)
def clear(row: Floats) -> None:
    """Set a row to 0."""
    for k in range(len(row)):
        row[k] = 0.0


@njit(cache=True, inline="always")
def add_row(out: Floats, row: Floats, weight: float) -> None:
    """Add weight times a row to another of its length."""
    for k in range(len(out)):
        out[k] += weight * row[k]


@njit(cache=True, inline="always")
def scale_row(row: Floats, weight: float) -> None:
    """Multiply a row by a weight, however small."""
    for k in range(len(row)):
        row[k] *= weight


@njit(cache=True, inline="always")
def add_four(
    out: Floats,
    a: Floats,
    b: Floats,
    c: Floats,
    e: Floats,
    weights: tuple[float, float, float, float],
) -> None:
    """Add four rows, at least as long as `out`, with their weights, in order."""
    for k in range(len(out)):
        out[k] = (((out[k] + weights[0] * a[k]) + weights[1] * b[k]) + weights[2] * c[k]) + weights[
            3
        ] * e[k]


@njit(cache=True)
def add_stack(
    out: Floats, stack: Floats, i: int, first: int, slots: Ints, weights: Floats, count: int
) -> None:
    """Add rows stack[slot, i, first:] of the first `count` slots with their weights, in order."""
    n = len(out)
    c = 0
    while c + 4 <= count:  # four at a time, so that `out` is read and written once for them
        add_four(
            out,
            stack[slots[c], i, first : first + n],
            stack[slots[c + 1], i, first : first + n],
            stack[slots[c + 2], i, first : first + n],
            stack[slots[c + 3], i, first : first + n],
            (weights[c], weights[c + 1], weights[c + 2], weights[c + 3]),
        )
        c += 4
    while c < count:
        add_row(out, stack[slots[c], i, first : first + n], weights[c])
        c += 1


@njit(cache=True)
def add_products(out: Floats, x: Floats, weight: float) -> None:
    """Add weight * x x' to out (t,): its upper triangle, or its diagonal."""
    d = len(x)
    if len(out) == d:
        for u in range(d):
            out[u] += weight * x[u] * x[u]
        return
    start = 0
    for u in range(d):
        scaled = weight * x[u]
        if scaled != 0.0:
            add_row(out[start : start + d - u], x[u:], scaled)
        start += d - u


@njit(cache=True)
def half_products(x: Floats, out: Floats) -> None:
    """Write P with x x' = P + P' to out (t,): half the squares, and the products above them."""
    d = len(x)
    if len(out) == d:
        for u in range(d):
            out[u] = 0.5 * x[u] * x[u]
        return
    start = 0
    for u in range(d):
        row, rest, first = out[start : start + d - u], x[u:], x[u]
        for v in range(d - u):
            row[v] = first * rest[v]
        row[0] *= 0.5
        start += d - u


@njit(cache=True)
def add_square(out: Floats, P: Floats, d: int, weight: float) -> None:
    """Add weight * (P + P') to out (t,); P: see `half_products`."""
    add_row(out, P, weight)
    place = 0
    for u in range(d):
        out[place] += weight * P[place]
        place += 1 if len(out) == d else d - u


@njit(cache=True)
def add_moments(out: Floats, x: Floats, n: float, r: float) -> None:
    """Add a decision with features x, weight n and total outcome r."""
    d = len(x)
    out[0] += n
    out[1] += r
    if r != 0.0:
        add_row(out[2 + d : 2 + 2 * d], x, r)
    if n != 0.0:
        add_row(out[2 : 2 + d], x, n)
        add_products(out[2 + 2 * d :], x, n)


@njit(cache=True)
def decay(memory: Floats, judging: float, old: Floats, asked: Floats) -> None:
    """Discount the settled sums by one decision."""
    for m in range(memory.shape[1]):
        memory[SCALE, m] *= memory[DISCOUNT, m]
        memory[RP, m] *= judging
        memory[PP, m] *= judging
        if memory[SCALE, m] < 1e-100:
            scale = memory[SCALE, m]
            for i in range(old.shape[1]):
                scale_row(old[m, i], scale)
            if len(asked) > m:
                for i in range(asked.shape[1]):
                    scale_row(asked[m, i], scale)
            memory[SCALE, m] = 1.0


@njit(cache=True)
def begin(counts: Ints, order: Ints, low: Ints, high: Ints, young: Floats, number: int) -> None:
    """Make room for the next decision."""
    blocks = counts[BLOCKS]
    if blocks:
        newest = order[blocks - 1]
        if high[newest] - low[newest] < counts[WIDTH]:
            high[newest] = number + 1
            return
    # Merge the oldest two blocks of every width of which there are more than PER_LEVEL.
    end = blocks
    while end > 0:
        width = high[order[end - 1]] - low[order[end - 1]]
        first = end - 1
        while first > 0 and high[order[first - 1]] - low[order[first - 1]] < 2 * width:
            first -= 1
        if end - first <= PER_LEVEL:
            break
        join(blocks, order, high, young, first)
        blocks -= 1
        end = first + 1
    first = 0
    if blocks == len(order):
        join(blocks, order, high, young, first)
        blocks -= 1
    slot = order[blocks]
    low[slot], high[slot] = number, number + 1
    counts[BLOCKS] = blocks + 1


@njit(cache=True)
def join(blocks: int, order: Ints, high: Ints, young: Floats, place: int) -> None:
    """Add the block at place + 1 to the one at place, and free it."""
    into, free = order[place], order[place + 1]
    high[into] = high[free]
    for i in range(young.shape[1]):
        if young[free, i, 0] != 0.0:
            add_row(young[into, i], young[free, i], 1.0)
            clear(young[free, i])
    for later in range(place + 1, blocks - 1):
        order[later] = order[later + 1]
    order[blocks - 1] = free


@njit(cache=True)
def slot_of(blocks: int, order: Ints, low: Ints, number: int) -> int:
    """The block that holds a decision; -1 if it is settled."""
    if blocks == 0 or number < low[order[0]]:
        return -1
    first, last = 0, blocks - 1
    while first < last:
        middle = (first + last + 1) // 2
        if low[order[middle]] <= number:
            first = middle
        else:
            last = middle - 1
    return int(order[first])


@njit(cache=True)
def settle(
    counts: Ints,
    order: Ints,
    low: Ints,
    high: Ints,
    young: Floats,
    old: Floats,
    memory: Floats,
    judging: float,
) -> None:
    """Move the oldest block into the settled sums."""
    slot = order[0]
    M, A, P = old.shape
    age = counts[BEGUN] - 0.5 * (low[slot] + high[slot] - 1)
    judged = judging**age
    for i in range(A):
        row = young[slot, i]
        for m in range(M):
            memory[PP, m] += judged * row[P + M + m]
            memory[RP, m] += judged * row[P + m]
            if row[0] != 0.0:
                add_row(old[m, i], row[:P], memory[DISCOUNT, m] ** age / memory[SCALE, m])
        clear(row)
    blocks = counts[BLOCKS]
    for place in range(blocks - 1):
        order[place] = order[place + 1]
    order[blocks - 1] = slot
    counts[BLOCKS] = blocks - 1
