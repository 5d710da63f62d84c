"""Which agent was given which knowledge, as sentences."""

from __future__ import annotations

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


def _sentence(experiment: Experiment, learner: Learner) -> str:
    given = []
    values = _asked(learner.agent)
    if any(v.get("transitions") == "known" for _, v in values):
        given.append("the true transitions")
    if any(_largest(kind, v) for kind, v in values):
        given.append("the largest delay of the run, which nobody has beforehand")
    if any(_tuned(kind, v) for kind, v in values):
        given.append("the number of episodes and the total delay, from which its steps are tuned")
    rates = {v["learning_rate"] for _, v in values if isinstance(v.get("learning_rate"), float)}
    given += [f"a step size of {rate:g}, set by hand" for rate in sorted(rates)]
    scales = {v["radius_scale"] for _, v in values if v.get("radius_scale", 1.0) != 1.0}
    given += [f"a confidence radius scaled by {scale:g}" for scale in sorted(scales)]
    given += [
        f"what {kind} asks for, which may be the true transitions and the delays"
        for kind, _ in values
        if ":" in kind
    ]
    sees = (
        "whole cost functions"
        if experiment.information_of(learner) == "full"
        else ("only the costs it suffered")
    )
    paths = {"delayed": "with the costs", "immediate": "at once"}[experiment.trajectory_of(learner)]
    seen = f"It sees {sees}, and paths come {paths}."
    return f"{learner.name} is also given {_list(given) if given else 'nothing'}. {seen}"


def _asked(part: Part, *, restarted: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Kinds and parameters of a part and those inside; doubling replaces step sizes inside it."""
    values = part.values | ({"learning_rate": None} if restarted else {})
    inner = [
        item
        for value in part.values.values()
        if isinstance(value, Part)
        for item in _asked(value, restarted=restarted or part.kind == "doubling")
    ]
    return [(part.kind, values), *inner]


def _largest(kind: str, values: dict[str, object]) -> bool:
    default = "realised" if kind in ("parallel", "pipeline") else None
    return values.get("max_delay", default) == "realised"


def _tuned(kind: str, values: dict[str, object]) -> bool:
    skips = kind == "skipping" and values.get("max_delay", "tuned") == "tuned"
    default = "tuned" if kind == "oreps" else None
    return skips or values.get("learning_rate", default) == "tuned"


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}, and {items[-1]}"
