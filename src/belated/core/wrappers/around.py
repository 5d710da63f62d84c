"""The base of wrappers: their arguments, the agents inside, and a declared state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from belated.core import stored
from belated.core.contract import AGENT, Agent, Information, check_inside
from belated.core.ledger import Ledger, read_held


class Around(stored.Declared):
    """A wrapper that declares what it learns.

    `_wrap(inside, *arguments, fresh)` sets the arguments and declares the rest, both for a new
    wrapper and for one that is read from a file, whose agents are not fresh.

    Attributes:
        inside: name of the attribute that holds the agent inside, or a list of agents.
        arguments: names of the other arguments of the constructor, which are attributes.
    """

    inside: ClassVar[str] = "agent"
    arguments: ClassVar[tuple[str, ...]] = ()
    problem: Any
    information: Information
    uses_paths: bool

    def _hold(self: Any, agent: Agent, parts: Iterable[str] = AGENT, *, fresh: bool) -> None:
        """Take the agent inside, if it may stand there; see `check_inside`."""
        check_inside(self, "agent", agent, parts, fresh=fresh)
        self.agent = agent
        self.problem = agent.problem
        self.information = agent.information
        self.uses_paths = agent.uses_paths

    def configuration(self) -> dict[str, Any]:
        """The arguments of this agent."""
        return {name: getattr(self, name) for name in (self.inside, *self.arguments)}

    def state(self) -> stored.State:
        """The arguments, the agents inside, and the declared values."""
        inside = getattr(self, self.inside)
        several = isinstance(inside, list)
        kept = [stored.kept(agent) for agent in inside] if several else stored.kept(inside)
        given = {name: getattr(self, name) for name in self.arguments}
        return {self.inside: kept, **given, **super().state()}

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = (cls.inside, *cls.arguments)
        given = stored.exact({name: state[name] for name in names if name in state}, *names)
        inside = given.pop(cls.inside)
        several = isinstance(inside, list)
        agents = [stored.made(agent) for agent in inside] if several else stored.made(inside)
        made: Any = cls.__new__(cls)
        made._wrap(agents, *given.values(), fresh=False)
        made.restore({name: value for name, value in state.items() if name not in names})
        return made  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class OpenEpisodes:
    """The declaration of the open episodes of a wrapper.

    Attributes:
        ledger: the ledger of the episodes.
        memory: the declaration of the memory of each episode; by default a flag without meaning.
    """

    ledger: Ledger[Any]
    memory: stored.Field = field(default_factory=stored.Flag)

    def fresh(self) -> Ledger[Any]:
        """The ledger."""
        return self.ledger

    def write(self, value: Ledger[Any]) -> stored.State:
        """Its state."""
        return value.state(self.memory.write)

    def read(self, name: str, saved: Any) -> Ledger[Any]:
        """The ledger, restored."""
        self.ledger.restore(saved, lambda memory: self.memory.read("memory", memory))
        return self.ledger


@dataclass(frozen=True, slots=True, eq=False)
class HeldRecords:
    """The declaration of records that are held back; declare it after the open episodes."""

    agent: Agent
    ledger: Ledger[Any]

    def fresh(self) -> dict[int, list[Any]]:
        """None."""
        return {}

    def write(self, value: dict[int, list[Any]]) -> list[Any]:
        """The records in the order of their episodes."""
        return [record.to_state() for held in value.values() for record in held]

    def read(self, name: str, saved: Any) -> dict[int, list[Any]]:
        """The records, if the agent inside accepts them."""
        return read_held(self.agent, self.ledger, saved)
