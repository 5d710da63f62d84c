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
from belated.config.part import Inner, Maker, Part, Registry, by_name
from belated.core import checks
from belated.core.contract import Agent
from belated.core.wrappers.parallel import Bold, Parallel
from belated.core.wrappers.pipeline import Pipeline
from belated.core.wrappers.skipping import Skipping
from belated.linear.choice import Choice
from belated.tabular.doubling import Doubling
from belated.tabular.lazy import Lazy
from belated.tabular.oreps.doubling import DoublingFTRL
from belated.tabular.oreps.ftrl import DelayedFTRL
from belated.tabular.parts.costs import Averaged, Revealed, Weighted
from belated.tabular.parts.explore import FewVisits
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Bonus, Confidence
from belated.tabular.parts.update import Softmax
from belated.tabular.tuning import Parameters

UNTUNED = Parameters(1.0, 1.0, 1.0)
"""A placeholder for tuned parameters until the setting of the agent is known."""


def known(told: RunBrief, /) -> Any:
    """The true transitions."""
    return told.transitions


def weighted(told: RunBrief, /, exploration: float | None = None) -> Weighted:
    """Bandit feedback, any costs: importance weights.

    If the learning rate is tuned and no exploration is given, the exploration is tuned too.
    """
    tuned = None if told.tuned is None else told.tuned.exploration
    return Weighted(exploration=tuned if exploration is None else exploration)


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
        p.replace(kind=p.KEYWORD_ONLY, default=_inner(p.name, changed.get(p.name, p.default)))
        for p in (*taken, *extra)
        if p.name not in told_of
    ]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def made(told: RunBrief, /, **given: Any) -> Any:
        values = {**defaults, **given, **{name: getattr(told, name) for name in told_of}}
        largest = number(told, "max_delay", values.pop("max_delay", None))
        if values.get("costs", "given") is None:
            values["costs"] = _inner("costs", COSTS[told.information])
        update = values.get("update")
        asks = isinstance(update, Inner) and TUNES in update.part.parameters
        if tunable and (asks or TUNES in values.items()):
            setting = _made(agent, replace(told, tuned=UNTUNED), values).setting(told.paths)
            totals = (told.problem, told.episodes, told.total_delay)
            tuned = setting.at(*totals) if largest is None else setting.printed_at(*totals, largest)
            told = replace(told, tuned=tuned)
            known = {"episodes": told.episodes, "barrier": tuned.barrier}
            values |= {n: v for n, v in known.items() if values.get(n, "given") is None}
        elif largest is not None:
            raise ValueError("max_delay must be left out if learning_rate is a number")
        return _made(agent, told, values)

    first = inspect.Parameter("told", inspect.Parameter.POSITIONAL_ONLY)
    made.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
    made.__doc__ = inspect.getdoc(agent)
    return made


def _inner(name: str, default: Any) -> Any:
    """A default in the form of a file: a part of a class or a kind becomes an `Inner`."""
    if name not in PARTS or default in (None, inspect.Parameter.empty):
        return default
    kind = default if isinstance(default, str) else names.kind(type(default).__name__)
    return Inner(name, Part(kind), PARTS[name])


def _made(agent: Maker, told: RunBrief, values: Mapping[str, Any]) -> Any:
    """Call the constructor; in a service, agents for decisions know only their problem."""
    given = {name: v(told) if isinstance(v, Inner) else v for name, v in values.items()}
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
        tuned = inside.setting(told.paths).at(told.problem, told.episodes, told.total_delay)
        threshold = float(replace(told, tuned=tuned).said("threshold", threshold))
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
