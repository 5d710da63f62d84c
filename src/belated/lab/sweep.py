"""Sweeps: parameters that take several values, and the selection of the best of them.

A path names a parameter of the specification: `agents.NAME.update.learning_rate`,
`delays.otherwise.mean`, `environment.size`, `costs.every`, `episodes`. A path of an agent makes
several agents, any other path several cases. Several paths make a grid.

The best of many settings looks better than it is on the seeds on which it was chosen. With
`select = { seeds = 5 }` the choice is made on the first five seeds, for every agent and every case
separately, and only the other seeds are reported. With `cases = "together"` every agent has one
setting for all cases: that with the smallest mean score over cases, since costs of different worlds
differ in scale.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from belated import config as kinds
from belated.config.part import (
    MARK,
    Part,
    Registry,
    accepted,
    frozen,
    with_defaults,
)
from belated.core import checks

if TYPE_CHECKING:
    from belated.lab.spec import Case, Experiment, Learner

import numpy as np
import polars as pl

from belated.lab.scenes import SCENE
from belated.lab.statistics import Line, summary

LONGEST = 100
"""The largest number of characters of a name in a file name."""
AGENTS = "agents"
PLAIN = ("episodes", "information")
"""Keys of a scene that are not parts."""
OWN = ("information", "paths")
"""Keys of a learner that are not its agent's."""

Item = TypeVar("Item", bound="Learner | Case")
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


Axis = tuple["Learner | None", str, list[str], Registry | None]
"""What a path refers to: a learner, or None for the scene; the field of the learner or the case;
the keys inside; and the kinds of the field, None for a plain value."""


def _axis(path: str, experiment: Experiment) -> Axis:
    key, *keys = path.split(".")
    if key == AGENTS:
        learner, keys = _owner(path, experiment)
        if keys in ([name] for name in OWN):
            return learner, keys[0], [], None
        return learner, "agent", keys, kinds.AGENTS
    known = [AGENTS, *SCENE, *PLAIN]
    if key not in known or (keys and key in PLAIN):
        raise ValueError(
            f"sweep.{path}: unknown path; it must begin with one of {checks.quoted(known)}"
            f"{checks.nearest(key, known)}"
        )
    return None, key, keys, SCENE.get(key)


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


def _owner(path: str, experiment: Experiment) -> tuple[Learner, list[str]]:
    """The learner that a path refers to, and the keys of the parameter inside it."""
    rest = path[len(AGENTS) + 1 :]
    for learner in sorted(experiment.agents, key=lambda item: -len(item.name)):
        for name in (learner.name, slug(learner.name)):
            if rest.startswith(f"{name}.") and rest != f"{name}.":
                return learner, rest[len(name) + 1 :].split(".")
    known = [slug(learner.name) for learner in experiment.agents]
    hint = checks.nearest(rest.partition(".")[0], known)
    raise ValueError(
        f"sweep.{path}: unknown path; it must be agents.NAME.KEY with a NAME among "
        f"{checks.quoted(known)}{hint}"
    )


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


def series(experiment: Experiment, case: str, learner: str, path: str) -> str:
    """The name of the curve over a path that contains a case and a learner."""
    found = []
    for variant in experiment.variants(case, learner):
        others = settings(experiment, [pair for pair in variant.at if pair[0] != path])
        found.append(", ".join(filter(None, [variant.base, others])))
    return ": ".join(filter(None, found))


def curves(experiment: Experiment, lines: Sequence[Line], path: str) -> dict[str, dict[Any, Line]]:
    """The lines over a path, by the name of a curve and the value.

    An agent or a case without the parameter has the same line at every value.
    """
    values = dict(experiment.sweep)[path]
    found: dict[str, dict[Any, Line]] = {}
    for line in lines:
        at = experiment.at(line.case, line.agent)
        curve = found.setdefault(series(experiment, line.case, line.agent, path), {})
        curve.update(dict.fromkeys([at[path]] if path in at else values, line))
    return found


def settings(experiment: Experiment, at: Iterable[tuple[str, Any]]) -> str:
    """Values of a sweep by path, as text."""
    return ", ".join(f"{label(experiment, path)} = {shown(value)}" for path, value in at)


Choices = dict[tuple[str, str], list[Line]]
"""The settings of every swept agent, by case and agent: the chosen one first."""


def chosen_on(experiment: Experiment, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the seeds on which the choice is made; all rows if there is none."""
    if experiment.select is None:
        return rows
    return rows.filter(pl.col("seed") < experiment.first_seed + experiment.select.seeds)


def choose(experiment: Experiment, rows: pl.DataFrame) -> Choices:
    """The settings of every swept agent, the best first; those with missing seeds do not count.

    Ties go to the first setting.
    """
    found: Choices = {}
    some = chosen_on(experiment, rows)
    if experiment.select is None or not len(some):
        return found
    for line in summary(some):
        swept = line.agent != experiment.base(line.agent)
        if swept and line.seeds == experiment.select.seeds:
            found.setdefault((line.case, experiment.base(line.agent)), []).append(line)
    if experiment.select.cases == "each":
        return {key: sorted(lines, key=lambda line: line.cost.mean) for key, lines in found.items()}
    settings: dict[str, list[Line]] = {}
    for line in itertools.chain(*found.values()):
        settings.setdefault(line.agent, []).append(line)
    whole = {name for name, own in settings.items() if len(own) == len(experiment.cases_of(name))}
    means = {name: mean_score(settings[name]) for name in whole}
    for key, lines in found.items():
        found[key] = sorted(lines, key=lambda line: means.get(line.agent, math.inf))
    return {key: lines for key, lines in found.items() if lines[0].agent in whole}


def mean_score(lines: Sequence[Line]) -> float:
    """The mean score over the cases that have one; infinite if none has."""
    scores = [line.score.mean for line in lines if not np.isnan(line.score.mean)]
    return float(np.mean(scores)) if scores else np.inf


def reported(experiment: Experiment, rows: pl.DataFrame, choices: Choices) -> pl.DataFrame:
    """The rows that are reported: with a selection, the chosen settings on the other seeds."""
    if experiment.select is None:
        return rows
    names = [one.name for one in experiment.learners if one.name == experiment.base(one.name)]
    kept = [(case, name) for case in experiment.case_names() for name in names]
    kept += [(lines[0].case, lines[0].agent) for lines in choices.values()]
    wanted = pl.DataFrame(kept, {"case": pl.String, "agent": pl.String}, orient="row")
    others = rows.filter(pl.col("seed") >= experiment.first_seed + experiment.select.seeds)
    return others.join(wanted, on=["case", "agent"], how="semi", maintain_order="left")


def sentence(experiment: Experiment) -> str:
    """A sentence on the selection; empty if there is none."""
    if experiment.select is None:
        return ""
    first, n = experiment.first_seed, experiment.select.seeds
    chosen, others = seeds(first, n), seeds(first + n, experiment.seeds - n)
    how = {
        "each": "in each case by itself, by its cost per episode",
        "together": "one for all cases, by its mean score over cases",
    }[experiment.select.cases]
    return (
        f"The setting of every swept agent was selected, {how} on {chosen}; tables, "
        f"curves and differences show the selected settings on {others} "
        f"only. Over a swept parameter all settings are shown, on {chosen}."
    )


def seeds_of_choice(experiment: Experiment) -> str:
    """The seeds on which the choice is made, for a title; empty if there is none."""
    if experiment.select is None:
        return ""
    chosen = seeds(experiment.first_seed, experiment.select.seeds)
    return f", {chosen}, on which settings are selected"


def seeds(first: int, number: int) -> str:
    """A range of seeds in words."""
    return f"seed {first}" if number == 1 else f"seeds {first} to {first + number - 1}"
