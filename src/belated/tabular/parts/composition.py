"""Check that parts can work together, from what each of them declares.

    gives    the capabilities that a part offers to the others: a tuple of words
    needs    the capabilities that it needs: (argument, word) -> why
    unset    a method: missing settings that are required in this composition

    word             parts that offer it
    upper bounds     transitions with upper bounds on the probability of a state
    counts           transitions that are counted, so that rare states are known

Your own parts need not declare anything; then they are not checked.
"""

from collections.abc import Mapping
from typing import Any

from belated.core import checks
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions

SUCH = {
    "transitions": "Confidence() or Bonus(), or Transitions",
    "costs": "Revealed(), Weighted() or Averaged()",
    "update": "Softmax() or RegretMatching()",
    "explore": "FewVisits(...) or None",
}
"""Examples of parts, for messages."""
HAS = {
    "transitions": (),
    "costs": ("information", "weighted", "averaged", "learn", "estimate"),
    "update": ("policy", "learn"),
    "explore": ("mask", "mixed", "met"),
}
"""What a part must have besides `start`."""


def check_parts(problem: Problem, parts: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a value that is not a part, and for parts that do not fit together."""
    for name, part in parts.items():
        absent = name == "explore" and part is None
        if not absent and not (name == "transitions" and isinstance(part, Transitions)):
            _check_part(name, part)
    for name, part in parts.items():
        for (other, word), why in getattr(part, "needs", {}).items():
            given = getattr(parts[other], "gives", None)
            if given is not None and word not in given:
                raise ValueError(
                    f"{name}={type(part).__name__}(...) cannot go with "
                    f"{other}={checks.show(parts[other])}: {why}"
                )
    unset = [
        f"{name}={type(part).__name__}({setting})"
        for name, part in parts.items()
        if hasattr(part, "unset")
        for setting in part.unset(problem, parts["costs"])
    ]
    if unset:
        raise ValueError(
            f"{' and '.join(dict.fromkeys(unset))} must be given under bandit feedback with "
            f"horizon {problem.horizon}, where no anytime rule is proved; "
            "belated.tuning.oppo_bandit(problem, episodes, total_delay) suggests values"
        )


def _check_part(name: str, part: Any) -> None:
    """Check that a value is a part, not its class, and not one for another argument."""
    fits = [other for other, has in HAS.items() if has and all(hasattr(part, one) for one in has)]
    missing = [need for need in HAS[name] or ("gives",) if not hasattr(part, need)]
    wrong = f", which is for {fits[0]}" if fits and missing else ""
    if wrong or isinstance(part, type) or not hasattr(part, "start"):
        raise ValueError(
            f"{name} must be a part such as {SUCH[name]}, got {checks.show(part)}{wrong}"
        )
    if HAS[name] and missing:
        raise ValueError(f"{name} must be a part; {checks.show(part)} has no {', '.join(missing)}")
