"""Episodes, the decisions that a caller makes in them, and rewards as costs.

Records of feedback depend on the kind of problem: `belated.tabular.records` has paths and costs.
`contract` says what they have in common.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats

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
        row: Floats = policy[step][row_of(observation, rows, among)]
        return row

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
        made: list[Any] = self._steps.note(step, state, action, cost)
        return made

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
        costs: Floats = np.clip((self.high - array) / (self.high - self.low), 0.0, 1.0)
        return costs

    def total(self, cost: float, steps: int) -> float:
        """The sum of the rewards of this number of steps with this total cost."""
        return steps * self.high - cost * (self.high - self.low)
