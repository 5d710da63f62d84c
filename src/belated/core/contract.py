"""What every agent is, and what wrappers and the simulator use of it."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

from belated.core import checks
from belated.core.records import Episode, Record, Trajectory
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters, Setting

Information = Literal["full", "bandit"]


class Agent(Protocol):
    """A learner that two calls drive: `begin_episode` and `observe`.

    `begin_episode` is the only clock: the end of episode k is everything observed between
    beginning k and beginning k + 1. Episodes may overlap. Agents are deterministic: the same
    calls give the same policies. `belated.testing.check_agent` checks all of this.
    """

    @property
    def problem(self) -> Problem:
        """What the agent was told."""
        ...

    @property
    def information(self) -> Information:
        """Costs are whole cost functions ("full") or only the H costs suffered ("bandit")."""
        ...

    @property
    def uses_paths(self) -> bool:
        """Whether the agent uses trajectories at all."""
        ...

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        ...

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        ...

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        ...

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number, counted from 0, and the policy (H, S, A) to play, a copy.

        now: the time, in any unit, if the program has a clock. A clock that goes back stands still.
        """
        ...

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Take a batch whole, or raise `FeedbackError` and take nothing of it.

        now: the time at which the records arrived, as for `begin_episode`.
        """
        ...

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used any more."""
        ...

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        ...


class CountsPaths(Agent, Protocol):
    """An agent that can learn transitions from others, as copies that share their model do."""

    def count(self, paths: Iterable[Trajectory]) -> None:
        """Count trajectories of episodes that others played; the policy does not follow costs.

        Where the transitions are known there is nothing to count, and this raises ValueError.
        """
        ...


class Wrapper:
    """What a wrapper says of its episodes if they are those of the agent inside."""

    agent: Agent

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        return self.agent.begun

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return self.agent.open_episodes()

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return self.agent.is_open(number)


class Restartable(Agent, Protocol):
    """An agent that can begin a new phase, as `Doubling` needs it.

    In a phase, feedback that comes more than `parameters.threshold` episodes late is counted (its
    path, its observed costs), but does not move the policy.

    An agent may also have `retune(parameters)`: begin a new phase with new parameters and keep what
    was learned. `Doubling` then calls it where no proof needs a fresh policy.
    """

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        ...

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase with a fresh policy and new parameters, keeping what was counted.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        ...


AGENT = (
    "problem",
    "information",
    "uses_paths",
    "begun",
    "open_episodes",
    "is_open",
    "begin_episode",
    "observe",
    "forget",
    "diagnostics",
)
"""Names that every agent has."""
RESTARTABLE = (*AGENT, "setting", "restart")
"""Names that an agent inside `Doubling` has."""


def check_is_agent(name: str, agent: object, parts: Iterable[str] = AGENT) -> None:
    """The argument has every attribute of the contract."""
    missing = [part for part in parts if not hasattr(agent, part)]
    if missing:
        raise ValueError(
            f"{name} must be an agent, got {checks.show(agent)}, which has no {', '.join(missing)}"
        )


def check_fresh(name: str, agent: Agent, parts: Iterable[str] = AGENT) -> None:
    """The argument is an agent that has not begun an episode."""
    check_is_agent(name, agent, parts)
    if agent.begun:
        raise ValueError(f"{name} must be fresh, got one that has begun {agent.begun} episodes")


def check_inside(name: str, agent: Agent, parts: Iterable[str] = AGENT) -> None:
    """The argument is a fresh agent that may stand inside a wrapper."""
    check_unlocked(name, agent)
    check_fresh(name, agent, parts)


def check_unlocked(name: str, agent: object) -> None:
    """The argument is not `Locked`, which would leave what is around it open to all threads."""
    if getattr(agent, "outermost", False):
        raise ValueError(
            f"{name} must not be {type(agent).__name__}, which belongs outside of all other "
            "wrappers"
        )


def call(made: object, *given: object, **keywords: Any) -> str:
    """The call that makes an object, for its `repr`."""
    arguments = [repr(value) for value in given]
    arguments += [f"{name}={value!r}" for name, value in keywords.items()]
    return f"{type(made).__name__}({', '.join(arguments)})"
