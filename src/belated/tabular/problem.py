"""Problems with states: what a learner knows from the start, and which records are valid."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.contract import FeedbackError, Information, Key, Notes, Scale, row_of
from belated.core.tree import Entries
from belated.tabular.records import Costs, StepCost, Steps, Trajectory, noted, read

if TYPE_CHECKING:
    from belated.tabular.trial import Trial

ByPair = Annotated[Floats, Entries("H S A")]
"""What an agent learns for every step, state and action."""

WIDEST = 2**31 - 1
"""The largest number of states, actions or steps: kernels use 32-bit indices."""


def start_distribution(start: object, states: int) -> int | tuple[float, ...]:
    """A state, or a distribution over the S states as a tuple."""
    if np.ndim(start) == 0:  # type: ignore[arg-type]
        return checks.integer("start", start, 0, states - 1)
    array = checks.distributions("start", checks.shaped("start", start, (states,)))
    return int(array.argmax()) if array.max() == 1.0 else tuple(array.tolist())


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
        start_probabilities: (S,) the distribution of the first state.

    Example:
        >>> bl.Problem(states=3, actions=2, horizon=4).shape
        (4, 3, 2)
    """

    states: int
    actions: int
    horizon: int
    start: int | tuple[float, ...] = 0
    homogeneous: bool = False
    start_probabilities: Floats = field(init=False, repr=False, compare=False)

    one_outcome: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            checks.fix(self, name, checks.integer(name, getattr(self, name), 1, WIDEST))
        H, S, A = self.shape
        checks.room(H * S * A, states=S, actions=A, horizon=H)
        checks.fix(self, "start", start_distribution(self.start, self.states))
        checks.fix(self, "homogeneous", checks.flag("homogeneous", self.homogeneous))
        start = self.start
        first = np.array(start) if isinstance(start, tuple) else np.eye(1, S, start)[0]
        checks.fix(self, "start_probabilities", frozen(first))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of a policy: (H, S, A)."""
        return self.horizon, self.states, self.actions

    @property
    def axes(self) -> dict[str, int | tuple[int, ...]]:
        """The names of the axes of learned arrays, and of two shapes."""
        H, S, A = self.shape
        steps = 1 if self.homogeneous else H
        return {"H": H, "S": S, "A": A, "T": steps, "policy": (H, S, A), "rows": (H, S)}

    @property
    def policy_size(self) -> int:
        """The number of entries of a policy."""
        return self.horizon * self.states * self.actions

    @property
    def is_arms(self) -> bool:
        """Whether an episode is one decision in one state: a bandit."""
        return self.horizon == 1 and not isinstance(self.start, tuple)

    def uniform_policy(self) -> Floats:
        """The policy (H, S, A) that plays every action with the same probability, read-only."""
        return frozen(np.full(self.shape, 1.0 / self.actions))

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it is immutable

    def check(self, record: Any, information: Information) -> None:
        """Raise `FeedbackError` if a record is invalid for every episode."""
        if isinstance(record, Trajectory):
            self._check_path(record)
        elif isinstance(record, Costs):
            self._check_costs(record, information)
        elif isinstance(record, StepCost):
            self._check_step(record, information)
        else:
            raise FeedbackError(
                f"records must be Trajectory, Costs or StepCost, got {checks.show(record)}"
            )

    def _check_path(self, path: Trajectory) -> None:
        H, S, A = self.shape
        first = path.states[0]
        if len(path.actions) != H:
            wrong = f"actions must have length {H}, got {len(path.actions)}"
        elif (largest := checks.extremes(path.states)[1]) >= S:
            wrong = f"states must be below {S}, got {largest}"
        elif (largest := checks.extremes(path.actions)[1]) >= A:
            wrong = f"actions must be below {A}, got {largest}"
        elif self.start_probabilities[first] == 0.0:
            wrong = f"states[0] must be a state that episodes can start in, got {first}"
        else:
            return
        raise FeedbackError(f"Trajectory of episode {path.episode}: {wrong}")

    def _check_costs(self, costs: Costs, information: Information) -> None:
        H, S, A = self.shape
        allowed: tuple[tuple[int, ...], ...] = ((1, S, A), (H, S, A))
        if information != "full":
            allowed = ((H,),) if information == "bandit" else ((1, S, A, S), (H, S, A, S))
        if costs.values.shape not in allowed:
            shapes = " or ".join(str(shape) for shape in dict.fromkeys(allowed))
            seen = "the costs that were suffered" if information == "bandit" else "cost functions"
            raise FeedbackError(
                f"Costs of episode {costs.episode}: values must have shape {shapes} under "
                f"{information} information, got {costs.values.shape}; this agent was made for "
                f'information="{information}": {seen}'
            )

    def _check_step(self, cost: StepCost, information: Information) -> None:
        cost.check()
        where = f"StepCost of episode {cost.episode}"
        if information != "bandit":
            raise FeedbackError(
                f"{where}: under full information whole cost functions count; this agent was made "
                'for information="full"'
            )
        if cost.step >= self.horizon:
            raise FeedbackError(f"{where}: step must be below {self.horizon}, got {cost.step}")

    def check_observation(self, observation: object, among: object = None) -> None:
        """Raise `ValueError` if no episode can start in this state."""
        state = row_of(observation, self.states, among)
        if self.start_probabilities[state] == 0.0:
            raise ValueError(f"state must be one that episodes can start in, got {state}")

    def awaited(
        self, known: Container[Key], information: Information, *, uses_paths: bool
    ) -> list[Key]:
        """The path, if paths are used, and the costs: one per step under bandit feedback."""
        costs: list[Key] = ["costs"] if information == "full" else [*range(self.horizon)]
        wanted = ["path", *costs] if uses_paths else costs
        return [key for key in wanted if key not in known]

    def assemble(
        self,
        episode: int,
        known: Mapping[Key, Any],
        information: Information,
        default: float | None = None,
    ) -> Costs | None:
        """The costs of an episode, with the default for every step that has not reported."""
        _, S, A = self.shape
        if information == "full":
            return None if default is None else Costs(episode, np.full((1, S, A), default))
        costs = [known.get(h, default) for h in range(self.horizon)]
        return None if None in costs else Costs(episode, np.array(costs))

    def rewards_to_costs(self, record: Any, scale: Scale) -> Any:
        """The reward of one step as a cost; without a step, it is the reward of the only one."""
        if isinstance(record, Trajectory | Costs):
            return record
        value = getattr(record, "value", getattr(record, "cost", None))
        try:
            cost = float(scale.costs("reward", checks.real("reward", value, -np.inf)))
            if self.horizon > 1 and not hasattr(record, "step"):
                raise ValueError(f"a reward must say its step, one of {self.horizon}")
        except ValueError as error:
            where = f"{type(record).__name__} of episode {checks.show(record.episode)}"
            raise FeedbackError(f"{where}: {error}") from None
        return StepCost(record.episode, getattr(record, "step", 0), cost, record.at)

    def path(self, episode: int, notes: Notes) -> Trajectory | None:
        """The path that was noted, without its last state."""
        if (found := noted(episode, notes, self.horizon)) is not None:
            self._check_path(found)
        return found

    def example(
        self, episode: int, information: Information, *, outcome: bool
    ) -> Trajectory | Costs:
        """A path, or costs of 0."""
        H, S, A = self.shape
        if outcome:
            return Costs(episode, np.zeros((H,) if information == "bandit" else (1, S, A)))
        return Trajectory(
            episode, np.full(H + 1, self.start_probabilities.argmax()), np.zeros(H, dtype=int)
        )

    def example_observation(self) -> int:
        """The first state in which an episode can start."""
        return int(np.argmax(self.start_probabilities > 0.0))

    def read(self, value: object) -> Trajectory | Costs | StepCost:
        """The record from the value that `to_json` returned."""
        return read(value)

    def steps(self, episode: int) -> Steps:
        """The notes of `Episode.record`."""
        return Steps(episode, self.shape)

    def trial(self, seed: int = 0) -> Trial:
        """A random world for `belated.testing.check_agent`."""
        from belated.tabular.trial import Trial, random_world  # noqa: PLC0415

        return Trial(random_world(self, seed))


def check_arms(name: str, problem: object) -> None:
    """Check that the problem has one state and one step. name: the name of the agent."""
    checks.instance("problem", problem, Problem)
    assert isinstance(problem, Problem)
    if problem.states != 1 or problem.horizon != 1:
        raise ValueError(
            f"problem must have states = 1 and horizon = 1: {name} is for arms, got "
            f"states = {problem.states} and horizon = {problem.horizon}"
        )
