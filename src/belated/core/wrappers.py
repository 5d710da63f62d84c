"""Wrappers around agents of any kind: they know neither states nor features.

    Skipping          feedback that is too late is not used
    Pipeline          every delay is lengthened to the largest one
    Parallel, Bold    copies of a learner take turns, so that each of them learns without delay
    Locked            one agent for several threads

The docstring of each has its algorithm and its departures from the paper. The first four are of
Lancewicki, Rosenberg & Mansour (AAAI 2022) and of the papers that they cite.
"""

import copy
import heapq
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from belated.core import checks
from belated.core.contract import PATHS, Agent, Deciding, Episode, WrapperBase, check_inside
from belated.core.episodes import (
    Ledger,
    check_held,
    check_in_step,
    in_a_list,
    is_past,
    listed,
    split,
)
from belated.core.tree import Configured, Count


class Skipping(WrapperBase):
    """An agent that uses only feedback with a delay of at most `threshold`.

    Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Large delays and unknown total delay" and
    its appendix; after Thune, Cesa-Bianchi & Seldin (2019).

        1  for every episode k:
        2      forget the episodes that are older than beta
        3      play episode k with the agent inside
        4      pass on the feedback of episodes j with k - j <= beta

        paper     here
        beta      threshold
        K_beta    the episodes whose costs arrived within the threshold

    With D the total delay, at most D / beta episodes are skipped. However much feedback is lost,
    the agent inside remembers at most threshold + 1 open episodes.

    Departures: a late trajectory is ignored too, even where the model could still use it; one that
    arrives at once always reaches the agent. Skipped episodes are not remembered: the shape of
    their records is checked, then the records are discarded, without a check for duplicates.

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
        self.threshold = self.longest_delay = (
            math.inf
            if threshold == math.inf
            else math.floor(checks.real("threshold", threshold, 0.0))
        )

    def begin_episode(self, now: float | None = None) -> Episode:
        """Discard the episodes that are now too old, then begin the next one."""
        while is_past(self._kept_from, self.begun, self.threshold):
            self.agent.forget(self._kept_from)
            self._kept_from += 1
        return self.agent.begin_episode(now)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Pass the records that are in time to the agent inside."""
        in_time, late = split(records, self.agent, self._kept_from)
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


class Holding(WrapperBase):
    """The base of wrappers that hold feedback back, until the agent inside may use it."""

    once = True

    _ledger: Ledger[bool]
    _held: dict[int, list[Any]]  # records by episode

    def forget(self, episode: int) -> None:
        """Discard an episode, unless all of its feedback has arrived and is held."""
        if self._ledger.forget(episode) is not None:
            self._held.pop(episode, None)
        if episode not in self._held:
            self.agent.forget(episode)

    def check_learned(self) -> None:
        """Check that the agent inside has begun as many episodes, and the records that are held."""
        check_in_step(self.agent, self.begun)
        check_held(self._held, self.problem, self.information)


class Pipeline(Holding):
    """An agent whose feedback is always used `max_delay` episodes later.

    Lancewicki, Rosenberg & Mansour (AAAI 2022), section on the empirical evaluation.

        1  for every episode k:
        2      use the feedback of episode k - 1 - d_max, and nothing else
        3      play episode k with the agent inside; the first d_max + 1 play its first policy
        4      hold back the feedback that arrives

    For Delayed OPPO this is the same as a constant delay of d_max.

    Departures: feedback that is lost or takes longer than the largest delay is ignored. Where paths
    arrive at once, paths="at once" passes them on at once, and only the costs wait.

    Args:
        agent: the agent inside.
        max_delay: the largest delay, which must be known.
        paths: "late": trajectories wait like costs; "at once": they are passed on at once.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> inside = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
        >>> agent = bl.wrappers.Pipeline(inside, max_delay=2)
        >>> run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    reads_delays = True

    _late: Count

    def __init__(self, agent: Agent, max_delay: int, *, paths: str = "late") -> None:
        self.max_delay = self.holds_feedback = self.longest_delay = checks.integer(
            "max_delay", max_delay, 0
        )
        self._hold(agent)
        self.paths = checks.choice("paths", paths, PATHS)
        self._ledger = Ledger(self.problem, self.information, uses_paths=self.uses_paths)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Use the feedback that is due, then begin the next episode."""
        checks.time(now)
        due = self.begun - 1 - self.max_delay
        if due >= 0:
            self.agent.observe(self._held.pop(due, []), now)
            if self._ledger.forget(due) is not None:  # its feedback is incomplete
                self.agent.forget(due)
        episode = self.agent.begin_episode(now)
        self._ledger.begin(True, notes=episode.notes)
        return episode

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Queue records until they are due."""
        checks.time(now)
        records = [record.dated(now) for record in listed(records)]
        in_time, late = split(records, self.agent, self.begun - 1 - self.max_delay)
        paths, entries = self._ledger.take(in_time)
        if self.paths == "at once":
            self.agent.observe(paths, now)
        else:
            for path in paths:
                self._held.setdefault(path.episode, []).append(path)
        for entry in entries:
            if entry.outcomes:
                self._held.setdefault(entry.number, []).extend(entry.outcomes)
                self._ledger.settle(entry)
        self._late += sum(record.is_outcome for record in late)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, this wrapper's episodes, and the late costs."""
        return {**self.agent.diagnostics(), **self._ledger.tally(), "late": self._late}


@dataclass(frozen=True, slots=True)
class Copying:
    """A function that makes a fresh agent, as a copy of the one that it made first."""

    agent: Any

    def __call__(self) -> Any:
        """A fresh agent."""
        return copy.deepcopy(self.agent)

    def __repr__(self) -> str:
        return f"lambda: {self.agent!r}"


class Copied(Configured, Deciding):
    """The base of Parallel and Bold: copies, and the assignment of records to copies.

    Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Warm-up: a black-box reduction"; `Bold` is
    BOLD of Joulani, György & Szepesvári (2013).

        1  for every episode k:
        2      play it with copy k mod (d_max + 1)          (BOLD: with a copy that does not wait)
        3      pass every record to the copy that played its episode

    `Parallel` keeps d_max + 1 copies and must know the largest delay: when it is a copy's turn
    again, the feedback of its last episode has arrived. `Bold` makes a new copy only when all
    copies wait: at most max_k M^k + 1 of them (M^k: episodes missing at the end of k). It needs no
    largest delay, and a lost record costs it one copy.

    Departures: the paper speaks of d_max copies in one place and of d_max + 1 in others; d_max + 1
    is right. Copies are made when they are first needed. A copy of `Parallel` whose feedback takes
    longer than the largest delay continues without it.

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
        by_copy: dict[int, list[Any]] = {}
        for entry in entries:
            assert entry.memory is not None
            index, number = entry.memory
            batch = by_copy.setdefault(index, [])
            if entry.path is not None:
                batch.append(entry.path.renumbered(number))
            batch += [outcome.renumbered(number) for outcome in entry.outcomes]
            if entry.outcomes and entry.reported == len(entry.outcomes):  # the first ones
                self._free(index)
            entry.path, entry.outcomes = None, ()
            if self.problem.one_outcome and entry.reported and self._ledger.has_path(entry):
                self._ledger.settle(entry)
        for index, batch in by_copy.items():
            self.agents[index].observe(batch, now)

    def forget(self, episode: int) -> None:
        """Discard an episode; its copy does not wait any more."""
        entry = self._ledger.forget(episode)
        if entry is None or entry.memory is None:
            return
        index, number = entry.memory
        self.agents[index].forget(number)
        if not entry.reported:
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


def _locked(name: str, such: str = "an agent") -> Callable[..., Any]:
    """A method of the agent inside, which is called while no other thread calls one."""

    def call(self: "Locked", *given: Any, **named: Any) -> Any:
        with self.lock:
            if not hasattr(self.agent, name):
                raise TypeError(
                    f"agent must be {such} for {name}, got one of {type(self.agent).__name__}"
                )
            return getattr(self.agent, name)(*given, **named)

    return call


class Locked(WrapperBase):
    """An agent whose calls wait for each other, so that threads can share it.

    Only one thread at a time may use an agent: two simultaneous calls may get the same episode
    number, or lose a record. The order of the calls depends on the threads, so two runs with
    several threads may differ.

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
