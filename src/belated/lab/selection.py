"""Choosing the best setting of every agent on some seeds, to report on others.

The best of many settings looks better on the seeds it was chosen on than it is. With
`select = { seeds = 5 }` the choice is made on seeds 0 to 4, for every agent and case by itself, and
only the other seeds are reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from belated.lab import sweep
from belated.lab.kinds.part import shown
from belated.lab.spec import Experiment
from belated.lab.statistics import Interval, Line, summary


@dataclass(frozen=True, slots=True)
class Choice:
    """The setting of an agent that was chosen in a case.

    Attributes:
        case, agent: where, and whose setting.
        learner: the name of the agent with this setting.
        setting: the values, as text.
        among: how many settings were compared.
        seeds: on how many seeds.
        cost: mean cost per episode on these seeds, the least of all settings.
    """

    case: str
    agent: str
    learner: str
    setting: str
    among: int
    seeds: int
    cost: Interval


def chosen_on(experiment: Experiment, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the seeds on which the choice is made; all rows if there is none."""
    if experiment.select is None:
        return rows
    return rows.filter(pl.col("seed") < experiment.select.seeds)


def choose(experiment: Experiment, rows: pl.DataFrame) -> list[Choice]:
    """The best setting of every swept agent, by case; settings with a seed missing do not count.

    Of settings with equal costs it is the first.
    """
    if experiment.select is None:
        return []
    found: dict[tuple[str, str], list[Line]] = {}
    some = chosen_on(experiment, rows)
    for line in summary(some) if len(some) else []:
        swept = line.agent != experiment.base(line.agent)
        if swept and line.seeds == experiment.select.seeds:
            found.setdefault((line.case, experiment.base(line.agent)), []).append(line)
    return [_best(experiment, case, agent, lines) for (case, agent), lines in found.items()]


def _best(experiment: Experiment, case: str, agent: str, lines: list[Line]) -> Choice:
    best = min(lines, key=lambda line: line.cost.mean)
    at = experiment.variants("", best.agent)[-1].at
    setting = ", ".join(f"{sweep.label(experiment, path)} = {shown(v)}" for path, v in at)
    return Choice(case, agent, best.agent, setting, len(lines), best.seeds, best.cost)


def reported(experiment: Experiment, rows: pl.DataFrame, choices: list[Choice]) -> pl.DataFrame:
    """The rows that are reported: with a selection, the chosen settings on the other seeds."""
    if experiment.select is None:
        return rows
    plain = [
        learner.name
        for learner in experiment.learners
        if learner.name == experiment.base(learner.name)
    ]
    kept = [(choice.case, choice.learner) for choice in choices]
    kept += [(case, name) for case in experiment.case_names() for name in plain]
    wanted = pl.DataFrame(kept, schema=["case", "agent"], orient="row")
    others = rows.filter(pl.col("seed") >= experiment.select.seeds)
    return others.join(wanted, on=["case", "agent"], how="semi", maintain_order="left")


def sentence(experiment: Experiment) -> str:
    """What was selected on what; empty if nothing was."""
    if experiment.select is None:
        return ""
    n = experiment.select.seeds
    return (
        f"The setting of every swept agent was selected, in each case by itself, by its cost per "
        f"episode on {_seeds(0, n)}; tables, curves and differences show the selected settings on "
        f"{_seeds(n, experiment.seeds)} only. Over a swept parameter all settings are shown, on "
        f"{_seeds(0, n)}."
    )


def seeds_of_choice(experiment: Experiment) -> str:
    """The seeds on which the choice is made, for a title; empty if there is none."""
    if experiment.select is None:
        return ""
    return f", {_seeds(0, experiment.select.seeds)}, on which settings are selected"


def _seeds(first: int, end: int) -> str:
    return f"seed {first}" if end - first == 1 else f"seeds {first} to {end - 1}"
