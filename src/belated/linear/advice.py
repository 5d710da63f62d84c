"""The recommended learner for decisions, and the reasons."""

from __future__ import annotations

from typing import Any

from belated.linear.choice import Choice
from belated.linear.sampler import LinearSampler


def recommended(
    choice: Choice,
    *,
    silence: float | None = 0.0,
    changes: bool = True,
    floor: float = 0.01,
    holdout: float = 0.0,
    seed: int = 0,
) -> LinearSampler:
    """A fresh learner for a choice."""
    return LinearSampler(
        choice, silence=silence, changes=changes, floor=floor, holdout=holdout, seed=seed
    )


def explained(choice: Choice, **given: Any) -> tuple[str, tuple[str, ...]]:
    """The reason for this learner, and what would improve it."""
    silence, changes = given.get("silence", 0.0), given.get("changes", True)
    model = "one model for all actions" if choice.shared else "one model per action"
    meaning = (
        "every outcome reports"
        if silence is None
        else f"a decision that does not report has the outcome {silence:g} in the end"
    )
    reason = (
        f"It learns {model} from what should have come by now: {meaning}. Delays are estimated "
        "from the reports, outcomes may have any unit, and the probabilities are exact."
    )
    notes = []
    if silence is not None:
        notes.append(
            "If failures report too, say silence=None: then nothing needs to be concluded from "
            "silence."
        )
    if changes:
        notes.append(
            "If nothing changes over time, changes=False keeps all decisions and tests for no "
            "change."
        )
        notes.append("A change that is faster than several delays cannot be followed.")
    else:
        notes.append("changes=False keeps all decisions: a change is followed slowly.")
    if given.get("floor", 0.01) < 0.05 and not given.get("holdout", 0.0):
        notes.append(
            "floor=0.05 makes logs that can judge other policies; 0.01 costs less and says less."
        )
    notes.append("Call observe([]) when nothing has come: ages run to the last observe.")
    return reason, tuple(notes)
