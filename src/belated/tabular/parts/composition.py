"""Which parts can work together, judged from what each of them declares.

    gives    what a part offers to the others: a tuple of words
    needs    what it needs: (argument, word) -> why
    unset    a method: settings that it cannot do without in this composition

    word             who gives it
    plans            transitions that have a best policy for given costs
    upper bounds     transitions with upper bounds of how likely a state is
    counts           transitions that are counted, so that rare states are known
    predicts         costs that are known, or predicted, before an episode is played

A part of one's own that declares nothing is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belated.core import checks
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions

SUCH = {
    "transitions": "Confidence(), Bonus() or Observed(), or Transitions",
    "costs": "Revealed(), Weighted(), Averaged() or Predicted()",
    "update": "Softmax() or RegretMatching()",
    "explore": "FewVisits(...), UniformShare() or None",
}
"""Examples of parts, for messages."""


def members(part: Any) -> tuple[Any, ...]:
    """The parts that a part is made of: the updates of a `Blend`, or the part alone."""
    found: tuple[Any, ...] = getattr(part, "updates", (part,))
    return found


def judge(problem: Problem, parts: Mapping[str, Any]) -> None:
    """Refuse what is not a part, and parts that cannot work together, in one sentence."""
    for name, part in parts.items():
        absent = name == "explore" and part is None
        if not absent and not (name == "transitions" and isinstance(part, Transitions)):
            has = ("information", "weighted", "averaged") if name == "costs" else ()
            checks.part(name, part, SUCH[name], has)
    for name, part in parts.items():
        for member in members(part):
            for (other, word), why in getattr(member, "needs", {}).items():
                given = getattr(parts[other], "gives", None)
                if given is not None and word not in given:
                    raise ValueError(
                        f"{name}={type(member).__name__}(...) cannot go with "
                        f"{other}={checks.show(parts[other])}: {why}"
                    )
    unset = [
        f"{name}={type(member).__name__}({setting})"
        for name, part in parts.items()
        for member in members(part)
        if hasattr(member, "unset")
        for setting in member.unset(problem, parts["costs"])
    ]
    if unset:
        raise ValueError(
            f"{' and '.join(dict.fromkeys(unset))} must be given under bandit feedback with "
            f"horizon {problem.horizon}, where no anytime rule is proved; "
            "belated.tuning.oppo_bandit(problem, episodes, total_delay) suggests values"
        )
