"""Figures of whole runs against K, against K + D, or over a parameter of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib import ticker
from matplotlib.axes import Axes

from belated.config.part import shown
from belated.core.arrays import Floats
from belated.lab import statistics, sweep
from belated.lab.figures import style as drawing
from belated.lab.figures.style import (
    DEFAULT,
    MARKERS,
    OTHERS,
    Drawing,
    Layout,
    file_name,
    look,
)
from belated.lab.results import Results
from belated.lab.spec import Experiment
from belated.lab.statistics import Interval, Line
from belated.lab.toml import title

REFERENCE = 0.5
"""The slope of the reference line: that of sqrt(K)."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The regret of whole runs over a quantity.

    Attributes:
        name: the name of the curve.
        x: (N,) values of the quantity.
        regret: (N,) the regret there.
        chosen: the points that were selected.
        level: whether the curve is constant, because the agent does not have the parameter.
    """

    name: str
    x: Floats
    regret: tuple[Interval, ...]
    chosen: tuple[int, ...] = ()
    level: bool = False

    @property
    def mean(self) -> Floats:
        """(N,) mean regret."""
        return np.array([interval.mean for interval in self.regret])


def scaling(
    experiment: Experiment, rows: pl.DataFrame, lines: Sequence[Line], layout: Layout = DEFAULT
) -> Drawing:
    """The regret of whole runs against K, or against K + D, on logarithmic axes."""
    names = [learner.name for learner in experiment.learners]
    found, notes, warnings = [], [], []
    for i, one in enumerate(statistics.exponents(experiment, rows, lines, layout.regret)):
        if one.agent not in drawing.chosen(names, layout):
            continue
        series = Series(one.agent, one.x * 1.015 ** (i - len(names) / 2), one.regret)
        if not len(one.x) or not (series.mean > 0).all():
            notes.append(f"{one.agent} not drawn (no regret above 0 to show)")
            continue
        found.append(series)
        if len(one.x) > 1:
            notes.append(f"{one.agent} {interval_of(one.slope)}{'!' if one.warning else ''}")
        warnings += [one.warning] if one.warning else []
    played = {line.case for line in lines}
    bounds = {c: statistics.delay_lower_bound(experiment.scene(c)) for c in experiment.case_names()}
    known = [
        (statistics.across(experiment, rows, case), value)
        for case, value in bounds.items()
        if case in played and value is not None
    ]

    def all_of_it(axes: Axes, focus: str | None) -> None:
        _series(axes, names, found, focus, layout)
        if known:
            axes.plot(*zip(*known, strict=True), color="0.45", linestyle=":", linewidth=1, zorder=0,
                      label="exact expectation")  # fmt: skip
        _reference(axes, found)
        _logarithmic(axes, "x")
        _logarithmic(axes, "y")
        what = "episodes K" if experiment.against == "episodes" else "episodes + total delay, K + D"
        axes.set(xlabel=what, ylabel="regret of the run")
        if axes.lines:
            axes.set_xlim(right=1.05 * max(float(np.max(line.get_xdata())) for line in axes.lines))

    labels = [layout.named(one.name) for one in found]
    figure, _ = drawing.plot(labels, all_of_it, layout, title(experiment))
    caption = (
        "Regret of whole runs, mean over seeds with 95 % bootstrap intervals (agents are set "
        f"apart a little, sideways). Slopes, with intervals over seeds: {'; '.join(notes)}. "
        "Dashed grey: slope 1/2"
    )
    caption += ". Dotted: the exact expectation." if known else "."
    caption += "".join(f" (!) {text}." for text in warnings)
    return Drawing("scaling", caption, figure)


def interval_of(slope: Interval) -> str:
    """A slope with its interval, as text."""
    if slope.low == slope.high:
        return f"{slope.mean:.2f}"
    return f"{slope.mean:.2f} [{slope.low:.2f}, {slope.high:.2f}]"


def _reference(axes: Axes, found: Sequence[Series]) -> None:
    """A line of slope 1/2 below all curves, if there are cases to compare."""
    long = [one for one in found if len(one.x) > 1]
    if not long:
        return
    x = np.array([min(one.x.min() for one in long), max(one.x.max() for one in long)])
    lowest = min(float((one.mean / one.x**REFERENCE).min()) for one in long)
    y = 0.7 * lowest * x**REFERENCE
    axes.plot(x, y, color="0.6", linestyle=(0, (4, 3)), linewidth=0.9, zorder=0, label="slope 1/2")


def _series(
    axes: Axes,
    names: Sequence[str],
    found: Sequence[Series],
    focus: str | None,
    layout: Layout = DEFAULT,
) -> None:
    for one in sorted(found, key=lambda item: layout.named(item.name) == focus):
        label = layout.named(one.name)
        i = names.index(one.name)
        colour, dash = look(names, one.name)
        mean = one.mean
        if focus not in (None, label):
            axes.plot(one.x, mean, **OTHERS)
            continue
        if one.level:
            low, high = one.regret[0].low, one.regret[0].high
            axes.axhline(mean[0], color=colour, linestyle=dash, label=label)
            axes.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
            continue
        errors = [
            [band.mean - band.low for band in one.regret],
            [band.high - band.mean for band in one.regret],
        ]
        axes.errorbar(
            one.x, mean, np.maximum(errors, 0.0), color=colour, linestyle=dash, label=label,
            marker=MARKERS[i % len(MARKERS)], markersize=4, elinewidth=1, capsize=2,
        )  # fmt: skip
        for i in one.chosen:
            axes.plot(one.x[i], mean[i], marker="o", markersize=11, color=colour, linestyle="",
                      markerfacecolor="none", markeredgewidth=1.3)  # fmt: skip


def _logarithmic(axes: Axes, which: str) -> None:
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


def swept(results: Results, path: str, layout: Layout = DEFAULT) -> Drawing:
    """The regret of whole runs over a parameter of the sweep."""
    experiment = results.experiment
    names = drawing.chosen([one.name for one in over(results, path, layout)], layout)
    figure, _ = drawing.plot(
        [layout.named(name) for name in names],
        lambda axes, focus: paint_sweep(axes, results, path, focus, layout),
        layout,
        title(experiment),
    )
    caption = (
        f"Regret of whole runs over {path}, mean over seeds with 95 % bootstrap intervals; an "
        "agent that is not swept is a level line"
    )
    if experiment.select is not None:
        on = sweep.seeds(experiment.first_seed, experiment.select.seeds)
        caption += f". These are {on}, on which settings were selected; the selected are ringed"
    return Drawing(file_name("sweep", path), caption + ".", figure)


def paint_sweep(
    axes: Axes, results: Results, path: str, focus: str | None = None, layout: Layout = DEFAULT
) -> None:
    """Draw the regret of all agents over a parameter into axes."""
    found = over(results, path, layout)
    names = [one.name for one in found]
    found = [one for one in found if one.name in drawing.chosen(names, layout)]
    values = dict(results.experiment.sweep)[path]
    if _numeric(values):
        if min(values) > 0 and max(values) >= 10 * min(values):
            _logarithmic(axes, "x")
            if len(values) <= 8:
                axes.xaxis.set_major_locator(ticker.FixedLocator(sorted(values)))
                axes.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.set_xticks(range(len(values)), [drawing.short(shown(value), 20) for value in values])
    _series(axes, names, found, focus, layout)
    axes.set(xlabel=sweep.label(results.experiment, path), ylabel="regret of the run")


def over(results: Results, path: str, layout: Layout = DEFAULT) -> list[Series]:
    """The curves over a parameter: one for each agent and each setting of everything else.

    Over a parameter of one agent, other swept agents are left out: they have their own figures.
    """
    experiment = results.experiment
    values = dict(experiment.sweep)[path]
    places = dict(zip(values, values if _numeric(values) else range(len(values)), strict=True))
    chosen = {(choice.case, choice.learner) for choice in results.choices}
    found: dict[str, dict[float, tuple[Interval, bool]]] = {}
    levels = set()
    for line in results.lines_on(layout.on, layout.regret, swept=True):
        at = experiment.at(line.case, line.agent)
        elsewhere = line.agent != experiment.base(line.agent) and path not in at
        if elsewhere and path.startswith(f"{sweep.AGENTS}."):
            continue
        name = sweep.series(experiment, line.case, line.agent, path)
        picked = (line.case, line.agent) in chosen
        if path not in at:
            levels.add(name)
        for value in [at[path]] if path in at else values:
            found.setdefault(name, {})[float(places[value])] = (line.regret, picked)
    return [
        Series(
            name,
            np.array(sorted(curve)),
            tuple(curve[x][0] for x in sorted(curve)),
            tuple(i for i, x in enumerate(sorted(curve)) if curve[x][1]),
            name in levels,
        )
        for name, curve in found.items()
    ]


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
