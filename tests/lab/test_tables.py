"""Tables in all their forms."""

import csv
import io
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.lab import tables
from belated.lab.statistics import Interval, Line
from belated.lab.tables import Table, number

TABLE = Table(
    "A title, 50 % of it",
    ("agent", "cost & more", "score"),
    (
        ("a_b [x]", Interval(-0.001, -1.5, 12.25), 0.5),
        ("c|d", Interval(1234.5, 1234.5, 1234.5), math.nan),
    ),
    1,
)


@given(st.floats(-1e5, 1e5))
def test_numbers_are_near_and_never_minus_zero(value):
    shown = number(value)
    assert abs(float(shown) - value) <= (0.5 if abs(value) >= 999 else 0.051)
    assert not (shown.startswith("-") and float(shown) == 0)
    assert number(-0.001, "+") == "+0.00"


def test_forms():
    assert TABLE.cells == (
        ("a_b [x]", "0.00 [-1.50, 12.2]", "0.50"),
        ("c|d", "1234", "undefined"),
    )
    assert TABLE.markdown() == (
        "A title, 50 % of it\n\n"
        "| agent   |        cost & more |     score |\n"
        "|:--------|-------------------:|----------:|\n"
        "| a_b [x] | 0.00 [-1.50, 12.2] |      0.50 |\n"
        "| c\\|d    |               1234 | undefined |\n"
    )
    assert re.sub(" +", " ", TABLE.latex()) == "\n".join(
        [
            "% A title, 50 % of it",
            r"\begin{tabular}{lrr}",
            r"\toprule",
            r" agent & cost \& more & score \\",
            r"\midrule",
            r" a\_b {[}x{]} & 0.00 {[}$-$1.50, 12.2{]} & 0.50 \\",
            r" c|d & 1234 & undefined \\",
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
    first, second = csv.DictReader(io.StringIO(TABLE.csv()))
    assert first == {
        "agent": "a_b [x]",
        "cost & more": "-0.001",
        "cost & more low": "-1.5",
        "cost & more high": "12.25",
        "score": "0.5",
    }
    assert second["score"] == ""
    assert re.search('<td style="text-align: right;"> *0.50</td>', TABLE.html())
    assert re.search(r"<td>c\|d *</td>", TABLE.html())
    assert str(TABLE).splitlines()[-1] == "c|d                    1234  undefined"


def test_a_score_that_is_undefined_is_called_so():
    one = Interval(0.5, 0.4, 0.6)
    none = Interval(math.nan, math.nan, math.nan)
    line = Line("", "a", 2, one, one, one, 0.5, none, "")
    table = tables.costs([line], "T")
    assert table.cells[0][table.head.index("score")] == "undefined"


def test_marks_do_not_get_into_numbers():
    rows = (("x", 0.25, 0.5), ("y", math.nan, 0.125))
    table = Table("T", ("case", "a", "b"), rows, 1, starred=True)
    assert table.cells == (("x", "0.25*", "0.50 "), ("y", "", "0.12*"))
    assert table.csv() == "case,a,b\nx,0.25,0.5\ny,,0.125\n"
    with pytest.raises(AttributeError):
        table.title = "U"


def test_a_table_without_rows_has_its_head():
    """Such as the differences between the agents of an experiment with one agent."""
    assert Table("t", ("first", "second"), (), 2).csv() == "first,second\n"


def test_formulas_in_names_are_formulas_in_latex():
    name = r"A_1, $\eta_t = 10^{-2}$ & more"
    row = Table("t", ("agent", "x"), ((name, 1.0), ("2 $ or 3", 2.0)), names=1).latex()
    row = re.sub(" +", " ", row)
    assert r"A\_1, $\eta_t = 10^{-2}$ \& more & 1.00 \\" in row
    assert r"2 \$ or 3 & 2.00 \\" in row
