"""What a learner is told about a decision problem."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen

WIDEST = 2**31 - 1
"""The most states, actions or steps: kernels number them in 32 bits."""


def start_distribution(start: object, states: int) -> int | tuple[float, ...]:
    """A state, or a distribution over the S states as a tuple."""
    if np.ndim(start) == 0:  # type: ignore[arg-type]
        return checks.integer("start", start, 0, states - 1)
    array = checks.floats("start", start, f"({states},)", (1,))
    if array.shape != (states,):
        raise ValueError(f"start must have shape ({states},), got shape {array.shape}")
    checks.distributions("start", array)
    if array.max() == 1.0:
        return int(array.argmax())
    return tuple(float(p) for p in array)


@dataclass(frozen=True, slots=True)
class Problem:
    """States, actions, steps and the start; never the transitions.

    A policy, an array (H, S, A), has at most 2**30 numbers.

    Attributes:
        states: S, at least 1.
        actions: A, at least 1.
        horizon: H, the number of steps of an episode, at least 1.
        start: the first state, or a distribution over the S states.
        homogeneous: whether the dynamics are the same at every step.
    """

    states: int
    actions: int
    horizon: int
    start: int | tuple[float, ...] = 0
    homogeneous: bool = False

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            object.__setattr__(self, name, checks.integer(name, getattr(self, name), 1, WIDEST))
        H, S, A = self.shape
        checks.room(H * S * A, states=S, actions=A, horizon=H)
        object.__setattr__(self, "start", start_distribution(self.start, self.states))
        object.__setattr__(self, "homogeneous", checks.flag("homogeneous", self.homogeneous))

    @property
    def start_probabilities(self) -> Floats:
        """Distribution of the first state, (S,)."""
        if isinstance(self.start, tuple):
            return frozen(np.array(self.start))
        one_hot = np.zeros(self.states)
        one_hot[self.start] = 1.0
        return frozen(one_hot)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of a policy: (H, S, A)."""
        return self.horizon, self.states, self.actions

    @property
    def policy_size(self) -> int:
        """How many numbers a policy has."""
        return self.horizon * self.states * self.actions

    @property
    def is_arms(self) -> bool:
        """Whether an episode is one decision in one state: a bandit."""
        return self.horizon == 1 and not isinstance(self.start, tuple)

    def uniform_policy(self) -> Floats:
        """The policy (H, S, A) that plays every action with the same probability, read-only."""
        return frozen(np.full(self.shape, 1.0 / self.actions))

    def __deepcopy__(self, memo: object) -> Self:
        return self  # nothing in it ever changes


def check_arms(name: str, problem: object) -> None:
    """The problem of an agent for arms has one state and one step. name: the agent's."""
    checks.instance("problem", problem, Problem)
    assert isinstance(problem, Problem)
    if problem.states != 1 or problem.horizon != 1:
        raise ValueError(
            f"problem must have states = 1 and horizon = 1: {name} is for arms, got "
            f"states = {problem.states} and horizon = {problem.horizon}"
        )
