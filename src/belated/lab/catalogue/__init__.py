"""Experiments by name, with their titles and remarks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from belated.config.build import imported
from belated.config.part import Part, shown
from belated.config.registry import is_own
from belated.core import checks
from belated.lab.catalogue import paper
from belated.lab.spec import Experiment

EXPERIMENTS: dict[str, Callable[[], Experiment]] = {
    make.__name__.replace("_", "-"): make for make in paper.EXPERIMENTS
}
"""The function that makes each experiment, by name: that of the function, with dashes."""


def named(name: str) -> Experiment:
    """An experiment by its name, or the one that a `module:function` returns.

    The title and the remarks of a named one are not part of it: see `words`.
    """
    if is_own(name):
        made: Experiment = imported("experiment", name, EXPERIMENTS)()
        checks.instance("experiment", made, Experiment)
        return made
    return dataclasses.replace(
        EXPERIMENTS[checks.choice("experiment", name, EXPERIMENTS)](), title="", about=""
    )


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
        whole = EXPERIMENTS[experiment.name]()
        if dataclasses.replace(experiment, seeds=whole.seeds, title="", about="") == (
            dataclasses.replace(whole, title="", about="")
        ):
            title = title or whole.title
            about = about or (whole.about if experiment.seeds >= whole.seeds else "")
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
