"""Sweeps: parameters that take several values, and what becomes of agents and cases.

A path names a parameter as it stands in the specification: `agents.NAME.update.learning_rate`,
`delays.otherwise.mean`, `environment.size`, `costs.every`, `episodes`. A path of an agent makes
several agents of it, any other path several cases. Several paths make a grid.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from belated.config.build import Inner
from belated.config.file import File, is_path, is_swept
from belated.config.part import Part, as_part, frozen, shown
from belated.config.registry import Registry, accepted, is_own, names, with_defaults
from belated.core import checks
from belated.lab.names import slug

if TYPE_CHECKING:
    from belated.lab.spec import Case, Experiment, Learner

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
        seeds: on how many seeds the choice is made: the first ones.
        cases: "each" chooses in every case by itself, by costs; "together" chooses one setting for
            all cases, by mean scores.
    """

    seeds: int
    cases: str = "each"


@dataclass(frozen=True, slots=True)
class Variant(Generic[Item]):
    """An agent or a case of a sweep.

    Attributes:
        item: the agent or the case, with the values.
        base: the name of what it was made from.
        at: the values, by path.
    """

    item: Item
    base: str
    at: tuple[tuple[str, Any], ...] = ()


def read(given: object) -> Axes:
    """The axes of a `sweep` table: values by path."""
    if isinstance(given, tuple):
        given = dict(given)
    if not isinstance(given, Mapping):
        raise ValueError(f"sweep must be a table of lists by path, got {checks.show(given)}")
    axes = []
    for path, values in given.items():
        listed = frozen(list(values)) if _is_list(values) else ()
        if not listed:
            raise ValueError(
                f"sweep.{path} must be a list of values, e.g. [0.01, 0.1, 1], "
                f"got {checks.show(values)}"
            )
        if is_swept(str(path)):
            listed = tuple(File.at(value) if is_path(value) else value for value in listed)
        named = [(value, isinstance(value, File) and value.name) for value in listed]
        twice = [value for i, value in enumerate(listed) if named[i] in named[:i]]
        if twice:
            raise ValueError(f"sweep.{path} must be different values, got {shown(twice[0])} twice")
        axes.append((str(path), listed))
    return tuple(axes)


def _is_list(values: object) -> bool:
    return isinstance(values, Iterable) and not isinstance(values, str | Mapping)


def expanded(
    experiment: Experiment,
    registries: Mapping[str, Registry],
    agents: Registry,
    case: Case,
    most: int,
) -> tuple[tuple[Variant[Learner], ...], tuple[Variant[Case], ...]]:
    """The agents and the cases of a sweep, each with its values.

    registries: the kinds of a scene's parts, by key. case: a case that changes nothing. most: of
    how many settings a grid may be.
    """
    axes = dict(experiment.sweep)
    size = math.prod(map(len, axes.values()))
    if size > most:
        raise ValueError(f"sweep must make at most {most} settings, got {size}")
    owners = {path: _owner(path, experiment) for path in axes if _is_agents(path)}
    for path in axes:
        if path not in owners:
            _check_scene_path(path, experiment, registries)
    labels = dict(zip(axes, _labels(list(axes)), strict=True))
    learners: list[Variant[Learner]] = []
    for learner in experiment.agents:
        its = {path: axes[path] for path, (owner, _) in owners.items() if owner is learner}

        def put(item: Learner, path: str, value: Any) -> Learner:
            _, rest = owners[path]
            if rest in ([name] for name in OWN):
                return dataclasses.replace(item, **{rest[0]: value})
            return dataclasses.replace(
                item, agent=_put(f"sweep.{path}", item.agent, rest, value, agents)
            )

        learners += _grid(learner, its, labels, put)
    scene_axes = {path: values for path, values in axes.items() if path not in owners}

    def put_scene(item: Case, path: str, value: Any) -> Case:
        key, *rest = path.split(".")
        if rest or key in registries:
            part = getattr(item, key) or getattr(experiment, key)
            value = _put(f"sweep.{path}", part, rest, value, registries[key])
        return dataclasses.replace(item, **{key: value})

    cases: list[Variant[Case]] = []
    if experiment.cases or scene_axes:
        for one in experiment.cases or (case,):
            cases += _grid(one, scene_axes, labels, put_scene)
    return tuple(learners), tuple(cases)


def _grid(
    item: Item,
    axes: Mapping[str, Values],
    labels: Mapping[str, str],
    put: Callable[[Item, str, Any], Item],
) -> list[Variant[Item]]:
    found = []
    for values in itertools.product(*axes.values()):
        at = tuple(zip(axes, values, strict=True))
        made = item
        for path, value in at:
            made = put(made, path, value)
        name = ", ".join(filter(None, [item.name, *(f"{labels[p]} = {shown(v)}" for p, v in at)]))
        found.append(Variant(dataclasses.replace(made, name=name), item.name, at))
    return found


def _is_agents(path: str) -> bool:
    return path == AGENTS or path.startswith(f"{AGENTS}.")


def _owner(path: str, experiment: Experiment) -> tuple[Learner, list[str]]:
    """The learner that a path is about, and the keys of the parameter inside it."""
    rest = path[len(AGENTS) + 1 :]
    for learner in sorted(experiment.agents, key=lambda item: -len(item.name)):
        for name in (learner.name, slug(learner.name)):
            if rest.startswith(f"{name}.") and rest != f"{name}.":
                return learner, rest[len(name) + 1 :].split(".")
    known = [slug(learner.name) for learner in experiment.agents]
    hint = _nearest(rest.partition(".")[0], known)
    raise ValueError(
        f"sweep.{path}: unknown path; it must be agents.NAME.KEY with a NAME among "
        f"{names(known)}{hint}"
    )


def _check_scene_path(
    path: str, experiment: Experiment, registries: Mapping[str, Registry]
) -> None:
    key, *rest = path.split(".")
    known = [AGENTS, *registries, *PLAIN]
    if key not in known or (rest and key in PLAIN):
        raise ValueError(
            f"sweep.{path}: unknown path; it must begin with one of {names(known)}"
            f"{_nearest(key, known)}"
        )


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.3)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _put(key: str, part: Any, path: Sequence[str], value: Any, registry: Registry | None) -> Any:
    """The part with a value at a path inside it."""
    if not path:
        return value if registry is None else as_part(value)
    if isinstance(part, tuple):
        first = path[0]
        if not first.isdecimal() or int(first) >= len(part):
            raise ValueError(
                f"{key}: unknown path; a list takes a place from 0 to {len(part) - 1}, "
                f"got {first!r}"
            )
        i = int(first)
        return (*part[:i], _put(key, part[i], path[1:], value, registry), *part[i + 1 :])
    if registry is None or not isinstance(part, Part):
        raise ValueError(f"{key}: unknown path; there is no table that could take {path[0]!r}")
    name, *rest = path
    if not is_own(part.kind):
        checks.choice(f"{key}: kind", part.kind, registry.kinds)
        allowed = list(accepted(registry.kinds[part.kind]))
        if name not in allowed:
            takes = names(allowed) or "no parameters"
            raise ValueError(
                f"{key}: unknown path; {part.kind!r} takes {takes}{_nearest(name, allowed)}"
            )
    within = registry.inside(name)
    held = with_defaults(part, registry).get(name)
    held = held.part if isinstance(held, Inner) else held
    held = held if within is None and not is_own(part.kind) else as_part(held)
    if is_own(part.kind) and isinstance(held, Part):
        within = within or registry
    return part.replaced(name, _put(key, held, rest, value, within))


def _labels(paths: Sequence[str]) -> list[str]:
    """What parameters are called: those of agents by their last keys, others by their path.

    As many keys of an agent's parameter are used as tell it from the agent's others.
    """
    split = [path.split(".") for path in paths]
    found = []
    for own in split:
        depth = 1 if own[0] == AGENTS else len(own)
        others = [other for other in split if other is not own and other[:2] == own[:2]]
        while depth < len(own) and any(other[-depth:] == own[-depth:] for other in others):
            depth += 1
        found.append(".".join(own[-depth:]))
    return found


def label(experiment: Experiment, path: str) -> str:
    """What a swept parameter is called in names and on axes."""
    paths = [path for path, _ in experiment.sweep]
    return dict(zip(paths, _labels(paths), strict=True))[path]


def series(experiment: Experiment, case: str, learner: str, path: str) -> str:
    """The name of the curve over a path that a case and a learner lie on."""
    found = []
    for variant in experiment.variants(case, learner):
        others = [
            f"{label(experiment, key)} = {shown(value)}" for key, value in variant.at if key != path
        ]
        found.append(", ".join(filter(None, [variant.base, *others])))
    return ": ".join(filter(None, found))
