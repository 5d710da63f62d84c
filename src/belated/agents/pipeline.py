"""Pipeline: make every delay the largest one.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section on the empirical evaluation.

The first d_max episodes are played with the first policy; from then on, at the end of episode k,
the feedback of episode k - d_max is used, and nothing else. For Delayed OPPO that is the same as
a constant delay of d_max.

Departures: feedback that is later than the largest delay, or lost, is left out. Where paths come
at once, trajectory="immediate" hands them on at once, and only the costs wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from belated import checks
from belated.agents.contract import (
    Agent,
    Information,
    check_fresh,
    check_holds_nothing,
    wants_paths,
)
from belated.agents.ledger import Ledger
from belated.agents.skipping import split
from belated.feedback import Costs, Episode, Record
from belated.problem import Problem


class Pipeline:
    """An agent whose feedback is always used `max_delay` episodes later.

    Args:
        agent: the agent inside.
        max_delay: the largest delay, which must be known.
        trajectory: "delayed": paths wait like costs; "immediate": paths are handed on at once.
    """

    holds_feedback = True

    def __init__(self, agent: Agent, max_delay: int, *, trajectory: str = "delayed") -> None:
        check_fresh("agent", agent)
        check_holds_nothing("agent", agent)
        self.agent = agent
        self.max_delay = checks.integer("max_delay", max_delay, 0)
        self._paths_at_once = (
            checks.choice("trajectory", trajectory, ("delayed", "immediate")) == "immediate"
        )
        self.problem: Problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = wants_paths(agent)
        self._ledger: Ledger[None] = Ledger(
            self.problem, self.information, uses_paths=self.uses_paths
        )
        self._held: dict[int, list[Record]] = {}
        self._late = 0

    def begin_episode(self) -> Episode:
        """Use the feedback whose time has come, then begin the next episode."""
        due = self._ledger.begun - 1 - self.max_delay
        if due >= 0:
            self.agent.observe(self._held.pop(due, []))
            if self._ledger.forget(due) is not None:  # something of it never came
                self.agent.forget(due)
        self._ledger.begin(None)
        return self.agent.begin_episode()

    def observe(self, records: Iterable[Record]) -> None:
        """Put records in line until their time has come."""
        newest = self._ledger.begun - 1
        in_time, late = split(
            records, self.problem, self.information, newest, newest - self.max_delay
        )
        paths, entries = self._ledger.take(in_time)
        if self._paths_at_once:
            self.agent.observe(paths)
        else:
            for path in paths:
                self._held.setdefault(path.episode, []).append(path)
        for entry in entries:
            if entry.costs is not None:
                self._held.setdefault(entry.number, []).append(entry.costs)
                self._ledger.settle(entry)
        self._late += sum(isinstance(record, Costs) for record in late)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self._ledger.forget(episode)
        self._held.pop(episode, None)
        self.agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, and how many costs came too late."""
        return {**self.agent.diagnostics(), "late": self._late}
