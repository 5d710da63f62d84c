"""The episodes that can still be expected to report, and the typical delay of reports.

Step sizes shrink with the number of missing episodes. An episode whose feedback was lost must not
count as missing for ever, so it becomes overdue, and is no longer counted, after waiting for over

    T = min(2 M + SLACK, sqrt(8 P / ln A)),

where M is the largest delay seen so far and P the sum over all episodes k of 1 + the number that
were counted as missing when k began. Its feedback is still used if it does arrive. The second
threshold is that of Zimmert & Seldin (AISTATS 2020): at a step size of sqrt(ln A / (2 P)), counting
an episode up to this threshold costs as much as giving it up. The first threshold matters where
many records are lost: the second alone grows like the number of lost episodes.

The cost of giving up: let g episodes be overdue at some time, u of which report later. For
`Softmax` with the anytime rule, known transitions and full information,

    R_K <= H g + H (H + 1) / 2 u + H (H + 1) sqrt(2 ln A P)

for every K, costs and delays. If nothing is lost, u <= sqrt(ln A P / 2) + sqrt(2 D log2(2 K)).
docs/derivation.md has the proof.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from belated.core.arrays import Bools
from belated.core.contract import Problem
from belated.core.tree import Count, Entries, Learned

SLACK = 8
"""The number of episodes to wait for while nothing is known about delays."""


def is_past(episode: int, newest: int, limit: float) -> bool:
    """Whether an episode has waited longer than a limit, given the newest episode.

    Every deadline and threshold uses this rule.
    """
    return newest - episode > limit


def pop_past(waiting: dict[int, Any], newest: int, limit: float) -> list[int]:
    """Remove and return the episodes that have waited too long; the oldest is the first key."""
    past = []
    while waiting and is_past(first := next(iter(waiting)), newest, limit):
        del waiting[first]
        past.append(first)
    return past


class Reported(Learned):
    """The set of episodes that have reported, one flag each, so that none counts twice."""

    _flags: Annotated[Bools, Entries("_")]

    def __init__(self) -> None:
        self._flags = np.zeros(64, dtype=np.bool_)

    def __contains__(self, episode: int) -> bool:
        return episode < len(self._flags) and bool(self._flags[episode])

    def add(self, episode: int) -> bool:
        """Note an episode. Returns whether this is its first report."""
        if episode in self:
            return False
        if episode >= len(self._flags):
            more = np.zeros(episode + 1, dtype=np.bool_)
            self._flags = np.concatenate([self._flags, more])
        self._flags[episode] = True
        return True


class Waiting(Learned):
    """Counts the episodes that may still report.

    Attributes:
        largest: the largest delay seen.
        arrived: episodes that have reported.
        total: P, the sum of 1 + missing over all episodes begun.
        given_up: episodes that became overdue.
        late: those among them that reported after all.
    """

    _counted: dict[int, None]  # oldest first
    _begun: Count
    largest: Count
    arrived: Count
    _delays: Annotated[int, Entries(low=0)]
    total: Annotated[int, Entries(low=0)]
    given_up: Count
    late: Count

    def __init__(self, problem: Problem, choices: int | None = None) -> None:
        """Count for a learner with this many choices; by default, one per action."""
        choices = (problem.actions or 2) if choices is None else choices
        self._patience = 8.0 / math.log(choices) if choices > 1 else math.inf
        self._counted = {}
        self._begun = self.largest = self.arrived = self._delays = 0
        self.total = self.given_up = self.late = 0

    @property
    def missing(self) -> int:
        """Episodes that have begun, have not reported and are not overdue."""
        return len(self._counted)

    @property
    def mean_delay(self) -> float:
        """The mean delay so far; by Little's law, the mean number of reports on their way."""
        return self._delays / self.arrived if self.arrived else math.inf

    def begin(self) -> int:
        """Begin the next episode. Returns the number of earlier ones that are missing."""
        threshold = min(2 * self.largest + SLACK, math.sqrt(self._patience * (self.total + 1)))
        self.given_up += len(pop_past(self._counted, self._begun, threshold))
        missing = self.missing
        self._counted[self._begun] = None
        self._begun += 1
        self.total += 1 + missing
        return missing

    def arrive(self, episode: int) -> None:
        """Note that the costs of an episode have arrived."""
        delay = self._begun - 1 - episode
        self.largest = max(self.largest, delay)
        self._delays += delay
        self.arrived += 1
        if episode in self._counted:
            del self._counted[episode]
        else:
            self.late += 1

    def forget(self, episode: int) -> None:
        """Note that the costs of an episode will not arrive."""
        self._counted.pop(episode, None)
