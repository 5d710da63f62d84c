"""Pending visits: the expected visits of open episodes.

While feedback is late, an optimistic agent would repeat the same plan. So pending visits count as
visits in later plans until they arrive or are overdue: an episode older than twice the mean delay
plus `SPARE_EPISODES` is no longer counted; its feedback is still used if it arrives.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from belated.core.arrays import Floats, frozen
from belated.core.tree import Count, Entries, Learned
from belated.tabular.kernels.deep_planning import QUANTUM, expected_visits
from belated.tabular.kernels.planning import Rows

SPARE_EPISODES = 5
"""The number of episodes beyond twice the mean delay for which visits stay pending."""


class Pending(Learned):
    """The sum of the pending visits.

    Args:
        shape: (T, S, A), the shape of the visits of an episode.
        start: (S,), the probabilities of the first state.

    Attributes:
        total: (T, S, A), the sum over all episodes with pending visits.
    """

    total: Floats
    _coming: dict[int, Annotated[Floats, Entries("_ S A")]]  # by episode, oldest first
    _delays: Annotated[int, Entries(low=0)]
    _arrived: Count

    def __init__(self, shape: tuple[int, ...], start: Floats) -> None:
        self.total, self._start = np.zeros(shape), start
        self.set_first_values()

    def __contains__(self, episode: int) -> bool:
        return episode in self._coming

    def put_in(self, episode: int, visits: Floats) -> None:
        """Add the pending visits of an episode, or replace its earlier ones."""
        self.take_out(episode)
        self._coming[episode] = visits
        self.total += visits

    def expect(self, episode: int, rows: Rows, policy: Floats) -> None:
        """Add the expected visits of the policy that an episode plays."""
        visits = np.zeros(self.total.shape)
        expected_visits(rows, policy, self._start, visits)
        self.put_in(episode, frozen(visits))

    def take_out(self, episode: int) -> None:
        """Stop counting the visits of an episode, if they were counted."""
        if episode in self._coming:
            self.total -= self._coming.pop(episode)

    def note(self, delay: int) -> None:
        """Note the delay of feedback that has arrived."""
        self._delays += delay
        self._arrived += 1

    def give_up(self, begun: int) -> None:
        """Stop counting overdue visits, given the number of episodes begun."""
        if self._arrived:
            limit = 2.0 * self._delays / self._arrived + SPARE_EPISODES
            for episode in [k for k in self._coming if begun - k > limit]:
                self.take_out(episode)

    def check_learned(self) -> None:
        """Check that the sum is that of the visits, which are multiples of the quantum."""
        visits = list(self._coming.values())
        if any(each.shape != self.total.shape for each in visits):
            raise ValueError("visits must have the shape of their sum")
        if not np.array_equal(self.total, sum(visits, np.zeros(self.total.shape))):
            raise ValueError("total must be the sum of the visits")
        if not np.array_equal(self.total * QUANTUM, np.floor(self.total * QUANTUM)):
            raise ValueError("visits must be whole multiples of the quantum")
