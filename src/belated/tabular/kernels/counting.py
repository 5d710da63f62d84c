"""Sparse counts of transitions, and the confidence box and frequencies of each row.

Kernels take rows by number: row r is (t, s, a) in C order, and has W slots.
"""

import math
from typing import NamedTuple

from belated.core.arrays import Floats, Indices, Ints
from belated.core.compiled import njit

Tally = tuple[Indices, Ints, Indices, Ints]
"""Observed transitions: successors, counts (T, S, A, W); known slots, visits (T, S, A)."""


class Box(NamedTuple):
    """A confidence set: successors, lower, width (T, S, A, W); known, unseen, rest (T, S, A)."""

    successors: Indices
    known: Indices
    lower: Floats
    width: Floats
    unseen: Floats
    rest: Floats


@njit(cache=True)
def by_row(tally: Tally) -> Tally:
    """The same arrays by row: successors, counts (R, W); known, visits (R,)."""
    successors, counts, known, visits = tally
    flat = (visits.size, counts.shape[3])
    return successors.reshape(flat), counts.reshape(flat), known.ravel(), visits.ravel()


@njit(cache=True)
def count(tally: Tally, rows: Ints, following: Ints, first: int, amount: int) -> int:
    """Add `amount` to the counts of the transitions first, first + 1, ... of a path.

    rows, following: (H,). Stops before the first transition that needs a new slot where none is
    free, and returns its index; returns H when everything is counted.
    """
    successors, counts, known, visits = by_row(tally)
    H, W = len(rows), counts.shape[1]
    for h in range(first, H):
        r = rows[h]
        slot = 0
        while slot < known[r] and successors[r, slot] != following[h]:
            slot += 1
        if slot == W:
            return h
        if slot == known[r]:
            successors[r, slot] = following[h]
            known[r] += 1
        counts[r, slot] += amount
        visits[r] += amount
    return H


@njit(cache=True)
def box(tally: Tally, rows: Ints, log_term: float, scale: float, variance: bool, made: Box) -> None:
    """Write lower, width, unseen and rest of some rows of a confidence box.

    The radius of a frequency p after n visits is scale * (4 sqrt(v L / n) + 10 L / n), where v is
    the variance p (1 - p), or p itself.

    Slot i of row r has probability in [lower, lower + width], and a next state that was never
    observed after this row has probability in [0, unseen]; rest is 1 minus the sum of lower. The
    box of a row without visits is the whole simplex.
    """
    _, counts, known, visits = by_row(tally)
    lower, width = made.lower.reshape(counts.shape), made.width.reshape(counts.shape)
    unseen, rest = made.unseen.ravel(), made.rest.ravel()
    for r in rows:
        n = visits[r]
        rest[r] = 1.0
        if n == 0:
            unseen[r] = 1.0
            for slot in range(known[r]):
                lower[r, slot] = 0.0
                width[r, slot] = 1.0
            continue
        unseen[r] = min(1.0, scale * 10.0 * log_term / n)
        total = 0.0
        for slot in range(known[r]):
            p = counts[r, slot] / n
            spread = p * (1.0 - p) if variance else p
            radius = scale * (4.0 * math.sqrt(spread * log_term / n) + 10.0 * log_term / n)
            lower[r, slot] = max(0.0, p - radius)
            width[r, slot] = min(1.0, p + radius) - lower[r, slot]
            total += lower[r, slot]
        rest[r] = max(0.0, 1.0 - total)


@njit(cache=True)
def frequencies(
    tally: Tally, rows: Ints, scale: float, probabilities: Floats, deviation: Floats
) -> None:
    """Write the observed frequencies of some rows, 0 for unvisited rows, and scale / sqrt(n).

    probabilities: (T, S, A, W); deviation: (T, S, A), the scale itself for unvisited rows.
    """
    _, counts, known, visits = by_row(tally)
    shares, deviations = probabilities.reshape(counts.shape), deviation.ravel()
    for r in rows:
        n = max(visits[r], 1)
        deviations[r] = scale * (1.0 / math.sqrt(n))
        for slot in range(known[r]):
            shares[r, slot] = counts[r, slot] / n
