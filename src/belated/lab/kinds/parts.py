"""The parts that agents are made of, by kind.

A word asks for what only the simulator can know: `transitions = "known"`, `learning_rate =
"tuned"` and `max_delay = "realised"`. The report says who asked.
"""

from __future__ import annotations

from belated import checks
from belated.agents import Averaged, Bonus, Confidence, FewVisits, Revealed, Softmax, Weighted
from belated.lab.kinds.registry import Registry
from belated.lab.kinds.told import Told
from belated.transitions import Transitions


def known(told: Told, /) -> Transitions:
    """The true transitions."""
    return told.transitions


def weighted(told: Told, /, exploration: float | None = None) -> Weighted:
    """`belated.Weighted`; a tuned learning rate sets the exploration, unless it is given."""
    if exploration is None and told.tuned is not None:
        exploration = told.tuned.exploration
    return Weighted(exploration=exploration)


def softmax(told: Told, /, learning_rate: float | str | None = None, scale: float = 1.0) -> Softmax:
    """`belated.Softmax`; "tuned" is the paper's learning rate for K and D."""
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if no number)", learning_rate, ("tuned",))
        if told.tuned is None:
            raise ValueError('learning_rate must be a number here, got "tuned"')
        learning_rate = told.tuned.learning_rate
    return Softmax(learning_rate=learning_rate, scale=scale)


def few_visits(
    told: Told, /, threshold: float | None = None, max_delay: float | str | None = None
) -> FewVisits:
    """`belated.FewVisits`; "realised" is the largest delay of the run."""
    return FewVisits(threshold=threshold, max_delay=told.largest(max_delay))


TRANSITIONS = Registry({"known": known, "confidence": Confidence, "bonus": Bonus})
COST_PARTS = Registry({"revealed": Revealed, "weighted": weighted, "averaged": Averaged})
UPDATES = Registry({"softmax": softmax})
EXPLORES = Registry({"few_visits": few_visits})
