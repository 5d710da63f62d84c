"""The parts of agents, by kind. Each takes the arguments of its class."""

from __future__ import annotations

import inspect
from typing import Any

from belated.config.briefing import Told, in_numbers
from belated.config.registry import Maker, Registry, by_name, like
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


def weighted(told: Told, /, exploration: float | None = None) -> Weighted:
    """Bandit feedback, any costs: importance weights.

    If the learning rate is tuned and no exploration is given, the exploration is tuned too.
    """
    if exploration is None and told.tuned is not None:
        exploration = told.tuned.exploration
    return Weighted(exploration=exploration)


def blend(updates: tuple[UpdatePart, ...]) -> Blend:
    """Several updates, weighted by what each would have cost."""
    return Blend(*updates)


def _registry(*makers: Maker, same: tuple[str, ...] = ()) -> Registry:
    named = by_name(*makers).items()
    kinds = {name: _from_class(m) if isinstance(m, type) else m for name, m in named}
    return Registry(kinds, same=same)


def _from_class(part: type) -> Maker:
    def made(told: Told, /, **given: Any) -> Any:
        return part(**in_numbers(told, given))

    return like(part, made, inspect.signature(part).parameters.values())


TRANSITIONS = _registry(known, Confidence, Bonus, Observed)
COST_PARTS = _registry(Revealed, weighted, Averaged, Predicted)
UPDATES = _registry(Softmax, RegretMatching, Planned, blend, same=("updates",))
EXPLORES = _registry(FewVisits, UniformShare)
PARTS = {
    "transitions": TRANSITIONS,
    "costs": COST_PARTS,
    "update": UPDATES,
    "explore": EXPLORES,
}
"""Arguments of agents that are parts."""
