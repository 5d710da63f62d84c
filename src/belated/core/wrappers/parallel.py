"""Parallel: copies of a learner that take turns, so that each of them learns without delay.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Warm-up: a black-box reduction"; `Bold` is
BOLD of Joulani, György & Szepesvári (2013).

    1  for every episode k:
    2      play it with copy k mod (d_max + 1)              (BOLD: with a copy that does not wait)
    3      pass every record to the copy that played its episode

`Parallel` keeps d_max + 1 copies and must know the largest delay: when it is a copy's turn again,
the feedback of its last episode has arrived. `Bold` makes a new copy only when all copies wait: at
most max_k M^k + 1 of them (M^k: episodes missing at the end of k). It needs no largest delay, and a
lost record costs it one copy.

Departures: the paper speaks of d_max copies in one place and of d_max + 1 in others; d_max + 1 is
right. Copies are made when they are first needed. A copy of `Parallel` whose feedback takes longer
than the largest delay continues without it.
"""

import copy
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from belated.core import checks
from belated.core.contract import Agent, check_inside
from belated.core.episodes import Ledger, Ledgered
from belated.core.records import Episode
from belated.core.tree import Configured, Count


@dataclass(frozen=True, slots=True)
class Copying:
    """A function that makes a fresh agent, as a copy of the one that it made first."""

    agent: Any

    def __call__(self) -> Any:
        """A fresh agent."""
        return copy.deepcopy(self.agent)

    def __repr__(self) -> str:
        return f"lambda: {self.agent!r}"


class Copied(Configured, Ledgered):
    """The base of Parallel and Bold: copies, and the assignment of records to copies.

    The memory of an open episode is the copy that played it, and its number in that copy.

    Attributes:
        make_agent: makes a fresh copy; the agent that it copies never plays.
        agents: the copies made so far.
    """

    reads_delays = True

    agents: list[Agent]
    _last: Count  # the copy that played last
    _ledger: Ledger[tuple[int, int]]

    def __init__(self, make_agent: Callable[[], Agent]) -> None:
        if not callable(make_agent):
            raise ValueError(
                f"make_agent must be a function that makes a fresh agent, got "
                f"{checks.show(make_agent)}"
            )
        self.make_agent = make_agent if isinstance(make_agent, Copying) else Copying(make_agent())
        first = self.make_agent.agent
        check_inside(self, "make_agent()", first)
        self.problem, self.information = first.problem, first.information
        self.uses_paths = first.uses_paths
        self._ledger = Ledger(
            self.problem, self.information, uses_paths=self.uses_paths, remembers=tuple[int, int]
        )
        self.agents = [self.make_agent()]
        self._last = 0

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Pass every record to the copy that played its episode."""
        checks.time(now)
        if getattr(self.agents[0], "reads_delays", False):  # a copy may refuse the time
            for agent in self.agents:
                agent.observe((), now)
        _, entries = self._ledger.take(records)
        mail: dict[int, list[Any]] = {}
        for entry in entries:
            assert entry.memory is not None
            index, number = entry.memory
            letters = mail.setdefault(index, [])
            if entry.path is not None:
                letters.append(entry.path.renumbered(number))
            letters += [outcome.renumbered(number) for outcome in entry.outcomes]
            if entry.outcomes and entry.told == len(entry.outcomes):  # the first ones
                self._free(index)
            entry.path, entry.outcomes = None, ()
            if self.problem.one_outcome and entry.told and self._ledger.has_path(entry):
                self._ledger.settle(entry)
        for index, letters in mail.items():
            self.agents[index].observe(letters, now)

    def forget(self, episode: int) -> None:
        """Discard an episode; its copy does not wait any more."""
        entry = self._ledger.forget(episode)
        if entry is None or entry.memory is None:
            return
        index, number = entry.memory
        self.agents[index].forget(number)
        if not entry.told:
            self._free(index)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the copy that played last, all episodes, and the number of copies."""
        played = self.agents[self._last].diagnostics()
        return {**played, **self._ledger.tally(), "copies": len(self.agents)}

    def _begin(self, index: int, now: float | None) -> Episode:
        """Begin the next episode in a copy; the index after the last one makes a new copy."""
        if index == len(self.agents):
            self.agents.append(self.make_agent())
        self._last = index
        episode = self.agents[index].begin_episode(now)
        number = self._ledger.begin((index, episode.number), notes=episode.notes)
        return episode.renumbered(number)

    def _free(self, index: int) -> None:
        """Note that a copy does not wait for costs any more."""


class Parallel(Copied):
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
        self.max_delay = self.longest_delay = checks.integer("max_delay", max_delay, 0)
        super().__init__(make_agent)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode, played by the next copy in turn."""
        return self._begin(self.begun % (self.max_delay + 1), now)


class Bold(Copied):
    """Copies of a learner; a new one is made only when all of them wait for their costs.

    Args:
        make_agent: makes the fresh agent that is copied.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.wrappers.Bold(lambda: bl.DelayedOPPO(world.problem))
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['copies']
        3
    """

    _idle: list[Count]  # the copies that do not wait, as a heap

    def __init__(self, make_agent: Callable[[], Agent]) -> None:
        super().__init__(make_agent)
        self._idle = [0]

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode, played by the oldest copy that does not wait."""
        return self._begin(heapq.heappop(self._idle) if self._idle else len(self.agents), now)

    def _free(self, index: int) -> None:
        heapq.heappush(self._idle, index)
