"""The log of a learner of decisions: one row per decision, in columns that grow."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, Indices, Ints
from belated.core.tree import Count, Entries, Learned
from belated.linear.features import LARGEST

LATEST = 1e100
"""The largest time that a caller may say."""
LARGEST_TOTAL = 1e40
"""The largest sum of the events of a decision."""
COLUMNS = (*("x", "model", "time", "outcome", "delay", "until", "probability", "known"),)


class Rows(Learned):
    """Decisions from number `base` on.

    Attributes:
        base: the number of decisions that have left the log.
        count: the number of rows in use.
        x: features of the chosen action, without the constant.
        model: that of the chosen action; -1 while the decision has not acted.
        time: when the decision began.
        outcome: the sum of its events, less silence; 0 while nothing has reported.
        delay: of the first report; -1 while nothing has reported.
        until: when it was closed, so that its outcomes are not taken any more; infinite before.
        probability: of the chosen action; 0 if it was made elsewhere.
        known: the place of what was known of the probabilities; -1 if nothing was.
    """

    base: Count
    count: Count
    x: Annotated[Floats, Entries("room width", -LARGEST, LARGEST)]
    model: Annotated[Indices, Entries("room", low=-1, below="models")]
    time: Annotated[Floats, Entries("room", -LATEST, LATEST)]
    outcome: Annotated[Floats, Entries("room", -LARGEST_TOTAL, LARGEST_TOTAL)]
    delay: Annotated[Floats, Entries("room", -1.0, 2.0 * LATEST)]
    until: Annotated[Floats, Entries("room", -LATEST, math.inf)]
    probability: Annotated[Floats, Entries("room", 0.0, 1.0)]
    known: Annotated[Indices, Entries("room", low=-1, high=checks.MOST)]

    def __init__(self, width: int) -> None:
        self.base = self.count = 0
        self.x = np.zeros((0, width))
        self.model, self.known = (np.zeros(0, dtype=np.int32) for _ in range(2))
        self.time, self.outcome, self.delay, self.until, self.probability = (
            np.zeros(0) for _ in range(5)
        )

    @property
    def end(self) -> int:
        """The number of the next decision."""
        return self.base + self.count

    def begin(self, time: float) -> int:
        """Add a decision; returns its number."""
        k = self.count
        if k == len(self.time):
            for name in COLUMNS:  # they grow in place if the system allows it
                column = getattr(self, name)
                column.resize((k + max(64, k // 8), *column.shape[1:]), refcheck=False)
        self.time[k], self.model[k], self.delay[k], self.until[k] = time, -1, -1.0, math.inf
        self.count = k + 1
        return self.base + k

    def note(self, number: int, row: Floats, model: int, probability: float, known: int) -> None:
        """Write the features (width,) and the model of a decision that has begun."""
        k = number - self.base
        self.x[k], self.model[k], self.probability[k], self.known[k] = (
            row,
            model,
            probability,
            known,
        )

    def closed(self, number: int) -> bool:
        """Whether outcomes of this decision are not taken any more."""
        return number < self.base or self.until.item(number - self.base) < math.inf

    def awaited(self, at: slice | Ints) -> Bools:
        """Which of these decisions have acted and are open."""
        waiting: Bools = (self.model[at] >= 0) & (self.until[at] == math.inf)
        return waiting

    def open(self) -> Ints:
        """The numbers of the decisions that are open."""
        return np.flatnonzero(self.until[: self.count] == math.inf) + self.base

    def gone(self) -> int:
        """How many of the oldest rows are closed, if it is time to drop them; otherwise 0."""
        still = self.open()
        gone = int(still[0]) - self.base if len(still) else self.count
        return gone if gone >= 64 and gone >= self.count // 2 else 0

    def drop(self, gone: int) -> None:
        """Drop the oldest rows."""
        left = self.count - gone
        for name in COLUMNS:
            column = getattr(self, name)
            column[:left] = column[gone : self.count].copy()
            column[left : self.count] = 0
        self.base, self.count = self.base + gone, left

    def check_learned(self) -> None:
        """Check that rows in use are in the columns."""
        if self.count > len(self.time):
            raise ValueError("the log must hold its rows")
