"""Tables of results, and their forms: for terminals, Markdown, LaTeX, HTML and CSV."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import polars as pl
from tabulate import tabulate

from belated.lab import statistics
from belated.lab.spec import Experiment, label, settings, shown
from belated.lab.statistics import Choices, Difference, Interval, Line, Series, score_table

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
        """The cells as text."""
        sign = "+" if self.signed else ""
        cells = (tuple(text(cell, sign) for cell in row) for row in self.rows)
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
        frame: dict[str, list[Any]] = {}
        for i, name in enumerate(self.head):
            column = [row[i] for row in self.rows]
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


def text(cell: Cell, sign: str = "") -> str:
    """A cell as text; an interval without width is its mean."""
    if isinstance(cell, Interval):
        mean, low, high = (number(x, sign) for x in (cell.mean, cell.low, cell.high))
        return mean if cell.low == cell.high or math.isnan(cell.low) else f"{mean} [{low}, {high}]"
    return number(cell, sign) if isinstance(cell, float) else str(cell)


def number(value: float, sign: str = "") -> str:
    """A number with two digits after the point, fewer if it is large; never -0.00."""
    if math.isnan(value):
        return "undefined"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


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
    before, *formula = cell.split("$")
    if len(formula) == 2 and formula[0]:
        return f"{_latex(before)}${formula[0]}${_latex(formula[1])}"
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


def warnings(lines: Sequence[Line]) -> list[str]:
    """One line for every agent that has not learned, with the cases."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.verdict:
            found.setdefault((line.agent, line.verdict), []).append(line.case)
    return [
        f"WARNING: {agent} (in {'; '.join(cases)}): {verdict}".replace(" (in )", "")
        for (agent, verdict), cases in found.items()
    ]


def scores(experiment: Experiment, lines: Sequence[Line], title: str) -> Table:
    """Mean scores over seeds, one row per case and one column per agent; * marks the least.

    The last rows are the worst and the mean score of every agent that has finished all cases.
    """
    cases, found = score_table(experiment, lines)
    defined = found[~np.isnan(found).all(axis=1)]  # the cases in which some agent has a score
    over = defined if len(defined) else np.full((1, found.shape[1]), np.nan)
    rounded = np.round([*found, over.max(axis=0), over.mean(axis=0)], 2).tolist()
    rows = zip((*cases, "worst", "mean"), rounded, strict=True)
    head = ("case", *(learner.name for learner in experiment.learners))
    return Table(title, head, tuple((name, *row) for name, row in rows), 1, starred=True)


def scaling(
    experiment: Experiment, lines: Sequence[Line], title: str, slopes: Mapping[str, Series]
) -> Table:
    """The mean regret of whole runs, one row per agent and one column per case; then its slope."""
    regret: dict[tuple[str, str], Cell]
    regret = {(line.case, line.agent): line.regret.mean for line in lines}
    cases = experiment.case_names()
    cells = tuple(
        (name, *(regret.get((case, name), "") for case in cases), one.slope)
        for name, one in slopes.items()
    )
    return Table(title, ("mean regret", *cases, "slope"), cells, 1)


def swept(experiment: Experiment, lines: Sequence[Line], path: str, title: str) -> Table:
    """The mean regret of whole runs, one row per agent and one column per value of a parameter.

    An agent without the parameter has the same number everywhere.
    """
    values = dict(experiment.sweep)[path]
    cells = [
        (name, *(curve[value].regret.mean if value in curve else "" for value in values))
        for name, curve in statistics.over(experiment, lines, path).items()
    ]
    head = (f"mean regret, {label(experiment, path)} =", *map(shown, values))
    return Table(title, head, tuple(cells), 1)


def choices(experiment: Experiment, found: Choices, title: str) -> Table:
    """The chosen setting of every agent, and its cost on the seeds used for the choice."""
    best = [lines[0] for lines in found.values()]
    at = [experiment.variants(line.case, line.agent)[1].at for line in best]
    columns: dict[str, list[Cell]] = {
        "case": [case for case, _ in found],
        "agent": [agent for _, agent in found],
        "chosen": [settings(experiment, values) for values in at],
        "among": [len(lines) for lines in found.values()],
        "cost per episode": [line.cost for line in best],
        "seeds": [line.seeds for line in best],
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
