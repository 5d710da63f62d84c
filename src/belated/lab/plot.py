"""Plots of results as Matplotlib axes, to be adjusted.

    axes = lab.plot.cost(result)
    axes.set_ylim(0, 4)
    axes.figure.savefig("cost.pdf")

With `ax` they are drawn into your own axes. Several panels in one figure, in which every agent has
the same colour::

    figure = lab.plot.panels({"grid": result, "walls": other}, width="page")
    with lab.plot.style():                      # fonts and colours for figures of your own
        figure, axes = plt.subplots(1, 2, layout="constrained")
        lab.plot.cost(result, ax=axes[0])
        lab.plot.regret(result, kind="dynamic", ax=axes[1])
        figure.savefig("both.pdf")              # with TrueType fonts
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from belated.core import checks
from belated.lab.figures import curves, sweeps
from belated.lab.figures import style as style_of
from belated.lab.figures.style import STYLE, Layout, Sheet, entitle, grid, legend_below
from belated.lab.names import is_math
from belated.lab.results import Results

WHAT = {"cost": "value", "regret": "regret"}
"""What can be drawn over time, and its column."""
OWN: dict[Any, Any] = {"text.parse_math": True}
"""In your own titles and labels `$...$` is mathematics."""


@contextlib.contextmanager
def style(width: str | float | None = None) -> Iterator[None]:
    """The lab's style for your own figures; PDF files then embed TrueType fonts.

    width: "column" or "page" or inches; narrow figures have smaller letters.
    """
    with matplotlib.rc_context(Layout(width).style | OWN):
        yield


def cost(
    result: Results,
    case: str | None = None,
    *,
    ax: Axes | None = None,
    block: int | None = None,
    on: str = "means",
    agents: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
) -> Axes:
    """Expected cost per episode over time, mean over seeds with 95 % bands.

    Args:
        result: the return value of `lab.run`, or `lab.Results(directory)`.
        case: one of the cases; None for the only one.
        ax: axes to draw into; new ones by default.
        block: the number of episodes per point.
        on: costs in expectation over their noise ("means"), or as they were drawn ("drawn").
        agents: the agents to show; each keeps its colour.
        labels: the names to show for agents, in which `$...$` is mathematics.
        legend: whether there is a legend inside the axes.
    """
    layout = Layout(block=block, on=on, agents=agents, labels=labels)
    return _over_time(result, case, "value", ax, layout, legend)


def regret(
    result: Results,
    case: str | None = None,
    *,
    kind: str | None = None,
    ax: Axes | None = None,
    agents: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
) -> Axes:
    """Cumulative regret over time, mean over seeds with 95 % bands.

    kind: "hindsight" (for the costs that were drawn), "means" (for mean costs, the default),
    "dynamic" (against the best policy of every episode) or "so far" (against the best fixed policy
    of the episodes up to k). The other arguments are those of `cost`.
    """
    layout = Layout(regret=kind, agents=agents, labels=labels)
    return _over_time(result, case, "regret", ax, layout, legend)


def diagnostic(
    result: Results,
    name: str,
    case: str | None = None,
    *,
    ax: Axes | None = None,
    agents: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
) -> Axes:
    """A diagnostic of the agents over time, mean over seeds with 95 % bands.

    name: one of `agent.diagnostics()`, e.g. "open"; agents without it are left out. The other
    arguments are those of `cost`.
    """
    layout = Layout(agents=agents, labels=labels)
    case = _case(result, case)
    names = [learner.name for learner in result.experiment.learners]
    rows = result.diagnostics.filter(
        (pl.col("case") == case) & pl.col("agent").is_in(style_of.chosen(names, layout))
    )
    checks.choice("name", name, sorted(rows["name"].unique()))
    with matplotlib.rc_context(STYLE):
        axes = ax or _axes()
        curves.paint_named(axes, names, rows.filter(pl.col("name") == name), layout)
        axes.set(xlabel="episode", ylabel=name.replace("_", " "))
        _label(axes, legend)
    return axes


def sweep(
    result: Results,
    path: str | None = None,
    *,
    ax: Axes | None = None,
    on: str = "means",
    kind: str | None = None,
    agents: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
) -> Axes:
    """Regret of whole runs over a parameter of the sweep.

    Args:
        result: the return value of `lab.run`.
        path: a path of the sweep; None for the only one.
        ax: see `cost`.
        on: see `cost`.
        kind: see `regret`.
        agents: the names of the curves to show; each keeps its colour.
        labels: see `cost`.
        legend: see `cost`.
    """
    paths = [path for path, _ in result.experiment.sweep]
    if path is None and len(paths) == 1:
        path = paths[0]
    checks.choice("path", path, paths)
    with matplotlib.rc_context(STYLE):
        axes = ax or _axes()
        layout = Layout(on=on, regret=kind, agents=agents, labels=labels)
        sweeps.paint_sweep(axes, result, str(path), None, layout)
        _label(axes, legend)
    return axes


def panels(
    results: Results | Mapping[str, Results],
    what: str = "cost",
    *,
    columns: int | None = None,
    width: str | float = "page",
    cases: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
    kind: str | None = None,
    block: int | None = None,
    share_y: bool = True,
) -> Figure:
    """Several panels in one figure, in which an agent has the same colour everywhere.

    Args:
        results: one panel for each case of these; or results by the title of their panel.
        what: "cost" or "regret".
        columns: the number of panels side by side; by default up to three.
        width: "column", "page" or inches.
        cases: the cases to show; by default all.
        agents: the agents to show, of all results.
        labels: the names to show for agents, in which `$...$` is mathematics.
        legend: whether there is one legend for all panels, below them.
        kind: the kind of regret; see `regret`.
        block: the number of episodes per point.
        share_y: whether all panels have the same vertical axis.
    """
    checks.choice("what", what, WHAT)
    layout = Layout(width, block=block, regret=kind, agents=agents, labels=labels)
    scenes = list(_scenes(results, cases))
    names = list(dict.fromkeys(name for _, rows in scenes for name in rows["agent"].unique(
        maintain_order=True)))  # fmt: skip
    style_of.chosen(names, layout)
    across = checks.integer("columns", columns, 1) if columns else min(3, len(scenes))
    with matplotlib.rc_context(layout.style):
        figure, places = grid(len(scenes), across, layout.width or 7.0, 0.75, share_y=share_y)
        for axes, (heading, rows) in zip(places, scenes, strict=True):
            if agents is not None:
                rows = rows.filter(pl.col("agent").is_in(list(agents)))  # noqa: PLW2901
            if len(rows):
                curves.paint(axes, names, rows, WHAT[what], layout)
            entitle(axes, heading, 40)
        for i, axes in enumerate(places):
            axes.set_ylabel("" if i % across else axes.get_ylabel())
            axes.set_xlabel("" if i + across < len(scenes) else axes.get_xlabel())
        if legend:
            legend_below(figure, *places)
    return figure


def _scenes(
    results: Results | Mapping[str, Results], cases: Sequence[str] | None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """A title and the rows of every panel."""
    named = {"": results} if isinstance(results, Results) else dict(results)
    for name, result in named.items():
        checks.instance("results", result, Results, ", or a table of them by title")
        own = result.reported["case"].unique(maintain_order=True).to_list()
        for case in cases or ():
            checks.choice("cases", case, own)
        for case in own if cases is None else cases:
            heading = ", ".join(filter(None, [name, case]))
            yield heading, result.reported.filter(pl.col("case") == case)


def _over_time(
    result: Results,
    case: str | None,
    column: str,
    ax: Axes | None,
    layout: Layout,
    legend: bool,
) -> Axes:
    case = _case(result, case)
    names = [learner.name for learner in result.experiment.learners]
    rows = result.reported.filter(pl.col("case") == case)
    rows = rows.filter(pl.col("agent").is_in(style_of.chosen(names, layout)))
    with matplotlib.rc_context(STYLE):
        axes = ax or _axes()
        curves.paint(axes, names, rows, column, layout)
        _label(axes, legend)
    return axes


def _case(result: Results, case: str | None) -> str:
    cases = result.reported["case"].unique(maintain_order=True).to_list()
    if case is None and len(cases) == 1:
        case = cases[0]
    return checks.choice("case", case, cases)


def _label(axes: Axes, legend: bool) -> None:
    if checks.flag("legend", legend):
        for text in axes.legend().get_texts():
            text.set_parse_math(is_math(text.get_text()))


def _axes() -> Axes:
    figure: Any = plt.figure(FigureClass=Sheet, figsize=(6.2, 3.5), layout="constrained")
    with matplotlib.rc_context(OWN):
        axes: Axes = figure.subplots()
    return axes
