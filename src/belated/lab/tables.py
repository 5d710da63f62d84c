"""Tables of results, for a terminal or a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from belated.config.part import shown
from belated.core.arrays import Floats
from belated.lab import sweep
from belated.lab.selection import Selected
from belated.lab.spec import SCORE, Experiment
from belated.lab.statistics import Difference, Exponent, Line, score_table
from belated.lab.table import Cell, Score, Table

SCALE = "Score: 0 is the best fixed policy, 1 is uniform play, less is better"


def costs(lines: Sequence[Line], title: str, *, brief: bool = False) -> Table:
    """Mean cost per episode, cost at the end, regret (with intervals), and the score.

    brief: leave out the cost of the best policy, for narrow terminals.
    """
    head = [
        "case", "agent", "cost per episode", "in the last tenth", "best", "regret", "score", "seeds"
    ]  # fmt: skip
    cells: list[list[Cell]] = [
        [
            line.case,
            line.agent,
            line.cost,
            line.end,
            line.optimum,
            line.regret,
            line.score.mean,
            line.seeds,
        ]
        for line in lines
    ]
    if brief:
        head, cells = [*head[:4], *head[5:]], [[*row[:4], *row[5:]] for row in cells]
    return _table(title, head, cells, 2)


def results(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """What a terminal shows of an experiment whose settings are not compared."""
    if experiment.against == SCORE:
        return scores(experiment, lines, f"{title}. {SCALE}")
    if experiment.against is not None:
        return scaling(experiment, lines, title)
    return costs(lines, title, brief=True)


def warnings(lines: Sequence[Line], hopeless: Sequence[str] = ()) -> list[str]:
    """One line for every agent that has not learned, with the cases.

    hopeless: cases in which nobody can learn; one sentence says so instead.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.verdict and line.case not in hopeless:
            found.setdefault((line.agent, line.verdict), []).append(line.case)
    told = [f"WARNING: {agent}{_in(cases)}: {verdict}" for (agent, verdict), cases in found.items()]
    if any(line.verdict and line.case in hopeless for line in lines):
        told.append(
            f"Nobody can learn{_in(hopeless)}: feedback comes when its block is over, so that "
            "every agent has the same expected regret, that of the lower bound."
        )
    return told


def _in(cases: Sequence[str]) -> str:
    return f" (in {'; '.join(cases)})" if any(cases) else ""


def scores(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """Mean scores over seeds, one row per case and one column per agent; * marks the least."""
    table = score_table(experiment, lines)
    found = [*table.scores, table.worst, table.mean]
    rows = zip((*table.cases, "worst", "mean"), found, strict=True)
    cells: list[tuple[Cell, ...]] = [(name, *_scored(np.round(row, 2))) for name, row in rows]
    return Table(title, ("case", *table.agents), tuple(cells), 1)


def _scored(row: Floats) -> list[Score]:
    best = row.min(initial=np.inf, where=~np.isnan(row))
    return [Score(float(value), bool(value == best)) for value in row]


def scaling(
    experiment: Experiment, lines: Sequence[Line], title: str, exponents: Sequence[Exponent] = ()
) -> Table:
    """The mean regret of whole runs, one row per agent and one column per case; then its slope."""
    regret: dict[tuple[str, str], Cell]
    regret = {(line.case, line.agent): line.regret.mean for line in lines}
    cases = experiment.case_names()
    cells: list[tuple[Cell, ...]] = [
        (learner.name, *(regret.get((case, learner.name), "") for case in cases))
        for learner in experiment.learners
    ]
    head = ("mean regret", *cases)
    slopes = {one.agent: one.slope for one in exponents}
    if slopes:
        head = (*head, "slope")
        cells = [(*row, slopes[str(row[0])]) for row in cells]
    return Table(title, head, tuple(cells), 1)


def swept(experiment: Experiment, lines: Sequence[Line], path: str, title: str) -> Table:
    """The mean regret of whole runs, one row per agent and one column per value of a parameter.

    An agent without the parameter has the same number everywhere.
    """
    values = dict(experiment.sweep)[path]
    rows: dict[str, dict[object, float]] = {}
    for line in lines:
        at = experiment.at(line.case, line.agent)
        row = rows.setdefault(sweep.series(experiment, line.case, line.agent, path), {})
        row.update(dict.fromkeys([at[path]] if path in at else values, line.regret.mean))
    name = sweep.label(experiment, path)
    cells = [(key, *(row.get(value, "") for value in values)) for key, row in rows.items()]
    head = (f"mean regret, {name} =", *map(shown, values))
    return Table(title, head, tuple(cells), 1)


def choices(found: Sequence[Selected], title: str) -> Table:
    """Which setting of every agent was chosen, and its cost on the seeds it was chosen on."""
    head = ["case", "agent", "chosen", "among", "cost per episode", "seeds"]
    cells: list[list[Cell]] = [
        [item.case, item.agent, item.setting, item.among, item.cost, item.seeds] for item in found
    ]
    return _table(title, head, cells, 3)


def differences(found: Sequence[Difference], title: str) -> Table:
    """Paired differences in mean cost per episode, and the share of seeds won."""
    head = ["case", "first", "second", "first minus second", "won by the first", "seeds"]
    cells: list[list[Cell]] = [
        [
            item.case,
            item.first,
            item.second,
            item.cost,
            f"{item.won:.0%}",
            item.seeds,
        ]
        for item in found
    ]
    return _table(title, head, cells, 3, signed=True)


def _table(
    title: str, head: list[str], cells: list[list[Cell]], names: int, *, signed: bool = False
) -> Table:
    """A table without the first column if all cases are unnamed.

    If all numbers of seeds, in the last column, are equal, the number moves into the title.
    """
    if not any(row[0] for row in cells):
        head, cells, names = head[1:], [row[1:] for row in cells], names - 1
    seeds = {row[-1] for row in cells}
    if len(seeds) == 1:
        (n,) = seeds
        title += f", {n} seed" if n == 1 else f", {n} seeds"
        head, cells = head[:-1], [row[:-1] for row in cells]
    return Table(title, tuple(head), tuple(map(tuple, cells)), names, signed)
