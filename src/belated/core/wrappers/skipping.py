"""Skipping: feedback that is too late is not used, and its memory is let go.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Large delays and unknown total delay" and its
appendix; after Thune, Cesa-Bianchi & Seldin (2019).

    1  for every episode k:
    2      forget the episodes that are older than beta
    3      play episode k with the agent inside
    4      hand on the feedback of episodes j with k - j <= beta

    paper     here
    beta      threshold
    K_beta    the episodes whose costs came within the threshold

With D the total delay, at most D / beta episodes are skipped. Whatever is lost, the agent inside
remembers at most threshold + 1 open episodes.

Departures: a trajectory that comes too late is left out too, also where it could still serve the
model; one that comes at once always reaches it. Nothing is remembered of an episode that was let
go: a record of it is shape-checked, then discarded, and duplicates go unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

from belated.core import checks, stored
from belated.core.contract import Agent, Information, Wrapper, call, check_inside
from belated.core.ledger import split
from belated.core.records import Episode
from belated.core.waiting import is_past


class Skipping(Wrapper):
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

    def __init__(self, agent: Agent, threshold: float) -> None:
        self._wrap(agent, threshold)

    def _wrap(self, agent: Agent, threshold: float, *, fresh: bool = True) -> None:
        check_inside(self, "agent", agent, fresh=fresh)
        self.agent = agent
        self.problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = agent.uses_paths
        threshold = checks.threshold("threshold", threshold)
        self.threshold = self.longest_delay = (
            threshold if threshold == math.inf else math.floor(threshold)
        )
        self._kept_from = 0  # episodes before this one have been let go
        self._skipped = 0

    def begin_episode(self, now: float | None = None) -> Episode:
        """Let go of the episodes that are now too old, then begin the next."""
        while is_past(self._kept_from, self.begun, self.threshold):
            self.agent.forget(self._kept_from)
            self._kept_from += 1
        return self.agent.begin_episode(now)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Hand the records that are in time to the agent inside."""
        in_time, late = split(records, self.problem, self.information, self.begun, self._kept_from)
        self.agent.observe(in_time, now)
        self._skipped += sum(record.is_outcome for record in late)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self.agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, and how many costs came too late."""
        return {**self.agent.diagnostics(), "skipped": self._skipped}

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"agent": self.agent, "threshold": self.threshold}

    def state(self) -> stored.State:
        """The agent inside, and what was let go."""
        return {
            "agent": stored.kept(self.agent),
            "threshold": self.threshold,
            "kept_from": self._kept_from,
            "skipped": self._skipped,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        read = stored.exact(state, "agent", "threshold", "kept_from", "skipped")
        made = cls.__new__(cls)
        made._wrap(stored.made(read["agent"]), read["threshold"], fresh=False)
        made._kept_from = stored.count("kept_from", read["kept_from"], made.begun)
        if is_past(made._kept_from, made.begun - 1, made.threshold):
            raise ValueError(f"kept_from must have followed begun, got {made._kept_from}")
        made._skipped = stored.count("skipped", read["skipped"])
        return made

    def __repr__(self) -> str:
        return call(self, self.agent, self.threshold)
