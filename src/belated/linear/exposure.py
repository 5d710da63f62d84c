"""Exposure, the share of outcomes that have arrived: F(age) = P(delay <= age | it reports).

A delay is observed only if it is shorter than the age of its decision, so the histogram of observed
delays is biased towards short ones. Conditioning on observability gives the reverse hazard,

    h_j = P(delay in bin j | delay <= edge_j) = came_j / risk_j
    F(edge_k) = prod_{j > k} (1 - h_j)

(Lagakos, Barraj & De Gruttola 1988; Kalbfleisch & Lawless 1991; Lawless 1994). Bin j holds the
delays in (edge_{j-1}, edge_j]; bin 0 those of 0. Of the decisions that have reached the age edge_j,
`came_j` counts the reports of bin j and `risk_j` these and the reports of lower bins. Each edge
passes every decision once, in order, so both are kept with one pointer per edge. While few reports
are at risk they are not reliable: the histogram of observed delays counts as one more report, so
that a first late report does not remove all exposure. An action's hazard is shrunk towards that of
all actions with a weight of ten reports.

Between two edges F grows linearly from the smallest to the largest delay that was seen in the bin,
so that outcomes which all take the same time are known to be complete as soon as that has passed.

The counts of model i are rows of delays[i]: came, risk, early (reports of decisions that have not
reached their bin's edge yet), and share, which is F at the edges.
"""

from __future__ import annotations

import numpy as np

from belated.core.arrays import Floats, Indices, Ints
from belated.core.compiled import njit
from belated.linear.sums import CAME, EARLY, EDGES, FIRST, LAST, RISK, SHARE

POOLED = 10.0
"""The weight, in reports, of the hazard of all actions in that of one action."""
HISTOGRAM = 1.0
"""The weight, in reports, of the histogram of observed delays."""
# Columns of a log's whole numbers.
MODEL, BIN, STATUS = range(3)
# Columns of a log's numbers.
CLOCK, TOTAL, USED = range(3)


def unit_edges() -> Floats:
    """0, 1, 2, 3, 4, 6, 8, 12, ...: shape (E,)."""
    octaves = 2.0 ** np.arange(1, EDGES)
    steps = np.sort(np.concatenate([octaves, 1.5 * octaves]))
    return np.concatenate([[0.0, 1.0], steps])[:EDGES]


@njit(cache=True)
def bin_of(edges: Floats, delay: float) -> int:
    """The bin of a delay: the first edge that is at least as large."""
    low, high = 0, len(edges) - 1
    while low < high:
        middle = (low + high) // 2
        if edges[middle] >= delay:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def count_report(
    edges: Floats,
    passed: Ints,
    delays: Floats,
    within: Floats,
    number: int,
    model: int,
    delay: float,
) -> int:
    """Count the first report of a decision; returns the bin of its delay."""
    j = bin_of(edges, delay)
    within[FIRST, j] = min(within[FIRST, j], delay)
    within[LAST, j] = max(within[LAST, j], delay)
    if passed[j] <= number:
        delays[model, EARLY, j] += 1.0
        return j
    delays[model, CAME, j] += 1.0
    delays[model, RISK, j] += 1.0
    for later in range(j + 1, len(edges)):
        if passed[later] <= number:  # larger edges have not passed it either
            break
        delays[model, RISK, later] += 1.0
    return j


@njit(cache=True)
def advance(
    edges: Floats,
    passed: Ints,
    delays: Floats,
    base: int,
    log: Floats,
    marks: Indices,
    seen: int,
    time: float,
) -> None:
    """Move every edge past the decisions that have reached its age.

    log, marks: indexed by number - base; the bin of a first report is -1 if there is none that
    counts. seen: the number of decisions begun at the last `observe`, which was at this time.
    """
    for j in range(len(edges)):
        edge = edges[j]
        k = max(passed[j], base)
        if k >= seen or time - log[k - base, CLOCK] < edge:
            if k == base:  # no decision in the log has reached this edge
                for later in range(j, len(edges)):
                    passed[later] = max(passed[later], base)
                break
            continue
        while k < seen and time - log[k - base, CLOCK] >= edge:
            found = marks[k - base, BIN]
            if 0 <= found <= j:
                counted = delays[marks[k - base, MODEL]]
                counted[RISK, j] += 1.0
                if found == j:
                    counted[CAME, j] += 1.0
                    counted[EARLY, j] -= 1.0
            k += 1
        passed[j] = k


@njit(cache=True)
def fit(delays: Floats, top: int) -> None:
    """Compute F at the edges from the counts; top: the largest bin that has counts."""
    A, _, E = delays.shape
    for i in range(A):
        for j in range(top, E):
            delays[i, SHARE, j] = 1.0
    below = 0.0  # reports of bin j and lower ones
    for j in range(top + 1):
        for i in range(A):
            below += delays[i, CAME, j] + delays[i, EARLY, j]
    for j in range(top, 0, -1):
        came, risk, early = 0.0, 0.0, 0.0
        for i in range(A):
            came += delays[i, CAME, j]
            risk += delays[i, RISK, j]
            early += delays[i, EARLY, j]
        if below > 0.0:
            pool = (came + HISTOGRAM * (came + early) / below) / (risk + HISTOGRAM)
            for i in range(A):
                hazard = (delays[i, CAME, j] + POOLED * pool) / (delays[i, RISK, j] + POOLED)
                delays[i, SHARE, j - 1] = (1.0 - hazard) * delays[i, SHARE, j]
        else:
            for i in range(A):
                delays[i, SHARE, j - 1] = delays[i, SHARE, j]
        below -= came + early


@njit(cache=True)
def share_at(
    edges: Floats, delays: Floats, within: Floats, age: float, out: Floats, weight: float
) -> None:
    """Add weight times F of every model at an age to out (A,); 0 below 0."""
    if age < 0.0:
        return
    j = bin_of(edges, age)
    below, part = max(j - 1, 0), 1.0
    if age < within[LAST, j]:
        # delays are counted in units: those of the first one lie between it and the unit before
        start = max(edges[below], within[FIRST, j] - edges[1])
        part = max(age - start, 0.0) / (within[LAST, j] - start)
    for i in range(len(out)):
        share = delays[i, SHARE]
        out[i] += weight * (part * share[j] + (1.0 - part) * share[below])
