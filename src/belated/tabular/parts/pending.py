"""Visits that are on their way: those that open episodes are expected to make.

While feedback is late, an optimistic plan would be played again and again. What is on its way
counts as a visit in later plans until it arrives or is overdue: an episode that is older than twice
the mean delay and `SPARE_EPISODES` is not counted any more; its feedback is still used if it comes.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.tabular.kernels.deep_planning import QUANTUM

SPARE_EPISODES = 5
"""Episodes that count as on their way for longer than twice the mean delay."""

Visits = tuple[Floats | None, ...]
"""Expected visits of one episode, one array of each shape; None for none."""


class Pending:
    """Sums of the visits on their way.

    Args:
        shapes: of the arrays of visits, of rows (T, S, A) and perhaps of cells (S, A).

    Attributes:
        totals: the sums over all episodes whose visits are on their way, one array of each shape.
    """

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.totals: tuple[Floats, ...] = tuple(np.zeros(shape) for shape in shapes)
        self._coming: dict[int, Visits] = {}  # by episode, oldest first
        self._delays = 0
        self._arrived = 0

    def __contains__(self, episode: int) -> bool:
        return episode in self._coming

    def put_in(self, episode: int, *visits: Floats | None) -> None:
        """Count the visits of an episode as on their way, in place of earlier ones of it."""
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
        """Note that feedback has come this many episodes late."""
        self._delays += delay
        self._arrived += 1

    def give_up(self, begun: int) -> None:
        """Stop counting what is overdue when so many episodes have begun."""
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
        """Continue from a saved state of an agent that has begun so many episodes."""
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
        """Whether these are visits of open episodes; whole: whether an episode has all arrays."""
        for number, visits in self._coming.items():
            if number not in whole or whole[number] != all(each is not None for each in visits):
                raise ValueError(f"coming must be visits of open episodes, each once, got {number}")


def _read(saved: object, like: Floats) -> Floats | None:
    """Expected visits in whole quanta, so that their sums are exact."""
    if saved is None:
        return None
    found: Floats = stored.array("visits", saved, np.float64, like.shape)
    stored.between("visits", found, 0.0, 1.0)
    scaled = found * QUANTUM
    if not np.array_equal(scaled, np.floor(scaled)):
        raise ValueError("visits must be whole multiples of the quantum")
    return found
