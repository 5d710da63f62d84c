"""Delays of single steps: the feedback of an episode arrives in pieces, each with its own delay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints
from belated.core.delays.arithmetic import NEVER, as_delays
from belated.core.delays.models import DelayModel, Printed, shown
from belated.core.delays.seen import Happened

Rule = Callable[[Happened, np.random.Generator], Any]


@dataclass(frozen=True, slots=True, repr=False)
class PerStep(Printed):
    """See `per_step`."""

    models: tuple[DelayModel, ...]
    maker = "per_step"

    def __repr__(self) -> str:
        return f"per_step([{', '.join(map(repr, self.models))}])"

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of all steps of the episodes 0 to K - 1: (K, H)."""
        return np.stack([model.draw(episodes, rng, costs) for model in self.models], axis=1)


@dataclass(frozen=True, slots=True, repr=False)
class StepDelaysOf(Printed):
    """See `per_step`."""

    rule: Rule
    maker = "per_step"

    def after(self, happened: Happened, rng: np.random.Generator) -> Any:
        """The delays (H,) that the rule gives."""
        found = as_delays("delays of an episode", self.rule(happened, rng))
        if len(found) != len(happened.actions):
            raise ValueError(
                f"delays of an episode must be {len(happened.actions)}, one per step, got "
                f"{len(found)}"
            )
        return found


def per_step(
    models: Sequence[DelayModel] | DelayModel | Rule, steps: int | None = None
) -> PerStep | StepDelaysOf:
    """A separate delay for the cost of every step of an episode.

    An episode is complete once its last cost has arrived, and lost if one of them is. `simulate`
    passes the costs one by one, as `StepCost`, to an `Inbox` around the agent.

    >>> import belated as bl
    >>> bl.delays.per_step([bl.delays.none(), bl.delays.fixed(3)])
    per_step([none(), fixed(delay=3)])
    >>> bl.delays.per_step(bl.delays.fixed(3), steps=2)
    per_step([fixed(delay=3), fixed(delay=3)])

    Args:
        models: one model per step; one model for all steps, with `steps`; or a function
            `rule(happened, rng)` that returns the H delays of an episode that was played, `NEVER`
            for lost costs.
        steps: H, if there is one model for all steps.
    """
    if steps is not None:
        if not hasattr(models, "draw"):
            raise ValueError(f"steps needs one delay model for all of them, got {shown(models)}")
        many = checks.integer("steps", steps, 1, checks.ROOM)
        return PerStep((models,) * many)
    if callable(models):
        return StepDelaysOf(models)
    if not isinstance(models, Sequence) or not models:
        raise ValueError(
            f"models must be a list of delay models, one per step, or one model with steps, got "
            f"{shown(models)}"
        )
    for index, model in enumerate(models):
        if not hasattr(model, "draw"):
            raise ValueError(f"models[{index}] must be a delay model, got {shown(model)}")
    return PerStep(tuple(models))


def of_episodes(delays: Ints) -> Ints:
    """The delays (K,) after which episodes are complete: of (K, H), the largest over the steps.

    Example:
        >>> bl.delays.of_episodes(np.array([[0, 3], [2, 1]]))
        array([3, 2])
    """
    found: Ints = delays if delays.ndim == 1 else delays.max(axis=1, initial=0)
    return found


def of_paths(delays: Ints) -> Ints:
    """The delays (K,) of paths, which arrive with the last cost that is not lost."""
    if delays.ndim == 1:
        return delays
    last: Ints = np.where(delays == NEVER, -1, delays).max(axis=1, initial=-1)
    return np.where(last < 0, NEVER, last)
