"""What a learner decided."""

from __future__ import annotations

from dataclasses import dataclass

from belated.core.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """An action, drawn from stated probabilities.

    Attributes:
        number: of the decision, counted from 0; its outcome is reported under it.
        action: the action to take, or the row of the features handed in.
        probability: with which it was drawn.
        probabilities: of all actions, or of all rows, (n,).
    """

    number: int
    action: int
    probability: float
    probabilities: Floats
