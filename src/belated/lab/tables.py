"""Tables of results: made once, shown in a terminal or in a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from belated.lab import statistics, store
from belated.lab.spec import Experiment
from belated.lab.statistics import Difference, Interval, Line


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the heads of the columns, and rows of text. The first `names` columns are names."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int


def costs(lines: Sequence[Line], title: str, *, brief: bool = False) -> Table:
    """Mean cost per episode, cost at the end, and regret, with intervals.

    brief: leave the cost of the best policy out, for narrow terminals.
    """
    head = ["case", "agent", "cost per episode", "in the last tenth", "best", "regret", "seeds"]
    rows = [
        [
            line.case,
            line.agent,
            _shown(line.cost, line.seeds),
            _shown(line.end, line.seeds),
            number(line.optimum),
            _shown(line.regret, line.seeds),
            str(line.seeds),
        ]
        for line in lines
    ]
    if brief:
        head, rows = [*head[:4], *head[5:]], [[*row[:4], *row[5:]] for row in rows]
    return _table(title, head, rows, 2)


def scaling(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """The mean regret of whole runs, one row per agent and one column per case."""
    regret = {(line.case, line.agent): number(line.regret.mean) for line in lines}
    cases = experiment.case_names()
    rows = [
        (learner.name, *(regret.get((case, learner.name), "") for case in cases))
        for learner in experiment.agents
    ]
    return Table(title, ("mean regret", *cases), tuple(rows), 1)


def differences(found: Sequence[Difference], title: str) -> Table:
    """Paired differences in mean cost per episode, and the share of seeds won."""
    head = ["case", "first", "second", "first minus second", "won by the first", "seeds"]
    rows = [
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
    return _table(title, head, rows, 3)


def _table(title: str, head: list[str], rows: list[list[str]], names: int) -> Table:
    """A table; a column of cases without a name is left out, equal seeds move into the title."""
    if not any(row[0] for row in rows):
        head, rows, names = head[1:], [row[1:] for row in rows], names - 1
    seeds = {row[-1] for row in rows}
    if len(seeds) == 1:
        (n,) = seeds
        title += f", {n} seed" if n == "1" else f", {n} seeds"
        head, rows = head[:-1], [row[:-1] for row in rows]
    return Table(title, tuple(head), tuple(map(tuple, rows)), names)


def compared(directories: Sequence[Path]) -> list[Table]:
    """The agents of several directories; paired where world, costs, delays and K are the same."""
    lines = []
    worlds: dict[object, list[pl.DataFrame]] = {}
    for directory, label in zip(directories, _labels(directories), strict=True):
        experiment = store.spec(directory)
        rows = store.rows(directory, experiment)
        named = rows.with_columns(agent=pl.lit(f"{label}: ") + pl.col("agent"))
        lines += statistics.summary(named)
        for case in experiment.case_names():
            some = named.filter(pl.col("case") == case)
            if len(some):
                worlds.setdefault(experiment.setting(case), []).append(some)
    found = []
    for frames in worlds.values():
        case = frames[0]["case"][0]  # others may call the same world otherwise
        same = [frame.with_columns(case=pl.lit(case)) for frame in frames]
        found += statistics.differences(pl.concat(same))
    tables = [costs(lines, "Means over seeds with 95 % intervals", brief=True)]
    if found:
        tables.append(differences(found, "Differences in cost per episode, seed by seed"))
    return tables


def _labels(directories: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as tell them apart."""
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
    """Mean and interval as text; one seed has no interval."""
    mean, low, high = (number(x, sign) for x in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]" if seeds > 1 else mean


def number(value: float, sign: str = "") -> str:
    """A number with as many digits as can matter."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:{sign}.{digits}f}"
