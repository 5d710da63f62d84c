"""Skipping: feedback that is too late is not used, and its memory is let go.

Lancewicki, Rosenberg & Mansour (AAAI 2022), section "Large delays and unknown total delay" and its
appendix; after Thune, Cesa-Bianchi & Seldin (2019).

    paper     here
    beta      max_delay
    K_beta    the episodes whose costs came within max_delay

With D the total delay, at most D / beta episodes are skipped. Whatever is lost, the agent inside
remembers at most max_delay + 1 open episodes.

Departures: a trajectory that comes too late is left out too, also where it could still serve the
model; one that comes at once always reaches it. Nothing is remembered of an episode that was let
go, so a record of it is checked for its shape and dropped, be it the first or the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from belated import checks
from belated.agents.contract import (
    Agent,
    Information,
    check_fresh,
    check_holds_nothing,
    wants_paths,
)
from belated.agents.ledger import check_costs, check_path, listed
from belated.feedback import Costs, Episode, FeedbackError, Record, Trajectory
from belated.problem import Problem


class Skipping:
    """An agent that uses only feedback with a delay of at most `max_delay`.

    Args:
        agent: the agent inside.
        max_delay: beta, at least 0, whole or not; infinity skips nothing.
    """

    def __init__(self, agent: Agent, max_delay: float) -> None:
        check_fresh("agent", agent)
        check_holds_nothing("agent", agent)
        self.agent = agent
        self.problem: Problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = wants_paths(agent)
        self.max_delay = math.inf
        self.limit_delay(max_delay)
        self._newest = -1
        self._kept_from = 0  # episodes before this one have been let go
        self._skipped = 0

    def limit_delay(self, max_delay: float) -> None:
        """Change the threshold; what has been let go stays let go."""
        if not (isinstance(max_delay, float) and max_delay == math.inf):
            max_delay = math.floor(checks.real("max_delay", max_delay, 0.0))
        self.max_delay = max_delay

    def begin_episode(self) -> Episode:
        """Let go of the episode that is now too old, then begin the next."""
        while self._kept_from < self._newest + 1 - self.max_delay:
            self.agent.forget(self._kept_from)
            self._kept_from += 1
        episode = self.agent.begin_episode()
        self._newest = episode.number
        return episode

    def observe(self, records: Iterable[Record]) -> None:
        """Hand on what is in time."""
        in_time, late = split(
            records, self.problem, self.information, self._newest, self._kept_from
        )
        self.agent.observe(in_time)
        self._skipped += sum(isinstance(record, Costs) for record in late)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self.agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, and how many costs came too late."""
        return {**self.agent.diagnostics(), "skipped": self._skipped}


def split(
    records: Iterable[Record],
    problem: Problem,
    information: Information,
    newest: int,
    kept_from: int,
) -> tuple[list[Record], list[Record]]:
    """Records of episodes still kept, and those that come too late but are otherwise right."""
    in_time: list[Record] = []
    late: list[Record] = []
    for record in listed(records):
        if record.episode > newest:
            raise FeedbackError(
                f"{type(record).__name__} of episode {record.episode}: episode must be one that "
                f"was begun ({f'the newest is {newest}' if newest >= 0 else 'none has been'})"
            )
        if record.episode >= kept_from:
            in_time.append(record)
            continue
        if isinstance(record, Trajectory):
            check_path(problem, record)
        else:
            check_costs(problem, information, record)
        late.append(record)
    return in_time, late
