"""Pending visits: the expected visits of open episodes.

While feedback is late, an optimistic agent would repeat the same plan. So pending visits count as
visits in later plans until they arrive or are overdue: an episode older than twice the mean delay
plus `SPARE_EPISODES` is no longer counted; its feedback is still used if it arrives.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.tabular.kernels.deep_planning import QUANTUM

SPARE_EPISODES = 5
"""The number of episodes beyond twice the mean delay for which visits stay pending."""

Visits = tuple[Floats | None, ...]
"""Expected visits of one episode, one array of each shape; None for none."""


class Pending:
    """Sums of the pending visits.

    Args:
        shapes: the shapes of the arrays of visits: of rows (T, S, A), and perhaps of cells (S, A).

    Attributes:
        totals: the sums over all episodes with pending visits, one array of each shape.
    """

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.totals: tuple[Floats, ...] = tuple(np.zeros(shape) for shape in shapes)
        self._coming: dict[int, Visits] = {}  # by episode, oldest first
        self._delays = 0
        self._arrived = 0

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

    def state(self) -> stored.State:
        """The visits of every episode, and the delays seen."""
        return {
            "coming": [{"number": k, "visits": list(each)} for k, each in self._coming.items()],
            "delays": self._delays,
            "arrived": self._arrived,
        }

    def restore(self, saved: stored.State, begun: int) -> None:
        """Continue from a saved state of an agent that has begun this many episodes."""
        read = stored.exact(saved, "coming", "delays", "arrived")
        self._arrived = stored.count("arrived", read["arrived"], begun)
        self._delays = stored.count("delays", read["delays"], begun * (begun + 1))
        for item in stored.items("coming", read["coming"]):
            found = stored.exact(item, "number", "visits")
            number = checks.integer("number", found["number"], 0, begun - 1)
            arrays = stored.items("visits", found["visits"])
            if number in self or len(arrays) != len(self.totals):
                raise ValueError(f"coming must be visits of episodes, each once, got {number}")
            self.put_in(number, *map(_read, arrays, self.totals))

    def check(self, whole: dict[int, bool]) -> None:
        """Check that these are visits of open episodes; whole: whether all arrays are present."""
        for number, visits in self._coming.items():
            if number not in whole or whole[number] != all(each is not None for each in visits):
                raise ValueError(f"coming must be visits of open episodes, each once, got {number}")


def _read(saved: object, like: Floats) -> Floats | None:
    """Expected visits as multiples of the quantum, so that their sums are exact."""
    if saved is None:
        return None
    found: Floats = stored.array("visits", saved, np.float64, like.shape)
    stored.between("visits", found, 0.0, 1.0)
    scaled = found * QUANTUM
    if not np.array_equal(scaled, np.floor(scaled)):
        raise ValueError("visits must be whole multiples of the quantum")
    return found
