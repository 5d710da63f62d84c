"""Figures of a directory of results."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from belated.delays import NEVER, total_delay
from belated.lab import exact, maps, scores, statistics, store
from belated.lab.drawing import COLOURS, MARKERS, STYLE, Drawing, label_ends, look, one_axes
from belated.lab.spec import SCORE, Experiment, slug
from belated.lab.statistics import Curves, Line

POINTS = 250
"""Most points of a curve; more would blur in print."""


def draw(directory: Path, rows: pl.DataFrame, lines: Sequence[Line]) -> list[Drawing]:
    """All figures of a directory of results."""
    experiment = store.spec(directory)
    with matplotlib.rc_context(STYLE):
        if experiment.against == SCORE:
            return scores.draw(experiment, lines)
        if experiment.against is not None:
            return [scaling(experiment, rows, lines)]
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
            "The policies learned by the end (first seed). The shade shows expected visits per "
            "episode, arrows the average move in visited cells; crossed cells are walls."
        )
        drawings.append(Drawing(_name("policy", case), caption, maps.draw(learned)))
    return drawings


def over_time(experiment: Experiment, case: str, rows: pl.DataFrame, column: str) -> Drawing:
    """Cost per episode, or cumulative regret: mean over seeds with 95 % bands."""
    figure, axes = one_axes()
    ends = []
    curves = statistics.curves(rows, column)
    for (_, agent), curve in curves.items():
        colour, dash = look(experiment, agent)
        level = _curve(axes, curve, colour, dash, cumulative=column == "regret")
        ends.append((level, agent, colour))
    numbers = [len(curve.seeds) for curve in curves.values()]
    seeds, fewest = max(numbers), min(numbers)
    if column == "value":
        best = statistics.curves(rows, "comparator")
        level = next(iter(best.values())).values.mean(axis=0)
        if np.ptp(level) < 1e-9:
            axes.axhline(level[0], color="0.45", linewidth=1, linestyle=":", zorder=0)
            ends.append((float(level[0]), "best policy", "0.45"))
    label_ends(axes, ends)
    shown = "expected cost per episode" if column == "value" else "cumulative regret"
    axes.set(xlabel="episode", ylabel=shown)
    axes.set_title(_title(experiment, case))
    of = "of 1 seed" if seeds == 1 else f"of {seeds} seeds"
    if fewest < seeds:
        of = f"of {fewest} to {seeds} seeds"
    caption = f"{shown.capitalize()}, exact, mean {of} with 95 % bootstrap bands"
    if column == "value":
        caption += _averaged(experiment.scene(case).episodes)
    caption += "."
    return Drawing(_name("cost" if column == "value" else "regret", case), caption, figure)


def feedback(experiment: Experiment, case: str, rows: pl.DataFrame) -> Drawing:
    """The delays, and the number of missing records over time; both are the same for all agents."""
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
    _curve(right, missing, COLOURS[0], "-", cumulative=False)
    right.set(xlabel="episode", ylabel="episodes without feedback", ylim=(0, None))
    averaged = _averaged(experiment.scene(case).episodes)
    caption = (
        "Delays over all seeds, and the number of episodes so far whose feedback has not arrived "
        f"(mean over seeds with 95 % bands{averaged}). All agents face the same delays."
    )
    return Drawing(_name("delays", case), caption, figure)


def _curve(axes: Axes, curve: Curves, colour: str, dash: Any, *, cumulative: bool) -> float:
    """Draw the mean over seeds with its band, and return its last level.

    Long runs are drawn in blocks. Blocks show means; cumulative curves show the last value.
    """
    K = curve.values.shape[1]
    first = np.arange(0, K, _block(K))
    last = np.append(first[1:], K) - 1
    if cumulative:
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


def scaling(experiment: Experiment, rows: pl.DataFrame, lines: Sequence[Line]) -> Drawing:
    """The regret of whole runs against K, or against K + D, on logarithmic axes."""
    figure, axes = one_axes()
    ends = []
    notes = []
    played = {line.case for line in lines}
    cases = [case for case in experiment.case_names() if case in played]
    across = {case: _across(experiment, rows, case) for case in cases}
    for i, learner in enumerate(experiment.agents):
        colour, dash = look(experiment, learner.name)
        found = {line.case: line.regret for line in lines if line.agent == learner.name}
        x = np.array([across[case] for case in cases if case in found])
        bands = [found[case] for case in cases if case in found]
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
    known = [
        (across[case], value)
        for case in cases
        if (value := exact.delay_lower_bound(experiment.scene(case))) is not None
    ]
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
    label_ends(axes, ends, logarithmic=True)
    axes.set_title(_title(experiment, ""))
    caption = (
        "Regret of whole runs, mean over seeds with 95 % bootstrap intervals (agents are set "
        "apart a little, sideways). Slopes: " + "; ".join(notes)
    )
    return Drawing("scaling", caption + ".", figure)


def _across(experiment: Experiment, rows: pl.DataFrame, case: str) -> float:
    """The position of a case on the horizontal axis: K, or K + D with D averaged over seeds."""
    some = rows.filter(pl.col("case") == case)
    K = experiment.scene(case).episodes
    if experiment.against == "episodes":
        return float(K)
    first = some.filter(pl.col("agent") == some["agent"][0])
    (delays,) = statistics.curves(first, "delay").values()
    drawn = np.where(delays.values < 0, NEVER, delays.values).astype(np.int64)
    return float(K + np.mean([total_delay(one) for one in drawn]))


def _name(name: str, case: str) -> str:
    return "-".join(filter(None, [name, slug(case)]))


def _title(experiment: Experiment, case: str) -> str:
    return textwrap.fill(": ".join(filter(None, [experiment.title or experiment.name, case])), 75)
