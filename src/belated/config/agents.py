"""Agents by kind, made from what an agent of the run is told.

An agent inside a wrapper is a function of what it is told: the copies of `parallel` are told
their share of the episodes and no delays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Literal, cast

import numpy as np

from belated import names, tuning
from belated.advice import recommend
from belated.config.agent_parts import COST_PARTS, EXPLORES, TRANSITIONS, UPDATES
from belated.config.briefing import Told
from belated.config.build import Inner, from_constructor
from belated.config.part import Part
from belated.config.registry import Maker, Registry, by_name
from belated.core import checks
from belated.core.contract import Agent
from belated.core.wrappers.parallel import Bold, Parallel
from belated.core.wrappers.pipeline import Pipeline
from belated.core.wrappers.skipping import Skipping
from belated.linear.choice import Choice
from belated.tabular.dapo import DAPO
from belated.tabular.dilated import DilatedBonus
from belated.tabular.doubling import Doubling, Restartable
from belated.tabular.lazy import Lazy
from belated.tabular.oppo import DelayedOPPO
from belated.tabular.oreps import UOBREPS, DelayedFTRL, DelayedOREPS
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

CONFIDENCE = Inner("transitions", Part("confidence"), TRANSITIONS)
KNOWN = Inner("transitions", Part("known"), TRANSITIONS)
SOFTMAX = Inner("update", Part("softmax"), UPDATES)
UNTUNED = Parameters(1.0, 1.0, 1.0)
"""Stands for tuned parameters until the agent has said for which setting they are."""


def oppo(
    told: Told,
    /,
    transitions: Inner = CONFIDENCE,
    costs: Inner | None = None,
    update: Inner = SOFTMAX,
    explore: Inner | None = None,
) -> Agent:
    """`belated.DelayedOPPO`; costs follow the information: "revealed" or "weighted"."""
    if costs is None:
        kind = "revealed" if told.information == "full" else "weighted"
        costs = Inner("costs", Part(kind), COST_PARTS)

    def made(told: Told) -> DelayedOPPO:
        return DelayedOPPO(
            told.problem,
            transitions=transitions(told),
            costs=costs(told),
            update=update(told),
            explore=None if explore is None else explore(told),
        )

    if update.asks("tuned"):
        setting = made(replace(told, tuned=UNTUNED)).setting(told.paths)
        told = replace(told, tuned=_tuned(told, setting))
    return made(told)


def oreps(
    told: Told,
    /,
    transitions: Inner = CONFIDENCE,
    learning_rate: float | Literal["tuned"] = "tuned",
    scale: float = 1.0,
    project: Literal["every episode", "on arrival"] | None = None,
) -> Agent:
    """`belated.DelayedOREPS`, for full information; `project` is for unknown transitions."""
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if not a number)", learning_rate, ("tuned",))
        tuned = tuning.oreps(told.problem, told.episodes, told.total_delay)
        learning_rate = tuned["learning_rate"]
    return DelayedOREPS(
        told.problem,
        transitions=transitions(told),
        learning_rate=learning_rate,
        scale=scale,
        project=project,
    )


def _like_dapo(agent: type[DAPO], about: str) -> Maker:
    """The kind of an agent with the arguments of DAPO."""

    def made(
        told: Told,
        /,
        transitions: Inner | None = None,
        learning_rate: float | Literal["tuned"] = "tuned",
        exploration: float | Literal["tuned"] | None = None,
        scale: float = 1.0,
    ) -> Agent:
        known = _if_known(told, transitions)
        episodes = None
        if isinstance(learning_rate, str):
            checks.choice("learning_rate (if not a number)", learning_rate, ("tuned",))
            dynamics = "unknown" if known is None else "known"
            tuned = tuning.dapo(told.problem, told.episodes, told.total_delay, dynamics=dynamics)
            learning_rate, episodes = tuned["learning_rate"], told.episodes
        rate = checks.real("scale", scale, 0.0, above=True) * learning_rate
        gamma: float
        if isinstance(exploration, str):
            checks.choice("exploration (if not a number)", exploration, ("tuned",))
            gamma = 2.0 * learning_rate * told.problem.horizon
        else:
            gamma = 2.0 * rate * told.problem.horizon if exploration is None else exploration
        return agent(
            told.problem,
            transitions=known,
            learning_rate=rate,
            exploration=gamma,
            episodes=episodes,
            scale=scale,
        )

    made.__doc__ = f"""{about}; transitions may be "known".

    scale: factor on the learning rate. Without an exploration it is 2 eta H; "tuned" is that of the
    learning rate without the factor.
    """
    return made


def ftrl(
    told: Told,
    /,
    transitions: Inner = KNOWN,
    learning_rate: float | Literal["tuned"] = "tuned",
    barrier: float | None = None,
    scale: float = 1.0,
    max_delay: float | Literal["realised"] | None = None,
    impossible: bool = False,
) -> Agent:
    """`belated.DelayedFTRL`, for bandit feedback and known transitions.

    scale: factor on the learning rate. With a max_delay the tuned numbers are the paper's; without
    one they are for practice.
    """
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if not a number)", learning_rate, ("tuned",))
        largest = told.largest(max_delay)
        tuned = tuning.ftrl(told.problem, told.episodes, told.total_delay, max_delay=largest)
        learning_rate = tuned["learning_rate"]
        barrier = tuned["barrier"] if barrier is None else barrier
    elif max_delay is not None:
        raise ValueError("max_delay must be left out if learning_rate is a number")
    rate = checks.real("scale", scale, 0.0, above=True) * learning_rate
    return DelayedFTRL(
        told.problem,
        transitions=transitions(told),
        learning_rate=rate,
        barrier=tuning.PRACTICE if barrier is None else barrier,
        scale=scale,
        impossible=impossible,
    )


def uob_reps(
    told: Told,
    /,
    learning_rate: float | Literal["tuned"] = "tuned",
    exploration: float | None = None,
    scale: float = 1.0,
    radius_scale: float = 1.0,
) -> Agent:
    """`belated.UOBREPS`, for bandit feedback and unknown transitions.

    scale: factor on the learning rate. Without an exploration it is the learning rate.
    """
    episodes = None
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if not a number)", learning_rate, ("tuned",))
        tuned = tuning.uob_reps(told.problem, told.episodes, told.total_delay)
        learning_rate, episodes = tuned["learning_rate"], told.episodes
    rate = checks.real("scale", scale, 0.0, above=True) * learning_rate
    return UOBREPS(
        told.problem,
        learning_rate=rate,
        exploration=rate if exploration is None else exploration,
        episodes=episodes,
        radius_scale=radius_scale,
        scale=scale,
    )


def lazy(told: Told, /, agent: Inner, alpha: float) -> Agent:
    """`belated.wrappers.Lazy`: feedback is used when a count has grown by 1 / alpha."""
    return Lazy(agent(told), alpha)


def parallel(
    told: Told,
    /,
    agent: Inner,
    max_delay: int | Literal["realised"] = "realised",
) -> Agent:
    """`belated.wrappers.Parallel`: copies that take turns, each told its share of the episodes."""
    copies = 1 + checks.integer("max_delay", told.largest(max_delay), 0)
    share = told.undelayed(math.ceil(told.episodes / copies))
    return Parallel(lambda: agent(share), copies - 1)


def bold(told: Told, /, agent: Inner) -> Agent:
    """`belated.wrappers.Bold`: copies opened when needed, each told all the episodes."""
    return Bold(lambda: agent(told.undelayed(told.episodes)))


def pipeline(
    told: Told, /, agent: Inner, max_delay: int | Literal["realised"] = "realised"
) -> Agent:
    """`belated.wrappers.Pipeline`: feedback is held back until every delay is the largest."""
    largest = checks.integer("max_delay", told.largest(max_delay), 0)
    equal = replace(told, delays=np.full(told.episodes, largest, dtype=np.int64))
    return Pipeline(agent(equal), largest, paths=told.paths)


def skipping(told: Told, /, agent: Inner, threshold: float | Literal["tuned"] = "tuned") -> Agent:
    """`belated.wrappers.Skipping`: feedback later than the threshold is not used."""
    inside = agent(told)
    if isinstance(threshold, str):
        checks.choice("threshold (if not a number)", threshold, ("tuned",))
        if not hasattr(inside, "setting"):
            raise ValueError(
                'agent must be of kind "oppo", "oreps" or "dapo" if threshold is "tuned"'
            )
        threshold = _tuned(told, inside.setting(told.paths)).threshold
    return Skipping(inside, threshold)


def doubling(
    told: Told, /, agent: Inner, largest: bool = False, totals: Literal["known"] | None = None
) -> Agent:
    """`belated.wrappers.Doubling`: new parameters whenever the estimate of K and D has doubled.

    largest: the largest delay is doubled too, for `ftrl` with its paper's constants; it alone if
    totals, K and D, are "known".
    """
    known = None
    if totals is not None:
        checks.choice("totals", totals, ("known",))
        known = (told.episodes, told.total_delay)
    inside = cast(Restartable, agent(told))
    return Doubling(inside, paths=told.paths, largest=largest, totals=known)


def recommended(
    told: Told,
    /,
    transitions: Inner | None = None,
    aim: Literal["practice", "guarantee"] = "practice",
    seed: int = 0,
) -> Agent:
    """`belated.recommend`: the agent recommended for what is seen; transitions may be "known"."""
    if isinstance(told.problem, Choice):
        if transitions is not None or aim != "practice":
            raise ValueError("transitions and aim must be left out for decisions with features")
        return cast(Agent, recommend(told.problem, silence=told.silence, seed=seed))
    known = _if_known(told, transitions)
    made: Agent = recommend(
        told.problem,
        information=told.information,
        transitions=known,
        paths=told.paths,
        aim=aim,
        seed=seed,
    )
    return made


def _if_known(told: Told, transitions: Inner | None) -> Transitions | None:
    known = None if transitions is None else transitions(told)
    if not isinstance(known, Transitions | None):
        raise ValueError(f'transitions must be "known" or left out, got {checks.show(known)}')
    return known


def _tuned(told: Told, setting: Setting) -> Parameters:
    return setting.at(told.problem, told.episodes, told.total_delay)


PARTS = {
    "transitions": TRANSITIONS,
    "costs": COST_PARTS,
    "update": UPDATES,
    "explore": EXPLORES,
}
"""Arguments of agents that are parts."""
MADE: dict[str, Maker] = {
    "DAPO": _like_dapo(DAPO, "`belated.DAPO`, for bandit feedback"),
    "DelayedFTRL": ftrl,
    "DelayedOPPO": oppo,
    "DelayedOREPS": oreps,
    "DilatedBonus": _like_dapo(DilatedBonus, "`DilatedBonus`, for bandit feedback without delay"),
    "UOBREPS": uob_reps,
}
"""Agents that may be told more than their problem. All others follow from their constructor."""


def of_names(homes: Mapping[str, str], room: str) -> dict[str, Maker]:
    """The kinds of the agents whose modules are in a room of the package: tabular or linear."""
    found: dict[str, Maker] = {}
    for name, home in homes.items():
        if home.startswith(f"{room}."):
            agent = getattr(import_module(f"belated.{home}"), name)
            found[names.kind(name)] = MADE.get(name) or from_constructor(agent, PARTS)
    return dict(sorted(found.items()))


AGENTS = Registry(
    {
        **by_name(bold, doubling, lazy, parallel, pipeline, recommended, skipping),
        **of_names(names.AGENTS, "tabular"),
        **of_names(names.RIVALS, "tabular"),
    },
    same=("agent",),
    others=PARTS,
    waits=True,
)
DECIDERS = Registry(of_names(names.AGENTS, "linear"))
"""Agents for decisions with features."""
COPIES = ("bold", "parallel")
"""Kinds whose agents inside are told of no delays."""
RESTARTS = ("doubling",)
"""Kinds that replace the learning rate and the exploration of the agent inside."""
