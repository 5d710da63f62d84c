"""Locked: one agent for several threads.

An agent belongs to one thread at a time: two that call it at once may get the same number, or lose
a record. `Locked` lets one call in after the other. The order of the calls is that of the threads,
so a run with several threads need not come out the same twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Self

from belated.core import stored
from belated.core.checks import explained
from belated.core.contract import Agent, Information, call, check_inside
from belated.core.ledger import listed
from belated.core.records import Decision, Episode
from belated.core.wrappers.around import Around


@explained
class Locked(Around):
    """An agent whose calls wait for each other, so that threads can share it.

    Every episode number is handed out once, and every batch is taken whole. Do not call the agent
    inside from elsewhere. Put it outside of all other wrappers, an `Inbox` included, whose `take`
    and `expire` it has too.

    Args:
        agent: the agent inside.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> inside = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
        >>> agent = bl.wrappers.Locked(inside)
        >>> run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    once = True
    outermost = True

    def __init__(self, agent: Agent) -> None:
        self._wrap(agent)

    def _wrap(self, agent: Agent, *, fresh: bool = False) -> None:
        """Take the agent, fresh or not."""
        check_inside(self, "agent", agent, fresh=fresh)
        self.agent = agent
        self.problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = agent.uses_paths
        self._lock = threading.RLock()
        self.declare()

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        with self._lock:
            return self.agent.begun

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        with self._lock:
            return self.agent.open_episodes()

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        with self._lock:
            return self.agent.is_open(number)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        with self._lock:
            return self.agent.begin_episode(now)

    def decide(self, *given: Any, **keywords: Any) -> Decision:
        """What `decide` of the agent inside does, if it has one step."""
        decide = self._of_agent("decide", "an agent that decides")
        with self._lock:
            decided: Decision = decide(*given, **keywords)
            return decided

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Take a batch whole, or raise `FeedbackError` and take nothing of it."""
        batch = listed(records)  # outside of the lock: an iterator may wait for another thread
        with self._lock:
            self.agent.observe(batch, now)

    def take(self, records: Iterable[Any], now: float | None = None) -> Any:
        """What `Inbox.take` does, if the agent inside is an inbox."""
        take = self._of_agent("take", "an Inbox")
        batch = list(records) if isinstance(records, Iterable) else records
        with self._lock:
            return take(batch, now)

    def expire(self, now: float | None = None) -> Any:
        """What `Inbox.expire` does, if the agent inside is an inbox."""
        expire = self._of_agent("expire", "an Inbox")
        with self._lock:
            return expire(now)

    def _of_agent(self, name: str, such: str) -> Any:
        if not hasattr(self.agent, name):
            inside = type(self.agent).__name__
            raise TypeError(f"agent must be {such} for {name}, got one of {inside}")
        return getattr(self.agent, name)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        with self._lock:
            self.agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside."""
        with self._lock:
            return self.agent.diagnostics()

    def state(self) -> stored.State:
        """The agent inside, between two calls."""
        with self._lock:
            return super().state()

    def __reduce__(self) -> tuple[type[Self], tuple[Agent]]:
        """Pickle the agent inside; a lock belongs to its process."""
        with self._lock:
            return type(self), (self.agent,)

    def __deepcopy__(self, memo: object) -> Self:
        with self._lock:
            return type(self)(stored.twin(self.agent))

    def __repr__(self) -> str:
        return call(self, self.agent)
