"""Tables of results, for a terminal or a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from belated.lab import statistics, store
from belated.lab.spec import SCORE, Experiment, Scene
from belated.lab.statistics import Difference, Interval, Line, score_table

SCALE = "Score: 0 is the best fixed policy, 1 is uniform play, less is better"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: above the table.
        head: heads of the columns.
        cells: the text, row by row.
        names: how many columns, from the left, hold names; the others hold numbers.
    """

    title: str
    head: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    names: int


def costs(lines: Sequence[Line], title: str, *, brief: bool = False) -> Table:
    """Mean cost per episode, cost at the end, regret (with intervals), and the score.

    brief: leave out the cost of the best policy, for narrow terminals.
    """
    head = [
        "case", "agent", "cost per episode", "in the last tenth", "best", "regret", "score", "seeds"
    ]  # fmt: skip
    cells = [
        [
            line.case,
            line.agent,
            _shown(line.cost, line.seeds),
            _shown(line.end, line.seeds),
            number(line.optimum),
            _shown(line.regret, line.seeds),
            number(line.score.mean),
            str(line.seeds),
        ]
        for line in lines
    ]
    if brief:
        head, cells = [*head[:4], *head[5:]], [[*row[:4], *row[5:]] for row in cells]
    return _table(title, head, cells, 2)


def results(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """What a terminal shows of an experiment."""
    if experiment.against == SCORE:
        return scores(experiment, lines, f"{title}. {SCALE}")
    if experiment.against is not None:
        return scaling(experiment, lines, title)
    return costs(lines, title, brief=True)


def warnings(lines: Sequence[Line]) -> list[str]:
    """One line for every agent that has not learned, with the cases."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.verdict:
            found.setdefault((line.agent, line.verdict), []).append(line.case)
    return [f"WARNING: {agent}{_in(cases)}: {verdict}" for (agent, verdict), cases in found.items()]


def _in(cases: Sequence[str]) -> str:
    return f" (in {'; '.join(cases)})" if any(cases) else ""


def scores(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """Mean scores over seeds, one row per case and one column per agent; * marks the least."""
    table = score_table(experiment, lines)
    least = np.round(table.scores, 2).min(axis=1, initial=np.inf, where=~np.isnan(table.scores))
    cells = [
        [case, *(_scored(value, best) for value in row)]
        for case, row, best in zip(table.cases, table.scores, least, strict=True)
    ]
    for name, summed in (("worst", table.worst), ("mean", table.mean)):
        best = np.round(summed, 2).min(initial=np.inf, where=~np.isnan(summed))
        cells.append([name, *(_scored(value, float(best)) for value in summed)])
    return Table(title, ("case", *table.agents), tuple(map(tuple, cells)), 1)


def _scored(value: float, best: float) -> str:
    if np.isnan(value):
        return ""
    shown = round(float(value), 2) + 0.0
    return f"{shown:.2f}{'*' if shown == best else ' '}"


def scaling(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """The mean regret of whole runs, one row per agent and one column per case."""
    regret = {(line.case, line.agent): number(line.regret.mean) for line in lines}
    cases = experiment.case_names()
    cells = [
        (learner.name, *(regret.get((case, learner.name), "") for case in cases))
        for learner in experiment.agents
    ]
    return Table(title, ("mean regret", *cases), tuple(cells), 1)


def differences(found: Sequence[Difference], title: str) -> Table:
    """Paired differences in mean cost per episode, and the share of seeds won."""
    head = ["case", "first", "second", "first minus second", "won by the first", "seeds"]
    cells = [
        [
            item.case,
            item.first,
            item.second,
            _shown(item.cost, item.seeds, "+"),
            f"{item.won:.0%}",
            str(item.seeds),
        ]
        for item in found
    ]
    return _table(title, head, cells, 3)


def _table(title: str, head: list[str], cells: list[list[str]], names: int) -> Table:
    """A table without the first column if all cases are unnamed.

    If all numbers of seeds, in the last column, are equal, the number moves into the title.
    """
    if not any(row[0] for row in cells):
        head, cells, names = head[1:], [row[1:] for row in cells], names - 1
    seeds = {row[-1] for row in cells}
    if len(seeds) == 1:
        (n,) = seeds
        title += f", {n} seed" if n == "1" else f", {n} seeds"
        head, cells = head[:-1], [row[:-1] for row in cells]
    return Table(title, tuple(head), tuple(map(tuple, cells)), names)


def compared(directories: Sequence[Path]) -> list[Table]:
    """The agents of several directories; differences if world, costs, delays and K agree."""
    lines = []
    scenes: dict[Scene, list[pl.DataFrame]] = {}
    for directory, label in zip(directories, _labels(directories), strict=True):
        experiment = store.spec(directory)
        rows = store.rows(directory, experiment)
        named = rows.with_columns(agent=pl.lit(f"{label}: ") + pl.col("agent"))
        lines += statistics.summary(named)
        for case in experiment.case_names():
            some = named.filter(pl.col("case") == case)
            if len(some):
                scenes.setdefault(experiment.scene(case), []).append(some)
    found = []
    for frames in scenes.values():
        case = frames[0]["case"][0]  # other directories may name the same scene differently
        same = [frame.with_columns(case=pl.lit(case)) for frame in frames]
        found += statistics.differences(pl.concat(same))
    tables = [costs(lines, "Means over seeds with 95 % intervals", brief=True)]
    if found:
        tables.append(differences(found, "Differences in cost per episode, seed by seed"))
    return tables


def _labels(directories: Sequence[Path]) -> list[str]:
    """The last components of the paths, as many as are needed to tell them apart."""
    whole = [directory.resolve() for directory in directories]
    twice = [path for i, path in enumerate(whole) if path in whole[:i]]
    if twice:
        raise ValueError(f"directories must be different, got {twice[0]} twice")
    for depth in range(1, max(len(path.parts) for path in whole)):
        labels = ["/".join(path.parts[-depth:]) for path in whole]
        if len(set(labels)) == len(labels):
            return labels
    return [str(path) for path in whole]


def _shown(interval: Interval, seeds: int, sign: str = "") -> str:
    """Mean and interval as text; only the mean if there is one seed."""
    mean, low, high = (number(x, sign) for x in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]" if seeds > 1 else mean


def number(value: float, sign: str = "") -> str:
    """A number with two digits after the point, fewer if it is large."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:{sign}.{digits}f}"
