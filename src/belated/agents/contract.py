"""What every agent is."""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from belated import checks
from belated.feedback import Episode, Record
from belated.problem import Problem

Information = Literal["full", "bandit"]


class Agent(Protocol):
    """A learner that two calls drive: `begin_episode` and `observe`.

    `begin_episode` is the only clock: the end of episode k is everything observed between
    beginning k and beginning k + 1. Episodes may overlap. Agents are deterministic: the same
    calls give the same policies.
    """

    @property
    def problem(self) -> Problem:
        """What the agent was told."""
        ...

    @property
    def information(self) -> Information:
        """Costs are whole cost functions ("full") or only the H costs suffered ("bandit")."""
        ...

    def begin_episode(self) -> Episode:
        """The next episode number and the policy (H, S, A) to play in it, a copy."""
        ...

    def observe(self, records: Iterable[Record]) -> None:
        """Take a batch whole, or raise `FeedbackError` and take nothing of it."""
        ...

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used any more."""
        ...

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        ...


CONTRACT = ("problem", "information", "begin_episode", "observe", "forget", "diagnostics")


def check_is_agent(name: str, agent: object) -> None:
    """Check that an object has every attribute of the contract."""
    missing = [part for part in CONTRACT if not hasattr(agent, part)]
    if missing:
        raise ValueError(
            f"{name} must be an agent (see belated.Agent) with {', '.join(missing)}, "
            f"got {checks.show(agent)}"
        )


def check_fresh(name: str, agent: object) -> None:
    """It is an agent, and it has not begun an episode."""
    if not all(hasattr(agent, part) for part in ("problem", "begin_episode", "observe")):
        raise ValueError(f"{name} must be an agent, got {checks.show(agent)}")
    begun = agent.diagnostics().get("begun", 0)  # type: ignore[attr-defined]
    if begun:
        raise ValueError(f"{name} must be fresh, got one that has begun {begun:g} episodes")


def check_holds_nothing(name: str, agent: object) -> None:
    """The agent uses feedback when it comes; one that holds it back must be the outermost."""
    if getattr(agent, "holds_feedback", False):
        raise ValueError(
            f"{name} must not hold feedback back; put Pipeline outside of it, got "
            f"{type(agent).__name__}"
        )


def wants_paths(agent: Agent) -> bool:
    """Whether an agent uses trajectories at all: its `uses_paths`, true if it does not say."""
    return bool(getattr(agent, "uses_paths", True))
