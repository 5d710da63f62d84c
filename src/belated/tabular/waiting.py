"""The number of episodes whose feedback is missing, as step sizes count it."""

import math
from typing import Annotated, Any

from belated.core.episodes import SLACK, is_past
from belated.core.tree import Count, Entries, Learned
from belated.tabular.parts.update import Outlook


def pop_past(waiting: dict[int, Any], newest: int, limit: float) -> list[int]:
    """Remove and return the episodes that have waited too long; the oldest is the first key."""
    past = []
    while waiting and is_past(first := next(iter(waiting)), newest, limit):
        del waiting[first]
        past.append(first)
    return past


class Waiting(Learned):
    """Counts the episodes that may still report.

    Step sizes shrink with the number of missing episodes. An episode whose feedback was lost must
    not count as missing for ever, so it becomes overdue, and is no longer counted, after waiting
    for over

        T = min(2 M + SLACK, sqrt(8 P / ln A)),

    where M is the largest delay seen so far and P the sum over all episodes k of 1 + the number
    that were counted as missing when k began. Its feedback is still used if it does arrive. The
    second threshold is that of Zimmert & Seldin (AISTATS 2020): at a step size of
    sqrt(ln A / (2 P)), counting an episode up to this threshold costs as much as giving it up. The
    first threshold matters where many records are lost: the second alone grows like the number of
    lost episodes.

    The cost of giving up: let g episodes be overdue at some time, u of which report later. For
    `Softmax` with the anytime rule, known transitions and full information,

        R_K <= H g + H (H + 1) / 2 u + H (H + 1) sqrt(2 ln A P)

    for every K, costs and delays. If nothing is lost, u <= sqrt(ln A P / 2) + sqrt(2 D log2(2 K)).
    docs/derivation.md has the proof.

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

    def __init__(self, choices: int) -> None:
        """Count for a learner with this many choices."""
        self._patience = 8.0 / math.log(choices) if choices > 1 else math.inf
        self.set_first_values()

    def begin(self) -> Outlook:
        """Begin the next episode.

        By Little's law, the mean delay is the mean number of reports on their way.
        """
        threshold = min(2 * self.largest + SLACK, math.sqrt(self._patience * (self.total + 1)))
        self.given_up += len(pop_past(self._counted, self._begun, threshold))
        missing = len(self._counted)  # begun, not reported and not overdue
        self._counted[self._begun] = None
        self._begun += 1
        self.total += 1 + missing
        coming = self._delays / self.arrived if self.arrived else math.inf
        return Outlook(missing, min(float(missing), coming))

    def arrive(self, episode: int) -> None:
        """Note that the costs of an episode have arrived."""
        delay = self._begun - 1 - episode
        self.largest = max(self.largest, delay)
        self._delays += delay
        self.arrived += 1
        self.late += episode not in self._counted
        self.forget(episode)

    def forget(self, episode: int) -> None:
        """Note that the costs of an episode will not arrive."""
        self._counted.pop(episode, None)
