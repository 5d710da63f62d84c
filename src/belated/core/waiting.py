"""Which episodes can still be expected to report, and how late reports usually are.

Step sizes shrink with the number of missing episodes. An episode whose feedback was lost must not
be missing for ever, so an episode is overdue, and no longer counted, once it has waited longer than

    T = min(2 M + SLACK, sqrt(8 P / ln A)),

where M is the largest delay seen so far and P the sum over all episodes k of 1 + the number that
were counted as missing when k began. Its feedback is still used if it comes after all. The second
threshold is that of Zimmert & Seldin (AISTATS 2020): at a step size of sqrt(ln A / (2 P)), counting
an episode for so long costs as much as giving it up. The first one serves where much is lost: the
second alone grows like the number of lost episodes.

What giving up costs: let g episodes be overdue at some time, u of which report after all. For
`Softmax` with the anytime rule, known transitions and full information,

    R_K <= H g + H (H + 1) / 2 u + H (H + 1) sqrt(2 ln A P)

for every K, costs and delays. If nothing is lost, u <= sqrt(ln A P / 2) + sqrt(2 D log2(2 K)).
docs/derivation.md has the proof.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from belated.core import checks, stored
from belated.core.contract import Problem

SLACK = 8
"""Episodes that are always waited for, before anything is known about delays."""


def is_past(episode: int, newest: int, limit: float) -> bool:
    """Whether an episode has waited for longer than a limit when this one is the newest.

    This is the one rule by which waiting ends, whoever sets the limit.
    """
    return newest - episode > limit


def pop_past(waiting: dict[int, Any], newest: int, limit: float) -> list[int]:
    """Remove and return the episodes that have waited for too long; the oldest is the first key."""
    past = []
    while waiting and is_past(first := next(iter(waiting)), newest, limit):
        del waiting[first]
        past.append(first)
    return past


class Reported:
    """Which episodes have reported, one bit each, so that none counts twice."""

    def __init__(self, flags: npt.NDArray[np.bool_] | None = None) -> None:
        """Start without reports, or with those of a saved state."""
        self._bits = bytearray()
        if flags is not None:
            self._bits += np.packbits(flags, bitorder="little").tobytes()

    def __contains__(self, episode: int) -> bool:
        byte, bit = divmod(episode, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def add(self, episode: int) -> bool:
        """Note an episode. Returns whether this is its first report."""
        if episode in self:
            return False
        byte, bit = divmod(episode, 8)
        self._bits.extend(bytes(max(0, byte + 1 - len(self._bits))))
        self._bits[byte] |= 1 << bit
        return True

    def flags(self, begun: int) -> npt.NDArray[np.bool_]:
        """Whether each of the episodes begun has reported, (begun,)."""
        padded = self._bits + bytes((begun + 7) // 8 - len(self._bits))
        bits = np.frombuffer(padded, dtype=np.uint8)
        return np.unpackbits(bits, count=begun, bitorder="little").astype(np.bool_)


class Waiting:
    """Counts the episodes that may still report.

    Attributes:
        largest: the largest delay seen.
        arrived: episodes that have reported.
        total: P, the sum of 1 + missing over all episodes begun.
        given_up: episodes that became overdue.
        late: those among them that reported after all.
    """

    def __init__(self, problem: Problem, choices: int | None = None) -> None:
        """Count for a learner that chooses between so many; by default, between the actions."""
        choices = (problem.actions or 2) if choices is None else choices
        self._patience = 8.0 / math.log(choices) if choices > 1 else math.inf
        self._counted: dict[int, None] = {}  # oldest first
        self._begun = 0
        self.largest = 0
        self.arrived = 0
        self._delays = 0
        self.total = 0
        self.given_up = 0
        self.late = 0

    @property
    def missing(self) -> int:
        """Episodes that have begun, have not reported and are not overdue."""
        return len(self._counted)

    @property
    def mean_delay(self) -> float:
        """Mean delay of what has arrived; by Little's law, how many reports are on the way."""
        return self._delays / self.arrived if self.arrived else math.inf

    def begin(self) -> int:
        """Begin the next episode. Returns how many earlier ones are missing."""
        threshold = min(2 * self.largest + SLACK, math.sqrt(self._patience * (self.total + 1)))
        self.given_up += len(pop_past(self._counted, self._begun, threshold))
        missing = self.missing
        self._counted[self._begun] = None
        self._begun += 1
        self.total += 1 + missing
        return missing

    def arrive(self, episode: int) -> None:
        """The costs of an episode have come."""
        delay = self._begun - 1 - episode
        self.largest = max(self.largest, delay)
        self._delays += delay
        self.arrived += 1
        if episode in self._counted:
            del self._counted[episode]
        else:
            self.late += 1

    def forget(self, episode: int) -> None:
        """The costs of an episode will not come."""
        self._counted.pop(episode, None)

    def state(self) -> stored.State:
        """Every count."""
        return {
            "counted": list(self._counted),
            "begun": self._begun,
            "largest": self.largest,
            "arrived": self.arrived,
            "delays": self._delays,
            "total": self.total,
            "given_up": self.given_up,
            "late": self.late,
        }

    def restore(self, saved: stored.State, begun: int) -> None:
        """Continue from a saved state of an agent that has begun so many episodes."""
        names = ("begun", "largest", "arrived", "delays", "total", "given_up", "late")
        read = stored.exact(saved, "counted", *names)
        squares = begun * (begun + 1)
        most = (begun, begun, begun, squares, squares, begun, begun)
        numbers = [stored.count(name, read[name], n) for name, n in zip(names, most, strict=True)]
        if numbers[0] != begun:
            raise ValueError(f"begun must be {begun}, as for the agent, got {numbers[0]}")
        self._begun, self.largest, self.arrived, self._delays = numbers[:4]
        self.total, self.given_up, self.late = numbers[4:]
        counted = stored.items("counted", read["counted"])
        self._counted = {checks.integer("counted", k, 0, self._begun - 1): None for k in counted}
        if list(self._counted) != sorted(counted):
            raise ValueError("counted must be episodes in their order, each once")
