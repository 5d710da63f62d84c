"""An experiment as data: agents, worlds, costs, delays and seeds.

Everything here is frozen and checked when it is made. A mistake raises ValueError with one line
that names the key, the value and what is allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from belated import config as kinds
from belated.config.agents import from_constructor
from belated.config.part import Part, plain, read, structured, table
from belated.core import checks
from belated.core.contract import PATHS, Information
from belated.lab import sweep
from belated.lab.scenes import SCENE
from belated.lab.sweep import (
    Axes,
    Select,
    Variant,
    check_different,
    check_line,
    check_name,
    slug,
)
from belated.linear.sampler import LinearSampler

INFORMATION = ("full", "bandit")
SCORE = "score"
AGAINST = ("episodes", "total_delay", SCORE)
kinds.AGENTS.kinds["linear_sampler"] = from_constructor(LinearSampler, "silence")
"""The learner of decisions with features knows the outcome that silence stands for."""
MOST_EPISODES = 10**8
MOST_RUNS = 10**6


@dataclass(frozen=True, slots=True)
class Learner:
    """One of the agents: its name in tables and figures, and the part that describes it.

    information, paths: replace those of the experiment for this agent.
    cases: the names of the cases that it is run in; None: all.
    """

    name: str
    agent: Part
    information: str | None = None
    paths: str | None = None
    cases: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        checks.fix(self, "agent", read("", self.agent, kinds.AGENTS))
        _check_feedback(self)
        if self.cases is not None and (not isinstance(self.cases, tuple) or not self.cases):
            raise ValueError(f"cases must be names of cases, got {checks.show(self.cases)}")


@dataclass(frozen=True, slots=True)
class Case:
    """A variation of the experiment: the fields given here replace those of the experiment.

    information: an agent's own information takes precedence.
    """

    name: str = ""
    environment: Part | None = None
    costs: Part | None = None
    delays: Part | None = None
    episodes: int | None = None
    information: str | None = None

    def __post_init__(self) -> None:
        _check_scene(self)


@dataclass(frozen=True, slots=True)
class Task:
    """One run: a case, an agent and a seed."""

    case: str
    learner: str
    seed: int

    @property
    def name(self) -> str:
        """The path of its results, e.g. delayed-oppo/seed-3 or mean-2/delayed-oppo/seed-3."""
        return "/".join(filter(None, [slug(self.case), slug(self.learner), f"seed-{self.seed}"]))


@dataclass(frozen=True, slots=True)
class Scene:
    """The parts that are the same for all agents of a case. No costs: those of the environment."""

    environment: Part
    costs: Part | None
    delays: Part
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment. Every agent faces the same worlds, costs and delays, seed by seed.

    Attributes:
        name: the name of the experiment, which is also a directory name.
        title: one line for tables and figures.
        about: what the experiment shows, for the report.
        environment, costs, delays: parts; no costs means those of the environment.
        agents: the learners.
        episodes: K.
        seeds: the number of seeds: first_seed to first_seed + seeds - 1.
        first_seed: 0, unless the seeds must differ from those of another experiment.
        information: "full" or "bandit", unless an agent or a case has its own.
        paths: "late" (with the costs) or "at once", unless an agent has its own.
        cases: variations; without any, the experiment itself is run.
        against: draw the regret of whole runs against this quantity: "total_delay" or
            "episodes", which the cases vary, or a path of the sweep. "score": draw the scores of
            all cases instead.
        sweep: values by path, e.g. {"agents.oppo.update.learning_rate": [0.01, 0.1, 1]}; a path of
            an agent makes several agents, any other path several cases, and several paths a grid.
        select: choose the best setting of every swept agent on the first seeds and report on the
            others: Select(seeds=5); Select(5, "together") chooses one setting for all cases.
    """

    name: str
    environment: Part
    delays: Part
    agents: tuple[Learner, ...]
    title: str = ""
    about: str = ""
    costs: Part | None = None
    episodes: int = 500
    seeds: int = 10
    first_seed: int = 0
    information: str = "full"
    paths: str = "late"
    cases: tuple[Case, ...] = ()
    against: str | None = None
    sweep: Axes = ()
    select: Select | None = None
    _learners: dict[str, Variant[Learner]] = field(init=False, repr=False, compare=False)
    _cases: dict[str, Variant[Case]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_line("title", self.title)
        if not isinstance(self.about, str):
            raise ValueError(f"about must be a text, got {checks.show(self.about)}")
        _check_scene(self)
        checks.integer("seeds", self.seeds, 1, MOST_RUNS)
        checks.integer("first_seed", self.first_seed, 0, MOST_RUNS)
        if not self.agents:
            raise ValueError("agents must name at least one agent, got none")
        names = [case.name for case in self.cases]
        for i, name in enumerate(names):
            check_name(f"cases[{i}].name", name)
        for i, learner in enumerate(self.agents):
            for name in learner.cases or ():
                checks.choice(f"agents[{i}].cases", name, names)
        checks.fix(self, "sweep", sweep.axes_of(self.sweep))
        learners, cases = sweep.expanded(self, self.cases or (Case(),), MOST_RUNS)
        check_different("agents", [variant.item.name for variant in learners])
        check_different("cases", [variant.item.name for variant in cases])
        checks.fix(self, "_learners", {variant.item.name: variant for variant in learners})
        checks.fix(self, "_cases", {variant.item.name: variant for variant in cases})
        runs = self.seeds * len(learners) * len(cases)
        if runs > MOST_RUNS:
            raise ValueError(
                f"seeds must make at most {MOST_RUNS} runs, got {self.seeds}, which makes {runs}"
            )
        if self.against is not None:
            paths = [path for path, _ in self.sweep]
            checks.choice("against", self.against, (*AGAINST, *paths))
            if self.against not in paths and len(cases) < 2:
                raise ValueError(
                    f"cases must be at least two to draw them against {self.against}, "
                    f"got {len(self.cases)}"
                )
        given: object = self.select
        if isinstance(given, Mapping):
            checks.fix(self, "select", structured("select", Select, "select", given))
        if self.select is None:
            return
        checks.instance("select", self.select, Select, ", e.g. { seeds = 5 }")
        if self.select.seeds >= self.seeds:
            raise ValueError(
                f"select.seeds must be less than seeds = {self.seeds}, since the other seeds are "
                f"those reported on, got {self.select.seeds}"
            )
        if not any(variant.at for variant in learners):
            raise ValueError("select needs a sweep over a parameter of an agent, to select from")

    @property
    def learners(self) -> tuple[Learner, ...]:
        """The agents, including every agent of a sweep."""
        return tuple(variant.item for variant in self._learners.values())

    def base(self, learner: str) -> str:
        """The name of the agent that a learner of a sweep was made from."""
        return self._learners[learner].base

    def variants(self, case: str, learner: str) -> tuple[Variant[Case], Variant[Learner]]:
        """The variants that a case and a learner were made from, with their values."""
        return self._cases[case], self._learners[learner]

    def at(self, case: str, learner: str) -> dict[str, Any]:
        """The values of a sweep, by path, in a case for a learner."""
        return dict(pair for variant in self.variants(case, learner) for pair in variant.at)

    def case_names(self) -> list[str]:
        """Names of the cases; one empty name if there are none."""
        return list(self._cases)

    def case(self, name: str) -> Case:
        """The case of this name; one that changes nothing if there is none."""
        return self._cases[name].item if name in self._cases else Case()

    def scene(self, case: str) -> Scene:
        """The parts that are the same for all agents of a case."""
        found = self.case(case)
        return Scene(
            found.environment or self.environment,
            found.costs or self.costs,
            found.delays or self.delays,
            found.episodes or self.episodes,
        )

    def learner(self, name: str) -> Learner:
        """The learner of this name."""
        return self._learners[name].item

    def learners_of(self, case: str) -> list[Learner]:
        """The learners that are run in a case."""
        base = self._cases[case].base
        return [one for one in self.learners if one.cases is None or base in one.cases]

    def cases_of(self, learner: str) -> list[str]:
        """The names of the cases that a learner is run in."""
        found = self.learner(learner)
        return [case for case in self.case_names() if found in self.learners_of(case)]

    def tasks(self) -> list[Task]:
        """All runs, seed by seed, so that the first runs already allow a comparison."""
        pairs = [(case, one.name) for case in self.case_names() for one in self.learners_of(case)]
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [Task(case, learner, seed) for seed in seeds for case, learner in pairs]

    def information_of(self, learner: Learner, case: str = "") -> Information:
        """The information of a learner in a case."""
        found = learner.information or self.case(case).information or self.information
        return cast(Information, found)

    def paths_of(self, learner: Learner) -> str:
        """When a learner observes the path of an episode."""
        return learner.paths or self.paths


def from_table(given: Mapping[str, Any]) -> Experiment:
    """The experiment that a table (of a TOML file) describes."""
    values = dict(given)
    for key, made in (("agents", _learner), ("cases", _case)):
        listed = values.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
            raise ValueError(f"{key} must be tables, [[{key}]], got {checks.show(listed)}")
        if key in values:
            values[key] = tuple(made(f"{key}[{i}]", item) for i, item in enumerate(listed))
    return structured("", Experiment, "an experiment", values)


def to_table(experiment: Experiment) -> dict[str, Any]:
    """The table that describes an experiment; the inverse of `from_table`."""
    select = experiment.select
    result = _given(experiment) | {
        "agents": [
            {"name": learner.name, **table(learner.agent), **_given(learner, "agent")}
            for learner in experiment.agents
        ],
        "cases": [_given(case) for case in experiment.cases],
        "sweep": {path: plain(values) for path, values in experiment.sweep},
        "select": None if select is None else dataclasses.asdict(select),
    }
    # plain values first: in TOML, keys after a table belong to the table
    ordered = sorted(result.items(), key=lambda item: isinstance(item[1], dict | list))
    return {name: value for name, value in ordered if value}


def _given(item: Experiment | Learner | Case, *without: str) -> dict[str, Any]:
    """The fields that are not left out, as plain values."""
    names = [f.name for f in dataclasses.fields(item) if f.init and f.name not in without]
    values = {name: plain(getattr(item, name)) for name in names}
    return {name: value for name, value in values.items() if value}


def _learner(key: str, item: Mapping[str, Any]) -> Learner:
    own = {name: item[name] for name in ("information", "paths", "cases") if name in item}
    agent = {name: value for name, value in item.items() if name not in ("name", *own)}
    if isinstance(own.get("cases"), list):
        own["cases"] = tuple(own["cases"])
    given = {"name": item.get("name", ""), "agent": agent, **own}
    return structured(key, Learner, "an agent", given)


def _case(key: str, item: Mapping[str, Any]) -> Case:
    return structured(key, Case, "a case", item)


def _check_scene(item: Experiment | Case) -> None:
    """Read and check what a case may replace; an experiment has all of it but costs."""
    whole = isinstance(item, Experiment)
    for key, registry in SCENE.items():
        value = getattr(item, key)
        if value is not None or (whole and key != "costs"):
            checks.fix(item, key, read(key, value, registry))
    if item.episodes is not None or whole:
        checks.integer("episodes", item.episodes, 1, MOST_EPISODES)
    _check_feedback(item)


def _check_feedback(item: Experiment | Learner | Case) -> None:
    for key, allowed in (("information", INFORMATION), ("paths", PATHS)):
        if (value := getattr(item, key, None)) is not None:
            checks.choice(key, value, allowed)
