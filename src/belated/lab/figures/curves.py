"""Figures of a directory of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from belated import config as kinds
from belated.config.registry import with_defaults
from belated.core.arrays import Floats
from belated.lab import statistics, store
from belated.lab.figures import profile, sweeps
from belated.lab.figures import style as drawing
from belated.lab.figures.style import (
    COLOURS,
    DEFAULT,
    OTHERS,
    Drawing,
    Layout,
    Sheet,
    file_name,
    look,
)
from belated.lab.results import Results
from belated.lab.spec import SCORE, Experiment, Scene, Task
from belated.lab.statistics import Curves
from belated.lab.toml import title
from belated.tabular.environments.gridworld import MOVES

POINTS = 250
"""The largest number of points of a curve; more would blur in print."""
JAGGED_POINTS = 60
"""The largest number of points of a jagged curve."""
JAGGED = 15.0
"""A curve is jagged if its ups and downs sum to more than this many times its range."""
FEW = 4
"""A sweep that makes more cases than this has no figures of single cases."""

SEEN = 0.05
"""A state with at least this many expected visits per episode gets an arrow."""


def draw(results: Results, layout: Layout = DEFAULT) -> list[Drawing]:
    """All figures of a directory of results."""
    with matplotlib.rc_context(layout.style):
        return [make() for make in makers(results, layout).values()]


def first(results: Results) -> Drawing:
    """The most informative figure."""
    with matplotlib.rc_context(DEFAULT.style):
        return next(iter(makers(results).values()))()


def makers(results: Results, layout: Layout = DEFAULT) -> dict[str, Callable[[], Drawing]]:
    """The functions that draw the figures, by name."""
    experiment, lines = results.experiment, results.lines_on(layout.on, layout.regret)
    axes = dict(experiment.sweep)
    if experiment.against == SCORE:
        return profile.makers(experiment, lines, layout)
    if experiment.against is not None and experiment.against not in axes:
        return {"scaling": lambda: sweeps.scaling(experiment, results.reported, lines, layout)}
    found: dict[str, Callable[[], Drawing]] = {}
    cases = experiment.case_names()
    if experiment.against is None and (len(cases) <= FEW or not axes):
        for case in cases:
            if case in results.reported["case"]:
                found |= _of_case(results, case, layout)
    for path in [experiment.against] if experiment.against else axes:
        if len(axes[path]) > 1:
            found[file_name("sweep", path)] = partial(sweeps.swept, results, path, layout)
    return found


def _of_case(results: Results, case: str, layout: Layout) -> dict[str, Callable[[], Drawing]]:
    experiment = results.experiment
    names = [learner.name for learner in experiment.learners]
    rows = results.reported.filter(pl.col("case") == case)
    heading = title(experiment, case)
    rows = rows.filter(pl.col("agent").is_in(drawing.chosen(names, layout)))
    found: dict[str, Callable[[], Drawing]] = {
        file_name("cost", case): lambda: over_time(names, case, rows, "value", layout, heading),
        file_name("regret", case): lambda: over_time(names, case, rows, "regret", layout, heading),
        file_name("delays", case): lambda: feedback(case, rows, layout, heading),
    }
    learned = visited(results.directory, experiment, case, rows)
    if learned:
        caption = (
            "The policies learned by the end (first seed). The shade shows expected visits per "
            "episode, arrows the average move in visited cells; crossed cells are walls, and "
            "start and goal have a frame."
        )
        name = file_name("policy", case)
        found[name] = lambda: Drawing(
            name, caption, draw_maps(learned, experiment.scene(case), layout, heading)
        )
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

    names: the names of all agents, whose order determines colours. rows: the rows of one case.
    """
    curves = shown_curves(rows, column, layout)
    figure, _ = drawing.plot(
        [layout.named(agent) for agent in curves],
        lambda axes, focus: paint(axes, names, rows, column, layout, focus),
        layout,
        heading,
    )
    numbers = [len(curve.seeds) for curve in curves.values()]
    seeds, fewest = max(numbers), min(numbers)
    of = "of 1 seed" if seeds == 1 else f"of {seeds} seeds"
    if fewest < seeds:
        of = f"of {fewest} to {seeds} seeds"
    what = label_of(column, rows, layout)
    caption = f"{what[0].upper()}{what[1:]}, exact, mean {of} with 95 % bootstrap bands"
    caption += _averaged(_block(column, curves.values(), layout)) + "."
    if column == "value" and _best(rows, layout) is not None:
        caption += " Dotted: the best fixed policy."
    return Drawing(file_name("cost" if column == "value" else "regret", case), caption, figure)


def shown_curves(rows: pl.DataFrame, column: str, layout: Layout) -> dict[str, Curves]:
    """The costs or the regrets of one case by agent, according to the layout."""
    if column == "value":
        column = statistics.COLUMNS[layout.on][0]
    elif column == "regret":
        rows = statistics.with_regret(rows, _regret(layout))
    return {agent: curve for (_, agent), curve in statistics.curves(rows, column).items()}


def _regret(layout: Layout) -> str:
    return layout.regret or ("means" if layout.on == "means" else "hindsight")


def label_of(column: str, rows: pl.DataFrame, layout: Layout) -> str:
    """The label of an axis, which mentions noise if there is some."""
    noisy = statistics.noisy(rows)
    if column == "value":
        return f"{'mean' if noisy and layout.on == 'means' else 'expected'} cost per episode"
    kind = _regret(layout)
    if kind == "means" and not noisy:
        kind = "hindsight"
    return f"cumulative {statistics.REGRETS[kind]}"


def paint(
    axes: Axes,
    names: Sequence[str],
    rows: pl.DataFrame,
    column: str,
    layout: Layout = DEFAULT,
    focus: str | None = None,
) -> None:
    """Draw the curves of all agents into axes; if one is in focus, the others in grey."""
    curves = shown_curves(rows, column, layout)
    block = _block(column, curves.values(), layout)
    for agent in sorted(curves, key=lambda name: layout.named(name) == focus):
        colour, dash = look(names, agent)
        label = layout.named(agent)
        _curve(
            axes,
            curves[agent],
            {"color": colour, "linestyle": dash, "label": label},
            cumulative=column == "regret",
            block=block,
            grey=focus not in (None, label),
        )
    if column == "value":
        best = _best(rows, layout)
        if best is not None:
            axes.axhline(best, color="0.45", linewidth=1, linestyle=":", zorder=0,
                         label="best policy")  # fmt: skip
    axes.set(xlabel="episode", ylabel=label_of(column, rows, layout))


def paint_named(
    axes: Axes, names: Sequence[str], rows: pl.DataFrame, layout: Layout = DEFAULT
) -> None:
    """Draw a diagnostic that was recorded at intervals: rows with agent, seed, episode, value."""
    for (agent,), own in rows.group_by(["agent"], maintain_order=True):
        colour, dash = look(names, str(agent))
        at = own["episode"].unique(maintain_order=True).to_numpy() + 1.0
        mean, low, high = statistics.bootstrap(own["value"].to_numpy().reshape(-1, len(at)))
        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(at, mean, color=colour, linestyle=dash, label=layout.named(str(agent)))


def _best(rows: pl.DataFrame, layout: Layout) -> float | None:
    """The cost per episode of the best fixed policy, if it is the same in all episodes."""
    column = statistics.COLUMNS[layout.on][1]
    curve = next(iter(statistics.curves(rows, column).values())).values.mean(axis=0)
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
    block = _block("missing", [missing], layout)
    _curve(right, missing, {"color": COLOURS[0]}, cumulative=False, block=block)
    right.set(xlabel="episode", ylabel="episodes without feedback", ylim=(0, None))
    drawing.head(figure, layout, heading)
    caption = (
        "Delays over all seeds, and the number of episodes so far whose feedback has not arrived "
        f"(mean over seeds with 95 % bands{_averaged(block)}). All agents face the same delays."
    )
    return Drawing(file_name("delays", case), caption, figure)


def _curve(
    axes: Axes,
    curve: Curves,
    style: dict[str, Any],
    *,
    cumulative: bool,
    block: int | None = None,
    grey: bool = False,
) -> None:
    """Draw the mean over seeds with its band.

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
        axes.plot(at, values.mean(axis=0), **OTHERS, marker=marker)
        return
    mean, low, high = statistics.bootstrap(values)
    axes.fill_between(at, low, high, color=style["color"], alpha=0.2, linewidth=0)
    axes.plot(at, mean, **style, marker=marker)


def _block(column: str, curves: Iterable[Curves], layout: Layout) -> int | None:
    """The number of episodes per point of the curves; None for cumulative ones."""
    if column == "regret" or layout.block is not None:
        return None if column == "regret" else layout.block
    values = [curve.values for curve in curves]
    K = int(max(one.shape[1] for one in values))
    block = -(-K // POINTS)
    if any(jagged(one.mean(axis=0), block) for one in values):
        block = max(block, -(-K // JAGGED_POINTS))
    return block


def jagged(curve: Floats, block: int = 1) -> bool:
    """Whether a curve (K,), in blocks, is jagged."""
    whole = curve[: len(curve) // block * block].reshape(-1, block).mean(axis=1)
    span = float(np.ptp(whole))
    ups_and_downs = float(np.abs(np.diff(whole)).sum())
    return span > 1e-9 and ups_and_downs > JAGGED * span


def _averaged(block: int | None) -> str:
    return f", averaged over every {block} episodes" if block is not None and block > 1 else ""


def compared(
    scenes: Sequence[tuple[str, pl.DataFrame]], names: Sequence[str], layout: Layout = DEFAULT
) -> list[Drawing]:
    """Cost and regret of agents of several directories, scene by scene.

    scenes: a title and the rows of every scene; agents are identified by their names.
    """
    with matplotlib.rc_context(layout.style):
        return [
            over_time(names, heading if len(scenes) > 1 else "", rows, column, layout, heading)
            for heading, rows in scenes
            for column in ("value", "regret")
        ]


def visited(
    directory: Path, experiment: Experiment, case: str, rows: pl.DataFrame
) -> dict[str, Floats]:
    """Expected visits (S, A) of the first seed by agent; none if the world is not a grid."""
    found = {}
    for name in rows["agent"].unique(maintain_order=True):
        visits = store.visits(directory, Task(case, name, experiment.first_seed))
        if visits is not None:
            found[name] = visits
    return found


def draw_maps(maps: dict[str, Floats], scene: Scene, layout: Layout, title: str) -> Figure:
    """One map per agent, side by side, with a common colour scale."""
    described = with_defaults(scene.environment, kinds.ENVIRONMENTS).values
    size = described["size"]
    height, width = size if isinstance(size, tuple) else (size, size)
    across = min(3 if layout.width is None else max(1, int(layout.width / 1.6)), len(maps))
    wide = layout.width or max(2.6 * across + 0.7, 4.2)
    figure, panels = drawing.grid(len(maps), across, wide, 1.0)
    top = max(float(np.delete(one.sum(axis=1), -1).max(initial=0.1)) for one in maps.values())
    marked = [(0, 0)] + [(height - 1, width - 1)] * (scene.costs is None)
    for axes, (name, taken) in zip(panels, maps.items(), strict=True):
        visits = taken.sum(axis=1)
        moves = taken @ np.array(MOVES, dtype=np.float64) / np.maximum(visits, 1e-12)[:, None]
        shade = axes.imshow(visits.reshape(height, width), cmap="Blues", vmin=0, vmax=top)
        for row, column in described["walls"]:
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="0.85",
                                     edgecolor="0.45", hatch="xxx", linewidth=0))  # fmt: skip
        for row, column in marked:
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False,
                                     edgecolor="#D55E00", linewidth=1.6))  # fmt: skip
        states = np.flatnonzero(visits >= SEEN)
        drop, right = moves[states].T
        dark = np.where(visits[states] > 0.6 * top, "white", "0.1")
        axes.quiver(states % width, states // width, right, -drop, color=dark, pivot="mid",
                    scale=1.4 * width, width=0.009, headwidth=4)  # fmt: skip
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color="0.7")
        drawing.entitle(axes, layout.named(name), 24, fontsize=9)
    figure.colorbar(shade, ax=panels, shrink=0.7, extend="max", label="visits per episode")
    drawing.head(figure, layout, title)
    return figure
