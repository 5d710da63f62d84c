"""Delays that depend on what happened, and delays of single steps.

The other models are oblivious: they draw the delays of a run before it begins. An
`OutcomeDependentDelay` draws a delay after every episode, from its actions, path or outcome. Bounds
that assume oblivious delays do not hold for them, and a learner that treats early outcomes as a
fair sample is misled where better actions report later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.delays.line import NEVER, as_delays
from belated.core.delays.models import Call, DelayModel, RandomDelays, model_of, shown


@dataclass(frozen=True, slots=True, eq=False)
class PlayedEpisode:
    """What a delay may depend on.

    Attributes:
        episode: the number of the episode.
        actions: (H,) the actions played.
        outcomes: (H,) the costs of the steps, or the outcome of a decision.
        states: (H + 1,) the path; None where a problem has none.
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


Rule = Callable[[PlayedEpisode, np.random.Generator], Any]


@dataclass(frozen=True, repr=False)
class OutcomeDependentDelay(Call):
    """A model whose rule gives the delay of an episode, or of its steps, once it was played."""

    def after(self, played: PlayedEpisode, rng: np.random.Generator) -> Any:
        """The delay of the episode that has just been played, or the delays (H,) of its steps."""
        return self.rule(played, rng, **dict(self.parameters))


def _delay_of(played: PlayedEpisode, rng: np.random.Generator, rule: Rule) -> int:
    return checks.integer("delay", rule(played, rng), 0, NEVER)


def delay_of(rule: Rule) -> OutcomeDependentDelay:
    """Delays from a function of your own.

    >>> import belated as bl
    >>> model = bl.delays.delay_of(lambda played, rng: 30 if played.action == 2 else 5)

    Args:
        rule: `rule(played, rng)` gives the delay of an episode, `NEVER` if it is lost; it sees
            `played.action`, `.actions`, `.states`, `.outcome`, `.outcomes` and `.episode`.
    """
    if not callable(rule):
        raise ValueError(f"rule must be a function, got {checks.show(rule)}")
    return OutcomeDependentDelay("delay_of", _delay_of, (("rule", rule),))


def _by_action(
    played: PlayedEpisode, rng: np.random.Generator, models: tuple[DelayModel, ...]
) -> int:
    if played.action >= len(models):
        raise ValueError(
            f"models must be one for every action, got {len(models)} for action {played.action}"
        )
    return int(models[played.action].draw(1, rng)[0])


def by_action(models: Sequence[DelayModel]) -> OutcomeDependentDelay:
    """One model for every action of the last step.

    >>> import belated as bl
    >>> bl.delays.by_action([bl.delays.fixed(2), bl.delays.geometric(mean=30)])
    by_action(models=[fixed(delay=2), geometric(mean=30)])
    """
    return OutcomeDependentDelay("by_action", _by_action, (("models", _models(models)),))


def _by_outcome(
    played: PlayedEpisode,
    rng: np.random.Generator,
    model: DelayModel,
    otherwise: DelayModel,
    threshold: float = 0.0,
) -> int:
    chosen = model if played.outcome > threshold else otherwise
    return int(chosen.draw(1, rng)[0])


def by_outcome(
    model: DelayModel, otherwise: DelayModel, threshold: float = 0.0
) -> OutcomeDependentDelay:
    """One model for outcomes above a threshold, and another one for all others.

    >>> import belated as bl
    >>> bl.delays.by_outcome(bl.delays.fixed(20), bl.delays.none())
    by_outcome(model=fixed(delay=20), otherwise=none())
    """
    parameters = (
        ("model", model_of("model", model)),
        ("otherwise", model_of("otherwise", otherwise)),
        ("threshold", checks.real("threshold", threshold, -np.inf)),
    )
    return OutcomeDependentDelay("by_outcome", _by_outcome, parameters)


def _every_step(
    n: int, rng: np.random.Generator, costs: Any, models: tuple[DelayModel, ...]
) -> Ints:
    return np.stack([model.draw(n, rng, costs) for model in models], axis=1)


def _each_step(played: PlayedEpisode, rng: np.random.Generator, models: Rule) -> Ints:
    found = as_delays("delays of an episode", models(played, rng))
    if len(found) != len(played.actions):
        raise ValueError(
            f"delays of an episode must be {len(played.actions)}, one per step, got {len(found)}"
        )
    return found


def per_step(
    models: Sequence[DelayModel] | DelayModel | Rule, steps: int | None = None
) -> RandomDelays | OutcomeDependentDelay:
    """A separate delay for the cost of every step of an episode.

    An episode is complete once its last cost has arrived, and lost if one of them is. `simulate`
    passes the costs one by one, as `StepCost`, to an `Inbox` around the agent.

    >>> import belated as bl
    >>> bl.delays.per_step([bl.delays.none(), bl.delays.fixed(3)])
    per_step(models=[none(), fixed(delay=3)])
    >>> bl.delays.per_step(bl.delays.fixed(3), steps=2)
    per_step(models=[fixed(delay=3), fixed(delay=3)])

    Args:
        models: one model per step; one model for all steps, with `steps`; or a function
            `rule(played, rng)` that returns the H delays of an episode that was played, `NEVER`
            for lost costs.
        steps: H, if there is one model for all steps.
    """
    if steps is not None:
        if not hasattr(models, "draw"):
            raise ValueError(f"steps needs one delay model for all of them, got {shown(models)}")
        many = checks.integer("steps", steps, 1, checks.ROOM)
        return RandomDelays("per_step", _every_step, (("models", (models,) * many),))
    if callable(models):
        return OutcomeDependentDelay("per_step", _each_step, (("models", models),))
    return RandomDelays("per_step", _every_step, (("models", _models(models)),))


def is_per_step(model: object) -> bool:
    """Whether a model gives a delay for every step."""
    return isinstance(model, Call) and model.maker == "per_step"


def is_oblivious(model: object) -> bool:
    """Whether the delays of a model are independent of actions, paths and outcomes.

    Example:
        >>> bl.delays.is_oblivious(bl.delays.fixed(2))
        True
    """
    return not hasattr(model, "after")


def _models(models: object) -> tuple[DelayModel, ...]:
    if not isinstance(models, Sequence | np.ndarray) or not len(models):
        raise ValueError(
            "models must be a list of delay models, one per action or step, or for steps one model "
            f"with steps, got {shown(models)}"
        )
    return tuple(model_of(f"models[{i}]", model) for i, model in enumerate(models))


def of_episodes(delays: Ints) -> Ints:
    """The delays (K,) after which episodes are complete: of (K, H), the largest over the steps.

    Example:
        >>> bl.delays.of_episodes(np.array([[0, 3], [2, 1]]))
        array([3, 2])
    """
    delays = np.asarray(delays)
    found: Ints = delays if delays.ndim == 1 else delays.max(axis=1, initial=0)
    return found


def of_paths(delays: Ints) -> Ints:
    """The delays (K,) of paths, which arrive with the last cost that is not lost."""
    if delays.ndim == 1:
        return delays
    last: Ints = np.where(delays == NEVER, -1, delays).max(axis=1, initial=-1)
    return np.where(last < 0, NEVER, last)
