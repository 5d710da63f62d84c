"""What each agent knows in advance, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from belated import config as kinds
from belated.config import scenes as scene_kinds
from belated.config.agents import COPIES, RESTARTS
from belated.config.briefing import TUNED, WORDS
from belated.config.part import Part, as_part
from belated.config.registry import Inner, Registry, with_defaults
from belated.lab.spec import Experiment, Learner

COMMON = (
    "Every agent is told the numbers of states, actions and steps, the start, and whether the "
    "dynamics are the same at every step. An agent that draws gets a seed of its run."
)
DECISIONS = (
    "Every agent is told the actions, how many features there are, and which outcome silence "
    "stands for, if any; an agent that draws gets a seed of its run. Costs are outcomes with the "
    "sign turned, and scores compare with the best action for every visitor."
)
TOLD = {
    ("transitions", "known"): "the true transitions",
    ("costs", "averaged"): "that costs come from fixed laws",
    **WORDS,
}
"""What an agent knows by a parameter with this word or kind as its value."""
UNDELAYED = {
    TOLD["max_delay", "realised"]: None,
    TUNED: "the number of episodes, from which the parameters of its copies are tuned",
}
"""The same inside Parallel or Bold, where agents are tuned as if there were no delays."""
SEES = {"full": "whole cost functions", "bandit": "only the costs it suffered"}
REPLACED = ("learning_rate", "exploration")
"""The parameters that Doubling sets."""


def sentences(experiment: Experiment) -> list[str]:
    """What all agents know, then one sentence for each agent."""
    told = (_sentence(experiment, learner) for learner in experiment.learners)
    scenes = [experiment.scene(case) for case in experiment.case_names()]
    decisions = [scene.environment.kind in scene_kinds.DECISIONS for scene in scenes]
    common = [COMMON] * (not all(decisions)) + [DECISIONS] * any(decisions)
    return [*common, *_by_case(experiment), *told]


def _by_case(experiment: Experiment) -> list[str]:
    """The cases with full information, if that depends on the case."""
    full = [c.name for c in experiment.cases if (c.information or experiment.information) == "full"]
    if len(full) in (0, len(experiment.cases)):
        return []
    return [
        f"Whole cost functions come back in {_list(full)}; in the other cases an agent sees only "
        "the costs it suffered. An agent with information of its own sees that everywhere."
    ]


AgentParameter = tuple[str, Any, Any, bool]
"""A parameter of an agent, or of a part inside it: its place in the agent's table, e.g.
update.learning_rate; the value (for a part, its kind); the default; whether it is of a copy."""


def _sentence(experiment: Experiment, learner: Learner) -> str:
    values = list(_values("", learner.agent, kinds.AGENTS))
    given = dict.fromkeys(filter(None, map(_told, values)))
    by_hand = [
        f"{key} = {_shown(value)}"
        for key, value, default, _ in values
        if isinstance(value, int | float) and value != default
    ]
    items = [*given, *([f"{' and '.join(by_hand)}, set by hand"] if by_hand else [])]
    cases = experiment.cases_of(learner.name)
    found = {experiment.information_of(learner, case) for case in cases}
    sees = SEES[found.pop()] if len(found) == 1 else "what its case shows"
    paths = {"late": "with the costs", "at once": "at once"}[experiment.paths_of(learner)]
    seen = f"It sees {sees}, and paths come {paths}."
    if learner.cases is not None:
        seen += f" It is run in {len(cases)} of {len(experiment.case_names())} cases."
    return f"{learner.name} is also given {_list(items)}. {seen}"


def _told(item: AgentParameter) -> str | None:
    """What an agent knows by a parameter, if anything."""
    key, value, _, copied = item
    name = key.rpartition(".")[2]
    if name == "kind" and ":" in value:
        return f"what {value} asks for, which may be the true transitions and the delays"
    text = TOLD.get((name, value)) if isinstance(value, str) else None
    return UNDELAYED.get(text, text) if text and copied else text


def _values(
    key: str, part: Part, registry: Registry, *, copied: bool = False, restarted: bool = False
) -> Iterator[AgentParameter]:
    """All parameters of a part and of the parts inside, with their defaults."""
    defaults = with_defaults(Part(part.kind), registry)
    yield (f"{key}kind", part.kind, None, copied)
    for name, given in (defaults | part.values).items():
        inside = registry.inside(name)
        value = given.part if isinstance(given, Inner) else given
        if inside is not None and not part.own:
            value = as_part(value)
        parts = [item for item in _listed(value) if isinstance(item, Part)]
        for item in parts:
            yield (f"{key}{name}", item.kind, None, copied)
            yield from _values(
                f"{key}{name}.",
                item,
                inside or registry,
                copied=copied or part.kind in COPIES,
                restarted=restarted or part.kind in RESTARTS,
            )
        if not parts and not (restarted and name in REPLACED):
            yield (f"{key}{name}", value, defaults.get(name), copied)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _shown(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _list(items: list[str]) -> str:
    if len(items) < 2:
        return items[0] if items else "nothing"
    return f"{', '.join(items[:-1])}, and {items[-1]}"
