"""The log of a learner of decisions: one row per decision, in columns that grow, and its clock."""

import math
import statistics
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, Indices, Ints
from belated.core.contract import FeedbackError
from belated.core.episodes import in_a_list, newest
from belated.core.tree import Count, Entries, Learned
from belated.linear.features import LARGEST
from belated.linear.reward import EVENT, LARGEST as LARGEST_REWARD, Reward, check

LATEST = 1e100
"""The largest time that a caller may say."""
LARGEST_TOTAL = 1e40
"""The largest sum of the events of a decision."""
CALLS = 100
"""The number of first calls whose times determine the unit of ages."""
COLUMNS = "x", "model", "time", "outcome", "delay", "until", "probability", "known", "said"
Time = Annotated[float, Entries(low=-LATEST, high=LATEST)]
Value = Annotated[float, Entries(low=-LARGEST_REWARD, high=LARGEST_REWARD)]
"""That of a reward."""


class Rows(Learned):
    """Decisions from number `base` on.

    Attributes:
        base: the number of decisions that have left the log.
        count: the number of rows in use.
        x: features of the chosen action, without the constant.
        model: that of the chosen action; -1 while the decision has not acted.
        time: when the decision began.
        outcome: the sum of its events.
        delay: of the first report; -1 while nothing has reported.
        until: when it was closed, so that its outcomes are not taken any more; infinite before.
        probability: of the chosen action; 0 if it was made elsewhere.
        known: the place of what was known of the probabilities; -1 if nothing was.
        said: the predictions by all decisions and by recent ones at that time, before it reported.
        events: the values of open decisions with several events, or named ones, by key.
        reports: the number of decisions that have reported.
        late: the number of rewards of decisions that were closed before.
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
    said: Annotated[Floats, Entries("room 2")]
    events: dict[int, dict[str, Value]]
    reports: Count
    late: Count
    reserved: Count
    seen: Count
    heard: Time
    clock: Time
    clocked: bool | None
    calls: list[Time]

    def __init__(self, width: int, silence: float | None) -> None:
        self.silent, self.silence = silence is not None, silence or 0.0
        self.heard = self.clock = -LATEST
        self.set_first_values({"room": 0, "width": width})

    # Decisions

    @property
    def begun(self) -> int:
        """How many decisions have begun: the number of the next one."""
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

    def open_episodes(self) -> list[int]:
        """The decisions of which outcomes can still be taken, oldest first."""
        return [*(self.base + np.flatnonzero(self.until[: self.count] == math.inf)).tolist()]

    def is_open(self, number: int) -> bool:
        """Whether an outcome of this decision can still be taken."""
        k = checks.integer("number", number, 0) - self.base
        return 0 <= k < self.count and self.until.item(k) == math.inf

    def awaited(self, at: slice | Ints) -> Bools:
        """Which of these decisions have acted and are open."""
        waiting: Bools = (self.model[at] >= 0) & (self.until[at] == math.inf)
        return waiting

    def hits(self, at: slice | Ints | int) -> Bools:
        """Which of these decisions have reported; under silence, a sum that equals it has not."""
        came: Bools = self.delay[at] >= 0.0
        return came & (self.outcome[at] != self.silence) if self.silent else came

    def raw(self, at: slice | Ints) -> Floats:
        """Outcomes less silence; 0 while nothing has reported."""
        return np.where(self.delay[at] >= 0.0, self.outcome[at] - self.silence, 0.0)

    def close(self, numbers: Ints) -> int:
        """Close decisions; returns how many of the oldest rows are closed and are to be dropped.

        That is 0 until they are half of all rows.
        """
        self.until[numbers - self.base] = self.heard
        for number in numbers.tolist():
            self.events.pop(number, None)
        still = self.until[: self.count] == math.inf
        gone = int(np.append(still, True).argmax())
        return gone if gone >= max(64, self.count // 2) else 0

    def drop(self, gone: int) -> None:
        """Drop the oldest rows."""
        for name in COLUMNS:
            setattr(self, name, getattr(self, name)[gone:].copy())
        self.base, self.count = self.base + gone, self.count - gone

    # Outcomes

    def news(
        self, records: Iterable[Reward]
    ) -> tuple[dict[int, tuple[dict[str, float], float]], int]:
        """What is then known of decisions, and when something new arrived; how much is late.

        Nothing changes; raises `FeedbackError` if a reward is wrong.
        """
        news: dict[int, tuple[dict[str, float], float]] = {}
        late = 0
        for record in in_a_list(records):
            check(record)
            number, why = record.episode, ""
            if number >= self.begun:
                why = f"episode must be one that was begun ({newest(self.begun)})"
            elif not self.is_open(number):
                late += 1
            elif self.model[number - self.base] < 0:
                why = "episode must be one that has acted"
            else:
                known, at = news.get(number) or (self.facts(number), math.inf)
                if record.key not in known:
                    at = at if record.at is None else min(at, record.at)
                    news[number] = {**known, record.key: record.value}, at
                elif known[record.key] != record.value:
                    event = "" if record.event is None else f" of event {record.event!r}"
                    why = f"value{event} is known to be {known[record.key]:g}, got {record.value:g}"
            if why:
                raise FeedbackError(f"Reward of episode {number}: {why}")
        return news, late

    def facts(self, number: int) -> dict[str, float]:
        """The values of the events of an open decision that have arrived, by key."""
        k = number - self.base
        alone = {EVENT: self.outcome.item(k)} if self.delay[k] >= 0.0 else {}
        return self.events.get(number, alone)

    def take(self, number: int, facts: dict[str, float], at: float) -> None:
        """Note all that is known of a decision; at: when something new arrived."""
        k, hit = number - self.base, self.hits(number - self.base)
        arrived = min(at, self.heard) if self.clocked else self.heard
        delay, before = max(arrived - self.time.item(k), 0.0), self.delay.item(k)
        if len(facts) > 1 or EVENT not in facts:
            self.events[number] = dict(sorted(facts.items()))
        self.outcome[k] = math.fsum(facts.values())
        self.delay[k] = delay if before < 0.0 else min(before, delay)
        self.reports += int(self.hits(k)) - int(hit)

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
        if not self.clocked:
            now = float(self.seen)
        self.clock = max(self.clock, self.clock if now is None else now)
        if len(self.calls) < CALLS:
            self.calls.append(self.clock)

    def hear(self, now: float | None) -> int:
        """Note a call of `observe`; returns the number of decisions since the last one."""
        self.tick(now)
        new = self.made - self.seen
        if self.clocked or new:  # otherwise the newest decisions were there at the last call
            self.heard = self.clock
        self.seen += new
        return new

    @property
    def unit(self) -> float:
        """The unit of ages: the median positive gap between the first calls."""
        gaps = [later - before for before, later in pairwise(self.calls) if later > before]
        return statistics.median(gaps or [1.0])

    @property
    def pace(self) -> float:
        """The number of decisions per unit of time, by the clock; 0 if it is not known."""
        span = self.clock - self.calls[0] if self.clocked and self.calls else 0.0
        return self.made / span if span > 0.0 else 0.0

    def ages(self, at: slice | Ints) -> Floats:
        """The ages of decisions at the last `observe`; below 0 if they began after that."""
        ages = np.minimum(self.until[at], self.heard) - self.time[at]
        ages[np.arange(self.count)[at] >= self.seen + self.reserved - self.base] = -1.0
        return ages

    def check_learned(self) -> None:
        """Check that the rows are in the columns, and that times and numbers are possible."""
        if self.count > len(self.time):
            raise ValueError("the log must hold its rows")
        if self.seen > self.begun or self.reserved > self.begun:
            raise ValueError("numbers of decisions must be of ones that have begun")
        if any(not self.is_open(number) for number in self.events):
            raise ValueError("events must be of open decisions")
