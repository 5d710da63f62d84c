"""Choosing the best setting of every agent on some seeds, to report on others.

The best of many settings looks better on the seeds it was chosen on than it is. With
`select = { seeds = 5 }` the choice is made on the first five seeds, for every agent and case by
itself, and only the other seeds are reported. With `cases = "together"` every agent has one setting
for all cases: that of the least mean score over cases, since costs of different worlds differ in
scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from belated.config.part import shown
from belated.lab import sweep
from belated.lab.spec import Experiment
from belated.lab.statistics import Interval, Line, summary


@dataclass(frozen=True, slots=True)
class Selected:
    """The setting of an agent that was chosen in a case.

    Attributes:
        case, agent: where, and whose setting.
        learner: the name of the agent with this setting.
        setting: the values, as text.
        among: how many settings were compared.
        seeds: on how many seeds.
        cost: mean cost per episode on these seeds; if cases choose for themselves, the least of all
            settings.
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
    return rows.filter(pl.col("seed") < experiment.first_seed + experiment.select.seeds)


def choose(experiment: Experiment, rows: pl.DataFrame) -> list[Selected]:
    """The best setting of every swept agent, by case; settings with a seed missing do not count.

    Of settings that are equally good it is the first.
    """
    if experiment.select is None:
        return []
    found: dict[tuple[str, str], list[Line]] = {}
    some = chosen_on(experiment, rows)
    for line in summary(some) if len(some) else []:
        swept = line.agent != experiment.base(line.agent)
        if swept and line.seeds == experiment.select.seeds:
            found.setdefault((line.case, experiment.base(line.agent)), []).append(line)
    if experiment.select.cases == "together":
        best = _best_together(experiment, found)
    else:
        best = {key: min(lines, key=lambda line: line.cost.mean) for key, lines in found.items()}
    return [
        _choice(experiment, agent, line, len(found[case, agent]))
        for (case, agent), line in best.items()
    ]


def _best_together(
    experiment: Experiment, found: dict[tuple[str, str], list[Line]]
) -> dict[tuple[str, str], Line]:
    """The lines of the settings with the least mean score over all cases, by case and agent."""
    by_setting: dict[str, dict[str, list[Line]]] = {}
    for (_, agent), lines in found.items():
        for line in lines:
            by_setting.setdefault(agent, {}).setdefault(line.agent, []).append(line)
    best: dict[tuple[str, str], Line] = {}
    for agent, settings in by_setting.items():
        whole = [s for s in settings.values() if len(s) == len(experiment.cases_of(s[0].agent))]
        if whole:
            least = min(whole, key=mean_score)
            best |= {(line.case, agent): line for line in least}
    return best


def mean_score(lines: Sequence[Line]) -> float:
    """The mean score over the cases that have one; infinite if none has."""
    scores = [line.score.mean for line in lines if not np.isnan(line.score.mean)]
    return float(np.mean(scores)) if scores else np.inf


def _choice(experiment: Experiment, agent: str, line: Line, among: int) -> Selected:
    at = experiment.variants("", line.agent)[-1].at
    setting = ", ".join(f"{sweep.label(experiment, path)} = {shown(v)}" for path, v in at)
    return Selected(line.case, agent, line.agent, setting, among, line.seeds, line.cost)


def reported(experiment: Experiment, rows: pl.DataFrame, choices: list[Selected]) -> pl.DataFrame:
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
    wanted = pl.DataFrame(kept, {"case": pl.String, "agent": pl.String}, orient="row")
    others = rows.filter(pl.col("seed") >= experiment.first_seed + experiment.select.seeds)
    return others.join(wanted, on=["case", "agent"], how="semi", maintain_order="left")


def sentence(experiment: Experiment) -> str:
    """What was selected on what; empty if nothing was."""
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
    """Which seeds they are, in words."""
    return f"seed {first}" if number == 1 else f"seeds {first} to {first + number - 1}"
