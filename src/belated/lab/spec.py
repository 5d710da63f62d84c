"""An experiment as data: which agents learn in which world, under which delays, how often.

Everything here is frozen and checked when it is made; a mistake raises ValueError with one line
that names the key, the value and what is allowed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from belated import checks
from belated.agents.contract import Agent, Information, check_fresh
from belated.arrays import Ints
from belated.lab import parts
from belated.lab.learners import Told
from belated.lab.parts import Part
from belated.simulation import delays_in
from belated.world import World

INFORMATION = ("full", "bandit")
TRAJECTORY = ("delayed", "immediate")
AGAINST = ("episodes", "total_delay")
LONGEST = 100
"""Characters of a name, as a file name."""


def slug(name: str) -> str:
    """A name for files and addresses: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Learner:
    """One of the agents: its name in tables and figures, and how it is made.

    information, trajectory: its own, where they differ from those of the experiment.
    """

    name: str
    agent: Part
    information: str | None = None
    trajectory: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A variation of the experiment: what is given here replaces what the experiment says."""

    name: str = ""
    environment: Part | None = None
    costs: Part | None = None
    delays: Part | None = None
    episodes: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One run: a case, an agent and a seed. `name` is the same for ever."""

    case: str
    learner: str
    seed: int

    @property
    def name(self) -> str:
        """Where the run is kept, e.g. delayed-oppo/seed-3, or mean-2/delayed-oppo/seed-3."""
        return "/".join(filter(None, [slug(self.case), slug(self.learner), f"seed-{self.seed}"]))


@dataclass(frozen=True, slots=True)
class Setting:
    """A case with nothing left open."""

    environment: Part
    costs: Part | None
    delays: Part
    episodes: int

    def world(self) -> World:
        """The world, the same for every agent and seed."""
        world: World = parts.build("environment", self.environment, parts.ENVIRONMENTS)
        checks.instance("environment", world, World)
        if self.costs is None:
            return world
        return World(world.mdp, parts.build("costs", self.costs, parts.COSTS, world))

    def draw(self, world: World, seed: int) -> Ints:
        """Delays (K,) of a seed, those that `simulate` would draw; the same for every agent."""
        model = parts.build("delays", self.delays, parts.DELAYS)
        if not hasattr(model, "draw"):
            raise ValueError(f"delays must be a delay model, got {checks.show(model)}")
        return delays_in(world, model, self.episodes, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is run. Every agent faces the same worlds, costs and delays, seed by seed.

    Attributes:
        name: of the experiment; a directory name.
        title: one line for tables and figures.
        about: what it shows, for the report.
        environment, costs, delays: parts; no costs means those of the environment.
        agents: the learners.
        episodes: K.
        seeds: the seeds are 0 to seeds - 1.
        information: "full" or "bandit", where an agent does not say otherwise.
        trajectory: "delayed" or "immediate", likewise.
        cases: variations; none means one run of what is said above.
        against: what the cases vary, for the figure of the final regret: "total_delay",
            "episodes" or None.
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
    information: str = "full"
    trajectory: str = "delayed"
    cases: tuple[Case, ...] = ()
    against: str | None = None

    def __post_init__(self) -> None:
        _name("name", self.name)
        _text("title", self.title)
        _text("about", self.about)
        parts.check("environment", self.environment, parts.ENVIRONMENTS)
        if self.costs is not None:
            parts.check("costs", self.costs, parts.COSTS)
        parts.check("delays", self.delays, parts.DELAYS)
        checks.integer("episodes", self.episodes, 1)
        checks.integer("seeds", self.seeds, 1)
        checks.choice("information", self.information, INFORMATION)
        checks.choice("trajectory", self.trajectory, TRAJECTORY)
        if self.against is not None:
            checks.choice("against", self.against, AGAINST)
            if len(self.cases) < 2:
                raise ValueError(
                    f"cases must be at least two to draw them against {self.against}, "
                    f"got {len(self.cases)}"
                )
        if not self.agents:
            raise ValueError("agents must name at least one agent, got none")
        for i, learner in enumerate(self.agents):
            _name(f"agents[{i}].name", learner.name)
            parts.check(f"agents[{i}]", learner.agent, parts.AGENTS)
            if learner.information is not None:
                checks.choice(f"agents[{i}].information", learner.information, INFORMATION)
            if learner.trajectory is not None:
                checks.choice(f"agents[{i}].trajectory", learner.trajectory, TRAJECTORY)
        _different("agents", [learner.name for learner in self.agents])
        for i, case in enumerate(self.cases):
            _name(f"cases[{i}].name", case.name)
            if case.environment is not None:
                parts.check(f"cases[{i}].environment", case.environment, parts.ENVIRONMENTS)
            if case.costs is not None:
                parts.check(f"cases[{i}].costs", case.costs, parts.COSTS)
            if case.delays is not None:
                parts.check(f"cases[{i}].delays", case.delays, parts.DELAYS)
            if case.episodes is not None:
                checks.integer(f"cases[{i}].episodes", case.episodes, 1)
        _different("cases", [case.name for case in self.cases])

    def case_names(self) -> list[str]:
        """Names of the cases; one empty name if there are none."""
        return [case.name for case in self.cases] or [""]

    def setting(self, case: str) -> Setting:
        """The world, delays and episodes of a case."""
        found = next((c for c in self.cases if c.name == case), Case())
        return Setting(
            found.environment or self.environment,
            found.costs or self.costs,
            found.delays or self.delays,
            found.episodes or self.episodes,
        )

    def learner(self, name: str) -> Learner:
        """The learner of this name."""
        return next(learner for learner in self.agents if learner.name == name)

    def tasks(self) -> list[Task]:
        """All runs, seed by seed, so that a part of them already compares the agents."""
        return [
            Task(case, learner.name, seed)
            for seed in range(self.seeds)
            for case in self.case_names()
            for learner in self.agents
        ]

    def information_of(self, learner: Learner) -> Information:
        """What comes back of the costs of an episode."""
        return cast(Information, learner.information or self.information)

    def trajectory_of(self, learner: Learner) -> str:
        """When the path of an episode comes back."""
        return learner.trajectory or self.trajectory

    def make(self, learner: Learner, world: World, delays: Ints) -> Agent:
        """A fresh agent for a world and delays (K,)."""
        told = Told(
            world.problem,
            self.information_of(learner),
            self.trajectory_of(learner),
            world.mdp.transitions,
            delays,
        )
        key = f"agents[{self.agents.index(learner)}]"
        agent = parts.build_agent(key, learner.agent, told)
        check_fresh(key, agent)
        if agent.information != told.information:
            raise ValueError(
                f"{key} must see what the file says, information = {told.information!r}, "
                f"got an agent with {checks.show(agent.information)}"
            )
        return agent

    def rehearse(self) -> None:
        """Build everything once, so that a wrong value is found before anything is run."""
        for case in self.case_names():
            try:
                self._rehearse(self.setting(case))
            except ValueError as error:
                raise ValueError(f"case {case!r}: {error}" if case else str(error)) from None

    def _rehearse(self, setting: Setting) -> None:
        world = setting.world()
        H, S, A = world.problem.shape
        checks.costs("costs of episode 0", world.costs.seeded(0).at(0), H, S, A)
        delays = setting.draw(world, 0)
        for learner in self.agents:
            self.make(learner, world, delays)


def from_table(table: Mapping[str, Any]) -> Experiment:
    """The experiment that a table (of a TOML file) describes."""
    _known("", table, [field.name for field in dataclasses.fields(Experiment)])
    for key in ("name", "environment", "delays", "agents"):
        if key not in table:
            raise ValueError(f"{key} must be given, got none")
    given = dict(table)
    given["environment"] = parts.read("environment", table["environment"], parts.ENVIRONMENTS)
    given["delays"] = parts.read("delays", table["delays"], parts.DELAYS)
    if "costs" in table:
        given["costs"] = parts.read("costs", table["costs"], parts.COSTS)
    given["agents"] = tuple(
        _learner(f"agents[{i}]", item) for i, item in enumerate(_tables("agents", table["agents"]))
    )
    given["cases"] = tuple(
        _case(f"cases[{i}]", item)
        for i, item in enumerate(_tables("cases", table.get("cases", [])))
    )
    return Experiment(**given)


def to_table(experiment: Experiment) -> dict[str, Any]:
    """The table that describes an experiment; the inverse of `from_table`."""
    result: dict[str, Any] = {}
    for field in dataclasses.fields(experiment):
        value = getattr(experiment, field.name)
        if value is None or value in ("", ()):
            continue
        if isinstance(value, Part):
            value = parts.table(value)
        elif field.name == "agents":
            value = [
                {"name": item.name, **parts.table(item.agent), **_given(item, "agent")}
                for item in value
            ]
        elif field.name == "cases":
            value = [_given(item) for item in value]
        result[field.name] = value
    # plain values first: in TOML what follows a table belongs to it
    return dict(sorted(result.items(), key=lambda item: isinstance(item[1], dict | list)))


def _given(item: Learner | Case, *without: str) -> dict[str, Any]:
    values = {f.name: getattr(item, f.name) for f in dataclasses.fields(item)}
    return {
        name: parts.table(value) if isinstance(value, Part) else value
        for name, value in values.items()
        if value is not None and name not in without
    }


def _learner(key: str, item: Mapping[str, Any]) -> Learner:
    own = ("name", "information", "trajectory")
    agent = {name: value for name, value in item.items() if name not in own}
    return Learner(
        item.get("name", ""),
        parts.read(key, agent, parts.AGENTS),
        item.get("information"),
        item.get("trajectory"),
    )


def _case(key: str, item: Mapping[str, Any]) -> Case:
    _known(f"{key}.", item, [field.name for field in dataclasses.fields(Case)])
    registries = {
        "environment": parts.ENVIRONMENTS,
        "costs": parts.COSTS,
        "delays": parts.DELAYS,
    }
    given: dict[str, Any] = {
        name: parts.read(f"{key}.{name}", value, registries[name]) if name in registries else value
        for name, value in item.items()
    }
    return Case(**given)


def _known(prefix: str, table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key, value in table.items():
        if key not in allowed:
            checks.choice(f"{prefix}{key} = {checks.show(value)}: a key here", key, allowed)


def _tables(key: str, value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"{key} must be tables, [[{key}]], got {checks.show(value)}")
    return value


def _name(key: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(slug(value)) <= LONGEST:
        raise ValueError(
            f"{key} must be a text with a letter from a to z or a digit, and at most {LONGEST} of "
            f"them, since it names files, got {checks.show(value)}"
        )


def _text(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, got {checks.show(value)}")


def _different(key: str, names: Sequence[str]) -> None:
    slugs = [slug(name) for name in names]
    twice = [name for i, name in enumerate(names) if slugs[i] in slugs[:i]]
    if twice:
        raise ValueError(
            f"{key} must have names that differ as file names, got {slug(twice[0])!r} twice "
            f"(the second is {twice[0]!r})"
        )
