"""The episode that an agent hands out, and what its caller asks of it and decides.

Records, which come back sooner or later, belong to the kind of problem: `belated.tabular.records`
has paths and costs. What all of them have is `contract.Record`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.checks import explained

if TYPE_CHECKING:
    from belated.core.contract import Problem

Item = TypeVar("Item")


class FeedbackError(ValueError):
    """A record that cannot be right. Nothing of its batch has been taken.

    Example:
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=1))
        >>> try:
        ...     agent.observe([bl.Costs(7, [0.5])])
        ... except bl.FeedbackError as error:
        ...     print(error)
        Costs of episode 7: episode must be one that was begun (none has been begun)
    """


def unchecked(kind: type[Item], *values: object) -> Item:
    """A frozen record with these fields, in their order, of which nothing is checked."""
    made = object.__new__(kind)
    for name, value in zip(kind.__slots__, values, strict=True):  # type: ignore[attr-defined]
        object.__setattr__(made, name, value)
    return made


def altered(record: Item, **fields: object) -> Item:
    """A frozen record with other fields; what was checked is not checked again."""
    twin = object.__new__(type(record))
    for name in record.__slots__:  # type: ignore[attr-defined]
        object.__setattr__(twin, name, getattr(record, name))
    for name, value in fields.items():
        object.__setattr__(twin, name, value)
    return twin


@dataclass(frozen=True, slots=True)
class Asked(Generic[Item]):
    """One decision: where it was asked for, what was drawn, and how probable that was."""

    observation: Item
    action: int
    probability: float


class Notes:
    """The decisions of an episode, as `Episode.act` drew them.

    Attributes:
        decisions: by step, in the order in which they were asked for.
        void: whether a step was asked for twice with different answers, so that nobody can know
            from the notes what was done.
    """

    __slots__ = ("decisions", "void")

    def __init__(self) -> None:
        self.decisions: dict[int, Asked[Any]] = {}
        self.void = False

    def add(self, step: int, asked: Asked[Any]) -> None:
        """Note a decision."""
        before = self.decisions.setdefault(step, asked)
        same = before is asked or (
            before.action == asked.action
            and np.array_equal(np.asarray(before.observation), np.asarray(asked.observation))
        )
        self.void = self.void or not same


@explained
class Episode:
    """An episode to play.

    Attributes:
        number: counted from 0.
        policy: yours to keep: a table of probabilities, (H, S, A) for tabular agents, or an object
            with `probabilities(step, observation, among)`.
        problem: what the agent was told; needed by `record` alone.
        notes: what `act` has drawn so far. The agent reads it when the outcome arrives.
        shared: the policy as the agent has it, which nobody may change; no copy is made of it.

    Example:
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> episode = agent.begin_episode()
        >>> episode.number, episode.policy.shape
        (0, (4, 3, 2))
    """

    __slots__ = ("_own", "_steps", "notes", "number", "problem", "shared")

    def __init__(
        self, number: int, policy: Any, problem: Problem | None = None, notes: Notes | None = None
    ) -> None:
        self.number = number
        self.shared = policy
        self.problem = problem
        self.notes = Notes() if notes is None else notes
        self._own = policy
        self._steps: Any = None

    @classmethod
    def sharing(cls, number: int, policy: Floats, problem: Problem, notes: Notes) -> Episode:
        """An episode whose read-only policy is copied once somebody asks for one to keep."""
        made = cls(number, policy, problem, notes)
        made._own = None
        return made

    @property
    def policy(self) -> Any:
        """The policy, which is the caller's own."""
        if self._own is None:
            self._own = self.shared.copy()
        return self._own

    @property
    def played(self) -> Any:
        """The policy that is played: the caller's own if there is one, who may have changed it."""
        return self.shared if self._own is None else self._own

    def plays(self, policy: Floats) -> bool:
        """Whether this very array is what an agent shares, and promised never to change."""
        return self._own is None and self.shared is policy

    def __repr__(self) -> str:
        return f"Episode(number={self.number}, policy={self.policy!r})"

    def probabilities(self, step: int, observation: Any = None, *, among: Any = None) -> Floats:
        """The probability of every action at a step, counted from 0.

        Args:
            step: from 0 to the horizon - 1.
            observation: what is known there: a state, or features; None where nothing is.
            among: the actions that are allowed, where the agent can choose among some.
        """
        policy = self.played
        if not isinstance(policy, np.ndarray):
            return policy.probabilities(step, observation, among)  # type: ignore[no-any-return]
        H, S, _ = policy.shape
        step = checks.integer("step", step, 0, H - 1)
        row: Floats = policy[step][in_table(observation, S, among)]
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
        """Draw an action and note it, so that the path need not be handed in.

        Args:
            step: counted from 0.
            observation: where the episode is: a state, or features.
            rng: draws the action.
            among: the actions that are allowed, where the agent can choose among some.
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
        """Note what is known of one step, in any order; get the records that this completes.

        The same value may be noted again; another value for what is known already is an error.

        Args:
            step: from 0 to H - 1, or H with only the state in which the episode ended.
            state: where the episode was at this step.
            action: what was done there.
            cost: what the step cost, in [0, 1].

        Returns:
            The `Trajectory` once all states and actions are known, the `Costs` (H,) once all costs
            are; usually nothing. It can be handed to `observe` or to `Inbox.take` as it is.
        """
        if self._steps is None:
            steps = getattr(self.problem, "steps", None)
            if steps is None:
                raise ValueError("record is for episodes with steps, got one without them")
            self._steps = steps(self.number)
        made: list[Any] = self._steps.note(step, state, action, cost)
        return made

    def renumbered(self, number: int) -> Episode:
        """The same episode under another number; both share their notes."""
        twin = Episode(number, self.shared, self.problem, self.notes)
        twin._own = self._own
        return twin


@explained
@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What was decided in a problem of one step.

    Attributes:
        number: of the episode; feedback names it.
        action: what to do.
        probability: of that action.
        probabilities: of all actions, (A,).

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


def chance(seed: int, number: int) -> np.random.Generator:
    """The generator of one decision: it depends on a seed and the decision's number alone."""
    return np.random.Generator(np.random.Philox(key=[seed, number]))


def in_table(observation: object, states: int, among: object = None) -> int:
    """The row of a table that an observation asks for; a table of one row need not be told."""
    if among is not None:
        raise ValueError(
            "among must be left out: agents with tables learn by the probabilities of their own "
            "policy, which a choice among fewer actions would change; let the state say which "
            f"actions are allowed, got {checks.show(among)}"
        )
    if observation is None and states == 1:
        return 0
    return checks.integer("state", observation, 0, states - 1)
