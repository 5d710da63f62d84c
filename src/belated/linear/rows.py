"""The log of a learner of decisions: one row per decision, in columns that grow, and its clock."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
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
CALLS = 100
"""The number of first calls whose times determine the unit of ages."""
COLUMNS = (*("x", "model", "time", "outcome", "delay", "until", "probability", "known"),)
Time = Annotated[float, Entries(low=-LATEST, high=LATEST)]


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
        reserved: numbers that were kept for decisions made elsewhere, and not noted so far.
        seen: the number of decisions that had been made at the last `observe`.
        heard: the time of the last `observe`.
        clock: the latest time of any call.
        clocked: whether the caller has a clock; None before the first call.
        calls: the times of the first calls.
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
    reserved: Count
    seen: Count
    heard: Time
    clock: Time
    clocked: bool | None
    calls: list[Time]

    def __init__(self, width: int, *, silent: bool) -> None:
        self.silent = silent  # whether silence has a meaning
        self.base = self.count = self.reserved = self.seen = 0
        self.x = np.zeros((0, width))
        self.model, self.known = (np.zeros(0, dtype=np.int32) for _ in range(2))
        self.time, self.outcome, self.delay, self.until, self.probability = (
            np.zeros(0) for _ in range(5)
        )
        self.heard = self.clock = -1.0
        self.clocked, self.calls = None, []

    # Decisions

    @property
    def end(self) -> int:
        """The number of the next decision."""
        return self.base + self.count

    @property
    def made(self) -> int:
        """The number of decisions, without the numbers that wait for one made elsewhere."""
        return self.base + self.count - self.reserved

    def begin(self) -> int:
        """Add a decision at this time; returns its number."""
        k = self.count
        if k == len(self.time):
            for name in COLUMNS:  # they grow in place if the system allows it
                column = getattr(self, name)
                column.resize((k + max(64, k // 8), *column.shape[1:]), refcheck=False)
        self.time[k], self.delay[k], self.until[k] = self.clock, -1.0, math.inf
        self.model[k] = self.known[k] = -1
        self.count = k + 1
        return self.base + k

    def closed(self, number: int) -> bool:
        """Whether outcomes of this decision are not taken any more."""
        return number < self.base or self.until.item(number - self.base) < math.inf

    def awaited(self, at: slice | Ints) -> Bools:
        """Which of these decisions have acted and are open."""
        waiting: Bools = (self.model[at] >= 0) & (self.until[at] == math.inf)
        return waiting

    def hits(self, at: slice | Ints) -> Bools:
        """Which of these decisions have reported; under silence, a sum that equals it has not."""
        came: Bools = self.delay[at] >= 0.0
        return came & (self.outcome[at] != 0.0) if self.silent else came

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

    # Time

    def checked(self, now: object) -> float | None:
        """The argument `now`, which is given from the first call on, if at all."""
        if now is None:
            return None
        if self.clocked is False:
            raise ValueError(f"now must be None in all calls or given from the first, got {now!r}")
        return checks.real("now", now, -LATEST, LATEST)

    def tick(self, now: float | None) -> None:
        """Note a call; without a clock its time is the number of decisions at the last `observe`.

        A clock that is set back does not change the time.
        """
        if self.clocked is None:
            self.clocked = now is not None
            self.clock = 0.0 if now is None else now
        if not self.clocked:
            now = float(self.seen)
        if now is not None and now > self.clock:
            self.clock = now
        if len(self.calls) < CALLS:
            self.calls.append(self.clock)

    def hear(self, now: float | None) -> int:
        """Note a call of `observe`; returns the number of decisions since the last one."""
        self.tick(now)
        new = self.made - self.seen
        if self.clocked:
            self.heard = self.clock
        elif new:
            self.heard = float(self.seen)  # the time of the newest decisions
        self.seen += new
        return new

    @property
    def unit(self) -> float:
        """The unit of ages: the median positive gap between the first calls."""
        gaps = [later - before for before, later in pairwise(self.calls) if later > before]
        return statistics.median(gaps or [1.0])

    @property
    def span(self) -> float:
        """The time since the first call, by the clock."""
        return self.clock - self.calls[0] if self.clocked and self.calls else 0.0

    def ages(self, at: slice | Ints) -> Floats:
        """The ages of decisions at the last `observe`; below 0 if they began after that."""
        ages = np.minimum(self.until[at], self.heard) - self.time[at]
        ages[np.arange(self.count)[at] >= self.seen + self.reserved - self.base] = -1.0
        return ages

    def check_learned(self) -> None:
        """Check that the rows are in the columns, and that times and numbers are possible."""
        if self.count > len(self.time):
            raise ValueError("the log must hold its rows")
        if self.seen > self.end or self.reserved > self.end:
            raise ValueError("numbers of decisions must be of ones that have begun")
        if len(self.calls) > CALLS:
            raise ValueError("times must be those of the first calls")
