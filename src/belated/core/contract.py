"""What agents, records and problems are, for all that stands around them.

The core knows neither states nor features. It asks a record what it says, and a problem whether a
record can be right and what an episode still waits for.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np

from belated.core import checks
from belated.core.checks import explained
from belated.core.records import Decision, Episode, Notes, chance
from belated.core.rewards import Scale

Information = Literal["full", "bandit"]
PATHS = ("late", "at once")
"""When paths come: with the outcome, or at the end of their episode."""
Key = str | int
"""Names one fact about an episode: a step, an event, or a word such as "path"."""


class Record(Protocol):
    """Something that came back of an episode.

    Attributes:
        episode: the number of the episode.
        at: when it arrived, by the clock of whoever handed it in; None without a clock.
        is_outcome: whether it tells the outcome, and not what was done.
        partial: whether it is a piece of a record that an `Inbox` puts together.
        part: which part of the episode it tells, in a word or as a step.
    """

    is_outcome: ClassVar[bool]
    partial: ClassVar[bool]

    @property
    def episode(self) -> int:
        """The number of the episode."""
        ...

    @property
    def at(self) -> float | None:
        """When it arrived."""
        ...

    @property
    def part(self) -> Key:
        """Which part of the episode it tells."""
        ...

    def facts(self) -> Mapping[Key, Any]:
        """What it says, by key: values that can be compared and written as JSON."""
        ...

    def renumbered(self, episode: int) -> Self:
        """The same record of another episode."""
        ...

    def dated(self, at: float | None) -> Self:
        """The same record, arrived at this time, unless it says when it arrived."""
        ...

    def to_state(self) -> dict[str, Any]:
        """The record as plain data, which may hold arrays."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value."""
        ...


class Problem(Protocol):
    """What an agent was told, and which records can be right under it."""

    @property
    def actions(self) -> int | None:
        """How many actions there are; None if they come with every decision."""
        ...

    @property
    def states(self) -> int | None:
        """How many states there are; None if features take their place."""
        ...

    @property
    def horizon(self) -> int:
        """Steps of an episode."""
        ...

    @property
    def one_outcome(self) -> bool:
        """Whether an episode has one outcome, after which no other is taken."""
        ...

    def check(self, record: Any, information: Information) -> None:
        """Raise `FeedbackError` if a record cannot be right, whichever its episode is."""
        ...

    def check_observation(self, observation: object, among: object = None) -> None:
        """Raise `ValueError` if no decision can be made there among these actions."""
        ...

    def check_fact(self, key: object, value: object, information: Information) -> None:
        """Raise `ValueError` if no record has this fact."""
        ...

    def awaited(
        self, known: Container[Key], information: Information, *, uses_paths: bool
    ) -> list[Key]:
        """The facts that an episode still waits for; empty if it is complete."""
        ...

    def complete(
        self, record: Any, known: Mapping[Key, Any], information: Information
    ) -> Any | None:
        """The whole record that this piece completes; None while other pieces are missing."""
        ...

    def silent(
        self, episode: int, known: Mapping[Key, Any], information: Information, default: float
    ) -> Any | None:
        """The outcome to assume where nothing was reported; None if silence tells nothing."""
        ...

    def paid(self, record: Any, scale: Scale) -> Any:
        """The record with its rewards turned into costs."""
        ...

    def path(self, episode: int, notes: Notes) -> Any | None:
        """The record of what was done, from the notes; None if they are not complete."""
        ...

    def as_noted(self, path: Any) -> Any:
        """A record of what was done, reduced to what notes can tell."""
        ...

    def example(self, episode: int, information: Information, *, outcome: bool) -> Any | None:
        """A record as it might come; None if there is none of that kind."""
        ...

    def blank(self) -> Any:
        """An observation as it might be at the beginning of an episode."""
        ...

    def read(self, value: object) -> Any:
        """The record that `to_state` or `to_json` turned into this value."""
        ...

    def remembered(self, policy: object) -> Any:
        """A policy of a saved state, if it can be one."""
        ...


class Agent(Protocol):
    """A learner that two calls drive: `begin_episode` and `observe`.

    `begin_episode` is the only clock: the end of episode k is everything observed between
    beginning k and beginning k + 1. Episodes may overlap. Agents are deterministic: the same
    calls give the same policies. `belated.testing.check_agent` checks all of this.

    Example:
        >>> agent: bl.Agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> agent.begin_episode().number, agent.begun
        (0, 1)
    """

    @property
    def problem(self) -> Any:
        """What the agent was told: a `Problem`."""
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
        """The next episode number, counted from 0, and the policy to play, a copy.

        now: the time, in any unit, if the program has a clock. A clock that goes back stands still.
        """
        ...

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
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


class Deciding:
    """An agent that can decide in one call, where an episode has one step.

    Attributes:
        seed: of the draws that `decide` makes without a generator of the caller. An agent without
            an argument of this name may be given another one at any time: `agent.seed = 7`.
    """

    seed: int = 0

    def __init_subclass__(cls, **given: Any) -> None:
        """Let the constructor of every agent name an argument that it does not have."""
        super().__init_subclass__(**given)
        if "__init__" in vars(cls):
            explained(cls)

    def decide(
        self: Any,
        observation: Any = None,
        rng: np.random.Generator | None = None,
        now: float | None = None,
        among: Any = None,
    ) -> Decision:
        """Begin an episode of one step, draw its action and note the path.

        Args:
            observation: the state or the features; None where there are none.
            rng: draws the action. Without it, the draw depends on the agent's `seed` and the number
                of the decision alone.
            now: the time, if the program has a clock.
            among: the actions that are allowed, where the agent can choose among some.
        """
        if self.problem.horizon != 1:
            raise ValueError(
                "decide is for problems of one step, got horizon = "
                f"{self.problem.horizon}; use begin_episode, and act at every step"
            )
        self.problem.check_observation(observation, among)
        if rng is not None:
            checks.generator("rng", rng)
        episode = self.begin_episode(now)
        row = np.array(episode.probabilities(0, observation, among=among))
        generator = chance(self.seed, episode.number) if rng is None else rng
        action, probability = episode.act(0, observation, generator, among=among)
        return Decision(episode.number, action, probability, row)


class Wrapper(Deciding):
    """A wrapper whose episodes are those of the agent inside."""

    agent: Agent

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


def check_is_agent(name: str, agent: object, parts: Iterable[str] = AGENT) -> None:
    """Check that the argument has every attribute of the contract."""
    missing = [part for part in parts if not hasattr(agent, part)]
    if missing:
        raise ValueError(
            f"{name} must be an agent, got {checks.show(agent)}, which has no {', '.join(missing)}"
        )


def check_fresh(name: str, agent: Agent, parts: Iterable[str] = AGENT) -> None:
    """Check that the argument is an agent that has not begun an episode."""
    check_is_agent(name, agent, parts)
    if agent.begun:
        raise ValueError(f"{name} must be fresh, got one that has begun {agent.begun} episodes")


def check_inside(
    outer: object, name: str, agent: Agent, parts: Iterable[str] = AGENT, *, fresh: bool = True
) -> None:
    """Check that an agent may stand inside a wrapper; no other place decides this.

    Agents and wrappers say what decides it, each of itself and not of what is inside:

        outermost        it must have nothing around it
        once             it must not be inside another one of its kind
        holds_feedback   for how many episodes it holds feedback back, infinity if nobody knows
        reads_delays     it judges by the time between the beginning of an episode and its feedback
        longest_delay    it leaves aside what is later; infinity by default

    Args:
        outer: the wrapper, made so far that it can say this of itself.
        name: of the argument.
        agent: the agent inside.
        parts: names that it must have.
        fresh: whether it must not have begun an episode.
    """
    kind = type(outer).__name__
    for one in nested(agent):
        inner = type(one).__name__
        if type(one) is type(outer) and getattr(outer, "once", False):
            raise ValueError(f"{name} must not be {inner} itself; one {kind} is enough")
        if getattr(one, "outermost", False):
            raise ValueError(
                f"{name} must not be {inner}, which belongs outside of all other wrappers"
            )
        held = getattr(outer, "holds_feedback", 0)
        if held == math.inf and getattr(one, "reads_delays", False):
            raise ValueError(
                f"{name} must not be {inner}, which looks at delays, inside of {kind}, which holds "
                f"feedback back; put {inner} outside"
            )
        longest = getattr(one, "longest_delay", math.inf)
        if longest < held:
            raise ValueError(
                f"{name} must take feedback that is {held} episodes late, which {kind} makes all "
                f"of it, got {inner}, which takes at most {longest}; put {inner} outside"
            )
    (check_fresh if fresh else check_is_agent)(name, agent, parts)


def nested(agent: object) -> list[object]:
    """An agent and those inside of it, the outermost first."""
    found = []
    inside: object | None = agent
    while inside is not None:
        found.append(inside)
        copies = getattr(inside, "agents", None) or [None]
        inside = getattr(inside, "agent", copies[0])
    return found


def call(made: object, *given: object, **keywords: Any) -> str:
    """The call that makes an object, for its `repr`."""
    arguments = [repr(value) for value in given]
    arguments += [f"{name}={value!r}" for name, value in keywords.items()]
    return f"{type(made).__name__}({', '.join(arguments)})"
