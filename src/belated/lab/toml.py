"""Experiments in TOML files, among them those of the paper and its other statements, by name.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, appendix "Full
details of the empirical evaluation". They are the files in `experiments`.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from functools import partial
from pathlib import Path

import tomli_w

from belated.config.part import File, Part, located, shown
from belated.config.registry import imported
from belated.core import checks
from belated.lab.spec import Experiment, from_table, to_table

NUMBERS = re.compile(r"\[\n(?: +[-+.\w]+,\n)+ *\]")
"""An array of plain values, as tomli_w writes it: one value per line."""

PLACE = Path(__file__).with_name("experiments")
EXPERIMENTS = tuple(sorted(path.stem for path in PLACE.glob("*.toml")))
"""The names of the experiments."""
CHOICES = (
    "The paper leaves some details open; they are chosen here so that its statements hold: counts "
    "are pooled over the steps of an episode (one model for all steps), the bonus is "
    "1 / sqrt(visits), a slip goes in each of the four directions alike, the goal can be left, "
    "delays are on 0, 1, 2, ..., and the walls are two offset ones of seven cells."
)


def dumps(experiment: Experiment, directory: Path | None = None) -> str:
    """The experiment as TOML text. Unprintable characters are escaped, for terminals.

    directory: the directory for the text. Paths of files are then relative to it, with checksums of
    their contents; without it they stay as written.
    """
    table = to_table(experiment, partial(File.table, directory=directory))
    text = NUMBERS.sub(_on_one_line, tomli_w.dumps(table))
    return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{', '.join(found[0].strip('[]').split())}]".replace(",,", ",").replace(",]", "]")


def loads(text: str, source: str = "the text", directory: Path | None = None) -> Experiment:
    """The experiment in a TOML text. A mistake raises ValueError with one line.

    directory: the base of relative paths of files; by default the current directory.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is not TOML that can be read: {error}") from None
    try:
        return from_table(located(table, directory or Path()))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def read(path: str | Path) -> Experiment:
    """The experiment in a TOML file; paths of files are relative to it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a readable TOML file: {error}") from None
    return loads(text, str(path), path.parent)


def named(name: str) -> Experiment:
    """An experiment by its name, or the one that a `module:function` returns.

    The title and the remarks of a named one are not part of it: see `words`.
    """
    if ":" not in name:
        return _untitled(whole(name))
    made: Experiment = imported("experiment", name, EXPERIMENTS)()
    checks.instance("experiment", made, Experiment)
    return made


def _untitled(experiment: Experiment) -> Experiment:
    return dataclasses.replace(experiment, title="", about="")


def whole(name: str) -> Experiment:
    """An experiment by its name, with its title and remarks."""
    return read(PLACE / f"{checks.choice('experiment', name, EXPERIMENTS)}.toml")


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
        same = dataclasses.replace(experiment, seeds=given.seeds)
        if _untitled(same) == _untitled(given):
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
