"""The base of the library's agents: it owns the open episodes and the arguments.

An agent of the library annotates what it learns (see `tree`) and implements two methods:
`_next_policy` returns the policy to play next, and `_learn` learns from an episode whose feedback
has arrived. Agents outside the library need no base class: the contract is `contract.Agent`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args, get_origin

import numpy as np

from belated.core.arrays import Floats
from belated.core.contract import Information
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.core.tree import Configured, Entries
from belated.core.versions import Versions

Memory = TypeVar("Memory")


class Learner(Configured, Ledgered, ABC, Generic[Memory]):
    """An agent that keeps its open episodes in a ledger and annotates what it learns.

    Attributes:
        problem: the problem that the agent was made for.
        information: whether it sees whole cost functions ("full") or suffered costs ("bandit").
        uses_paths: whether it uses trajectories at all.
        remembers: the type of what it remembers of an open episode: that of `Learner[...]`.
    """

    information: Information = "bandit"
    uses_paths: bool = True
    remembers: ClassVar[Any] = bool
    seed: Annotated[int, Entries(low=0)]
    _ledger: Ledger[Memory]

    def __init_subclass__(cls, **given: Any) -> None:
        """Note the type of the memory."""
        super().__init_subclass__(**given)
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Learner:
                (cls.remembers,) = get_args(base)

    def __init__(self, problem: Any, **arguments: Any) -> None:
        """Store the arguments of the constructor, by name and in their order."""
        self.problem = problem
        self.seed = arguments.get("seed", 0)
        self._arguments = arguments
        self._ledger = Ledger(
            problem, self.information, uses_paths=self.uses_paths, remembers=self.remembers
        )
        self._versions = Versions()

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy (H, S, A) to play in it."""
        policy, memory = self._next_policy()
        return self._ledger.open_episode(memory, policy)

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Learn from every episode whose path and costs have both arrived, oldest first."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.path is None or entry.costs is None:
                continue
            if entry.memory is not None:
                self._learn(entry)
            self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its memory is freed."""
        self._ledger.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger."""
        return self._ledger.diagnostics()

    def configuration(self) -> dict[str, Any]:
        """The arguments of this agent."""
        return {"problem": self.problem, **self._arguments}

    @abstractmethod
    def _next_policy(self) -> tuple[Floats, Memory]:
        """The policy of the episode that begins now, read-only, and what to remember of it.

        The memory is never None, which stands for an episode that will not be learned from.
        """

    @abstractmethod
    def _learn(self, entry: Open[Memory]) -> None:
        """Learn from an episode whose feedback has arrived; `entry.memory` is its memory."""

    def _let_go_of_memories(self) -> None:
        """Drop the memories of open episodes: the agent will not learn from their feedback."""
        for entry in self._ledger:
            entry.memory = None


def generator(seed: int, episode: int) -> np.random.Generator:
    """A generator for the draws of one episode: counter-based, keyed by seed and episode number.

    So an agent that draws has no generator to save, and its draws in one episode do not depend on
    those in earlier ones.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, episode]))
