"""The reasons for the recommended learner for decisions."""

from __future__ import annotations

from typing import Any

from belated.linear.choice import Choice


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
    little_said = given.get("floor", 0.01) < 0.05 and not given.get("holdout", 0.0)
    notes = {
        "If failures report too, say silence=None: then nothing needs to be concluded from "
        "silence.": silence is not None,
        "If nothing changes over time, changes=False keeps all decisions and tests for no "
        "change.": changes,
        "A change that is faster than several delays cannot be followed.": changes,
        "changes=False keeps all decisions: a change is followed slowly.": not changes,
        "floor=0.05 makes logs that can judge other policies; 0.01 costs less and says "
        "less.": little_said,
        "Call observe([]) when nothing has come: ages run to the last observe.": True,
    }
    return reason, tuple(note for note, holds in notes.items() if holds)
