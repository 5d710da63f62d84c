"""The protocols of agents, records and problems.

The core knows neither states nor features. It asks a record for its facts, and a problem whether a
record is valid and what an episode is still waiting for. A record is feedback on an episode, with

    episode          the number of the episode
    at               when it arrived, by the caller's clock; None without a clock
    is_outcome       whether it reports the outcome, and not what was done
    partial          whether it is a piece of a record that an `Inbox` assembles
    part             the part of the episode that it reports, as a word or a step
    facts()          what it reports, by key: values that can be compared and written as JSON
    renumbered(n)    a copy for another episode
    dated(at)        a copy that arrived at this time, unless it has a time of arrival already
"""

import math
from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from belated.core import checks
from belated.core.records import Decision, Episode, Notes, Scale, chance
from belated.core.tree import Configured, is_thawing

Information = Literal["full", "bandit"]
PATHS = ("late", "at once")
"""When paths arrive: with the outcome, or at the end of their episode."""
Key = str | int
"""Names one fact about an episode: a step, an event, or a word such as "path"."""


class Problem(Protocol):
    """What an agent knows from the start, and which records are valid under it.

    Attributes:
        horizon: the number of steps of an episode.
        one_outcome: whether an episode has exactly one outcome, so that a second one is refused.
    """

    @property
    def horizon(self) -> int:
        """The number of steps of an episode."""

    @property
    def one_outcome(self) -> bool:
        """Whether an episode has exactly one outcome."""

    def check(self, record: Any, information: Information) -> None:
        """Raise `FeedbackError` if a record is invalid for every episode."""

    def check_observation(self, observation: object, among: object = None) -> None:
        """Raise `ValueError` if no decision among these actions is possible there."""

    def awaited(
        self, known: Container[Key], information: Information, *, uses_paths: bool
    ) -> list[Key]:
        """The facts that an episode is still waiting for; empty if it is complete."""

    def assemble(
        self,
        episode: int,
        known: Mapping[Key, Any],
        information: Information,
        default: float | None = None,
    ) -> Any | None:
        """The outcome that facts make; None if some are missing and there is no default for them.

        Raises `ValueError` if a fact cannot be right.
        """

    def rewards_to_costs(self, record: Any, scale: Scale) -> Any:
        """The record with its rewards converted to costs."""

    def path(self, episode: int, notes: Notes) -> Any | None:
        """The record of what was done, from the notes; None if they are not complete."""


class Agent(Protocol):
    """A learner with two main methods, `begin_episode` and `observe`.

    Time is counted by calls of `begin_episode`: feedback observed after episode k began and before
    episode k + 1 begins arrives at the end of episode k. Episodes may overlap. Agents are
    deterministic: the same calls give the same policies. `belated.testing.check_agent` checks this.

    Example:
        >>> agent: bl.Agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> agent.begin_episode().number, agent.begun
        (0, 1)
    """

    @property
    def problem(self) -> Any:
        """The `Problem` that the agent was made for."""

    @property
    def information(self) -> Information:
        """Costs are whole cost functions ("full") or only the H costs suffered ("bandit")."""

    @property
    def uses_paths(self) -> bool:
        """Whether the agent uses trajectories at all."""

    @property
    def begun(self) -> int:
        """How many episodes have begun."""

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number, counted from 0, and a copy of the policy to play.

        now: the time, in any unit, if the program has a clock. If a clock is set back, the latest
        time stays in force until the clock has caught up.
        """

    def observe(self, records: Iterable[Any], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it.

        now: the time at which the records arrived, as for `begin_episode`.
        """

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used any more."""

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""


class Deciding:
    """An agent that can decide in one call, where an episode has one step.

    Attributes:
        seed: the seed of draws that `decide` makes when the caller passes no generator. Where the
            constructor has no argument `seed`, it can be set at any time: `agent.seed = 7`.
    """

    seed: int = 0

    def decide(
        self: Any,
        observation: Any = None,
        rng: np.random.Generator | None = None,
        now: float | None = None,
        among: Any = None,
    ) -> Decision:
        """Begin an episode of one step, draw its action and note the path.

        Args:
            observation: what was observed; None where there is nothing to observe.
            rng: draws the action. Without it, the draw depends on the agent's `seed` and the number
                of the decision alone.
            now: the time, if the program has a clock.
            among: the allowed actions, if the agent can restrict its choice.
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
    if agent.begun and not is_thawing():
        raise ValueError(f"{name} must be fresh, got one that has begun {agent.begun} episodes")


def check_inside(
    outer: object, name: str, agent: Agent, parts: Iterable[str] = AGENT, *, fresh: bool = True
) -> None:
    """Check that a wrapper may contain an agent; this is the only place that decides it.

    Agents and wrappers declare what the decision depends on, each for itself and not for what is
    inside it:

        outermost        no wrapper may contain it
        once             no wrapper of the same class may contain it
        holds_feedback   for how many episodes it holds feedback back; infinity if unknown
        reads_delays     it uses the time between the beginning of an episode and its feedback
        longest_delay    it ignores feedback with a longer delay; infinity by default

    Args:
        outer: the wrapper, constructed far enough to have these attributes.
        name: the name of the argument.
        agent: the agent inside.
        parts: names of the attributes that the agent must have.
        fresh: whether the agent must not have begun an episode.
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
    """An agent and the agents nested inside it, the outermost first."""
    found = []
    inside: object | None = agent
    while inside is not None:
        found.append(inside)
        copies = getattr(inside, "agents", None) or [None]
        inside = getattr(inside, "agent", copies[0])
    return found


class WrapperBase(Configured, Deciding):
    """A wrapper that has the same problem and the same episodes as the agent inside."""

    agent: Agent

    def _hold(self, agent: Agent, parts: Iterable[str] = AGENT, *, fresh: bool = True) -> None:
        """Take the agent inside, if it may stand there; see `check_inside`."""
        check_inside(self, "agent", agent, parts, fresh=fresh)
        self.agent, self.uses_paths = agent, agent.uses_paths
        self.information = agent.information

    @property
    def problem(self) -> Any:
        """The problem of the agent inside."""
        return self.agent.problem

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
