"""An agent that learns nothing and notes every call, for the agent that does.

An `Inbox` sorts records by asking its agent which episodes are open. In the service the real agent
is behind: it learns in its own thread. So the inbox stands before a `Recorder`, which keeps the
open episodes at once and hands its calls on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from belated.core import checks, saving, stored
from belated.core.contract import Information, Problem, Record
from belated.core.ledger import Ledger, Ledgered
from belated.core.records import Episode, Notes

CHUNK = 64
"""Records of one call at most, so that no call takes long."""
NOTHING = np.zeros((1, 1, 1))

Call = tuple[Record, ...] | int
"""What the agent is to be told: records to observe, or an episode to forget."""


class Recorder(Ledgered):
    """Keeps the open episodes and notes the calls.

    Attributes:
        calls: what the agent is to be told, oldest first; whoever reads them clears them.
        heard: called with every outcome that is complete.
    """

    def __init__(self, problem: Problem, information: Information, *, uses_paths: bool) -> None:
        self.problem = problem
        self.information = information
        self.uses_paths = uses_paths
        self.calls: list[Call] = []
        self.heard: Callable[[Any], None] = lambda outcome: None
        self._ledger: Ledger[Any] = Ledger(problem, information, uses_paths=uses_paths)

    def __copy__(self) -> Recorder:
        """A recorder of the same open episodes, without the calls."""
        made = Recorder(self.problem, self.information, uses_paths=self.uses_paths)
        made._ledger = copy.copy(self._ledger)
        return made

    def start_at(self, number: int) -> None:
        """Let the first episode have this number."""
        self._ledger.begun = number

    def adopt(self, problem: Problem) -> None:
        """Go on with a problem that has more actions, or other names of them."""
        self.problem = problem
        self._ledger.adopt(problem)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Open the next episode; its policy is the agent's business."""
        notes = Notes()
        return Episode(self._ledger.begin(True, notes=notes), NOTHING, notes=notes)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Note records, and close the episodes that are complete."""
        batch = list(records)
        _, entries = self._ledger.take(batch)
        alone = self.information == "full" or not self.uses_paths  # outcomes need no path
        for entry in entries:
            if entry.costs_came and (alone or entry.path_came):
                self._ledger.settle(entry)
        for record in batch:
            if record.is_outcome:
                self.heard(record)
        wanted = [record for record in batch if self.uses_paths or record.is_outcome]
        for i in range(0, len(wanted), CHUNK):
            self.calls.append(tuple(wanted[i : i + CHUNK]))

    def forget(self, episode: int) -> None:
        """Note it, and close the episode."""
        if self._ledger.forget(episode) is not None:
            self.calls.append(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the ledger."""
        return self._ledger.diagnostics()

    def state(self) -> stored.State:
        """The open episodes; calls must have been read."""
        return {
            "problem": self.problem,
            "information": self.information,
            "uses_paths": self.uses_paths,
            "ledger": self._ledger.state(bool),
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The recorder that wrote the state."""
        read = stored.exact(state, "problem", "information", "uses_paths", "ledger")
        checks.choice("information", read["information"], ("full", "bandit"))
        uses = checks.flag("uses_paths", read["uses_paths"])
        made = cls(read["problem"], read["information"], uses_paths=uses)
        made._ledger.restore(read["ledger"], bool)
        return made


saving.register(Recorder, "service.Recorder")
