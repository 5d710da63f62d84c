"""Figures from a directory of results, for print and for colour-blind readers.

Colours are those of Okabe & Ito (2008) without the yellow, and a wine; every agent has its own dash
as well, and curves are labelled at their ends.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from belated.arrays import Floats
from belated.lab import maps, statistics, store, theory
from belated.lab.spec import Experiment, slug
from belated.lab.statistics import Curves

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (6, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1.2, 1.2)), (0, (8, 2, 1, 2)))
POINTS = 250
"""Points of a curve at most; more would blur in print."""
WIDEST = 32
"""Characters of a label; longer names are cut in figures."""
INK = "0.2"
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.size": 9,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "belated",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure: its name as a file, what it shows, and itself."""

    name: str
    caption: str
    figure: Figure
    _files: dict[str, bytes] = field(default_factory=dict, repr=False)

    def encoded(self, form: str) -> bytes:
        """The figure as a file of this form: png, svg or pdf."""
        if form not in self._files:
            buffer = io.BytesIO()
            with matplotlib.rc_context(STYLE):
                self._print(form, buffer)
            self.figure.set_layout_engine("none")  # laid out once, the same in every form
            self._files[form] = buffer.getvalue()
        return self._files[form]

    def _print(self, form: str, buffer: io.BytesIO) -> None:
        """Without savefig where it matters: it draws everything twice."""
        canvas: Any
        if form == "png":
            self.figure.dpi = 160
            canvas = FigureCanvasAgg(self.figure)
            canvas.print_png(buffer)
        elif form == "svg":
            canvas = FigureCanvasSVG(self.figure)
            canvas.print_svg(buffer, metadata={"Date": None})
        else:
            self.figure.savefig(buffer, format=form, metadata={"CreationDate": None})


def save(directory: Path, drawings: Sequence[Drawing], forms: Sequence[str]) -> list[Path]:
    """Write figures into the directory's `figures`."""
    paths = []
    for drawing in drawings:
        for form in forms:
            path = directory / "figures" / f"{drawing.name}.{form}"
            store.write(path, drawing.encoded(form))
            paths.append(path)
    return paths


def draw(directory: Path, rows: pl.DataFrame) -> list[Drawing]:
    """All figures that the results of a directory give."""
    experiment = store.spec(directory)
    with matplotlib.rc_context(STYLE):
        if experiment.against is not None:
            return [scaling(experiment, rows)]
        drawings = []
        for case in experiment.case_names():
            some = rows.filter(pl.col("case") == case)
            if len(some):
                drawings += _of_case(directory, experiment, case, some)
        return drawings


def _of_case(
    directory: Path, experiment: Experiment, case: str, rows: pl.DataFrame
) -> list[Drawing]:
    drawings = [
        over_time(experiment, case, rows, "value"),
        over_time(experiment, case, rows, "regret"),
        feedback(experiment, case, rows),
    ]
    learned = maps.learned(directory, experiment, case)
    if learned:
        caption = (
            "The policies learned by the end (first seed): shade, expected visits per episode; "
            "arrows, the average move where the policy goes; crossed cells, walls."
        )
        drawings.append(Drawing(_name("policy", case), caption, maps.draw(learned)))
    return drawings


def over_time(experiment: Experiment, case: str, rows: pl.DataFrame, column: str) -> Drawing:
    """Cost per episode, or cumulative regret: mean over seeds with 95 % bands."""
    figure, axes = _axes()
    ends = []
    curves = statistics.curves(rows, column)
    for (_, agent), curve in curves.items():
        colour, dash = _look(experiment, agent)
        level = _curve(axes, curve, colour, dash, whole=column == "regret")
        ends.append((level, agent, colour))
    numbers = [len(curve.seeds) for curve in curves.values()]
    seeds, fewest = max(numbers), min(numbers)
    if column == "value":
        best = statistics.curves(rows, "comparator")
        level = next(iter(best.values())).values.mean(axis=0)
        if np.ptp(level) < 1e-9:
            axes.axhline(level[0], color="0.45", linewidth=1, linestyle=":", zorder=0)
            ends.append((float(level[0]), "best policy", "0.45"))
    _label_ends(axes, ends)
    shown = "expected cost per episode" if column == "value" else "cumulative regret"
    axes.set(xlabel="episode", ylabel=shown)
    axes.set_title(_title(experiment, case))
    of = "of 1 seed" if seeds == 1 else f"of {seeds} seeds"
    if fewest < seeds:
        of = f"of {fewest} to {seeds} seeds"
    caption = f"{shown.capitalize()}, exact, mean {of} with 95 % bootstrap bands"
    if column == "value":
        caption += _averaged(experiment.setting(case).episodes)
    caption += "."
    return Drawing(_name("cost" if column == "value" else "regret", case), caption, figure)


def feedback(experiment: Experiment, case: str, rows: pl.DataFrame) -> Drawing:
    """How late feedback is, and how much of it is missing over time (all agents share both)."""
    figure = Figure(figsize=(6.2, 2.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    first = rows.filter(pl.col("agent") == rows["agent"][0])
    delays = first["delay"].to_numpy()
    lost = float((delays < 0).mean())
    within = delays[delays >= 0]
    if len(within):
        top = int(within.max())
        edges = np.arange(-0.5, top + 1 + top // 50, 1 + top // 50)
        left.stairs(np.histogram(within, edges)[0] / len(delays), edges, fill=True,
                    color=COLOURS[0])  # fmt: skip
    notes = [f"mean {within.mean():.1f}, largest {top}"] if len(within) else []
    notes += [f"lost {lost:.1%}"] if lost else []
    left.set_title(", ".join(notes), fontsize=9)
    left.set(xlabel="delay in episodes", ylabel="share of episodes")
    (missing,) = statistics.curves(first, "missing").values()
    _curve(right, missing, COLOURS[0], "-", whole=False)
    right.set(xlabel="episode", ylabel="episodes without feedback", ylim=(0, None))
    averaged = _averaged(experiment.setting(case).episodes)
    caption = (
        "How late feedback comes, over all seeds, and how many of the episodes so far are still "
        f"without it (mean over seeds with 95 % bands{averaged}). All agents face the same delays."
    )
    return Drawing(_name("delays", case), caption, figure)


def _curve(axes: Axes, curve: Curves, colour: str, dash: Any, *, whole: bool) -> float:
    """Draw the mean over seeds with its band, and return its last level.

    Long runs are drawn in blocks: their averages or, of what is a whole so far, their ends.
    """
    K = curve.values.shape[1]
    first = np.arange(0, K, _block(K))
    last = np.append(first[1:], K) - 1
    if whole:
        at, values = last + 1.0, curve.values[:, last]
    else:
        at = (first + last) / 2 + 1
        values = np.add.reduceat(curve.values, first, axis=1) / (last - first + 1)
    mean, low, high = statistics.bootstrap(values)
    axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(at, mean, color=colour, linestyle=dash, marker="o" if K == 1 else "")
    axes.set_xlim(1, max(K, 2))
    return float(mean[-1])


def _block(K: int) -> int:
    return -(-K // POINTS)


def _averaged(K: int) -> str:
    block = _block(K)
    return f", averaged over every {block} episodes" if block > 1 else ""


def scaling(experiment: Experiment, rows: pl.DataFrame) -> Drawing:
    """The regret of whole runs against K, or against K + D, both on logarithmic axes."""
    figure, axes = _axes()
    ends = []
    notes = []
    regret = statistics.curves(rows, "regret")
    for i, learner in enumerate(experiment.agents):
        colour, dash = _look(experiment, learner.name)
        found = [(case, regret[case, learner.name]) for case in experiment.case_names()
                 if (case, learner.name) in regret]  # fmt: skip
        x = np.array([_across(experiment, rows, case) for case, _ in found])
        bands = [statistics.interval(curve.values[:, -1]) for _, curve in found]
        mean = np.array([band.mean for band in bands])
        if not len(x) or not (mean > 0).all():
            notes.append(f"{learner.name} not drawn (no regret above 0 to show)")
            continue
        errors = [
            [band.mean - band.low for band in bands],
            [band.high - band.mean for band in bands],
        ]
        x = x * 1.015 ** (i - len(experiment.agents) / 2)
        axes.errorbar(
            x, mean, np.maximum(errors, 0.0), color=colour, linestyle=dash,
            marker=MARKERS[i % len(MARKERS)], markersize=4, elinewidth=1, capsize=2,
        )  # fmt: skip
        if len(x) > 1:
            notes.append(f"{learner.name} {statistics.slope(x, mean):.2f}")
        ends.append((float(mean[-1]), learner.name, colour))
    played = rows["case"].unique().to_list()
    exact = [
        (_across(experiment, rows, case), theory.delay_lower_bound(experiment.setting(case)))
        for case in experiment.case_names()
        if case in played
    ]
    known = [(x, value) for x, value in exact if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color="0.45", linestyle=":", linewidth=1, zorder=0)
        ends.append((float(known[-1][1]), "exact expectation", "0.45"))
    axes.set(xscale="log", yscale="log", ylabel="regret of the run")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel(
        "episodes K" if experiment.against == "episodes" else "episodes + total delay, K + D"
    )
    if axes.lines:
        axes.set_xlim(right=1.05 * max(float(np.max(line.get_xdata())) for line in axes.lines))
    _label_ends(axes, ends, logarithmic=True)
    axes.set_title(_title(experiment, ""))
    caption = (
        "Regret of whole runs, mean over seeds with 95 % bootstrap intervals (agents are set "
        "apart a little, sideways). Slopes: " + "; ".join(notes)
    )
    return Drawing("scaling", caption + ".", figure)


def _across(experiment: Experiment, rows: pl.DataFrame, case: str) -> float:
    """Where a case stands on the horizontal axis: K, or K + D, D averaged over seeds."""
    some = rows.filter(pl.col("case") == case)
    K = experiment.setting(case).episodes
    if experiment.against == "episodes" or not len(some):
        return float(K)
    first = some.filter(pl.col("agent") == some["agent"][0])
    left = K - 1 - first["episode"]
    delay = first["delay"]
    cut = pl.select(pl.when((delay < 0) | (delay > left)).then(left).otherwise(delay)).to_series()
    return float(K + cut.sum() / first["seed"].n_unique())


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.2, 3.5), layout="constrained")
    return figure, figure.subplots()


def _look(experiment: Experiment, agent: str) -> tuple[str, Any]:
    i = [learner.name for learner in experiment.agents].index(agent)
    return COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]


def _label_ends(
    axes: Axes, ends: Sequence[tuple[float, str, str]], *, logarithmic: bool = False
) -> None:
    """Names at the right ends of curves, moved apart where they would touch."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # and keep it so
    if logarithmic:
        low, high = np.log(low), np.log(high)
    wanted = np.array([np.log(y) if logarithmic else y for y, _, _ in ends])
    wanted = (wanted - low) / (high - low)
    placed = spread(wanted, gap=0.066)
    for (_, text, colour), at, to in zip(ends, wanted, placed, strict=True):
        axes.plot((1.005, 1.04), (at, to), color=colour, linewidth=1.4, transform=axes.transAxes,
                  clip_on=False)  # fmt: skip
        axes.text(1.05, to, maps.short(text, WIDEST), va="center", color="0.1",
                  transform=axes.transAxes)  # fmt: skip


def spread(wanted: Floats, gap: float) -> Floats:
    """Positions near the wanted ones, in the same order, at least `gap` apart, none above 1.

    wanted: (N,), as shares of the height.
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    # Moved apart = nondecreasing after taking the steps off; pool neighbours that violate it.
    blocks: list[list[float]] = []
    for value in wanted[order] - steps:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    flat = np.concatenate([np.full(int(n), a) for a, n in blocks]) if blocks else np.zeros(0)
    highest = max(1.0, wanted.max(initial=0.0)) - steps[::-1]  # with room for those above
    placed = np.empty(len(wanted))
    placed[order] = np.minimum(flat + steps, highest)
    return placed


def _name(name: str, case: str) -> str:
    return "-".join(filter(None, [name, slug(case)]))


def _title(experiment: Experiment, case: str) -> str:
    return textwrap.fill(": ".join(filter(None, [experiment.title or experiment.name, case])), 75)
