"""The base of wrappers: agents around an agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from belated.core.contract import AGENT, Agent, Deciding, Information, check_inside
from belated.core.tree import Configured


class WrapperBase(Configured, Deciding):
    """A wrapper that has the same problem and the same episodes as the agent inside."""

    agent: Agent

    def _hold(self, agent: Agent, parts: Iterable[str] = AGENT, *, fresh: bool = True) -> None:
        """Take the agent inside, if it may stand there; see `check_inside`."""
        check_inside(self, "agent", agent, parts, fresh=fresh)
        self.agent = agent

    @property
    def problem(self) -> Any:
        """The problem of the agent inside."""
        return self.agent.problem

    @property
    def information(self) -> Information:
        """What the agent inside sees."""
        return self.agent.information

    @property
    def uses_paths(self) -> bool:
        """Whether the agent inside uses trajectories."""
        return self.agent.uses_paths

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        return self.agent.begun

    @property
    def seed(self) -> int:  # type: ignore[override]
        """The seed of the agent inside."""
        return getattr(self.agent, "seed", 0)

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return self.agent.open_episodes()

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return self.agent.is_open(number)
