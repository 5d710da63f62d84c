"""Agents and their parts by kind, made from a `RunBrief`: what an agent of the run may know.

A kind takes the arguments of the agent's constructor, and its learning rate is "tuned" by default
if the agent has a row of tuning. Wrappers change the `RunBrief` for the agent inside: the copies of
`parallel` know their share of the episodes and no delays.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pkgutil import resolve_name
from typing import Any, Literal

import numpy as np

from belated import names, parts, wrappers
from belated.advice import recommend
from belated.config.briefing import TUNES, RunBrief, number, numbers
from belated.config.part import Inner, Maker, Part, Registry, by_name
from belated.core.contract import Agent
from belated.linear.choice import Choice
from belated.tabular.oreps.doubling import DoublingFTRL
from belated.tabular.tuning import Parameters

UNTUNED = Parameters(1.0, 1.0, 1.0)
"""A placeholder for tuned parameters until the setting of the agent is known."""
CHANGED: dict[str, dict[str, Any]] = {
    "DelayedFTRL": {"transitions": Part("known"), "max_delay": None},
    "DelayedOPPO": {"costs": None},
}
"""Defaults that differ from the constructor's, and arguments that only tuning uses."""


def from_constructor(maker: Maker, *told_of: str, **changed: Any) -> Maker:
    """The kind of an agent, a part or a wrapper that a constructor makes.

    told_of: arguments that are taken from the `RunBrief`, by name, as `problem` and `paths` are.
    changed: see `CHANGED`.
    """
    own = inspect.signature(maker).parameters
    taken = [name for name in ("problem", "paths", *told_of) if name in own]
    tunable = hasattr(maker, "setting")
    defaults = {name: p.default for name, p in own.items() if name not in taken} | changed
    if tunable and "learning_rate" in own:
        defaults["learning_rate"] = "tuned"

    def built(told: RunBrief, values: Mapping[str, Any]) -> Any:
        # in a service, agents for decisions are told their problem alone
        given = {name: getattr(told, name, told) for name in taken}
        parts = {name: v(told) if callable(v) else v for name, v in values.items()}
        return maker(**given, **numbers(told, parts))

    def made(told: RunBrief, /, **values: Any) -> Any:
        largest = values.pop("max_delay", None) if "max_delay" in changed else None
        if "costs" in changed and values["costs"] is None:
            values["costs"] = usual_costs
        update = values.get("update")
        words = update.part.parameters if isinstance(update, Inner) else ()
        if tunable and TUNES in (*values.items(), *words):
            known = {"episodes": told.episodes}  # first: a service does not know it
            fresh = built(replace(told, tuned=UNTUNED), values)
            told = told.tuned_for(fresh, number(told, "max_delay", largest))
            known["barrier"] = told.said("barrier", "tuned")
            values |= {n: v for n, v in known.items() if values.get(n, "given") is None}
        elif largest is not None:
            raise ValueError("max_delay must be left out if learning_rate is a number")
        return built(told, values)

    first = inspect.Parameter("told", inspect.Parameter.POSITIONAL_ONLY)
    others = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_in_a_file(default))
        for name, default in defaults.items()
    ]
    made.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
    made.__doc__ = inspect.getdoc(maker)
    return made


def _in_a_file(default: Any) -> Any:
    """A default in the form of a file: an object of a part becomes its kind."""
    own = is_dataclass(default) and not isinstance(default, Part)
    return Part(names.kind(type(default).__name__)) if own else default


def _kinds(*makers: type) -> dict[str, Maker]:
    """The kinds of classes, by the names that files use, in alphabetical order."""
    found = {
        names.kind(maker.__name__): from_constructor(maker, **CHANGED.get(maker.__name__, {}))
        for maker in makers
    }
    return dict(sorted(found.items()))


def known(told: RunBrief, /) -> Any:
    """The true transitions."""
    return told.known(told.transitions, "the transitions")


def weighted(told: RunBrief, /, exploration: float | None = None) -> Any:
    """Bandit feedback, any costs: importance weights.

    If the learning rate is tuned and no exploration is given, the exploration is tuned too.
    """
    if exploration is None and told.tuned is not None:
        exploration = told.tuned.exploration
    return parts.Weighted(exploration)


def usual_costs(told: RunBrief, /) -> Any:
    """The default cost part of an agent, by its information."""
    return parts.Revealed() if told.information == "full" else weighted(told)


PARTS = {
    "transitions": Registry(by_name(known) | _kinds(parts.Bonus, parts.Confidence)),
    "costs": Registry(_kinds(parts.Averaged, parts.Revealed) | by_name(weighted)),
    "update": Registry(_kinds(parts.RegretMatching, parts.Softmax)),
    "explore": Registry(_kinds(parts.FewVisits)),
}
"""The parts of agents by argument. Each kind takes the arguments of its class."""


def parallel(told: RunBrief, /, agent: Inner, max_delay: int | str = "realised") -> Agent:
    """`belated.wrappers.Parallel`: copies that take turns, each tuned for its share of episodes."""
    largest = number(told, "max_delay", max_delay)

    def copy() -> Any:
        share = math.ceil(told.episodes / (largest + 1))
        return agent(told.undelayed(share))

    return wrappers.Parallel(copy, largest)


def bold(told: RunBrief, /, agent: Inner) -> Agent:
    """`belated.wrappers.Bold`: copies made when needed, each tuned for all episodes."""
    return wrappers.Bold(lambda: agent(told.undelayed(told.episodes)))


def pipeline(told: RunBrief, /, agent: Inner, max_delay: int | str = "realised") -> Agent:
    """`belated.wrappers.Pipeline`: feedback is held back until it has the largest delay."""
    largest = number(told, "max_delay", max_delay)
    equal = replace(told, delays=np.full(told.episodes, largest, dtype=np.int64))
    return wrappers.Pipeline(agent(equal), largest, paths=told.paths)


def skipping(told: RunBrief, /, agent: Inner, threshold: float | str = "tuned") -> Agent:
    """`belated.wrappers.Skipping`: feedback with a delay above the threshold is not used."""
    inside = agent(told)
    if isinstance(threshold, str):
        if not hasattr(inside, "setting"):
            raise ValueError('agent must have a row of tuning if threshold is "tuned"')
        told = told.tuned_for(inside)
    return wrappers.Skipping(inside, number(told, "threshold", threshold))


def recommended(
    told: RunBrief,
    /,
    transitions: Inner | None = None,
    aim: Literal["practice", "guarantee"] = "practice",
    seed: int = 0,
) -> Any:
    """`belated.recommend`: the agent recommended for the setting; transitions may be "known"."""
    if isinstance(told.problem, Choice):
        if transitions is not None or aim != "practice":
            raise ValueError("transitions and aim must be left out for decisions with features")
        return recommend(told.problem, silence=told.silence, seed=seed)
    known = None if transitions is None else transitions(told)
    given = {"information": told.information, "transitions": known, "paths": told.paths}
    return recommend(told.problem, aim=aim, seed=seed, **given)


def _in_room(room: str) -> list[type]:
    """The agents of the package in modules of a room: tabular or linear."""
    homes = {**names.AGENTS, **names.RIVALS}
    return [
        resolve_name(f"belated.{home}:{name}")
        for name, home in homes.items()
        if home.startswith(f"{room}.")
    ]


AGENTS = Registry(
    {
        **by_name(bold, parallel, pipeline, recommended, skipping),
        **_kinds(DoublingFTRL, wrappers.Doubling, wrappers.Lazy),
        **_kinds(*_in_room("tabular")),
    },
    PARTS,
    waits=True,
)
AGENTS.others["agent"] = AGENTS
DECIDERS = Registry(_kinds(*_in_room("linear")))
"""Agents for decisions with features."""
