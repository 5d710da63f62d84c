"""Locked: one agent for several threads.

Only one thread at a time may use an agent: two simultaneous calls may get the same episode number,
or lose a record. `Locked` runs the calls one after the other. Their order depends on the threads,
so two runs with several threads may differ.
"""

import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Self, TypeVar

from belated.core.contract import Agent, WrapperBase
from belated.core.episodes import in_a_list, listed
from belated.core.records import Episode

P = ParamSpec("P")
T = TypeVar("T")


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

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        with self.lock:
            return self.agent.begun

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return self._call(self.agent.open_episodes)

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return self._call(self.agent.is_open, number)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy to play in it."""
        return self._call(self.agent.begin_episode, now)

    def decide(self, *given: Any, **keywords: Any) -> Any:
        """Call `decide` of the agent inside, if its problem has one step."""
        return self._call(self._of_agent("decide", "an agent that decides"), *given, **keywords)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it."""
        batch = listed(records)  # outside of the lock: an iterator may wait for another thread
        self._call(self.agent.observe, batch, now)

    def take(self, records: Iterable[Any], now: float | None = None) -> Any:
        """Call `Inbox.take`, if the agent inside is an inbox."""
        return self._call(self._of_agent("take", "an Inbox"), in_a_list(records), now)

    def expire(self, now: float | None = None) -> Any:
        """Call `Inbox.expire`, if the agent inside is an inbox."""
        return self._call(self._of_agent("expire", "an Inbox"), now)

    def forget(self, episode: int) -> None:
        """Discard an episode."""
        self._call(self.agent.forget, episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside."""
        return self._call(self.agent.diagnostics)

    def _call(self, method: Callable[P, T], *given: P.args, **keywords: P.kwargs) -> T:
        """Call a method of the agent inside while no other thread does."""
        with self.lock:
            return method(*given, **keywords)

    def _of_agent(self, name: str, such: str) -> Callable[..., Any]:
        if not hasattr(self.agent, name):
            inside = type(self.agent).__name__
            raise TypeError(f"agent must be {such} for {name}, got one of {inside}")
        method: Callable[..., Any] = getattr(self.agent, name)
        return method

    def __reduce__(self) -> tuple[type[Self], tuple[Agent]]:
        """Pickle the agent inside; a lock belongs to its process."""
        with self.lock:
            return type(self), (self.agent,)

    def __deepcopy__(self, memo: object) -> Self:
        with self.lock:
            return type(self)(copy.deepcopy(self.agent))
