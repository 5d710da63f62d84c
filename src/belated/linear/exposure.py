"""How much of an outcome can have come by now: F(age) = P(delay <= age | the outcome reports).

Delays are seen only where they are shorter than the age of their decision, so the histogram of the
delays seen is biased towards short ones. Conditioning on what can be seen gives the reverse hazard,

    h_j = P(delay in bin j | delay <= edge_j) = came_j / risk_j
    F(edge_k) = prod_{j > k} (1 - h_j)

(Lagakos, Barraj & De Gruttola 1988; Kalbfleisch & Lawless 1991; Lawless 1994). Bin j holds the
delays in (edge_{j-1}, edge_j]; bin 0 those of 0. Of the decisions that have reached the age edge_j,
`came_j` counts the reports of bin j and `risk_j` these and the reports of lower bins. Each edge
passes every decision once, in order, so both are kept with one pointer per edge. While no decision
with a report has reached an edge, a report of its bin says that lower ages have seen nothing. An
action's hazard is shrunk to that of all actions together with a weight of ten reports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from belated.core.arrays import Floats, Ints

EDGES = 96
"""Edges: two per octave, so ages up to 2**47 units."""
POOLED = 10.0
"""Reports of all actions together that count as much as those of one action."""


class Exposure(NamedTuple):
    """Counts of delays of A models, and what was fitted to them.

    Attributes:
        edges: ages (E,), increasing from 0.
        came: reports by the bin of their delay, of decisions that have reached its edge, (A, E).
        risk: reports of that bin and of lower ones, of the same decisions, (A, E).
        young: reports by bin, of decisions that have not reached its edge yet, (A, E).
        passed: the number of the next decision that reaches each edge, (E,).
        share: F at the edges, (A, E).
    """

    edges: Floats
    came: Floats
    risk: Floats
    young: Floats
    passed: Ints
    share: Floats


def unit_edges() -> Floats:
    """0, 1, 2, 3, 4, 6, 8, 12, ...: shape (E,)."""
    octaves = 2.0 ** np.arange(1, EDGES)
    steps = np.sort(np.concatenate([octaves, 1.5 * octaves]))
    return np.concatenate([[0.0, 1.0], steps])[:EDGES]


def fresh(models: int, unit: float = 1.0) -> Exposure:
    """Nothing has come yet."""
    counts = (models, EDGES)
    return Exposure(
        unit_edges() * unit,
        np.zeros(counts),
        np.zeros(counts),
        np.zeros(counts),
        np.zeros(EDGES, dtype=np.int64),
        np.zeros(counts),
    )


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
def count_report(exposure: Exposure, number: int, model: int, delay: float) -> int:
    """Count the first report of a decision; returns the bin of its delay."""
    j = bin_of(exposure.edges, delay)
    if exposure.passed[j] <= number:
        exposure.young[model, j] += 1.0
        return j
    exposure.came[model, j] += 1.0
    exposure.risk[model, j] += 1.0
    for later in range(j + 1, len(exposure.edges)):
        if exposure.passed[later] <= number:  # larger edges have passed no more
            break
        exposure.risk[model, later] += 1.0
    return j


@njit(cache=True)
def advance(
    exposure: Exposure,
    base: int,
    clock: Floats,
    actions: Ints,
    bins: Ints,
    seen: int,
    time: float,
) -> None:
    """Let every edge pass the decisions that have reached its age.

    clock, actions, bins: by number less `base`: time, model and bin of the first report, -1 if
    there is none that counts. seen: decisions with smaller numbers were there at the last
    `observe`, at this time.
    """
    for j in range(len(exposure.edges)):
        edge = exposure.edges[j]
        k = max(exposure.passed[j], base)
        if k >= seen or time - clock[k - base] < edge:
            if k == base:  # no decision that is kept has reached this edge
                exposure.passed[j:] = np.maximum(exposure.passed[j:], base)
                break
            continue
        while k < seen and time - clock[k - base] >= edge:
            if 0 <= bins[k - base] <= j:
                exposure.risk[actions[k - base], j] += 1.0
                if bins[k - base] == j:
                    exposure.came[actions[k - base], j] += 1.0
                    exposure.young[actions[k - base], j] -= 1.0
            k += 1
        exposure.passed[j] = k


@njit(cache=True)
def fit(exposure: Exposure) -> None:
    """Compute F at the edges from the counts."""
    A, E = exposure.came.shape
    share = np.ones(A)
    for j in range(E - 1, -1, -1):
        came, risk, young = 0.0, 0.0, 0.0
        for i in range(A):
            exposure.share[i, j] = share[i]
            came += exposure.came[i, j]
            risk += exposure.risk[i, j]
            young += exposure.young[i, j]
        if risk > 0.0:
            pool = came / risk
            for i in range(A):
                hazard = (exposure.came[i, j] + POOLED * pool) / (exposure.risk[i, j] + POOLED)
                share[i] *= 1.0 - hazard
        elif young > 0.0:
            share[:] = 0.0


@njit(cache=True)
def share_at(exposure: Exposure, age: float, out: Floats) -> None:
    """F of every model at an age, linear between the edges, into out (A,); 0 below age 0."""
    if age < 0.0:
        out[:] = 0.0
        return
    edges = exposure.edges
    j = bin_of(edges, age)
    if j == 0 or age >= edges[j]:
        out[:] = exposure.share[:, j]
        return
    part = (age - edges[j - 1]) / (edges[j] - edges[j - 1])
    for i in range(len(out)):
        below = exposure.share[i, j - 1]
        out[i] = below + part * (exposure.share[i, j] - below)
