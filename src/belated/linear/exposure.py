"""Exposure, the share of outcomes that have arrived: F(age) = P(delay <= age | it reports).

A delay is observed only if it is shorter than the age of its decision, so the histogram of observed
delays is biased towards short ones. Conditioning on observability gives the reverse hazard,

    h_j = P(delay in bin j | delay <= edge_j) = came_j / risk_j
    F(edge_k) = prod_{j > k} (1 - h_j)

(Lagakos, Barraj & De Gruttola 1988; Kalbfleisch & Lawless 1991; Lawless 1994). Bin j holds the
delays in (edge_{j-1}, edge_j]; bin 0 those of 0. Of the decisions that have reached the age edge_j,
`came_j` counts the reports of bin j and `risk_j` these and the reports of lower bins. While few
reports are at risk, the histogram of observed delays counts as one more report, so that a first
late report does not remove all exposure. An action's hazard is shrunk towards that of all actions
with a weight of ten reports.

Between two edges F grows linearly from the smallest to the largest delay that was seen in the bin,
so that outcomes which all take the same time are known to be complete as soon as that has passed.
"""

import math
from typing import Annotated, Self

import numpy as np

from belated.core.arrays import Floats, Indices, frozen
from belated.core.compiled import njit
from belated.core.tree import Entries, Learned, learned_names

POOLED = 10.0
"""The weight, in reports, of the hazard of all actions in that of one action."""
HISTOGRAM = 1.0
"""The weight, in reports, of the histogram of observed delays."""
EDGES = 64
"""The number of edges: the last one is 3 * 2^30 units of time."""


OCTAVES = 2.0 ** np.arange(1, EDGES)
UNIT_EDGES = np.sort(np.concatenate([[0.0, 1.0], OCTAVES, 1.5 * OCTAVES]))[:EDGES]
"""0, 1, 2, 3, 4, 6, 8, 12, ..."""


Positive = Annotated[Floats, Entries(low=0.0)]
"""Numbers of at least 0."""


class Delays(Learned):
    """Counts of the delays of reports, by model and bin.

    Attributes:
        came: reports of decisions that have reached the edge of the report's bin.
        risk: reports of this bin or a lower one, of decisions that have reached its edge.
        early: reports of decisions that have not reached the edge of the report's bin.
        first: the smallest delay in each bin; infinite if there is none.
        last: the largest delay in each bin.
    """

    came: Positive
    risk: Positive
    early: Positive
    first: Annotated[Floats, Entries(low=0.0, high=math.inf)]
    last: Positive

    def __init__(self, models: int) -> None:
        self.came, self.risk, self.early = np.zeros((3, models, EDGES))
        self.first, self.last = np.full(EDGES, math.inf), np.zeros(EDGES)

    def add(self, models: Indices, delays: Floats, ages: Floats) -> None:
        """Count reports: their models, delays and the ages of their decisions, in units."""
        count(models, delays, ages, self.came, self.risk, self.early, self.first, self.last)

    def including(self, others: "Delays") -> Self:
        """These fresh counts, with what others have counted, perhaps of fewer models."""
        for name in learned_names(type(self)):
            before = getattr(others, name)
            getattr(self, name)[tuple(map(slice, before.shape))] = before
        return self

    def longest(self) -> float:
        """The edge of the longest delay, in units: F is 1 from this age on."""
        return float(UNIT_EDGES[np.isfinite(self.first)].max(initial=0.0))

    def shares(self) -> Floats:
        """F at the edges, (models, E)."""
        seen = (self.came + self.early).sum(axis=0)
        below = np.cumsum(seen)
        histogram = HISTOGRAM * seen / np.maximum(below, 1.0)
        pool = (self.came.sum(axis=0) + histogram) / (self.risk.sum(axis=0) + HISTOGRAM)
        hazard = (self.came + POOLED * pool) / (self.risk + POOLED)
        share: Floats = np.ones_like(hazard)
        share[:, :-1] = np.cumprod(1.0 - hazard[:, :0:-1], axis=1)[:, ::-1]
        return share

    def pooled(self) -> Floats:
        """F at the edges, over all models, (E,)."""
        return frozen(self.shares().mean(axis=0))

    def at(self, models: Indices, ages: Floats) -> Floats:
        """F of decisions of these models at these ages, in units; 0 below 0, and for model -1."""
        return expose(models, ages, self.shares(), self.first, self.last)


@njit(cache=True)
def count(
    models: Indices,
    delays: Floats,
    ages: Floats,
    came: Floats,
    risk: Floats,
    early: Floats,
    first: Floats,
    last: Floats,
) -> None:
    """Add reports to the counts of `Delays`."""
    for k in range(len(models)):
        i, delay = models[k], delays[k]
        j = min(np.searchsorted(UNIT_EDGES, delay), EDGES - 1)
        first[j], last[j] = min(first[j], delay), max(last[j], delay)
        reached = np.searchsorted(UNIT_EDGES, ages[k], side="right")
        if reached > j:
            came[i, j] += 1.0
            risk[i, j:reached] += 1.0
        else:
            early[i, j] += 1.0


@njit(cache=True)
def expose(models: Indices, ages: Floats, share: Floats, first: Floats, last: Floats) -> Floats:
    """The exposures of decisions, (n,)."""
    exposed = np.zeros(len(ages))
    for k in range(len(models)):
        i, age = models[k], ages[k]
        if i >= 0 and age >= 0.0:
            upper = min(np.searchsorted(UNIT_EDGES, age), EDGES - 1)
            lower, part = max(upper - 1, 0), 1.0
            if age < last[upper]:
                # delays are counted in units: those of the first one lie in the unit before it
                start = max(UNIT_EDGES[lower], first[upper] - 1.0)
                part = max(age - start, 0.0) / (last[upper] - start)
            exposed[k] = part * share[i, upper] + (1.0 - part) * share[i, lower]
    return exposed
