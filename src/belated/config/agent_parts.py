"""The parts that agents are made of, by kind.

A word asks for what only the simulator can know: `transitions = "known"`, `episodes = "known"`,
`learning_rate = "tuned"` and `max_delay = "realised"` or `"tuned"`. The report says who asked.
"""

from __future__ import annotations

from belated.config.briefing import Told
from belated.config.registry import Registry, by_name
from belated.core import checks
from belated.tabular.parts.blend import Blend
from belated.tabular.parts.costs import Averaged, Revealed, Weighted
from belated.tabular.parts.explore import FewVisits, UniformShare
from belated.tabular.parts.planned import Planned
from belated.tabular.parts.predicted import Predicted
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Bonus, Confidence, Observed
from belated.tabular.parts.update import Softmax, UpdatePart
from belated.tabular.transitions import Transitions


def known(told: Told, /) -> Transitions:
    """The true transitions."""
    transitions: Transitions = told.transitions
    return transitions


def confidence(
    told: Told,
    /,
    radius_scale: float = 1.0,
    delta: float = 0.1,
    episodes: int | str | None = None,
    sets: str = "newest",
) -> Confidence:
    """Unknown transitions: a confidence set; episodes may be "known", the K of the run."""
    if isinstance(episodes, str):
        checks.choice("episodes (if not a number)", episodes, ("known",))
        episodes = told.episodes
    return Confidence(radius_scale=radius_scale, delta=delta, episodes=episodes, sets=sets)


def weighted(told: Told, /, exploration: float | None = None) -> Weighted:
    """Bandit feedback, any costs: importance weights.

    If the learning rate is tuned and no exploration is given, the exploration is tuned too.
    """
    if exploration is None and told.tuned is not None:
        exploration = told.tuned.exploration
    return Weighted(exploration=exploration)


def softmax(told: Told, /, learning_rate: float | str | None = None, scale: float = 1.0) -> Softmax:
    """The softmax of summed Q-functions, with a learning rate that is anytime, "tuned" or given.

    The tuned learning rate is the paper's for the K and D of the run, times scale.
    """
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if not a number)", learning_rate, ("tuned",))
        if told.tuned is None:
            raise ValueError('learning_rate must be a number here, got "tuned"')
        learning_rate = checks.real("scale", scale, 0.0, above=True) * told.tuned.learning_rate
    return Softmax(learning_rate=learning_rate, scale=scale)


def blend(updates: tuple[UpdatePart, ...]) -> Blend:
    """Several updates, weighted by what each would have cost."""
    return Blend(*updates)


def few_visits(
    told: Told,
    /,
    threshold: float | None = None,
    max_delay: float | str | None = None,
) -> FewVisits:
    """Explicit exploration: uniform play in states with few visits.

    max_delay may be "realised", or "tuned" for an agent inside `skipping`: the largest delay that
    is used is its threshold. The learning rate must be tuned too.
    """
    if max_delay == "tuned":
        if told.tuned is None:
            raise ValueError('max_delay must be a number or "realised" here, got "tuned"')
        max_delay = told.tuned.threshold
    largest = told.largest(max_delay)
    return FewVisits(threshold=threshold, max_delay=largest)


TRANSITIONS = Registry(by_name(known, confidence, Bonus, Observed))
COST_PARTS = Registry(by_name(Revealed, weighted, Averaged, Predicted))
UPDATES = Registry(by_name(softmax, RegretMatching, Planned, blend), same=("updates",))
EXPLORES = Registry(by_name(few_visits, UniformShare))
