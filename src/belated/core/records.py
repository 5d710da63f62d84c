"""The episode that an agent hands out, and the records that come back, sooner or later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen


class FeedbackError(ValueError):
    """A record that cannot be right. Nothing of its batch has been taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """An episode to play: its number, counted from 0, and the policy (H, S, A), yours to keep."""

    number: int
    policy: Floats
    _steps: Steps | None = field(default=None, init=False, repr=False)

    def act(self, step: int, state: int, rng: np.random.Generator) -> tuple[int, float]:
        """Draw an action at a step, counted from 0, in a state; also its probability."""
        H, S, _ = self.policy.shape
        row = self.policy[checks.integer("step", step, 0, H - 1)][
            checks.integer("state", state, 0, S - 1)
        ]
        checks.instance("rng", rng, np.random.Generator)
        edges = np.cumsum(row)
        action = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
        action = min(action, int(np.flatnonzero(row)[-1]))  # the product may be rounded up
        return action, float(row[action])

    def record(
        self,
        step: int,
        *,
        state: int | None = None,
        action: int | None = None,
        cost: float | None = None,
    ) -> list[Record]:
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
            object.__setattr__(self, "_steps", Steps(self.number, self.policy.shape))
        assert self._steps is not None
        return self._steps.note(step, state, action, cost)


class Steps:
    """What is known of the single steps of an episode; see `Episode.record`."""

    def __init__(self, episode: int, shape: tuple[int, ...]) -> None:
        H, S, A = shape
        self._episode = episode
        self._shape = (H, S, A)
        self._known: dict[str, dict[int, int | float]] = {"state": {}, "action": {}, "cost": {}}
        self._made: set[type[Record]] = set()

    def note(
        self, step: int, state: int | None, action: int | None, cost: float | None
    ) -> list[Record]:
        """See `Episode.record`."""
        H, S, A = self._shape
        try:
            step = checks.integer("step", step, 0, H)
            if step == H and (action is not None or cost is not None):
                raise ValueError(f"step must be at most {H - 1} for an action or a cost, got {H}")
            new: dict[str, int | float] = {}
            if state is not None:
                new["state"] = checks.integer("state", state, 0, S - 1)
            if action is not None:
                new["action"] = checks.integer("action", action, 0, A - 1)
            if cost is not None:
                new["cost"] = checks.real("cost", cost, 0.0, 1.0)
            if not new:
                raise ValueError("one of state, action and cost must be given, got none of them")
            for name, value in new.items():
                known = self._known[name].get(step, value)
                if known != value:
                    raise ValueError(f"{name} of step {step} is known to be {known}, got {value}")
        except ValueError as error:
            raise FeedbackError(f"Step of episode {self._episode}: {error}") from None
        for name, value in new.items():
            self._known[name][step] = value
        return self._complete()

    def _complete(self) -> list[Record]:
        """The records of which everything is known and that were not made before."""
        H = self._shape[0]
        states, actions, costs = self._known.values()
        records: list[Record] = []
        if Trajectory not in self._made and len(states) == H + 1 and len(actions) == H:
            path = [int(states[h]) for h in range(H + 1)]
            done = [int(actions[h]) for h in range(H)]
            records.append(Trajectory(self._episode, np.array(path), np.array(done)))
        if Costs not in self._made and len(costs) == H:
            records.append(Costs(self._episode, np.array([costs[h] for h in range(H)])))
        self._made.update(type(record) for record in records)
        return records


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The path of an episode: states (H + 1,) and actions (H,), copied and made read-only."""

    episode: int
    states: Ints
    actions: Ints

    def __post_init__(self) -> None:
        try:
            episode = checks.integer("episode", self.episode, 0)
            object.__setattr__(self, "episode", episode)
            states = checks.whole_numbers("states", self.states, 0)
            actions = checks.whole_numbers("actions", self.actions, 0)
        except ValueError as error:
            raise FeedbackError(
                f"Trajectory of episode {checks.show(self.episode)}: {error}"
            ) from None
        if len(states) != len(actions) + 1 or len(actions) == 0:
            raise FeedbackError(
                f"Trajectory of episode {episode}: states must hold one entry more than actions, "
                f"got {len(states)} states and {len(actions)} actions"
            )
        object.__setattr__(self, "states", frozen(states))
        object.__setattr__(self, "actions", frozen(actions))


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What an episode cost, in [0, 1], copied and made read-only.

    values: the whole cost function, (H, S, A) or (1, S, A), under full information; the H costs
    that were suffered, (H,), under bandit feedback.
    """

    episode: int
    values: Floats

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "episode", checks.integer("episode", self.episode, 0))
            shapes = "(H,), (1, S, A) or (H, S, A)"
            values = checks.floats("values", self.values, shapes, (1, 3))
            checks.in_unit_interval("values", values)
        except ValueError as error:
            raise FeedbackError(f"Costs of episode {checks.show(self.episode)}: {error}") from None
        object.__setattr__(self, "values", frozen(values))


Record = Trajectory | Costs


@dataclass(frozen=True, slots=True, eq=False)
class StepCost:
    """What one step, counted from 0, of an episode cost, in [0, 1]; for an `Inbox`."""

    episode: int
    step: int
    cost: float

    def __post_init__(self) -> None:
        try:
            checks.fix(self, "episode", checks.integer("episode", self.episode, 0))
            checks.fix(self, "step", checks.integer("step", self.step, 0))
            checks.fix(self, "cost", checks.real("cost", self.cost, 0.0, 1.0))
        except ValueError as error:
            raise FeedbackError(
                f"StepCost of episode {checks.show(self.episode)}: {error}"
            ) from None


def renumbered(record: Record, episode: int) -> Record:
    """The same record under another episode number; what was checked is not checked again."""
    twin = object.__new__(type(record))
    for name in record.__slots__:
        object.__setattr__(twin, name, getattr(record, name))
    object.__setattr__(twin, "episode", episode)
    return twin


def described(record: Trajectory | Costs | StepCost) -> dict[str, Any]:
    """The record as a JSON value."""
    if isinstance(record, Trajectory):
        path = {"states": record.states.tolist(), "actions": record.actions.tolist()}
        return {"episode": record.episode, "path": path}
    if isinstance(record, Costs):
        return {"episode": record.episode, "costs": record.values.tolist()}
    return {"episode": record.episode, "step": record.step, "cost": record.cost}


def suffered(costs: Floats, trajectory: Trajectory) -> Floats:
    """The costs (H,) that a path met in a cost function (1 or H, S, A)."""
    H = len(trajectory.actions)
    steps = np.minimum(np.arange(H), costs.shape[0] - 1)
    met: Floats = costs[steps, trajectory.states[:-1], trajectory.actions]
    return met
