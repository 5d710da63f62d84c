"""What an agent of a run may know, and agents and their parts by kind, which are made from it.

A kind takes the arguments of the agent's constructor, and its learning rate is "tuned" by default
if the agent has a row of tuning. Wrappers change the `RunBrief` for the agent inside: the copies of
`parallel` know their share of the episodes and no delays.

A word in place of a number requests what only the simulator knows, such as `episodes = "known"` or
`max_delay = "realised"`. The report of an experiment shows what every agent requested.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from inspect import Parameter
from pkgutil import resolve_name
from typing import Any, Literal, Self

import numpy as np

from belated import names, parts, wrappers
from belated.advice import recommend
from belated.config.part import Inner, Maker, Part, Registry, by_name
from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Agent, Information
from belated.core.delays import total_delay
from belated.linear.choice import Choice
from belated.tabular.oreps.doubling import DoublingFTRL
from belated.tabular.tuning import Parameters

WORDS = {
    "barrier": "tuned",
    "episodes": "known",
    "exploration": "tuned",
    "learning_rate": "tuned",
    "max_delay": "realised tuned",
    "threshold": "tuned",
    "totals": "known",
}
"""The words that a parameter takes in place of a number."""
TUNES = ("learning_rate", "tuned")
"""With this word an agent is tuned by its own row of `belated.tuning`, for K and D of the run."""


@dataclass(frozen=True, slots=True, eq=False)
class RunBrief:
    """What an agent of a run may know; a function that makes an agent uses what it should know.

    Attributes:
        problem: the problem, which every agent knows: a `Problem`, or a `Choice` for decisions.
        information: "full" or "bandit".
        paths: "late" or "at once".
        transitions: the true transitions; None for decisions.
        delays: (K,) the delays of the run; None if they depend on what happens, so that they are
            not known in advance.
        tuned: the paper's parameters for the agent, if its learning rate is "tuned".
        seed: the seed of the agent's own draws; different in every repetition of a run.
        length: K, if the delays are not known before the run.
        silence: the outcome of decisions that never report; None if every one reports.
        unknown: why something cannot be told, with a place for its name.
    """

    problem: Any
    information: Information
    paths: str
    transitions: Any
    delays: Ints | None
    tuned: Parameters | None = None
    seed: int = 0
    length: int = 0
    silence: float | None = None
    unknown: str = "delays must not depend on what happens for an agent that is told {}"

    @property
    def episodes(self) -> int:
        """K."""
        known = self.length if self.delays is None else len(self.delays)
        return int(self.known(known or None, "the number of episodes"))

    @property
    def total_delay(self) -> int:
        """Sum of the delays, each cut off at the end of the run."""
        return total_delay(self.known(self.delays, "the total delay"))

    def said(self, name: str, word: str) -> Any:
        """The number that a word stands for.

        The realised largest delay is at most K - 1: later feedback does not arrive within the run.
        A tuned largest delay is the threshold of skipping, the largest delay that is used.
        """
        checks.choice(f"{name} (if not a number)", word, WORDS[name].split())
        if word == "realised":
            return int(min(self.known(self.delays, "the largest delay").max(), self.episodes - 1))
        if name == "episodes":
            return self.episodes
        if name == "totals":
            return self.episodes, self.total_delay
        if self.tuned is None:
            raise ValueError(f'{name} must be a number here, got "tuned"')
        return getattr(self.tuned, "threshold" if name == "max_delay" else name)

    def known(self, value: Any, what: str) -> Any:
        """What is known, if it is."""
        if value is None:
            raise ValueError(self.unknown.format(what))
        return value

    def tuned_for(self, agent: Any, largest: int | None = None) -> Self:
        """The same with the paper's parameters for an agent; largest: of the delays, if it counts.

        The agent says which row of tuning is its own; its numbers do not matter.
        """
        setting = agent.setting(self.paths)
        totals = (self.problem, self.episodes, self.total_delay)
        known = setting.at(*totals) if largest is None else setting.printed_at(*totals, largest)
        return replace(self, tuned=known)

    def undelayed(self, episodes: int) -> Self:
        """The same for a learner of this many episodes without delays."""
        return replace(self, delays=np.zeros(episodes, dtype=np.int64))


def number(told: RunBrief, name: str, value: Any) -> Any:
    """A parameter, with a number in place of a word."""
    return told.said(name, value) if isinstance(value, str) and name in WORDS else value


def numbers(told: RunBrief, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with numbers for words; `scale` is a factor on a tuned learning rate."""
    found = {name: number(told, name, value) for name, value in values.items()}
    if isinstance(values.get("learning_rate"), str):
        found["learning_rate"] *= checks.real("scale", values.get("scale", 1.0), 0.0, above=True)
    return found


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

    first = Parameter("told", Parameter.POSITIONAL_ONLY)
    others = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_in_a_file(default))
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
    homes = names.AGENTS | names.RIVALS
    return [resolve_name(f"belated.{homes[n]}:{n}") for n in homes if homes[n].startswith(room)]


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
