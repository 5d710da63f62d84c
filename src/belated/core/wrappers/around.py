"""What wrappers with declared state share: their arguments, the agent inside, and saving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from belated.core import stored
from belated.core.contract import Agent
from belated.core.ledger import Ledger, read_held


class Around(stored.Declared):
    """A wrapper around one agent that declares what it learns.

    `_wrap(agent, *arguments, fresh)` sets the arguments and declares the rest, for a new wrapper as
    for one that is read from a file, whose agent is not fresh.

    Attributes:
        agent: the agent inside.
        arguments: names of the other arguments of the constructor, which are attributes.
    """

    agent: Agent
    arguments: ClassVar[tuple[str, ...]] = ()

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"agent": self.agent, **{name: getattr(self, name) for name in self.arguments}}

    def state(self) -> stored.State:
        """The arguments, the agent inside, and what was declared."""
        return {**self.configuration(), "agent": stored.kept(self.agent), **super().state()}

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("agent", *cls.arguments)
        known = {name: state[name] for name in names if name in state}
        given = stored.exact(known, *names)
        made: Any = cls.__new__(cls)
        agent = stored.made(given.pop("agent"))
        made._wrap(agent, *given.values(), fresh=False)
        made.restore({name: value for name, value in state.items() if name not in names})
        return made  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class OpenEpisodes:
    """The declaration of the open episodes of a wrapper, of which it remembers nothing else."""

    ledger: Ledger[bool]

    def fresh(self) -> Ledger[bool]:
        """The ledger."""
        return self.ledger

    def write(self, value: Ledger[bool]) -> stored.State:
        """Its state."""
        return value.state(stored.Flag().write)

    def read(self, name: str, saved: Any) -> Ledger[bool]:
        """The ledger, restored."""
        self.ledger.restore(saved, lambda memory: stored.Flag().read(name, memory))
        return self.ledger


@dataclass(frozen=True, slots=True, eq=False)
class HeldRecords:
    """The declaration of records that are held back; it comes after that of the open episodes."""

    agent: Agent
    ledger: Ledger[Any]

    def fresh(self) -> dict[int, list[Any]]:
        """None."""
        return {}

    def write(self, value: dict[int, list[Any]]) -> list[Any]:
        """The records in the order of their episodes."""
        return [record.to_state() for held in value.values() for record in held]

    def read(self, name: str, saved: Any) -> dict[int, list[Any]]:
        """The records, if the agent inside can take them."""
        return read_held(self.agent, self.ledger, saved)
