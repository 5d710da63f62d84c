"""What is reported of a sweep: its curves, and the selection of the best of its settings.

The best of many settings looks better than it is on the seeds on which it was chosen. With
`select = { seeds = 5 }` the choice is made on the first five seeds, for every agent and every case
separately, and only the other seeds are reported. With `cases = "together"` every agent has one
setting for all cases: that with the smallest mean score over cases, since costs of different worlds
differ in scale.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from belated.lab.spec import Experiment, settings
from belated.lab.statistics import Line, summary


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


def seeds(first: int, number: int) -> str:
    """A range of seeds in words."""
    return f"seed {first}" if number == 1 else f"seeds {first} to {first + number - 1}"
