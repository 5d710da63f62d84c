"""Locked: one agent for several threads.

Only one thread at a time may use an agent: two simultaneous calls may get the same episode number,
or lose a record. `Locked` runs the calls one after the other. Their order depends on the threads,
so two runs with several threads may differ.
"""

import copy
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

from belated.core.contract import Agent, WrapperBase
from belated.core.episodes import in_a_list, listed


def _locked(name: str, such: str = "an agent") -> Callable[..., Any]:
    """A method of the agent inside, which is called while no other thread calls one."""

    def call(self: "Locked", *given: Any, **named: Any) -> Any:
        with self.lock:
            if not hasattr(self.agent, name):
                inside = type(self.agent).__name__
                raise TypeError(f"agent must be {such} for {name}, got one of {inside}")
            return getattr(self.agent, name)(*given, **named)

    return call


class Locked(WrapperBase):
    """An agent whose calls wait for each other, so that threads can share it.

    Every episode number is used once, and every batch is accepted whole. Do not call the agent
    inside directly. `Locked` belongs outside all other wrappers, `Inbox` included, and offers
    `take` and `expire` of an `Inbox` too.

    Args:
        agent: the agent inside.

    Attributes:
        lock: held during every call, and while the agent is saved.

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
        self._hold(agent, fresh=False)
        self.lock = threading.RLock()

    open_episodes = _locked("open_episodes")
    is_open = _locked("is_open")
    begin_episode = _locked("begin_episode")
    forget = _locked("forget")
    diagnostics = _locked("diagnostics")
    decide = _locked("decide", "an agent that decides")
    expire = _locked("expire", "an Inbox")
    _take = _locked("take", "an Inbox")

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it."""
        batch = listed(records)  # outside of the lock: an iterator may wait for another thread
        with self.lock:
            self.agent.observe(batch, now)

    def take(self, records: Iterable[Any], now: float | None = None) -> Any:
        """Call `Inbox.take`, if the agent inside is an inbox."""
        return self._take(in_a_list(records), now)

    def __reduce__(self) -> tuple[type[Self], tuple[Agent]]:
        """Pickle the agent inside; a lock belongs to its process."""
        with self.lock:
            return type(self), (self.agent,)

    def __deepcopy__(self, memo: object) -> Self:
        with self.lock:
            return type(self)(copy.deepcopy(self.agent))
