"""Skipping: late feedback is not used, and the memory of its episode is freed.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Large delays and unknown total delay" and its
appendix; after Thune, Cesa-Bianchi & Seldin (2019).

    1  for every episode k:
    2      forget the episodes that are older than beta
    3      play episode k with the agent inside
    4      pass on the feedback of episodes j with k - j <= beta

    paper     here
    beta      threshold
    K_beta    the episodes whose costs arrived within the threshold

With D the total delay, at most D / beta episodes are skipped. However much feedback is lost, the
agent inside remembers at most threshold + 1 open episodes.

Departures: a late trajectory is ignored too, even where the model could still use it; one that
arrives at once always reaches the agent. Skipped episodes are not remembered: the shape of their
records is checked, then the records are discarded, without a check for duplicates.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from belated.core import checks
from belated.core.contract import Agent, WrapperBase
from belated.core.episodes import is_past, split
from belated.core.records import Episode
from belated.core.tree import Count


class Skipping(WrapperBase):
    """An agent that uses only feedback with a delay of at most `threshold`.

    Args:
        agent: the agent inside.
        threshold: beta, at least 0, whole or not; infinity skips nothing.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> inside = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
        >>> agent = bl.wrappers.Skipping(inside, threshold=3)
        >>> run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    reads_delays = True

    _kept_from: Count  # episodes before this one have been discarded
    _skipped: Count

    def __init__(self, agent: Agent, threshold: float) -> None:
        self._hold(agent)
        self.threshold: float = math.inf
        if threshold != math.inf:
            self.threshold = math.floor(checks.real("threshold", threshold, 0.0))
        self.longest_delay = self.threshold
        self._kept_from = self._skipped = 0

    def begin_episode(self, now: float | None = None) -> Episode:
        """Discard the episodes that are now too old, then begin the next one."""
        while is_past(self._kept_from, self.begun, self.threshold):
            self.agent.forget(self._kept_from)
            self._kept_from += 1
        return self.agent.begin_episode(now)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Pass the records that are in time to the agent inside."""
        in_time, late = split(records, self.problem, self.information, self.begun, self._kept_from)
        self.agent.observe(in_time, now)
        self._skipped += sum(record.is_outcome for record in late)

    def forget(self, episode: int) -> None:
        """Discard an episode."""
        self.agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, and the number of late costs."""
        return {**self.agent.diagnostics(), "skipped": self._skipped}

    def check_learned(self) -> None:
        """Check that all episodes that are too old have been discarded."""
        if is_past(self._kept_from, self.begun - 1, self.threshold):
            raise ValueError(f"kept_from must have followed begun, got {self._kept_from}")
