"""Parallel: copies of a learner that take turns, so that none of them meets a delay.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Warm-up: a black-box reduction"; `Bold` is
BOLD of Joulani, György & Szepesvári (2013).

    1  for every episode k:
    2      play it with copy k mod (d_max + 1)              (BOLD: with a copy that does not wait)
    3      hand every record to the copy that played its episode

`Parallel` keeps d_max + 1 copies and must be told the largest delay: when the turn of a copy comes
again, the feedback of its last episode is there. `Bold` opens a copy only when all copies wait:
at most max_k M^k + 1 of them (M^k: episodes missing at the end of k). It needs no largest delay,
and a lost record costs it one copy.

Departures: the paper speaks of d_max copies in one place and of d_max + 1 in others; d_max + 1 is
right. Copies are made when they are first needed. A copy of `Parallel` whose feedback is late
against the promise plays on without it.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from belated.core import checks, stored
from belated.core.contract import Agent, Information, call, check_inside, check_is_agent
from belated.core.ledger import Ledger, Ledgered
from belated.core.records import Episode


class Turn(NamedTuple):
    """Which copy played an episode, and the number that the copy gave it."""

    copy: int
    number: int


class Copies:
    """Copies of a learner, and which of them played what."""

    def __init__(self, outer: object, make_agent: Callable[[], Agent]) -> None:
        if not callable(make_agent):
            raise ValueError(
                f"make_agent must be a function that makes a fresh agent, got "
                f"{checks.show(make_agent)}"
            )
        self._template = make_agent()
        check_inside(outer, "make_agent()", self._template)
        self.agents = [copy.deepcopy(self._template)]
        self._last = 0  # the copy that played last
        self.problem = self.agents[0].problem
        self.information = self.agents[0].information
        self.uses_paths = self.agents[0].uses_paths
        self.ledger: Ledger[Turn] = Ledger(
            self.problem, self.information, uses_paths=self.uses_paths
        )

    def begin(self, index: int, now: float | None = None) -> Episode:
        """Begin the next episode in a copy; one more than there are opens a new copy."""
        if index == len(self.agents):
            self.agents.append(copy.deepcopy(self._template))
        self._last = index
        episode = self.agents[index].begin_episode(now)
        number = self.ledger.begin(Turn(index, episode.number), notes=episode.notes)
        return episode.renumbered(number)

    def observe(self, records: Iterable[Any], now: float | None = None) -> list[int]:
        """Hand every record to the copy it belongs to. Returns the copies whose costs came."""
        _, entries = self.ledger.take(records)
        mail: dict[int, list[Any]] = {}
        served = []
        for entry in entries:
            turn = entry.memory
            assert turn is not None
            letters = mail.setdefault(turn.copy, [])
            if entry.path is not None:
                letters.append(entry.path.renumbered(turn.number))
            letters += [outcome.renumbered(turn.number) for outcome in entry.outcomes]
            if entry.outcomes and entry.told == len(entry.outcomes):  # the first ones
                served.append(turn.copy)
            entry.path, entry.outcomes = None, ()
            if self.ledger.is_complete(entry):
                self.ledger.settle(entry)
        for index, letters in mail.items():
            self.agents[index].observe(letters, now)
        return served

    def forget(self, episode: int) -> int | None:
        """Let go of an episode. Returns its copy if that was still waiting for the costs."""
        entry = self.ledger.forget(episode)
        if entry is None or entry.memory is None:
            return None
        self.agents[entry.memory.copy].forget(entry.memory.number)
        return None if entry.costs_came else entry.memory.copy

    def state(self) -> stored.State:
        """The agent that is copied, the copies, and which of them played what."""
        return {
            "template": stored.kept(self._template),
            "agents": [stored.kept(agent) for agent in self.agents],
            "last": self._last,
            "ledger": self.ledger.state(lambda turn: [turn.copy, turn.number]),
        }

    @classmethod
    def from_state(cls, outer: object, state: object) -> Self:
        """The copies that wrote the state."""
        read = stored.exact(state, "template", "agents", "last", "ledger")
        made = cls(outer, lambda: stored.made(read["template"]))
        made.agents = [stored.made(agent) for agent in stored.items("agents", read["agents"])]
        for agent in made.agents:
            check_is_agent("agents", agent)
            same = type(agent) is type(made._template) and agent.problem == made.problem
            if not same or agent.information != made.information:
                raise ValueError("agents must be copies of one agent")
        made._last = checks.integer("last", read["last"], 0, len(made.agents) - 1)

        def turn(value: object) -> Turn:
            copy, number = stored.items("turn", value)
            copy = checks.integer("copy", copy, 0, len(made.agents) - 1)
            return Turn(copy, checks.integer("number", number, 0, made.agents[copy].begun - 1))

        made.ledger.restore(read["ledger"], turn)
        if sum(agent.begun for agent in made.agents) != made.ledger.begun:
            raise ValueError("agents must have begun as many episodes as they are said to have")
        if any(entry.memory is None and not entry.settled for entry in made.ledger):
            raise ValueError("an open episode must say which copy played it")
        return made

    def __repr__(self) -> str:
        return f"lambda: {self._template!r}"

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the copy that played last, the episodes of all copies, and their number."""
        played = self.agents[self._last].diagnostics()
        return {**played, **self.ledger.tally(), "copies": len(self.agents)}


class _Copied(Ledgered):
    """What Parallel and Bold have in common: copies, and records that find their copy."""

    reads_delays = True

    def _hold(self, copies: Copies) -> None:
        self._copies = copies
        self._ledger = copies.ledger
        self.problem = copies.problem
        self.information: Information = copies.information
        self.uses_paths = copies.uses_paths

    @property
    def agents(self) -> list[Agent]:
        """The copies made so far."""
        return self._copies.agents

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the copy that played last, the episodes of all copies, and their number."""
        return self._copies.diagnostics()


class Parallel(_Copied):
    """d_max + 1 copies that take turns; each is a learner without delay.

    Args:
        make_agent: makes the fresh agent that is copied, tuned for K / (max_delay + 1) episodes
            without delay.
        max_delay: the largest delay, which must be known.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.wrappers.Parallel(lambda: bl.DelayedOPPO(world.problem), max_delay=2)
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['copies']
        3
    """

    def __init__(self, make_agent: Callable[[], Agent], max_delay: int) -> None:
        self._wrap(Copies(self, make_agent), max_delay)

    def _wrap(self, copies: Copies, max_delay: int) -> None:
        self.max_delay = self.longest_delay = checks.integer("max_delay", max_delay, 0)
        self._hold(copies)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode, played by the copy whose turn it is."""
        return self._copies.begin(self.begun % (self.max_delay + 1), now)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Hand every record to the copy that played its episode."""
        self._copies.observe(records, now)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self._copies.forget(episode)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent; a copy stands for the function that makes it."""
        return {"agent": self.agents[0], "max_delay": self.max_delay}

    def state(self) -> stored.State:
        """The copies."""
        return {"copies": self._copies.state(), "max_delay": self.max_delay}

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        read = stored.exact(state, "copies", "max_delay")
        made = cls.__new__(cls)
        made._wrap(Copies.from_state(made, read["copies"]), read["max_delay"])
        expected = max(1, min(made.begun, made.max_delay + 1))
        if len(made.agents) != expected:
            raise ValueError(f"agents must be {expected} copies, got {len(made.agents)}")
        return made

    def __repr__(self) -> str:
        return call(self, self._copies, self.max_delay)


class Bold(_Copied):
    """Copies of a learner; a new one is opened only when all of them wait for their costs.

    Args:
        make_agent: makes the fresh agent that is copied.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.wrappers.Bold(lambda: bl.DelayedOPPO(world.problem))
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['copies']
        3
    """

    def __init__(self, make_agent: Callable[[], Agent]) -> None:
        self._wrap(Copies(self, make_agent), [0])

    def _wrap(self, copies: Copies, idle: object) -> None:
        self._hold(copies)
        last = len(copies.agents) - 1
        self._idle = [checks.integer("idle", i, 0, last) for i in stored.items("idle", idle)]

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode, played by the oldest copy that does not wait."""
        return self._copies.begin(
            heapq.heappop(self._idle) if self._idle else len(self._copies.agents), now
        )

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Hand every record to the copy that played its episode."""
        for index in self._copies.observe(records, now):
            heapq.heappush(self._idle, index)

    def forget(self, episode: int) -> None:
        """Let go of an episode; its copy waits no more."""
        waiting = self._copies.forget(episode)
        if waiting is not None:
            heapq.heappush(self._idle, waiting)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent; a copy stands for the function that makes it."""
        return {"agent": self.agents[0]}

    def state(self) -> stored.State:
        """The copies, and those that do not wait."""
        return {"copies": self._copies.state(), "idle": list(self._idle)}

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        read = stored.exact(state, "copies", "idle")
        made = cls.__new__(cls)
        made._wrap(Copies.from_state(made, read["copies"]), read["idle"])
        return made

    def __repr__(self) -> str:
        return call(self, self._copies)
