"""Agents and their parts by kind, made from a `RunBrief`: what an agent of the run may know.

A kind takes the arguments of the agent's constructor, and its learning rate is "tuned" by default
if the agent has a row of tuning. Wrappers change the `RunBrief` for the agent inside: the copies of
`parallel` know their share of the episodes and no delays.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Literal, cast

import numpy as np

from belated import names
from belated.advice import recommend
from belated.config.briefing import TUNES, RunBrief, number, numbers
from belated.config.part import Inner, Maker, Part, Registry, by_name, make
from belated.core import checks
from belated.core.contract import Agent
from belated.linear.choice import Choice
from belated.parts import (
    Averaged,
    Bonus,
    Confidence,
    FewVisits,
    RegretMatching,
    Revealed,
    Softmax,
    Weighted,
)
from belated.tabular.oreps.doubling import DoublingFTRL
from belated.tabular.oreps.ftrl import DelayedFTRL
from belated.tabular.tuning import Parameters
from belated.wrappers import Bold, Doubling, Lazy, Parallel, Pipeline, Skipping

UNTUNED = Parameters(1.0, 1.0, 1.0)
"""A placeholder for tuned parameters until the setting of the agent is known."""


def known(told: RunBrief, /) -> Any:
    """The true transitions."""
    return told.transitions


def weighted(told: RunBrief, /, exploration: float | None = None) -> Weighted:
    """Bandit feedback, any costs: importance weights.

    If the learning rate is tuned and no exploration is given, the exploration is tuned too.
    """
    if exploration is None and told.tuned is not None:
        exploration = told.tuned.exploration
    return Weighted(exploration)


PARTS = {
    "transitions": Registry(by_name(known, Confidence, Bonus)),
    "costs": Registry(by_name(Revealed, weighted, Averaged)),
    "update": Registry(by_name(Softmax, RegretMatching)),
    "explore": Registry(by_name(FewVisits)),
}
"""The parts of agents by argument. Each kind takes the arguments of its class."""
CHANGED: dict[str, dict[str, Any]] = {
    "DelayedFTRL": {"transitions": "known", "max_delay": None},
    "DelayedOPPO": {"costs": None},
}
"""Defaults that differ from the constructor's, and arguments that only tuning uses."""
COSTS = {"full": "revealed", "bandit": "weighted"}
"""The default cost part of an agent, by its information."""


def from_constructor(agent: Maker, *told_of: str, **changed: Any) -> Maker:
    """The kind of an agent.

    told_of: arguments that are taken from the `RunBrief`, by name. changed: see `CHANGED`.
    """
    own = inspect.signature(agent).parameters
    tunable = hasattr(agent, "setting")
    if "learning_rate" in own and tunable:
        changed["learning_rate"] = "tuned"
    _, *taken = own.values()
    extra = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in changed if n not in own]
    parameters = [
        p.replace(kind=p.KEYWORD_ONLY, default=_default(p.name, changed.get(p.name, p.default)))
        for p in (*taken, *extra)
        if p.name not in told_of
    ]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def made(told: RunBrief, /, **given: Any) -> Any:
        values = {**defaults, **given, **{name: getattr(told, name) for name in told_of}}
        largest = number(told, "max_delay", values.pop("max_delay", None))
        if values.get("costs", "given") is None:
            values["costs"] = Part(COSTS[told.information])
        update = values.get("update")
        asks = isinstance(update, Inner) and TUNES in update.part.parameters
        if tunable and (asks or TUNES in values.items()):
            told = told.tuned_for(_made(agent, replace(told, tuned=UNTUNED), values), largest)
            known = {"episodes": told.episodes, "barrier": told.said("barrier", "tuned")}
            values |= {n: v for n, v in known.items() if values.get(n, "given") is None}
        elif largest is not None:
            raise ValueError("max_delay must be left out if learning_rate is a number")
        return _made(agent, told, values)

    first = inspect.Parameter("told", inspect.Parameter.POSITIONAL_ONLY)
    made.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
    made.__doc__ = inspect.getdoc(agent)
    return made


def _default(name: str, default: Any) -> Any:
    """A default in the form of a file: an object of a class, or a kind, becomes a `Part`."""
    if name not in PARTS or default in (None, inspect.Parameter.empty):
        return default
    return Part(default if isinstance(default, str) else names.kind(type(default).__name__))


def _made(agent: Maker, told: RunBrief, values: Mapping[str, Any]) -> Any:
    """Call the constructor; in a service, agents for decisions know only their problem."""
    given = dict(values)
    for name, value in values.items():
        if isinstance(value, Part):
            given[name] = make(name, value, PARTS[name], told)
        elif isinstance(value, Inner):
            given[name] = value(told)
    return agent(getattr(told, "problem", told), **numbers(told, given))


def lazy(told: RunBrief, /, agent: Inner, alpha: float) -> Agent:
    """`belated.wrappers.Lazy`: feedback is used when a count has grown by 1 / alpha."""
    return Lazy(agent(told), alpha)


def parallel(told: RunBrief, /, agent: Inner, max_delay: int | str = "realised") -> Agent:
    """`belated.wrappers.Parallel`: copies that take turns, each tuned for its share of episodes."""
    copies = 1 + checks.integer("max_delay", number(told, "max_delay", max_delay), 0)
    share = told.undelayed(math.ceil(told.episodes / copies))
    return Parallel(lambda: agent(share), copies - 1)


def bold(told: RunBrief, /, agent: Inner) -> Agent:
    """`belated.wrappers.Bold`: copies made when needed, each tuned for all episodes."""
    return Bold(lambda: agent(told.undelayed(told.episodes)))


def pipeline(told: RunBrief, /, agent: Inner, max_delay: int | str = "realised") -> Agent:
    """`belated.wrappers.Pipeline`: feedback is held back until it has the largest delay."""
    largest = checks.integer("max_delay", number(told, "max_delay", max_delay), 0)
    equal = replace(told, delays=np.full(told.episodes, largest, dtype=np.int64))
    return Pipeline(agent(equal), largest, paths=told.paths)


def skipping(told: RunBrief, /, agent: Inner, threshold: float | str = "tuned") -> Agent:
    """`belated.wrappers.Skipping`: feedback with a delay above the threshold is not used."""
    inside = agent(told)
    if isinstance(threshold, str):
        if not hasattr(inside, "setting"):
            raise ValueError('agent must have a row of tuning if threshold is "tuned"')
        threshold = float(told.tuned_for(inside).said("threshold", threshold))
    return Skipping(inside, threshold)


def doubling(told: RunBrief, /, agent: Inner) -> Agent:
    """`belated.wrappers.Doubling`: new parameters whenever the estimate of K and D has doubled."""
    return Doubling(agent(told), paths=told.paths)


def doubling_ftrl(told: RunBrief, /, agent: Inner, totals: Literal["known"] | None = None) -> Agent:
    """`ftrl` with its paper's constants: new ones whenever the largest delay has doubled.

    totals: K and D may be "known"; otherwise they are doubled too.
    """
    return DoublingFTRL(cast(DelayedFTRL, agent(told)), totals=number(told, "totals", totals))


def recommended(
    told: RunBrief,
    /,
    transitions: Inner | None = None,
    aim: Literal["practice", "guarantee"] = "practice",
    seed: int = 0,
) -> Agent:
    """`belated.recommend`: the agent recommended for the setting; transitions may be "known"."""
    if isinstance(told.problem, Choice):
        if transitions is not None or aim != "practice":
            raise ValueError("transitions and aim must be left out for decisions with features")
        return cast(Agent, recommend(told.problem, silence=told.silence, seed=seed))
    known = None if transitions is None else transitions(told)
    given = {"information": told.information, "transitions": known, "paths": told.paths}
    return cast(Agent, recommend(told.problem, aim=aim, seed=seed, **given))


def _of_room(homes: Mapping[str, str], room: str) -> dict[str, Maker]:
    """The kinds of the agents whose modules are in a room of the package: tabular or linear."""
    found = {}
    for name, home in homes.items():
        if home.startswith(f"{room}."):
            agent = getattr(import_module(f"belated.{home}"), name)
            found[names.kind(name)] = from_constructor(agent, **CHANGED.get(name, {}))
    return dict(sorted(found.items()))


AGENTS = Registry(
    {
        **by_name(bold, doubling, doubling_ftrl, lazy, parallel, pipeline, recommended, skipping),
        **_of_room({**names.AGENTS, **names.RIVALS}, "tabular"),
    },
    same=("agent",),
    others=PARTS,
    waits=True,
)
DECIDERS = Registry(_of_room(names.AGENTS, "linear"))
"""Agents for decisions with features."""
