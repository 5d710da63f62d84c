"""A table of results, and its forms: for terminals, Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from belated.lab.statistics import Interval


@dataclass(frozen=True, slots=True)
class Score:
    """A score in a table of scores; best: the least of its row."""

    value: float
    best: bool


Cell = str | int | float | Interval | Score
"""A cell; NaN means that there is no such number."""


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A table.

    Attributes:
        title: above the table.
        head: heads of the columns.
        rows: the cells, row by row.
        names: how many columns, from the left, hold names; the others hold numbers.
        signed: whether positive numbers are shown with their sign.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int
    signed: bool = False

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The cells as text, with one more digit in columns where different numbers look alike."""
        sign = "+" if self.signed else ""
        columns = []
        for column in zip(*self.rows, strict=True):
            texts = [text(cell, sign) for cell in column]
            columns.append([text(c, sign, 1) for c in column] if _alike(column, texts) else texts)
        return tuple(zip(*columns, strict=True))

    def markdown(self) -> str:
        """The table in Markdown, with its title above."""
        rules = ["---" if i < self.names else "---:" for i in range(len(self.head))]
        lines = [self.head, rules, *self.cells]
        rows = ("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in lines)
        return f"{self.title}\n\n" + "\n".join(rows) + "\n"

    def latex(self) -> str:
        """The table as a LaTeX tabular with the rules of booktabs; the title is a comment."""
        columns = "l" * self.names + "r" * (len(self.head) - self.names)
        rows = [" & ".join(map(_latex, row)) + r" \\" for row in (self.head, *self.cells)]
        title = " ".join(self.title.split())
        body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule", *rows[1:]]
        return "\n".join([f"% {title}", *body, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def csv(self) -> str:
        """The numbers in full; a column with intervals becomes three: NAME, NAME low, NAME high."""
        wide = [any(isinstance(row[i], Interval) for row in self.rows) for i in range(self.width)]
        head = [
            name
            for column, spread in zip(self.head, wide, strict=True)
            for name in ([column, f"{column} low", f"{column} high"] if spread else [column])
        ]
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(head)
        for row in self.rows:
            cells = zip(row, wide, strict=True)
            writer.writerow([number for cell, spread in cells for number in _numbers(cell, spread)])
        return buffer.getvalue()

    def html(self) -> str:
        """The table in HTML, without its title; cells with names have the class "name"."""

        def row(cells: Sequence[str], tag: str) -> str:
            kinds = (' class="name"' if i < self.names else "" for i in range(self.width))
            pairs = zip(cells, kinds, strict=True)
            return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in pairs)

        body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in self.cells)
        head = f"<thead><tr>{row(self.head, 'th')}</tr></thead>"
        return f"<table>{head}<tbody>{body}</tbody></table>"

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.head)

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.title)}</p>{self.html()}"

    def __repr__(self) -> str:
        rows = [self.head, *self.cells]
        widths = [max(len(row[i]) for row in rows) for i in range(self.width)]
        lines = [
            "  ".join(
                cell.ljust(width) if i < self.names else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.title, *lines])


FORMS: dict[str, Callable[[Table], str]] = {
    "latex": Table.latex,
    "markdown": Table.markdown,
    "csv": Table.csv,
}


def text(cell: Cell, sign: str = "", more: int = 0) -> str:
    """A cell as text; an interval without width is its mean. more: digits beyond the usual."""
    if isinstance(cell, Interval):
        mean, low, high = (number(x, sign, more) for x in (cell.mean, cell.low, cell.high))
        return mean if cell.low == cell.high or math.isnan(cell.low) else f"{mean} [{low}, {high}]"
    if isinstance(cell, Score):
        mark = "*" if cell.best else " "
        return "" if math.isnan(cell.value) else f"{number(cell.value)}{mark}"
    return number(cell, sign, more) if isinstance(cell, float) else str(cell)


def number(value: float, sign: str = "", more: int = 0) -> str:
    """A number with two digits after the point, fewer if it is large; never -0.00."""
    if math.isnan(value):
        return "undefined"
    digits = more + (0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2)
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def _alike(column: Sequence[Cell], texts: Sequence[str]) -> bool:
    """Whether two numbers of a column are different and look the same."""
    seen: dict[str, float] = {}
    for cell, shown in zip(column, texts, strict=True):
        value = cell.mean if isinstance(cell, Interval) else cell
        if isinstance(value, float) and not math.isnan(value):
            before = seen.setdefault(shown.partition(" ")[0], value)
            if abs(value - before) > 1e-9 * max(1.0, abs(value)):
                return True
    return False


def _numbers(cell: Cell, spread: bool) -> list[str]:
    if isinstance(cell, Score):
        cell = cell.value
    if isinstance(cell, Interval):
        return [*map(_plain, (cell.mean, cell.low, cell.high))]
    return [_plain(cell), *([""] * (2 * spread))]


def _plain(cell: str | float) -> str:
    missing = isinstance(cell, float) and math.isnan(cell)
    return "" if missing else repr(float(cell)) if isinstance(cell, float) else str(cell)


SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def _latex(cell: str) -> str:
    """Escape text for LaTeX.

    A hyphen before a number becomes a minus sign, and brackets are put into braces, since LaTeX
    would read one at the start of a row as an option of the row before.
    """
    escaped = "".join(SPECIAL.get(sign, sign) for sign in cell.strip())
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped).replace("[", "{[}").replace("]", "{]}")
