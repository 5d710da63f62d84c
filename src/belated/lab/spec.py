"""An experiment as data: agents, worlds, costs, delays and seeds.

Everything here is frozen and checked when it is made. A mistake raises ValueError with one line
that names the key, the value and what is allowed.

In a sweep, parameters take several values. A path names a parameter of the specification:
`agents.NAME.update.learning_rate`, `delays.otherwise.mean`, `environment.size`, `costs.every`,
`episodes`. A path of an agent makes several agents, any other path several cases. Several paths
make a grid.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from belated.config import agents as kinds
from belated.config.part import (
    MARK,
    Part,
    Registry,
    accepted,
    frozen,
    plain,
    read,
    structured,
    table,
    with_defaults,
)
from belated.core import checks
from belated.core.contract import PATHS, Information
from belated.lab.scenes import SCENE
from belated.linear.sampler import LinearSampler

INFORMATION = ("full", "bandit")
SCORE = "score"
AGAINST = ("episodes", "total_delay", SCORE)
kinds.AGENTS.kinds["linear_sampler"] = kinds.from_constructor(LinearSampler, "silence")
"""The learner of decisions with features knows the outcome that silence stands for."""
MOST_EPISODES = 10**8
MOST_RUNS = 10**6
LONGEST = 100
"""The largest number of characters of a name in a file name."""
AGENTS = "agents"
PLAIN = ("episodes", "information")
"""Keys of a scene that are not parts."""
OWN = ("information", "paths")
"""Keys of a learner that are not its agent's."""

Values = tuple[Any, ...]
Axes = tuple[tuple[str, Values], ...]


@dataclass(frozen=True, slots=True)
class Select:
    """Choose the best setting of every agent on the first seeds, and report on the others.

    Attributes:
        seeds: the number of first seeds on which the choice is made.
        cases: "each" chooses in every case separately, by costs; "together" chooses one setting for
            all cases, by mean scores.
    """

    seeds: int
    cases: str = "each"

    def __post_init__(self) -> None:
        checks.integer("seeds", self.seeds, 1)
        checks.choice("cases", self.cases, ("each", "together"))


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


Item = TypeVar("Item", Learner, Case)


@dataclass(frozen=True, slots=True)
class Variant(Generic[Item]):
    """An agent or a case of a sweep.

    Attributes:
        item: the agent or the case, with the values.
        base: the name of the agent or case that it was made from.
        at: the values, by path.
    """

    item: Item
    base: str
    at: tuple[tuple[str, Any], ...] = ()


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
        checks.fix(self, "sweep", axes_of(self.sweep))
        learners, cases = expanded(self, self.cases or (Case(),), MOST_RUNS)
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
            self._check_axis(self.against)
        given: object = self.select
        if isinstance(given, Mapping):
            checks.fix(self, "select", structured("select", Select, "select", given))
        if self.select is not None:
            self._check_selection(self.select)

    def _check_axis(self, against: str) -> None:
        """Check that there is something to draw regret against."""
        paths = [path for path, _ in self.sweep]
        checks.choice("against", against, (*AGAINST, *paths))
        if against not in paths and len(self._cases) < 2:
            raise ValueError(
                f"cases must be at least two to draw them against {against}, got {len(self.cases)}"
            )

    def _check_selection(self, select: Select) -> None:
        """Check that there are settings to select from, and seeds left to report on."""
        checks.instance("select", select, Select, ", e.g. { seeds = 5 }")
        if select.seeds >= self.seeds:
            raise ValueError(
                f"select.seeds must be less than seeds = {self.seeds}, since the other seeds are "
                f"those reported on, got {select.seeds}"
            )
        if not any(variant.at for variant in self._learners.values()):
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


def slug(name: str) -> str:
    """A name for files and addresses: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def check_name(key: str, value: object) -> None:
    """Check that a name can name files."""
    if not isinstance(value, str) or not 1 <= len(slug(value)) <= LONGEST:
        raise ValueError(
            f"{key} must be a text with 1 to {LONGEST} letters from a to z or digits, since it "
            f"names files, got {checks.show(value)}"
        )
    check_line(key, value)


def check_line(key: str, value: object) -> None:
    """Check that a text to be shown is one printable line, without escape characters."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{key} must be a text of one printable line, got {checks.show(value)}")


def check_different(key: str, names: Sequence[str]) -> None:
    """Check that names differ as file names."""
    slugs = [slug(name) for name in names]
    twice = [name for i, name in enumerate(names) if slugs[i] in slugs[:i]]
    if twice:
        raise ValueError(
            f"{key} must have names that differ as file names, got {slug(twice[0])!r} twice "
            f"(the second is {twice[0]!r})"
        )


def axes_of(given: object) -> Axes:
    """The axes of a `sweep` table: values by path."""
    given = dict(given) if isinstance(given, tuple) else given
    if not isinstance(given, Mapping):
        raise ValueError(f"sweep must be a table of lists by path, got {checks.show(given)}")
    axes = []
    for path, values in given.items():
        several = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
        listed = frozen(list(values)) if several else ()
        if not listed:
            raise ValueError(
                f"sweep.{path} must be a list of values, e.g. [0.01, 0.1, 1], "
                f"got {checks.show(values)}"
            )
        twice = [value for i, value in enumerate(listed) if value in listed[:i]]
        if twice:
            raise ValueError(f"sweep.{path} must be different values, got {shown(twice[0])} twice")
        axes.append((str(path), listed))
    return tuple(axes)


def expanded(
    experiment: Experiment, cases: Sequence[Case], most: int
) -> tuple[list[Variant[Learner]], list[Variant[Case]]]:
    """The agents and the cases of a sweep, each with its values.

    cases: those of the experiment, or one that changes nothing. most: the largest number of
    settings of a grid.
    """
    size = math.prod(len(values) for _, values in experiment.sweep)
    if size > most:
        raise ValueError(f"sweep must make at most {most} settings, got {size}")
    axes = {path: _axis(path, experiment) for path, _ in experiment.sweep}
    learners: list[Variant[Learner]] = []
    for learner in experiment.agents:
        own = {path: axis for path, axis in axes.items() if axis[0] is learner}
        learners += _grid(experiment, learner, own)
    of_scene = {path: axis for path, axis in axes.items() if axis[0] is None}
    return learners, [v for case in cases for v in _grid(experiment, case, of_scene)]


Axis = tuple[Learner | None, str, list[str], Registry | None]
"""What a path refers to: a learner, or None for the scene; the field of the learner or the case;
the keys inside; and the kinds of the field, None for a plain value."""


def _axis(path: str, experiment: Experiment) -> Axis:
    names = {name: one for one in experiment.agents for name in (slug(one.name), one.name)}
    owners = {f"{AGENTS}.{name}.": learner for name, learner in names.items()}
    start = max(filter(path.startswith, owners), key=len, default="")
    learner, (key, *keys) = owners.get(start), path[len(start) :].split(".")
    if learner is not None and (keys or key not in OWN):
        return learner, "agent", [key, *keys], kinds.AGENTS
    known = (*SCENE, *PLAIN)
    if learner is None and (key not in known or (keys and key not in SCENE)):
        own = [slug(one.name) for one in experiment.agents]
        word = path.removeprefix(f"{AGENTS}.").partition(".")[0]
        raise ValueError(
            f"sweep.{path}: unknown path; it must be {AGENTS}.NAME.KEY with a NAME among "
            f"{checks.quoted(own)}, or it must begin with one of {checks.quoted(known)}"
            f"{checks.nearest(word, (*own, *known))}"
        )
    return learner, key, keys, SCENE.get(key)


def _grid(experiment: Experiment, item: Item, axes: Mapping[str, Axis]) -> list[Variant[Item]]:
    """A variant for every combination of values."""
    found = []
    values = dict(experiment.sweep)
    for combined in itertools.product(*(values[path] for path in axes)):
        at = tuple(zip(axes, combined, strict=True))
        name = ", ".join(filter(None, [item.name, settings(experiment, at)]))
        changes: dict[str, Any] = {"name": name}
        for path, value in at:
            _, key, keys, registry = axes[path]
            before = changes.get(key) or getattr(item, key) or getattr(experiment, key, None)
            changes[key] = _put(f"sweep.{path}", before, keys, value, registry)
        try:
            found.append(Variant(dataclasses.replace(item, **changes), item.name, at))
        except ValueError as error:
            raise ValueError(f"sweep, {name}: {error}") from None
    return found


def _put(key: str, part: Any, path: Sequence[str], value: Any, registry: Registry | None) -> Any:
    """The part with a value at a path inside it."""
    if not path:
        return value
    part = Part(part) if isinstance(part, str) and registry is not None else part
    name, *rest = path
    if isinstance(part, tuple):
        if not name.isdecimal() or int(name) >= len(part):
            raise ValueError(
                f"{key}: unknown path; a list takes a place from 0 to {len(part) - 1}, got {name!r}"
            )
        i = int(name)
        return (*part[:i], _put(key, part[i], rest, value, registry), *part[i + 1 :])
    if registry is None or not isinstance(part, Part):
        raise ValueError(f"{key}: unknown path; there is no table that could take {name!r}")
    if not part.own:
        checks.choice(f"{key}: kind", part.kind, registry.kinds)
        allowed = list(accepted(registry.kinds[part.kind]))
        if name not in allowed:
            takes = checks.quoted(allowed) or "no parameters"
            raise ValueError(
                f"{key}: unknown path; {part.kind!r} takes {takes}{checks.nearest(name, allowed)}"
            )
    within = registry.others.get(name, registry if part.own else None)
    held = with_defaults(part, registry).values.get(name)
    return part.replaced(name, _put(key, held, rest, value, within))


def shown(value: Any) -> str:
    """A parameter as text in a name: 0.1, bonus, geometric (mean = 5)."""
    if isinstance(value, Part):
        inner = ", ".join(f"{name} = {shown(item)}" for name, item in value.parameters)
        kind = value.kind.partition(MARK)[0].rpartition(":")[2].rpartition(".")[2]
        kind = "of a function" if kind == "<lambda>" else kind
        return f"{kind} ({inner})" if inner else kind
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def label(experiment: Experiment, path: str) -> str:
    """The name of a swept parameter in names and on axes.

    It is the last key of an agent's parameter, or as many keys as distinguish the parameters of an
    agent; the whole path of any other.
    """
    own = path.split(".")
    others = [other.split(".") for other, _ in experiment.sweep if other != path]
    others = [other for other in others if other[:2] == own[:2]]
    depth = 1 if own[0] == AGENTS else len(own)
    while depth < len(own) and any(other[-depth:] == own[-depth:] for other in others):
        depth += 1
    return ".".join(own[-depth:])


def settings(experiment: Experiment, at: Iterable[tuple[str, Any]]) -> str:
    """Values of a sweep by path, as text."""
    return ", ".join(f"{label(experiment, path)} = {shown(value)}" for path, value in at)
