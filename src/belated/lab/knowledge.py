"""Which agent was given which knowledge, as sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from belated.lab.parts import Part
from belated.lab.spec import Experiment, Learner

COMMON = (
    "Every agent is told the numbers of states, actions and steps, the start, and whether the "
    "dynamics are the same at every step."
)


def sentences(experiment: Experiment) -> list[str]:
    """What all agents are told, then one sentence for each agent."""
    return [COMMON, *(_sentence(experiment, learner) for learner in experiment.agents)]


BY_HAND = (
    ("learning_rate", "a step size of"),
    ("rate_scale", "steps scaled by"),
    ("radius_scale", "a confidence radius scaled by"),
    ("bonus_scale", "a bonus scaled by"),
    ("exploration", "an exploration of"),
    ("exploration_threshold", "a threshold of exploration of"),
    ("max_delay", "a largest delay of"),
)
"""Numbers that somebody chose, and how a sentence calls them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A part of an agent, and whether it stands in copies that are told of no delays."""

    kind: str
    values: dict[str, Any]
    copied: bool


def _sentence(experiment: Experiment, learner: Learner) -> str:
    asked = _asked(learner.agent)
    given = []
    if any(item.values.get("transitions") == "known" for item in asked):
        given.append("the true transitions")
    if any(item.kind == "ucbvi" or item.values.get("costs") == "stochastic" for item in asked):
        given.append("that costs come from fixed laws")
    if any(_largest(item) for item in asked if not item.copied):
        given.append("the largest delay of the run, which nobody has beforehand")
    if any(_tuned(item) for item in asked if not item.copied):
        given.append("the number of episodes and the total delay, from which its steps are tuned")
    elif any(_tuned(item) for item in asked):
        given.append("the number of episodes, from which the steps of its copies are tuned")
    for name, words in BY_HAND:
        numbers = {item.values[name] for item in asked if _number(item.values.get(name))}
        if name.endswith("_scale"):
            numbers -= {1}
        given += [f"{words} {number:g}, set by hand" for number in sorted(numbers)]
    given += [
        f"what {item.kind} asks for, which may be the true transitions and the delays"
        for item in asked
        if ":" in item.kind
    ]
    full = experiment.information_of(learner) == "full"
    sees = "whole cost functions" if full else "only the costs it suffered"
    paths = {"delayed": "with the costs", "immediate": "at once"}[experiment.trajectory_of(learner)]
    seen = f"It sees {sees}, and paths come {paths}."
    return f"{learner.name} is also given {_list(given) if given else 'nothing'}. {seen}"


def _asked(part: Part, *, restarted: bool = False, copied: bool = False) -> list[Asked]:
    """A part and those inside; doubling replaces the step sizes of what is inside it."""
    values = part.values | ({"learning_rate": None} if restarted else {})
    inner = [
        item
        for value in part.values.values()
        if isinstance(value, Part)
        for item in _asked(
            value,
            restarted=restarted or part.kind == "doubling",
            copied=copied or part.kind in ("parallel", "bold"),
        )
    ]
    return [Asked(part.kind, values, copied), *inner]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _largest(item: Asked) -> bool:
    default = "realised" if item.kind in ("parallel", "pipeline") else None
    return item.values.get("max_delay", default) == "realised"


def _tuned(item: Asked) -> bool:
    skips = item.kind == "skipping" and item.values.get("max_delay", "tuned") == "tuned"
    default = "tuned" if item.kind == "oreps" else None
    return skips or item.values.get("learning_rate", default) == "tuned"


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}, and {items[-1]}"
