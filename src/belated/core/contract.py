"""What agents, problems, episodes and records are, and what each may be asked for.

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

Records depend on the kind of problem: `belated.tabular.records` has paths and costs.
"""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.tree import Configured, is_thawing

Information = Literal["full", "bandit", "next costs"]
"""What an agent sees of costs: "next costs" are full ones that depend on the next state too."""
PATHS = ("late", "at once")
"""When paths arrive: with the outcome, or at the end of their episode."""
Key = str | int
"""Names one fact about an episode: a step, an event, or a word such as "path"."""
Item = TypeVar("Item")


class FeedbackError(ValueError):
    """An invalid record; nothing of its batch has been used.

    Example:
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=1))
        >>> try:
        ...     agent.observe([bl.Costs(7, [0.5])])
        ... except bl.FeedbackError as error:
        ...     print(error)
        Costs of episode 7: episode must be one that was begun (none has been begun)
    """


def unchecked(kind: type[Item], *values: object) -> Item:
    """A frozen record with these fields, in their order, without any checks."""
    made = object.__new__(kind)
    for name, value in zip(kind.__slots__, values, strict=True):  # type: ignore[attr-defined]
        object.__setattr__(made, name, value)
    return made


def altered(record: Item, **fields: object) -> Item:
    """A copy of a frozen record with some fields replaced, without repeating any checks."""
    names = record.__slots__  # type: ignore[attr-defined]
    return unchecked(type(record), *[fields.get(n, getattr(record, n)) for n in names])


@dataclass(frozen=True, slots=True)
class Asked:
    """One decision: the observation, the action drawn, and its probability."""

    observation: Any
    action: int
    probability: float


@dataclass(slots=True, eq=False)
class Notes:
    """The decisions of an episode, as `Episode.act` drew them.

    Attributes:
        decisions: by step, in the order in which they were made.
        void: whether `act` gave two different answers for one step, so that the notes do not say
            what was done.
    """

    decisions: dict[int, Asked] = field(default_factory=dict)
    void: bool = False

    def add(self, step: int, asked: Asked) -> None:
        """Note a decision."""
        before = self.decisions.setdefault(step, asked)
        same = before is asked or (
            before.action == asked.action
            and np.array_equal(np.asarray(before.observation), np.asarray(asked.observation))
        )
        self.void = self.void or not same


class Episode:
    """An episode to play.

    Attributes:
        number: counted from 0.
        policy: a copy that you may change: a table of probabilities by step, observation and
            action, or an object with `probabilities(step, observation, among)`.
        problem: the problem of the agent; only `record` needs it.
        notes: the actions that `act` has drawn so far. The agent reads them when the outcome
            arrives.
        shared: the agent's own policy, which must not be changed; it is not a copy.

    Example:
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> episode = agent.begin_episode()
        >>> episode.number, episode.policy.shape
        (0, (4, 3, 2))
    """

    __slots__ = ("_own", "_steps", "notes", "number", "problem", "shared")

    def __init__(
        self,
        number: int,
        policy: Any,
        problem: Any = None,
        notes: Notes | None = None,
        *,
        lasts: bool = False,
    ) -> None:
        """lasts: whether the policy never changes, so that it is copied when it is first read."""
        self.number, self.problem, self.shared = number, problem, policy
        self._own = None if lasts else policy
        self.notes = Notes() if notes is None else notes
        self._steps: Any = None

    @property
    def policy(self) -> Any:
        """The policy: a copy that the caller may change."""
        if self._own is None:
            self._own = self.shared.copy()
        return self._own

    @property
    def played(self) -> Any:
        """The policy that is played: the caller's copy if there is one, which may have changed."""
        return self.shared if self._own is None else self._own

    def plays(self, policy: Floats) -> bool:
        """Whether this array is the agent's own policy, which never changes."""
        return self._own is None and self.shared is policy

    def __repr__(self) -> str:
        return f"Episode(number={self.number}, policy={self.policy!r})"

    def probabilities(self, step: int, observation: Any = None, *, among: Any = None) -> Floats:
        """The probability of every action at a step, counted from 0.

        Args:
            step: from 0 to the horizon - 1.
            observation: what was observed; None if there is nothing to observe.
            among: the allowed actions, if the agent can restrict its choice.
        """
        policy = self.played
        if not isinstance(policy, np.ndarray):
            return policy.probabilities(step, observation, among)  # type: ignore[no-any-return]
        steps, rows, _ = policy.shape
        step = checks.integer("step", step, 0, steps - 1)
        return policy[step][row_of(observation, rows, among)]  # type: ignore[no-any-return]

    def act(
        self,
        step: int,
        observation: Any = None,
        rng: Any = None,
        *,
        among: Any = None,
        state: Any = None,
    ) -> tuple[int, float]:
        """Draw an action and note it, so that the caller need not report the path.

        Args:
            step: counted from 0.
            observation: what was observed.
            rng: draws the action.
            among: the allowed actions, if the agent can restrict its choice.
            state: another name for the observation.

        Returns:
            The action, and its probability.
        """
        observation = state if observation is None else observation
        row = self.probabilities(step, observation, among=among)
        checks.generator("rng", rng)
        edges = np.cumsum(row)
        action = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
        action = min(action, int(np.flatnonzero(row)[-1]))  # the product may be rounded up
        probability = float(row[action])
        self.notes.add(step, Asked(observation, action, probability))
        return action, probability

    def record(
        self,
        step: int,
        *,
        state: int | None = None,
        action: int | None = None,
        cost: float | None = None,
    ) -> list[Any]:
        """Note a part of one step, in any order, and return the records that it completes.

        Noting the same value again is allowed; noting a different value is an error.

        Args:
            step: from 0 to H - 1, or H with only the state in which the episode ended.
            state: the state at this step.
            action: the action at this step.
            cost: the cost of this step, in [0, 1].

        Returns:
            The `Trajectory` once all states and actions are known, the `Costs` (H,) once all costs
            are; usually an empty list. Pass the list on to `observe` or to `Inbox.take`.
        """
        if self._steps is None:
            steps = getattr(self.problem, "steps", None)
            if steps is None:
                raise ValueError("record is for episodes with steps, got one without them")
            self._steps = steps(self.number)
        return list(self._steps.note(step, state, action, cost))

    def renumbered(self, number: int) -> Self:
        """The same episode under another number; both share their notes."""
        twin = type(self)(number, self.shared, self.problem, self.notes)
        twin._own = self._own
        return twin


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision in a problem of one step.

    Attributes:
        number: the number of the episode; feedback refers to it.
        action: the action to play.
        probability: the probability of that action.
        probabilities: (A,) the probabilities of all actions.
        name: the name of the action, if actions have names.

    Example:
        >>> agent = bl.ThompsonSampling(bl.Problem(states=1, actions=3, horizon=1), seed=0)
        >>> decision = agent.decide()
        >>> decision.number, decision.probability
        (0, 1.0)
    """

    number: int
    action: int
    probability: float
    probabilities: Floats
    name: str | None = None


def chance(seed: int, number: int) -> np.random.Generator:
    """The generator of one decision, which depends only on the seed and the decision's number."""
    return np.random.Generator(np.random.Philox(key=[seed, number]))


def row_of(observation: object, rows: int, among: object = None) -> int:
    """The row of a table for an observation, which may be left out if there is only one row."""
    if among is not None:
        raise ValueError(
            "among must be left out: agents with tables would underrate the costs of actions that "
            "are often not allowed; use belated.Choice, whose agents restrict single decisions, "
            f"got {checks.show(among)}"
        )
    if observation is None and rows == 1:
        return 0
    return checks.integer("state", observation, 0, rows - 1)


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of rewards: r in [low, high] becomes the cost (high - r) / (high - low).

    Attributes:
        low: the smallest reward.
        high: the largest reward.
        clip: whether a reward outside the range is clipped to it; otherwise it is an error.
    """

    low: float
    high: float
    clip: bool = False

    @classmethod
    def of(cls, name: str, value: object, *, clip: bool = False) -> Self:
        """The scale from an argument (low, high)."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ValueError(f"{name} must be (low, high), got {checks.show(value)}")
        low, high = (checks.real(name, bound, -math.inf) for bound in value)
        if not 0.0 < high - low < math.inf:
            raise ValueError(
                f"{name} must be (low, high) with low < high, got {checks.show(value)}"
            )
        return cls(low, high, checks.flag("clip", clip))

    def costs(self, name: str, rewards: Any) -> Floats:
        """The costs of rewards of any shape; an error names one that is out of range."""
        array = np.asarray(rewards, dtype=np.float64)
        wrong = ~np.isfinite(array) if self.clip else ~((array >= self.low) & (array <= self.high))
        if wrong.any():
            allowed = "be finite" if self.clip else f"lie in [{self.low:g}, {self.high:g}]"
            raise ValueError(f"{name} must {allowed}, got {array[wrong].flat[0]:g}")
        return np.clip((self.high - array) / (self.high - self.low or 1.0), 0.0, 1.0)

    def total(self, cost: float, steps: int) -> float:
        """The sum of the rewards of this number of steps with this total cost."""
        return steps * self.high - cost * (self.high - self.low)


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
    """An agent whose episodes are those of its ledger, or else of the agent inside it.

    It can decide in one call, where an episode has one step.

    Attributes:
        seed: the seed of draws that `decide` makes when the caller passes no generator. Where the
            constructor has no argument `seed`, it can be set at any time: `agent.seed = 7`.
    """

    seed: int = 0

    @property
    def _keeper(self: Any) -> Any:
        """What knows the episodes."""
        return self._ledger if hasattr(self, "_ledger") else self.agent

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        return self._keeper.begun  # type: ignore[no-any-return]

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return self._keeper.open_episodes()  # type: ignore[no-any-return]

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return self._keeper.is_open(number)  # type: ignore[no-any-return]

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
        generator = chance(self.seed, self.begun) if rng is None else rng
        checks.generator("rng", generator)
        episode = self.begin_episode(now)
        row = np.array(episode.probabilities(0, observation, among=among))
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


def check_is_agent(
    name: str, agent: Any, parts: Iterable[str] = AGENT, *, fresh: bool = False
) -> None:
    """Check that the argument has every attribute of the contract.

    fresh: whether it must not have begun an episode.
    """
    missing = [part for part in parts if not hasattr(agent, part)]
    if missing:
        raise ValueError(
            f"{name} must be an agent, got {checks.show(agent)}, which has no {', '.join(missing)}"
        )
    if fresh and agent.begun and not is_thawing():
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
    check_is_agent(name, agent, parts, fresh=fresh)


def nested(agent: object) -> list[object]:
    """An agent and the agents nested inside it, the outermost first."""
    copies = getattr(agent, "agents", ())
    inside = getattr(agent, "agent", None) or next(iter(copies), None)
    return [agent] if inside is None else [agent, *nested(inside)]


class WrapperBase(Configured, Deciding):
    """A wrapper that has the same problem and the same episodes as the agent inside."""

    agent: Agent

    def _hold(self, agent: Agent, parts: Iterable[str] = AGENT, *, fresh: bool = True) -> None:
        """Take the agent inside, if it may stand there; see `check_inside`."""
        check_inside(self, "agent", agent, parts, fresh=fresh)
        self.set_first_values(getattr(agent.problem, "axes", {}))
        self.agent, self.uses_paths = agent, agent.uses_paths
        self.information = agent.information

    @property
    def problem(self) -> Any:
        """The problem of the agent inside."""
        return self.agent.problem

    @property
    def seed(self) -> int:  # type: ignore[override]
        """The seed of the agent inside."""
        return getattr(self.agent, "seed", 0)
