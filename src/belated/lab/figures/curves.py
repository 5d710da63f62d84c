"""Figures of a directory of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib import ticker
from matplotlib.axes import Axes

from belated.config.part import shown
from belated.core.arrays import Floats
from belated.core.delays import NEVER, total_delay
from belated.lab import exact, scores, selection, statistics, sweep
from belated.lab.catalogue.paper import title
from belated.lab.figures import maps
from belated.lab.figures import style as drawing
from belated.lab.figures.style import COLOURS, MARKERS, OTHERS, Drawing, End, Layout, Sheet, look
from belated.lab.names import slug
from belated.lab.results import Results
from belated.lab.spec import SCORE, Experiment
from belated.lab.statistics import Curves, Interval, Line

POINTS = 250
"""Most points of a curve; more would blur in print."""
JAGGED_POINTS = 60
"""Most points of a curve that goes up and down all the time."""
JAGGED = 15.0
"""A curve is jagged if its ups and downs add up to so many times its range."""
FEW = 4
"""A sweep that makes more cases than this has no figures of single cases."""
DEFAULT = Layout()


def draw(results: Results, layout: Layout = DEFAULT) -> list[Drawing]:
    """All figures of a directory of results."""
    with matplotlib.rc_context(layout.style):
        return [make() for make in makers(results, layout).values()]


def first(results: Results) -> Drawing:
    """The figure that says most at a glance."""
    with matplotlib.rc_context(DEFAULT.style):
        return next(iter(makers(results).values()))()


def makers(results: Results, layout: Layout = DEFAULT) -> dict[str, Callable[[], Drawing]]:
    """What draws each figure, by its name."""
    experiment, lines = results.experiment, results.lines
    axes = dict(experiment.sweep)
    if experiment.against == SCORE:
        return scores.makers(experiment, lines, layout)
    if experiment.against is not None and experiment.against not in axes:
        return {"scaling": lambda: scaling(experiment, results.reported, lines, layout)}
    found: dict[str, Callable[[], Drawing]] = {}
    cases = experiment.case_names()
    if experiment.against is None and (len(cases) <= FEW or not axes):
        for case in cases:
            if case in results.reported["case"]:
                found |= _of_case(results, case, layout)
    for path in [experiment.against] if experiment.against else axes:
        if len(axes[path]) > 1:
            found[_name("sweep", path)] = partial(swept, results, path, layout)
    return found


def _of_case(results: Results, case: str, layout: Layout) -> dict[str, Callable[[], Drawing]]:
    experiment = results.experiment
    names = [learner.name for learner in experiment.learners]
    rows = results.reported.filter(pl.col("case") == case)
    heading = title(experiment, case)
    found: dict[str, Callable[[], Drawing]] = {
        _name("cost", case): lambda: over_time(names, case, rows, "value", layout, heading),
        _name("regret", case): lambda: over_time(names, case, rows, "regret", layout, heading),
        _name("delays", case): lambda: feedback(case, rows, layout, heading),
    }
    learned = maps.learned(results.directory, experiment, case, rows)
    if learned:
        caption = (
            "The policies learned by the end (first seed). The shade shows expected visits per "
            "episode, arrows the average move in visited cells; crossed cells are walls."
        )
        name = _name("policy", case)
        found[name] = lambda: Drawing(name, caption, maps.draw(learned, layout, heading))
    return found


def over_time(
    names: Sequence[str],
    case: str,
    rows: pl.DataFrame,
    column: str,
    layout: Layout = DEFAULT,
    heading: str = "",
) -> Drawing:
    """Cost per episode, or cumulative regret: mean over seeds with 95 % bands.

    names: of all agents, which have colours by their places. rows: of one case.
    """
    curves = {agent: curve for (_, agent), curve in statistics.curves(rows, column).items()}
    block = _block(curves.values(), layout) if column == "value" else None
    figure, _ = drawing.plot(
        list(curves),
        lambda axes, focus: paint(axes, names, rows, column, block, focus),
        layout,
        heading,
    )
    numbers = [len(curve.seeds) for curve in curves.values()]
    seeds, fewest = max(numbers), min(numbers)
    of = "of 1 seed" if seeds == 1 else f"of {seeds} seeds"
    if fewest < seeds:
        of = f"of {fewest} to {seeds} seeds"
    caption = f"{LABELS[column].capitalize()}, exact, mean {of} with 95 % bootstrap bands"
    caption += _averaged(block) + "."
    if column == "value" and _best(rows) is not None:
        caption += " Dotted: the best fixed policy."
    return Drawing(_name("cost" if column == "value" else "regret", case), caption, figure)


LABELS = {"value": "expected cost per episode", "regret": "cumulative regret"}


def paint(
    axes: Axes,
    names: Sequence[str],
    rows: pl.DataFrame,
    column: str,
    block: int | None = None,
    focus: str | None = None,
) -> list[End]:
    """Draw the curves of all agents into axes, the others in grey if one is in focus."""
    curves = {agent: curve for (_, agent), curve in statistics.curves(rows, column).items()}
    ends = []
    for agent in sorted(curves, key=lambda name: name == focus):
        colour, dash = look(names, agent)
        level = _curve(
            axes,
            curves[agent],
            {"color": colour, "linestyle": dash, "label": agent},
            cumulative=column == "regret",
            block=block,
            grey=focus not in (None, agent),
        )
        ends.append((level, agent, colour))
    if column == "value":
        best = _best(rows)
        if best is not None:
            axes.axhline(best, color="0.45", linewidth=1, linestyle=":", zorder=0,
                         label="best policy")  # fmt: skip
            ends.append((best, "best policy", "0.45"))
    axes.set(xlabel="episode", ylabel=LABELS[column])
    return ends


def _best(rows: pl.DataFrame) -> float | None:
    """The cost per episode of the best fixed policy, if it is the same in all episodes."""
    curve = next(iter(statistics.curves(rows, "comparator").values())).values.mean(axis=0)
    return float(curve[0]) if np.ptp(curve) < 1e-9 else None


def feedback(case: str, rows: pl.DataFrame, layout: Layout = DEFAULT, heading: str = "") -> Drawing:
    """The delays, and the number of missing records over time; both are the same for all agents."""
    narrow = layout.width is not None and layout.width < drawing.NARROW
    figure = Sheet(figsize=layout.size(6.2, 6 if narrow else 2.6), layout="constrained")
    left, right = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
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
    left.set_title(", ".join(notes), fontsize=8)
    left.set(xlabel="delay in episodes", ylabel="share of episodes")
    (missing,) = statistics.curves(first, "missing").values()
    block = _block([missing], layout)
    _curve(right, missing, {"color": COLOURS[0]}, cumulative=False, block=block)
    right.set(xlabel="episode", ylabel="episodes without feedback", ylim=(0, None))
    drawing.head(figure, layout, heading)
    caption = (
        "Delays over all seeds, and the number of episodes so far whose feedback has not arrived "
        f"(mean over seeds with 95 % bands{_averaged(block)}). All agents face the same delays."
    )
    return Drawing(_name("delays", case), caption, figure)


def _curve(
    axes: Axes,
    curve: Curves,
    style: dict[str, Any],
    *,
    cumulative: bool,
    block: int | None = None,
    grey: bool = False,
) -> float:
    """Draw the mean over seeds with its band, and return its last level.

    Long runs are drawn in blocks. Blocks show means; cumulative curves show the last value.
    """
    K = curve.values.shape[1]
    first = np.arange(0, K, block or -(-K // POINTS))
    last = np.append(first[1:], K) - 1
    if cumulative:
        at, values = last + 1.0, curve.values[:, last]
    else:
        at = (first + last) / 2 + 1
        values = np.add.reduceat(curve.values, first, axis=1) / (last - first + 1)
    marker = "o" if len(at) == 1 else ""
    axes.set_xlim(1, max(K, 2))
    if grey:
        mean = values.mean(axis=0)
        axes.plot(at, mean, **OTHERS, marker=marker)
        return float(mean[-1])
    mean, low, high = statistics.bootstrap(values)
    axes.fill_between(at, low, high, color=style["color"], alpha=0.2, linewidth=0)
    axes.plot(at, mean, **style, marker=marker)
    return float(mean[-1])


def _block(curves: Iterable[Curves], layout: Layout) -> int:
    """How many episodes one point of the curves stands for."""
    if layout.block is not None:
        return layout.block
    values = [curve.values for curve in curves]
    K = int(max(one.shape[1] for one in values))
    block = -(-K // POINTS)
    if any(jagged(one.mean(axis=0), block) for one in values):
        block = max(block, -(-K // JAGGED_POINTS))
    return block


def jagged(curve: Floats, block: int = 1) -> bool:
    """Whether a curve (K,), in blocks, goes up and down all the time."""
    whole = curve[: len(curve) // block * block].reshape(-1, block).mean(axis=1)
    span = float(np.ptp(whole))
    ups_and_downs = float(np.abs(np.diff(whole)).sum())
    return span > 1e-9 and ups_and_downs > JAGGED * span


def _averaged(block: int | None) -> str:
    return f", averaged over every {block} episodes" if block is not None and block > 1 else ""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The regret of whole runs over a quantity.

    Attributes:
        name: of the curve.
        x: (N,) values of the quantity.
        regret: (N,) the regret there.
        chosen: which of the points were selected.
        level: whether this is one number everywhere, of an agent without the parameter.
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
    played = {line.case for line in lines}
    cases = [case for case in experiment.case_names() if case in played]
    across = {case: _across(experiment, rows, case) for case in cases}
    names = [learner.name for learner in experiment.learners]
    found = []
    notes = []
    for i, name in enumerate(names):
        regret = {line.case: line.regret for line in lines if line.agent == name}
        x = np.array([across[case] for case in cases if case in regret])
        one = Series(
            name,
            x * 1.015 ** (i - len(names) / 2),
            tuple(regret[case] for case in cases if case in regret),
        )
        if not len(x) or not (one.mean > 0).all():
            notes.append(f"{name} not drawn (no regret above 0 to show)")
            continue
        found.append(one)
        if len(x) > 1:
            notes.append(f"{name} {statistics.slope(x, one.mean):.2f}")
    known = [
        (across[case], value)
        for case in cases
        if (value := exact.delay_lower_bound(experiment.scene(case))) is not None
    ]

    def all_of_it(axes: Axes, focus: str | None) -> list[End]:
        ends = _series(axes, names, found, focus)
        if known:
            axes.plot(*zip(*known, strict=True), color="0.45", linestyle=":", linewidth=1, zorder=0,
                      label="exact expectation")  # fmt: skip
            ends.append((float(known[-1][1]), "exact expectation", "0.45"))
        _logarithmic(axes, "x")
        _logarithmic(axes, "y")
        what = "episodes K" if experiment.against == "episodes" else "episodes + total delay, K + D"
        axes.set(xlabel=what, ylabel="regret of the run")
        if axes.lines:
            axes.set_xlim(right=1.05 * max(float(np.max(line.get_xdata())) for line in axes.lines))
        return ends

    shown = [one.name for one in found]
    figure, _ = drawing.plot(shown, all_of_it, layout, title(experiment), logarithmic=True)
    caption = (
        "Regret of whole runs, mean over seeds with 95 % bootstrap intervals (agents are set "
        "apart a little, sideways). Slopes: " + "; ".join(notes)
    )
    caption += ". Dotted: the exact expectation." if known else "."
    return Drawing("scaling", caption, figure)


def _series(
    axes: Axes, names: Sequence[str], found: Sequence[Series], focus: str | None
) -> list[End]:
    ends = []
    for one in sorted(found, key=lambda item: item.name == focus):
        i = names.index(one.name)
        colour, dash = look(names, one.name)
        mean = one.mean
        if focus not in (None, one.name):
            axes.plot(one.x, mean, **OTHERS)
            continue
        ends.append((float(mean[-1]), one.name, colour))
        if one.level:
            low, high = one.regret[0].low, one.regret[0].high
            axes.axhline(mean[0], color=colour, linestyle=dash, label=one.name)
            axes.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
            continue
        errors = [
            [band.mean - band.low for band in one.regret],
            [band.high - band.mean for band in one.regret],
        ]
        axes.errorbar(
            one.x, mean, np.maximum(errors, 0.0), color=colour, linestyle=dash, label=one.name,
            marker=MARKERS[i % len(MARKERS)], markersize=4, elinewidth=1, capsize=2,
        )  # fmt: skip
        for i in one.chosen:
            axes.plot(one.x[i], mean[i], marker="o", markersize=11, color=colour, linestyle="",
                      markerfacecolor="none", markeredgewidth=1.3)  # fmt: skip
    return ends


def _logarithmic(axes: Axes, which: str) -> None:
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


def swept(results: Results, path: str, layout: Layout = DEFAULT) -> Drawing:
    """The regret of whole runs over a parameter of the sweep."""
    experiment = results.experiment
    found = over(results, path)
    names = [one.name for one in found]
    figure, _ = drawing.plot(
        names,
        lambda axes, focus: paint_sweep(axes, results, path, focus),
        layout,
        title(experiment),
    )
    caption = (
        f"Regret of whole runs over {path}, mean over seeds with 95 % bootstrap intervals; an "
        "agent that is not swept is a level line"
    )
    if experiment.select is not None:
        on = selection.seeds(experiment.first_seed, experiment.select.seeds)
        caption += f". These are {on}, on which settings were selected; the selected are ringed"
    return Drawing(_name("sweep", path), caption + ".", figure)


def paint_sweep(axes: Axes, results: Results, path: str, focus: str | None = None) -> list[End]:
    """Draw the regret of all agents over a parameter into axes."""
    found = over(results, path)
    values = dict(results.experiment.sweep)[path]
    if _numeric(values):
        if min(values) > 0 and max(values) >= 10 * min(values):
            _logarithmic(axes, "x")
            if len(values) <= 8:
                axes.xaxis.set_major_locator(ticker.FixedLocator(sorted(values)))
                axes.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.set_xticks(range(len(values)), [drawing.short(shown(value), 20) for value in values])
    ends = _series(axes, [one.name for one in found], found, focus)
    axes.set(xlabel=sweep.label(results.experiment, path), ylabel="regret of the run")
    return ends


def over(results: Results, path: str) -> list[Series]:
    """The curves over a parameter: one for each agent, and each setting of all else.

    Over a parameter of an agent, other agents that are swept are left out: they have their own.
    """
    experiment = results.experiment
    values = dict(experiment.sweep)[path]
    places = dict(zip(values, values if _numeric(values) else range(len(values)), strict=True))
    chosen = {(choice.case, choice.learner) for choice in results.choices}
    found: dict[str, dict[float, tuple[Interval, bool]]] = {}
    levels = set()
    for line in results.swept_lines:
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


def compared(
    scenes: Sequence[tuple[str, pl.DataFrame]], names: Sequence[str], layout: Layout = DEFAULT
) -> list[Drawing]:
    """Cost and regret of agents of several directories, scene by scene.

    scenes: a title and the rows of every scene; agents are told apart by their names.
    """
    with matplotlib.rc_context(layout.style):
        return [
            over_time(names, heading if len(scenes) > 1 else "", rows, column, layout, heading)
            for heading, rows in scenes
            for column in ("value", "regret")
        ]


def _name(name: str, case: str) -> str:
    return "-".join(filter(None, [name, slug(case)]))
