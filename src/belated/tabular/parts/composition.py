"""Check that parts can work together, from what each of them declares.

    gives    the capabilities that a part offers to the others: a tuple of words
    needs    the capabilities that it needs: (argument, word) -> why
    unset    a method: missing settings that are required in this composition

    word             parts that offer it
    plans            transitions that have a best policy for given costs
    upper bounds     transitions with upper bounds on the probability of a state
    counts           transitions that are counted, so that rare states are known
    predicts         costs that are known, or predicted, before an episode is played

Your own parts need not declare anything; then they are not checked.
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
    """The members of a part: the updates of a `Blend`, or the part itself."""
    found: tuple[Any, ...] = getattr(part, "updates", (part,))
    return found


def judge(problem: Problem, parts: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a value that is not a part, and for parts that do not fit together."""
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
