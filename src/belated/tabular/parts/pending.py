"""Pending visits: the expected visits of open episodes.

While feedback is late, an optimistic agent would repeat the same plan. So pending visits count as
visits in later plans until they arrive or are overdue: an episode older than twice the mean delay
plus `SPARE_EPISODES` is no longer counted; its feedback is still used if it arrives.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from belated.core.arrays import Floats
from belated.core.tree import Count, Entries, Learned
from belated.tabular.kernels.deep_planning import QUANTUM

SPARE_EPISODES = 5
"""The number of episodes beyond twice the mean delay for which visits stay pending."""

Visits = tuple[Any, ...]
"""Expected visits of one episode, one array of each shape; None for none."""


class Pending(Learned):
    """Sums of the pending visits.

    Args:
        shapes: the shapes of the arrays of visits: of rows (T, S, A), and perhaps of cells (S, A).

    Attributes:
        totals: the sums over all episodes with pending visits, one array of each shape.
    """

    totals: list[Floats]
    _coming: dict[int, Visits]  # by episode, oldest first
    _delays: Annotated[int, Entries(low=0)]
    _arrived: Count

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.totals = [np.zeros(shape) for shape in shapes]
        self._coming = {}
        self._delays = self._arrived = 0

    def __contains__(self, episode: int) -> bool:
        return episode in self._coming

    def put_in(self, episode: int, *visits: Floats | None) -> None:
        """Add the pending visits of an episode, or replace its earlier ones."""
        self.take_out(episode)
        self._coming[episode] = visits
        for total, each in zip(self.totals, visits, strict=True):
            if each is not None:
                np.add(total, each, out=total)

    def take_out(self, episode: int) -> None:
        """Stop counting the visits of an episode, if they were counted."""
        for total, each in zip(self.totals, self._coming.pop(episode, ()), strict=False):
            if each is not None:
                np.subtract(total, each, out=total)

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
        """Check that the sums are those of the visits, which are multiples of the quantum."""
        for index, total in enumerate(self.totals):
            visits = [each[index] for each in self._coming.values() if each[index] is not None]
            if any(each is not None and each.shape != total.shape for each in visits):
                raise ValueError("visits must have the shape of their sums")
            if not np.array_equal(total, sum(visits, np.zeros(total.shape))):
                raise ValueError("totals must be the sums of the visits")
            if not np.array_equal(total * QUANTUM, np.floor(total * QUANTUM)):
                raise ValueError("visits must be whole multiples of the quantum")
