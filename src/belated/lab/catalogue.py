"""The experiments of the paper and of its other statements, by name, with titles and remarks.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, appendix "Full
details of the empirical evaluation". They are the TOML files in `experiments`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from belated.config.part import Part, shown
from belated.config.registry import imported
from belated.core import checks
from belated.lab import toml
from belated.lab.spec import Experiment

PLACE = Path(__file__).with_name("experiments")
EXPERIMENTS = tuple(sorted(path.stem for path in PLACE.glob("*.toml")))
"""The names of the experiments."""
CHOICES = (
    "The paper leaves some details open; they are chosen here so that its statements hold: counts "
    "are pooled over the steps of an episode (one model for all steps), the bonus is "
    "1 / sqrt(visits), a slip goes in each of the four directions alike, the goal can be left, "
    "delays are on 0, 1, 2, ..., and the walls are two offset ones of seven cells."
)


def named(name: str) -> Experiment:
    """An experiment by its name, or the one that a `module:function` returns.

    The title and the remarks of a named one are not part of it: see `words`.
    """
    if ":" in name:
        made: Experiment = imported("experiment", name, EXPERIMENTS)()
        checks.instance("experiment", made, Experiment)
        return made
    return dataclasses.replace(whole(name), title="", about="")


def whole(name: str) -> Experiment:
    """An experiment by its name, with its title and remarks."""
    return toml.read(PLACE / f"{checks.choice('experiment', name, EXPERIMENTS)}.toml")


def title(experiment: Experiment, case: str = "") -> str:
    """The title of an experiment, or of one of its cases."""
    found, _ = words(experiment)
    if case and found == _made(experiment):
        found = found.removesuffix(_cases(experiment))
    return ": ".join(filter(None, [found, case]))


def words(experiment: Experiment) -> tuple[str, str]:
    """The title of an experiment, and remarks about it.

    They are its own if it has any. Those of a named experiment are used only while it is unchanged:
    the title if nothing but the number of seeds differs, and the remarks, which may be conclusions,
    with at least as many seeds. Any other title is made from the data.
    """
    title, about = experiment.title, experiment.about
    if experiment.name in EXPERIMENTS:
        given = whole(experiment.name)
        if dataclasses.replace(experiment, seeds=given.seeds, title="", about="") == (
            dataclasses.replace(given, title="", about="")
        ):
            title = title or given.title
            about = about or (given.about if experiment.seeds >= given.seeds else "")
    return title or _made(experiment), about


def _made(experiment: Experiment) -> str:
    """A title from what the cases have in common."""
    scenes = [experiment.scene(case) for case in experiment.case_names()]
    described = [
        [_brief(scene.environment) for scene in scenes],
        [f"costs {_brief(scene.costs)}" if scene.costs else "" for scene in scenes],
        [f"delays {_brief(scene.delays)}" for scene in scenes],
        [f"{scene.episodes} episodes" for scene in scenes],
    ]
    common = [found[0] for found in described if len(set(found)) == 1 and found[0]]
    return f"{experiment.name}: {', '.join(common)}" + _cases(experiment)


def _cases(experiment: Experiment) -> str:
    number = len(experiment.case_names())
    return f", {number} cases" if number > 1 else ""


def _brief(part: Part) -> str:
    """A part in a title; long values are left out."""
    return shown(Part(part.kind, tuple(p for p in part.parameters if len(shown(p[1])) <= 32)))
