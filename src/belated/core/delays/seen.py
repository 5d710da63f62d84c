"""Delays that depend on what happened: on the action, the path or the outcome.

The other models are oblivious: they draw the delays of a run before it begins. The models here draw
a delay after every episode. Bounds that assume oblivious delays do not hold for them, and a learner
that treats early outcomes as a fair sample is misled where better actions report later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.delays.arithmetic import NEVER
from belated.core.delays.models import DelayModel, Printed, shown


@dataclass(frozen=True, slots=True, eq=False)
class Happened:
    """What a delay may depend on.

    Attributes:
        episode: the number of the episode.
        actions: (H,) the actions played.
        outcomes: (H,) the costs of the steps, or the outcome of a decision.
        states: (H + 1,) the states of the path; None for decisions with features.
    """

    episode: int
    actions: Ints
    outcomes: Floats
    states: Ints | None = None

    @property
    def action(self) -> int:
        """The action of the last step; a decision has only one step."""
        return int(self.actions[-1])

    @property
    def outcome(self) -> float:
        """The sum of the outcomes."""
        return float(self.outcomes.sum())


@runtime_checkable
class SeeingModel(Protocol):
    """A model that draws a delay after every episode."""

    def after(self, happened: Happened, rng: np.random.Generator) -> int:
        """The delay of the episode that has just been played."""
        ...


Rule = Callable[[Happened, np.random.Generator], int]


@dataclass(frozen=True, slots=True, repr=False)
class DelayOf(Printed):
    """See `delay_of`."""

    rule: Rule
    maker = "delay_of"

    def __post_init__(self) -> None:
        if not callable(self.rule):
            raise ValueError(f"rule must be a function, got {checks.show(self.rule)}")

    def after(self, happened: Happened, rng: np.random.Generator) -> int:
        """The delay that the rule gives."""
        return checks.integer("delay", self.rule(happened, rng), 0, NEVER)


@dataclass(frozen=True, slots=True, repr=False)
class ByAction(Printed):
    """See `by_action`."""

    models: tuple[DelayModel, ...]
    maker = "by_action"

    def __post_init__(self) -> None:
        models = tuple(self.models)
        if not models:
            raise ValueError("models must be at least one, got none")
        for index, model in enumerate(models):
            _check_model(f"models[{index}]", model)
        object.__setattr__(self, "models", models)

    def __repr__(self) -> str:
        return f"by_action([{', '.join(map(repr, self.models))}])"

    def after(self, happened: Happened, rng: np.random.Generator) -> int:
        """A delay from the model of this action."""
        if happened.action >= len(self.models):
            raise ValueError(
                f"models must be one for every action, got {len(self.models)} for action "
                f"{happened.action}"
            )
        return _one(self.models[happened.action], rng)


@dataclass(frozen=True, slots=True, repr=False)
class ByOutcome(Printed):
    """See `by_outcome`."""

    model: DelayModel
    otherwise: DelayModel
    threshold: float
    maker = "by_outcome"

    def __post_init__(self) -> None:
        _check_model("model", self.model)
        _check_model("otherwise", self.otherwise)
        object.__setattr__(self, "threshold", checks.real("threshold", self.threshold, -np.inf))

    def after(self, happened: Happened, rng: np.random.Generator) -> int:
        """A delay from the model of this outcome."""
        return _one(self.model if happened.outcome > self.threshold else self.otherwise, rng)


def delay_of(rule: Rule) -> DelayOf:
    """Delays from a function of your own.

    >>> import belated as bl
    >>> model = bl.delays.delay_of(lambda happened, rng: 30 if happened.action == 2 else 5)

    Args:
        rule: `rule(happened, rng)` gives the delay of an episode, `NEVER` if it is lost; it sees
            `happened.action`, `.actions`, `.states`, `.outcome`, `.outcomes` and `.episode`.
    """
    return DelayOf(rule)


def by_action(models: Sequence[DelayModel]) -> ByAction:
    """One model for every action of the last step.

    >>> import belated as bl
    >>> bl.delays.by_action([bl.delays.fixed(2), bl.delays.geometric(mean=30)])
    by_action([fixed(delay=2), geometric(mean=30)])
    """
    if not isinstance(models, Sequence):
        raise ValueError(f"models must be a list of delay models, got {checks.show(models)}")
    return ByAction(tuple(models))


def by_outcome(model: DelayModel, otherwise: DelayModel, threshold: float = 0.0) -> ByOutcome:
    """One model for outcomes above a threshold, and another one for all others.

    >>> import belated as bl
    >>> bl.delays.by_outcome(bl.delays.fixed(20), bl.delays.none())
    by_outcome(model=fixed(delay=20), otherwise=none(), threshold=0)
    """
    return ByOutcome(model, otherwise, threshold)


def is_oblivious(model: object) -> bool:
    """Whether the delays of a model are independent of actions, paths and outcomes.

    Example:
        >>> bl.delays.is_oblivious(bl.delays.fixed(2))
        True
    """
    return not isinstance(model, SeeingModel)


def _one(model: DelayModel, rng: np.random.Generator) -> int:
    return int(model.draw(1, rng)[0])


def _check_model(name: str, model: object) -> None:
    if not hasattr(model, "draw"):
        raise ValueError(
            f"{name} must be a delay model that looks at nothing, such as geometric(20), got "
            f"{shown(model)}"
        )
