"""Tables of results, and their forms: for terminals, Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from tabulate import tabulate

from belated.config.part import shown
from belated.lab import statistics, sweep
from belated.lab.names import is_math
from belated.lab.spec import Experiment
from belated.lab.statistics import Difference, Exponent, Interval, Line, score_table
from belated.lab.sweep import Selected
from belated.lab.toml import title as title_of

if TYPE_CHECKING:
    from belated.lab.results import Results
    from belated.lab.spec import Scene

Cell = str | int | float | Interval
"""A cell; NaN means that the number does not exist."""


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A table.

    Attributes:
        title: the title above the table.
        head: the headings of the columns.
        rows: the cells, row by row.
        names: the number of columns, from the left, that hold names; the others hold numbers.
        signed: whether positive numbers are shown with their sign.
        starred: whether * marks the smallest number of a row.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int
    signed: bool = False
    starred: bool = False

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The cells as text, with one more digit in columns where different numbers look alike."""
        sign = "+" if self.signed else ""
        columns = []
        for column in zip(*self.rows, strict=True):
            texts = [text(cell, sign) for cell in column]
            alike = not self.starred and _alike(column, texts)
            columns.append([text(c, sign, 1) for c in column] if alike else texts)
        cells = zip(*columns, strict=True)
        return tuple(map(_starred, cells)) if self.starred else tuple(cells)

    def _form(self, form: str, change: Callable[[str], str] = str) -> str:
        """The table in a form of tabulate. change: what is done to every cell first."""
        cells = [[change(cell) for cell in row] for row in (self.head, *self.cells)]
        align = ["left"] * self.names + ["right"] * (len(self.head) - self.names)
        return str(tabulate(cells[1:], cells[0], form, disable_numparse=True, colalign=align))

    def markdown(self) -> str:
        """The table in Markdown, with its title above."""
        found = self._form("pipe", lambda cell: cell.replace("|", r"\|"))
        return f"{self.title}\n\n{found}\n"

    def latex(self) -> str:
        """The table as a LaTeX tabular with the rules of booktabs; the title is a comment."""
        found = self._form("latex_raw", _latex)
        for rule in ("toprule", "midrule", "bottomrule"):
            found = found.replace(r"\hline", rf"\{rule}", 1)
        return f"% {' '.join(self.title.split())}\n{found}\n"

    def csv(self) -> str:
        """The numbers in full; a column with intervals becomes three: NAME, NAME low, NAME high."""
        frame = {}
        for name, column in zip(self.head, zip(*self.rows, strict=True), strict=True):
            frame[name] = [cell.mean if isinstance(cell, Interval) else cell for cell in column]
            if any(isinstance(cell, Interval) for cell in column):
                for end in ("low", "high"):
                    frame[f"{name} {end}"] = [getattr(cell, end, None) for cell in column]
        series = [pl.Series(name, values, strict=False) for name, values in frame.items()]
        return pl.DataFrame(series).fill_nan(None).write_csv()

    def html(self) -> str:
        """The table in HTML, without its title."""
        return self._form("html")

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.title)}</p>{self.html()}"

    def __repr__(self) -> str:
        return f"{self.title}\n{self._form('plain')}"


FORMS: dict[str, Callable[[Table], str]] = {
    "latex": Table.latex,
    "markdown": Table.markdown,
    "csv": Table.csv,
}


def text(cell: Cell, sign: str = "", more: int = 0) -> str:
    """A cell as text; an interval without width is its mean. more: additional digits."""
    if isinstance(cell, Interval):
        mean, low, high = (number(x, sign, more) for x in (cell.mean, cell.low, cell.high))
        return mean if cell.low == cell.high or math.isnan(cell.low) else f"{mean} [{low}, {high}]"
    return number(cell, sign, more) if isinstance(cell, float) else str(cell)


def number(value: float, sign: str = "", more: int = 0) -> str:
    """A number with two digits after the point, fewer if it is large; never -0.00."""
    if math.isnan(value):
        return "undefined"
    digits = more + (0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2)
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def _alike(column: Sequence[Cell], texts: Sequence[str]) -> bool:
    """Whether two different numbers of a column look the same."""
    seen: dict[str, float] = {}
    for cell, looks in zip(column, texts, strict=True):
        value = cell.mean if isinstance(cell, Interval) else cell
        if isinstance(value, float) and not math.isnan(value):
            before = seen.setdefault(looks.partition(" ")[0], value)
            if abs(value - before) > 1e-9 * max(1.0, abs(value)):
                return True
    return False


def _starred(row: tuple[str, ...]) -> tuple[str, ...]:
    """A row of a name and numbers, with a mark at the smallest number; undefined ones are empty."""
    name, *numbers = (cell if cell != "undefined" else "" for cell in row)
    least = min(map(float, filter(None, numbers)), default=math.nan)
    marked = (f"{one}{'*' if float(one) == least else ' '}" if one else "" for one in numbers)
    return (name, *marked)


SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def _latex(cell: str) -> str:
    """Escape text for LaTeX, except between dollars.

    A hyphen before a number becomes a minus sign, and brackets are put into braces, since LaTeX
    would read one at the start of a row as an option of the previous row.
    """
    if is_math(cell):
        before, formula, after = cell.split("$")
        return f"{_latex(before)}${formula}${_latex(after)}"
    escaped = "".join(SPECIAL.get(sign, sign) for sign in cell)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped).replace("[", "{[}").replace("]", "{]}")


SCALE = "Score: 0 is the best fixed policy, 1 is uniform play, less is better"


def costs(lines: Sequence[Line], title: str, *, brief: bool = False) -> Table:
    """Mean cost per episode, cost at the end, regret (with intervals), and the score.

    brief: leave out the cost of the best policy, for narrow terminals.
    """
    columns: dict[str, list[Cell]] = {
        "case": [line.case for line in lines],
        "agent": [line.agent for line in lines],
        "cost per episode": [line.cost for line in lines],
        "in the last tenth": [line.end for line in lines],
        "best": [line.optimum for line in lines],
        "regret": [line.regret for line in lines],
        "score": [line.score.mean for line in lines],
        "seeds": [line.seeds for line in lines],
    }
    if brief:
        del columns["best"]
    return _table(title, columns, 2)


def warnings(lines: Sequence[Line], hopeless: Sequence[str] = ()) -> list[str]:
    """One line for every agent that has not learned, with the cases.

    hopeless: cases in which no agent can learn, which get one sentence instead.
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
    found = np.round([*table.scores, table.worst, table.mean], 2).tolist()
    rows = zip((*table.cases, "worst", "mean"), found, strict=True)
    cells = tuple((name, *row) for name, row in rows)
    return Table(title, ("case", *table.agents), cells, 1, starred=True)


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
    """The chosen setting of every agent, and its cost on the seeds used for the choice."""
    columns: dict[str, list[Cell]] = {
        "case": [item.case for item in found],
        "agent": [item.agent for item in found],
        "chosen": [item.setting for item in found],
        "among": [item.among for item in found],
        "cost per episode": [item.cost for item in found],
        "seeds": [item.seeds for item in found],
    }
    return _table(title, columns, 3)


def differences(found: Sequence[Difference], title: str) -> Table:
    """Paired differences in mean cost per episode, and the share of seeds won."""
    columns: dict[str, list[Cell]] = {
        "case": [item.case for item in found],
        "first": [item.first for item in found],
        "second": [item.second for item in found],
        "first minus second": [item.cost for item in found],
        "won by the first": [f"{item.won:.0%}" for item in found],
        "seeds": [item.seeds for item in found],
    }
    return _table(title, columns, 3, signed=True)


def _table(
    title: str, columns: dict[str, list[Cell]], names: int, *, signed: bool = False
) -> Table:
    """A table without the column of cases if all are unnamed.

    If all numbers of seeds are equal, the number moves into the title.
    """
    if not any(columns["case"]):
        del columns["case"]
        names -= 1
    if len(set(columns["seeds"])) == 1:
        n = columns.pop("seeds")[0]
        title += f", {n} seed" if n == 1 else f", {n} seeds"
    return Table(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), names, signed)


def compare(
    results: Sequence[Results],
) -> tuple[list[Table], list[tuple[str, pl.DataFrame]], list[str]]:
    """Compare the agents of several directories of results.

    Returns tables of costs and of differences within a scene; a title and the rows of all agents
    that face the same world, costs, delays and K; and the names of all agents.
    """
    lines: list[Line] = []
    names: list[str] = []
    scenes: dict[Scene, list[pl.DataFrame]] = {}
    titles: dict[Scene, str] = {}
    labels = _labels([one.directory for one in results])
    for one, label in zip(results, labels, strict=True):
        experiment = one.experiment
        named = one.reported.with_columns(agent=pl.lit(f"{label}: ") + pl.col("agent"))
        lines += statistics.summary(named)
        names += named["agent"].unique(maintain_order=True).to_list()
        for case in experiment.case_names():
            some = named.filter(pl.col("case") == case)
            if len(some):
                scene = experiment.scene(case)
                scenes.setdefault(scene, []).append(some)
                titles.setdefault(scene, title_of(experiment, case))
    found = []
    for scene, frames in scenes.items():
        case = frames[0]["case"][0]  # other directories may name the same scene differently
        same = [frame.with_columns(case=pl.lit(case)) for frame in frames]
        found.append((titles[scene], pl.concat(same)))
    tables = [costs(lines, "Means over seeds with 95 % intervals", brief=True)]
    pairs = [pair for _, rows in found for pair in statistics.differences(rows)]
    if pairs:
        tables.append(differences(pairs, "Differences in cost per episode, seed by seed"))
    return tables, found, names


def _labels(directories: Sequence[Path]) -> list[str]:
    """The last components of the paths, as many as are needed to distinguish them."""
    whole = [directory.resolve() for directory in directories]
    twice = [path for i, path in enumerate(whole) if path in whole[:i]]
    if twice:
        raise ValueError(f"directories must be different, got {twice[0]} twice")
    for depth in range(1, max(len(path.parts) for path in whole)):
        labels = ["/".join(path.parts[-depth:]) for path in whole]
        if len(set(labels)) == len(labels):
            return [_printable(label) for label in labels]
    return [_printable(str(path)) for path in whole]


def _printable(label: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in label)
