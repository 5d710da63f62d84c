"""The records that come back from an episode, sooner or later."""

from dataclasses import dataclass

import numpy as np

from belated import checks
from belated.arrays import Floats, Ints, frozen


class FeedbackError(ValueError):
    """A record that cannot be right. Nothing of its batch has been taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """An episode to play: its number, counted from 0, and the policy (H, S, A), yours to keep."""

    number: int
    policy: Floats


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


def renumbered(record: Record, episode: int) -> Record:
    """The same record under another episode number; what was checked is not checked again."""
    twin = object.__new__(type(record))
    for name in record.__slots__:
        object.__setattr__(twin, name, getattr(record, name))
    object.__setattr__(twin, "episode", episode)
    return twin


def suffered(costs: Floats, trajectory: Trajectory) -> Floats:
    """The costs (H,) that a path met in a cost function (1 or H, S, A)."""
    H = len(trajectory.actions)
    steps = np.minimum(np.arange(H), costs.shape[0] - 1)
    met: Floats = costs[steps, trajectory.states[:-1], trajectory.actions]
    return met
