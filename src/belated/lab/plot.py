"""Plots of results as Matplotlib axes, to be adjusted.

    axes = lab.plot.cost(result)
    axes.set_ylim(0, 4)
    axes.figure.savefig("cost.pdf")

With `ax` they are drawn into axes of your own.
"""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import polars as pl
from matplotlib.axes import Axes

from belated.core import checks
from belated.lab.figures import curves as figures
from belated.lab.figures.style import STYLE, Sheet, label_ends
from belated.lab.results import Results


def cost(
    result: Results, case: str | None = None, *, ax: Axes | None = None, block: int | None = None
) -> Axes:
    """Expected cost per episode over time, mean over seeds with 95 % bands.

    Args:
        result: what `lab.run` returned, or `lab.Results(directory)`.
        case: one of the cases; None for the only one.
        ax: axes to draw into; new ones by default.
        block: every point is the mean of so many episodes.
    """
    return _over_time(result, case, "value", ax, block)


def regret(result: Results, case: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Cumulative regret over time, mean over seeds with 95 % bands. Arguments: see `cost`."""
    return _over_time(result, case, "regret", ax, None)


def sweep(result: Results, path: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Regret of whole runs over a parameter of the sweep; None for the only one."""
    paths = [path for path, _ in result.experiment.sweep]
    if path is None and len(paths) == 1:
        path = paths[0]
    checks.choice("path", path, paths)
    with matplotlib.rc_context(STYLE):
        axes = ax or _axes()
        label_ends(axes, figures.paint_sweep(axes, result, str(path)))
    return axes


def _over_time(
    result: Results, case: str | None, column: str, ax: Axes | None, block: int | None
) -> Axes:
    cases = result.reported["case"].unique(maintain_order=True).to_list()
    if case is None and len(cases) == 1:
        case = cases[0]
    checks.choice("case", case, cases)
    names = [learner.name for learner in result.experiment.learners]
    rows = result.reported.filter(pl.col("case") == case)
    with matplotlib.rc_context(STYLE):
        axes = ax or _axes()
        label_ends(axes, figures.paint(axes, names, rows, column, block))
    return axes


def _axes() -> Axes:
    figure: Any = plt.figure(FigureClass=Sheet, figsize=(6.2, 3.5), layout="constrained")
    axes: Axes = figure.subplots()
    return axes
