"""Pipeline: lengthen every delay to the largest one.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section on the empirical evaluation.

    1  for every episode k:
    2      use the feedback of episode k - 1 - d_max, and nothing else
    3      play episode k with the agent inside; the first d_max + 1 play its first policy
    4      hold back the feedback that arrives

For Delayed OPPO this is the same as a constant delay of d_max.

Departures: feedback that is lost or takes longer than the largest delay is ignored. Where paths
arrive at once, paths="at once" passes them on at once, and only the costs wait.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from belated.core import checks
from belated.core.contract import PATHS, Agent, WrapperBase
from belated.core.episodes import Ledger, Ledgered, check_in_step, listed, split
from belated.core.records import Episode
from belated.core.tree import Count


class Pipeline(Ledgered, WrapperBase):
    """An agent whose feedback is always used `max_delay` episodes later.

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

    once = True
    reads_delays = True

    _ledger: Ledger[bool]
    _held: dict[int, list[Any]]
    _late: Count

    def __init__(self, agent: Agent, max_delay: int, *, paths: str = "late") -> None:
        self.max_delay = checks.integer("max_delay", max_delay, 0)
        self.holds_feedback = self.longest_delay = self.max_delay
        self._hold(agent)
        self.paths = checks.choice("paths", paths, PATHS)
        self._ledger = Ledger(self.problem, self.information, uses_paths=self.uses_paths)
        self._held = {}
        self._late = 0

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
        kept_from = self.begun - 1 - self.max_delay
        records = [record.dated(now) for record in listed(records)]
        in_time, late = split(records, self.problem, self.information, self.begun, kept_from)
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

    def forget(self, episode: int) -> None:
        """Discard an episode, unless all of its feedback has arrived and waits until it is due."""
        if self._ledger.forget(episode) is not None:
            self._held.pop(episode, None)
        if episode not in self._held:
            self.agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, this wrapper's episodes, and the late costs."""
        return {**self.agent.diagnostics(), **self._ledger.tally(), "late": self._late}

    def check_learned(self) -> None:
        """Check that the agent inside has begun as many episodes; it checks held records itself."""
        check_in_step(self.agent, self.begun)
