"""The base of the library's agents: it owns the open episodes, the arguments, `repr` and saving.

An agent of the library declares what it learns (see `stored`) and implements two methods:
`_next_policy` returns the policy to play next, and `_learn` learns from an episode whose feedback
has arrived. Agents outside the library need no base class: the contract is `contract.Agent`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, Self, TypeVar, get_type_hints

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.core.versions import KeptPolicy, Versions

Memory = TypeVar("Memory")


class Parameter(NamedTuple):
    """An argument of a constructor.

    Attributes:
        name: its name.
        kind: its type, or None where it has none.
        default: its default; `inspect.Parameter.empty` if it must be given.
    """

    name: str
    kind: Any
    default: Any


def parameters(cls: type) -> list[Parameter]:
    """The arguments of a constructor, with their types and defaults, in their order.

    The signature is thus the only description of a class.
    """
    hints = get_type_hints(cls.__init__)  # type: ignore[misc]
    given = list(inspect.signature(cls).parameters.values())
    return [Parameter(p.name, hints.get(p.name), p.default) for p in given]


class Learner(stored.Declared, Ledgered, ABC, Generic[Memory]):
    """An agent that keeps its open episodes in a ledger and declares what it learns.

    Attributes:
        problem: the problem that the agent was made for.
        information: whether it sees whole cost functions ("full") or suffered costs ("bandit").
        uses_paths: whether it uses trajectories at all.
    """

    information: Information = "bandit"
    uses_paths: bool = True

    def __init__(self, problem: Any, **arguments: Any) -> None:
        """Store the arguments of the constructor, by name and in their order."""
        self.problem = problem
        self._arguments = arguments
        self._ledger: Ledger[Memory] = Ledger(problem, self.information, uses_paths=self.uses_paths)
        self._versions = Versions()

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy (H, S, A) to play in it."""
        policy = self._next_policy()
        return self._ledger.hand_out(self._memory(policy), policy)

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

    def state(self) -> stored.State:
        """The arguments, the open episodes and what was learned."""
        told = {
            "configuration": self.configuration(),
            "ledger": self._ledger.state(self._remembered().write),
            **super().state(),
        }
        if self.seed and "seed" not in self._arguments:
            told["seed"] = self.seed
        return told

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        given = [parameter.name for parameter in parameters(cls)]
        if not isinstance(state, dict) or "configuration" not in state:
            raise ValueError("a state must have the field configuration")
        arguments = state["configuration"]
        agent = cls(**stored.exact(arguments, *given))
        others = {name: value for name, value in state.items() if name != "configuration"}
        if "seed" in others and "seed" not in given:
            agent.seed = checks.integer("seed", others.pop("seed"), 0, 2**64 - 1)
        agent.restore(others)
        return agent

    def restore(self, saved: stored.State) -> None:
        """Continue from the state of another agent with the same arguments."""
        names = {name: name.lstrip("_") for name in self._fields}
        read = stored.exact(saved, "ledger", *names.values())
        last = {n: f for n, f in self._fields.items() if isinstance(f, stored.Inside) and f.last}
        for name, field in self._fields.items():
            if name not in last:
                setattr(self, name, field.read(names[name], read[names[name]]))
        remembered = self._remembered()
        self._ledger.restore(read["ledger"], lambda memory: remembered.read("memory", memory))
        for name, inside in last.items():
            inside.read(names[name], read[names[name]], self.begun)
        self.restored()

    def __repr__(self) -> str:
        return call(self, self.problem, **self._arguments)

    @abstractmethod
    def _next_policy(self) -> Floats:
        """The policy (H, S, A) for the episode that begins now, read-only."""

    @abstractmethod
    def _learn(self, entry: Open[Memory]) -> None:
        """Learn from an episode whose feedback has arrived; `entry.memory` is its memory."""

    def _let_go_of_memories(self) -> None:
        """Drop the memories of open episodes: the agent will not learn from their feedback."""
        for entry in self._ledger:
            entry.memory = None

    def _memory(self, policy: Floats) -> Any:
        """What to remember of the episode that begins now: by default the policy that it plays.

        `versions.whole` gives that policy again.
        """
        return self._versions.keep(policy)

    def _remembered(self) -> stored.Field:
        """The declaration of what is remembered of an episode."""
        return KeptPolicy(self.problem.shape)


def generator(seed: int, episode: int) -> np.random.Generator:
    """A generator for the draws of one episode: counter-based, keyed by seed and episode number.

    So an agent that draws has no generator to save, and its draws in one episode do not depend on
    those in earlier ones.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, episode]))
