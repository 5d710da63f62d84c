"""Lazy updating: a new plan only when some visit count has grown enough.

Howson, Pike-Burke & Filippi (AISTATS 2023), "Optimism and delays in episodic reinforcement
learning", Algorithm 2. Their active updating (Algorithm 1) is the agent without this wrapper.

    1  for every episode k:
    2      count the visits N of every (h, s, a) in the episodes that have reported
    3      if N >= (1 + 1 / alpha) * (N at the start of the epoch) for some (h, s, a):
    4          a new epoch begins: plan with everything that has reported
    5      play the plan of the epoch

The agent inside gets feedback only when an epoch begins, so a planning agent plans once per epoch,
and the policy stays the same within an epoch. alpha = infinity plans in every episode.

Readings: line 3 always holds for counts of 0; as in the proof (Lemma 5), a count of 0 counts as 1.
Where the problem is homogeneous, plans pool the steps, and so do these counts.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Agent, Episode
from belated.core.episodes import Ledger, listed
from belated.core.tree import Count, Entries
from belated.core.wrappers import Holding
from belated.tabular.problem import Problem
from belated.tabular.records import Record

EQUAL = 1.0 - 1e-12
"""Products within this factor count as equal, because of rounding."""


class Lazy(Holding):
    """An agent that learns at the start of every epoch.

    Args:
        agent: the agent inside: one that uses trajectories and plans, such as `DelayedUCBVI`.
        alpha: activity, at least 1: an epoch ends when a count has grown by 1 / alpha. With 1 a
            count must double; with infinity every episode begins an epoch.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.wrappers.Lazy(bl.DelayedUCBVI(world.problem), alpha=2)
        >>> run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    holds_feedback = math.inf

    _before: Annotated[Ints, Entries("T S A", low=0)]  # visits at the start of the epoch
    _since: Annotated[Ints, Entries("T S A", low=0)]
    _epochs: Count

    def __init__(self, agent: Agent, alpha: float) -> None:
        self._hold(agent)
        checks.instance("agent.problem", agent.problem, Problem)
        if not agent.uses_paths:
            raise ValueError(
                "agent must use trajectories, whose visits end an epoch, got one that does not"
            )
        if not (isinstance(alpha, float) and alpha == math.inf):
            alpha = checks.real("alpha", alpha, 1.0)
        self.alpha = alpha
        self._ledger = Ledger(self.problem, self.information, uses_paths=True)
        self._steps: Ints = np.minimum(np.arange(self.problem.horizon), len(self._since) - 1)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Begin a new epoch if it is due, then the next episode."""
        checks.time(now)
        if np.any(self._since >= np.maximum(self._before, 1) / self.alpha * EQUAL):
            self.agent.observe([record for held in self._held.values() for record in held], now)
            self._held = {}
            self._before += self._since
            self._since[:] = 0
            self._epochs += 1
        episode = self.agent.begin_episode(now)
        self._ledger.begin(True, notes=episode.notes)
        return episode

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Hold the records until the next epoch, and count the episodes that are complete."""
        checks.time(now)
        batch = [record.dated(now) for record in listed(records)]
        _, entries = self._ledger.take(batch)
        for record in batch:
            self._held.setdefault(record.episode, []).append(record)
        for entry in entries:
            path = entry.path
            if path is not None and entry.costs is not None:
                np.add.at(self._since, (self._steps, path.states[:-1], path.actions), 1)
                self._ledger.settle(entry)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, the epochs, and the episodes with held feedback."""
        own = {"epochs": self._epochs, "held": len(self._held)}
        return {**self.agent.diagnostics(), **self._ledger.tally(), **own}
