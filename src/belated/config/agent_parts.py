"""The parts of agents, by kind. Each takes the arguments of its class."""

from __future__ import annotations

import inspect
from typing import Any

from belated.config.briefing import RunBrief, in_numbers
from belated.config.registry import Maker, Registry, by_name, like
from belated.tabular.parts.costs import Averaged, Revealed, Weighted
from belated.tabular.parts.explore import FewVisits
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Bonus, Confidence
from belated.tabular.parts.update import Softmax


def known(told: RunBrief, /) -> Any:
    """The true transitions."""
    return told.transitions


def weighted(told: RunBrief, /, exploration: float | None = None) -> Weighted:
    """Bandit feedback, any costs: importance weights.

    If the learning rate is tuned and no exploration is given, the exploration is tuned too.
    """
    tuned = None if told.tuned is None else told.tuned.exploration
    return Weighted(exploration=tuned if exploration is None else exploration)


def _registry(*makers: Maker) -> Registry:
    return Registry(
        {
            name: _from_class(maker) if isinstance(maker, type) else maker
            for name, maker in by_name(*makers).items()
        }
    )


def _from_class(part: type) -> Maker:
    def made(told: RunBrief, /, **given: Any) -> Any:
        return part(**in_numbers(told, given))

    return like(part, made, inspect.signature(part).parameters.values())


TRANSITIONS = _registry(known, Confidence, Bonus)
COST_PARTS = _registry(Revealed, weighted, Averaged)
UPDATES = _registry(Softmax, RegretMatching)
EXPLORES = _registry(FewVisits)
PARTS = {
    "transitions": TRANSITIONS,
    "costs": COST_PARTS,
    "update": UPDATES,
    "explore": EXPLORES,
}
"""Arguments of agents that are parts."""
