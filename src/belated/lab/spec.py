"""An experiment as data: agents, worlds, costs, delays and seeds.

Everything here is frozen and checked when it is made. A mistake raises ValueError with one line
that names the key, the value and what is allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from belated import config as kinds
from belated.config.agents import from_constructor
from belated.config.part import Part, Shown, as_part, as_written, plain, read, table
from belated.config.registry import Registry, check, structured
from belated.core import checks
from belated.core.contract import PATHS, Information
from belated.lab import sweep
from belated.lab.names import check_different, check_line, check_name, slug
from belated.lab.sweep import Axes, Select, Variant
from belated.linear.sampler import LinearSampler

INFORMATION = ("full", "bandit")
SCORE = "score"
AGAINST = ("episodes", "total_delay", SCORE)
SELECT_CASES = ("each", "together")
REGISTRIES = {"environment": kinds.ENVIRONMENTS, "costs": kinds.COSTS, "delays": kinds.DELAYS}
"""The kinds of the parts that make a scene, by key."""
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
    _learners: tuple[Variant[Learner], ...] = field(init=False, repr=False, compare=False)
    _cases: tuple[Variant[Case], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_line("title", self.title)
        if not isinstance(self.about, str):
            raise ValueError(f"about must be a text, got {checks.show(self.about)}")
        _check_scene("", self, ("environment", "delays", "episodes"))
        checks.integer("seeds", self.seeds, 1, MOST_RUNS)
        checks.integer("first_seed", self.first_seed, 0, MOST_RUNS)
        _check_feedback("", self)
        if not self.agents:
            raise ValueError("agents must name at least one agent, got none")
        for i, learner in enumerate(self.agents):
            _check_learner(f"agents[{i}]", f"agents[{i}].", learner)
            self._check_cases(f"agents[{i}].cases", learner.cases)
        check_different("agents", [learner.name for learner in self.agents])
        for i, case in enumerate(self.cases):
            _check_case(f"cases[{i}].", case)
        check_different("cases", [case.name for case in self.cases])
        self._expand()
        runs = self.seeds * len(self.learners) * len(self.case_names())
        if runs > MOST_RUNS:
            raise ValueError(
                f"seeds must make at most {MOST_RUNS} runs, got {self.seeds}, which makes {runs}"
            )
        if self.against is not None:
            paths = [path for path, _ in self.sweep]
            checks.choice("against", self.against, (*AGAINST, *paths))
            if self.against not in paths and len(self._cases) < 2:
                raise ValueError(
                    f"cases must be at least two to draw them against {self.against}, "
                    f"got {len(self._cases)}"
                )
        if self.select is not None:
            self._check_select(self.select)

    def _check_cases(self, key: str, names: object) -> None:
        if names is not None and (not isinstance(names, tuple) or not names):
            raise ValueError(f"{key} must be names of cases, got {checks.show(names)}")
        for name in names or ():
            checks.choice(key, name, [case.name for case in self.cases])

    def _expand(self) -> None:
        """Make the agents and cases of the sweep, and check them like those given."""
        object.__setattr__(self, "sweep", sweep.axes_of(self.sweep))
        learners, cases = sweep.expanded(self, REGISTRIES, kinds.AGENTS, Case(), MOST_RUNS)
        object.__setattr__(self, "_learners", learners)
        object.__setattr__(self, "_cases", cases)
        if self.sweep:
            for learner in self.learners:
                _check_learner(f"sweep, {learner.name}", f"sweep, {learner.name}: ", learner)
            for variant in cases:
                _check_case(f"sweep, {variant.item.name}: ", variant.item)
            check_different("sweep", [learner.name for learner in self.learners])
            check_different("sweep", self.case_names())

    def _check_select(self, given: object) -> None:
        if isinstance(given, Mapping):
            given = structured("select", Select, "select", {"seeds": 0, **given})
            object.__setattr__(self, "select", given)
        checks.instance("select", given, Select, ", e.g. { seeds = 5 }")
        assert isinstance(given, Select)
        checks.integer("select.seeds", given.seeds, 1)
        checks.choice("select.cases", given.cases, SELECT_CASES)
        if given.seeds >= self.seeds:
            raise ValueError(
                f"select.seeds must be less than seeds = {self.seeds}, since the other seeds are "
                f"those reported on, got {given.seeds}"
            )
        if not any(variant.at for variant in self._learners):
            raise ValueError("select needs a sweep over a parameter of an agent, to select from")

    @property
    def learners(self) -> tuple[Learner, ...]:
        """The agents, including every agent of a sweep."""
        return tuple(variant.item for variant in self._learners)

    def base(self, learner: str) -> str:
        """The name of the agent that a learner of a sweep was made from."""
        return next(v.base for v in self._learners if v.item.name == learner)

    def variants(self, case: str, learner: str) -> list[Variant[Case] | Variant[Learner]]:
        """The variants that a named case and a learner were made from, with their values."""
        cases = [v for v in self._cases if v.item.name == case]
        return [*cases, *(v for v in self._learners if v.item.name == learner)]

    def at(self, case: str, learner: str) -> dict[str, Any]:
        """The values of a sweep, by path, in a case for a learner."""
        return dict(pair for variant in self.variants(case, learner) for pair in variant.at)

    def case_names(self) -> list[str]:
        """Names of the cases; one empty name if there are none."""
        return [variant.item.name for variant in self._cases] or [""]

    def case(self, name: str) -> Case:
        """The case of this name; an empty one if there is none."""
        return next((v.item for v in self._cases if v.item.name == name), Case())

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
        return next(learner for learner in self.learners if learner.name == name)

    def learners_of(self, case: str) -> list[Learner]:
        """The learners that are run in a case."""
        base = next((v.base for v in self._cases if v.item.name == case), "")
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
    values = _parts_read("", given)
    for key, made in (("agents", _learner), ("cases", _case)):
        listed = values.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
            raise ValueError(f"{key} must be tables, [[{key}]], got {checks.show(listed)}")
        if key in values:
            values[key] = tuple(made(f"{key}[{i}]", item) for i, item in enumerate(listed))
    return structured("", Experiment, "an experiment", values)


def code_named(key: str, value: object, registry: Registry | None) -> list[str]:
    """The places where a checked part, or a part inside, names code: `module:function`.

    The id of a Gymnasium environment may name a module too.
    """
    if isinstance(value, tuple):
        return [t for i, v in enumerate(value) for t in code_named(f"{key}[{i}]", v, registry)]
    if not isinstance(value, Part):
        return []
    found = [f"{key}.kind = {value.kind!r}"] if value.own else []
    for name, item in value.parameters:
        inside = registry.inside(name) if registry is not None else None
        found += code_named(f"{key}.{name}", item if inside is None else as_part(item), inside)
        if value.kind == "gymnasium" and ":" in str(item):
            found.append(f"{key}.{name} = {item!r}")
    return found


def own_code(experiment: Experiment) -> list[str]:
    """The places where an experiment names code, e.g. `agents[0].kind = 'mine:uniform'`."""
    found = []
    cases = ((f"cases[{i}].", case) for i, case in enumerate(experiment.cases))
    swept = ((f"sweep, {v.item.name}: ", v.item) for v in experiment._cases if v.at)
    for prefix, item in [("", experiment), *cases, *swept]:
        for key, registry in REGISTRIES.items():
            found += code_named(f"{prefix}{key}", getattr(item, key), registry)
    for i, learner in enumerate(experiment.agents):
        found += code_named(f"agents[{i}]", learner.agent, kinds.AGENTS)
    for variant in experiment._learners:
        if variant.at:
            found += code_named(f"sweep, {variant.item.name}", variant.item.agent, kinds.AGENTS)
    return found


def to_table(experiment: Experiment, show: Shown = as_written) -> dict[str, Any]:
    """The table that describes an experiment; the inverse of `from_table`.

    show: the representation of a file, by default its path as written.
    """
    result = _given(experiment, show)
    result["agents"] = [
        {"name": learner.name, **table(learner.agent, show), **_given(learner, show, "agent")}
        for learner in experiment.agents
    ]
    result["cases"] = [_given(case, show) for case in experiment.cases]
    result["sweep"] = {path: plain(values, show) for path, values in experiment.sweep}
    if experiment.select is not None:
        result["select"] = dataclasses.asdict(experiment.select)
        if experiment.select.cases == SELECT_CASES[0]:
            del result["select"]["cases"]
    for key in ("first_seed", "cases", "sweep"):
        if not result[key]:
            del result[key]
    # plain values first: in TOML, keys after a table belong to the table
    return dict(sorted(result.items(), key=lambda item: isinstance(item[1], dict | list)))


def _given(item: Experiment | Learner | Case, show: Shown, *without: str) -> dict[str, Any]:
    values = {f.name: getattr(item, f.name) for f in dataclasses.fields(item) if f.init}
    return {
        name: table(value, show) if isinstance(value, Part) else value
        for name, value in values.items()
        if value is not None and value != "" and name not in without
    }


def _learner(key: str, item: Mapping[str, Any]) -> Learner:
    own = {name: item[name] for name in ("information", "paths", "cases") if name in item}
    agent = {name: value for name, value in item.items() if name not in ("name", *own)}
    if isinstance(own.get("cases"), list):
        own["cases"] = tuple(own["cases"])
    return Learner(item.get("name", ""), read(key, agent), **own)


def _case(key: str, item: Mapping[str, Any]) -> Case:
    return structured(key, Case, "a case", _parts_read(f"{key}.", item))


def _parts_read(prefix: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: read(f"{prefix}{key}", value) if key in REGISTRIES else value
        for key, value in given.items()
    }


def _check_learner(key: str, prefix: str, learner: Learner) -> None:
    check_name(f"{prefix}name", learner.name)
    check(key, learner.agent, kinds.AGENTS)
    _check_feedback(prefix, learner)


def _check_case(prefix: str, case: Case) -> None:
    check_name(f"{prefix}name", case.name)
    _check_scene(prefix, case)
    if case.information is not None:
        checks.choice(f"{prefix}information", case.information, INFORMATION)


def _check_scene(prefix: str, item: Experiment | Case, required: Sequence[str] = ()) -> None:
    for key, registry in REGISTRIES.items():
        value = getattr(item, key)
        if value is not None or key in required:
            check(f"{prefix}{key}", value, registry)
    if item.episodes is not None or "episodes" in required:
        checks.integer(f"{prefix}episodes", item.episodes, 1, MOST_EPISODES)


def _check_feedback(prefix: str, item: Experiment | Learner) -> None:
    for key, allowed in (("information", INFORMATION), ("paths", PATHS)):
        if (value := getattr(item, key)) is not None:
            checks.choice(f"{prefix}{key}", value, allowed)
