"""Tables and figures of the sweeps: `python benchmarks/stale/report.py [folder for PNG copies]`.

Reads the CSV files beside this one. Writes benchmarks/STALE.md and docs/stale_selected.svg.
"""

import math
import sys
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from runs import (
    APART,
    CLIPS,
    COMMON,
    CORRECTIONS,
    DELAYS,
    GRID,
    INVERTED,
    NARROW,
    ORDERS,
    PAIRS,
    PARTS_OF_VTRACE,
    PLACE,
    SELECTING,
    SPEED,
    TUNING,
    Runs,
    read,
    rows_of,
    selected,
)

DOCS = PLACE.parents[1] / "docs"
TASKS = {"CartPole": (0, 510), "Pendulum": (-1600, -100), "Acrobot": (-510, -60)}
"""The tasks that are reported, and the range of returns that is drawn."""
STEPS = 5120
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#999999")
STYLES = ("-", "-", "-", "--", "--", "-.", (0, (4, 1, 1, 1, 1, 1)), ":")
STUDENT = 2.78
"""The 97.5 % quantile of Student's distribution for five seeds."""


def half_width(values: np.ndarray) -> np.ndarray:
    """Half of a 95 % interval of the mean over five seeds, by Student's distribution."""
    return STUDENT * values.std(0, ddof=1) / np.sqrt(len(values))


def median(values: np.ndarray) -> tuple[float, float, float]:
    """The median, and its distribution-free 95 % interval between two of the ordered values."""
    ordered, n = np.sort(values), len(values)
    below = np.cumsum([math.comb(n, i) / 2**n for i in range(n)])
    place = int((below <= 0.025).sum())
    return float(np.median(ordered)), float(ordered[place - 1]), float(ordered[n - place])


def both(values: np.ndarray) -> str:
    """A mean over seeds with its interval."""
    return f"{values.mean():.0f} ± {half_width(values):.0f}"


def cell(runs: np.ndarray) -> str:
    """Mean over the curve with its interval, and the mean of the last tenth."""
    curve = runs[:, 2:]
    return f"{both(curve.mean(1))} / {curve[:, -max(1, curve.shape[1] // 10) :].mean():.0f}"


def table(head: list[str], rows: Mapping[str, list[str]], corner: str = "") -> list[str]:
    """A table in Markdown, and an empty line."""
    lines = [
        f"| {corner} | {' | '.join(head)} |".replace("|  |", "| |"),
        f"|---|{'---|' * len(head)}",
    ]
    return [*lines, *(f"| {name} | {' | '.join(row)} |" for name, row in rows.items()), ""]


def cells(grid: Runs, task: str, clips: Mapping[str, float]) -> list[tuple[int, str]]:
    """Delays and orders of a task that were run with all these corrections and clips."""
    return [
        (delay, order)
        for delay in DELAYS
        for order in ORDERS
        if all((task, delay, order, c, clip) in grid for c, clip in clips.items())
    ]


def grid_tables(grid: Runs, clips: Mapping[str, float]) -> list[str]:
    """A table for each task: corrections by delays and orders."""
    lines = []
    for task in TASKS:
        if found := cells(grid, task, clips):
            rows = {
                f"{c}, clip {clip:g}": [cell(grid[task, *where, c, clip]) for where in found]
                for c, clip in clips.items()
            }
            head = [f"{DELAYS[delay]}, {order}" for delay, order in found]
            lines += [f"### {task}", "", *table(head, rows)]
    return lines


def tuning_table(tuning: Runs) -> list[str]:
    """Both tasks of the tuning with every clip: 20 rounds, out of order."""
    head = [(task, clip) for task in SELECTING for clip in CLIPS]
    rows = {c: [cell(tuning[t, 20, "out of order", c, x]) for t, x in head] for c in CORRECTIONS}
    return table([f"{task}, clip {clip:g}" for task, clip in head], rows)


def guard(tuning: Runs) -> list[str]:
    """Guarded, what it chooses between, and by how much it differs from each, seed by seed."""
    names, rows = ("guarded", "delay-adapted", "truncated"), {}
    for task in SELECTING:
        for clip in CLIPS:
            found = [tuning[task, 20, "out of order", name, clip] for name in names]
            ours, *others = (runs[:, 2:].mean(1) for runs in found)
            apart = [both(ours - other) for other in others]
            drift = f"{found[0][:, 1].mean():.3f}"
            rows[f"{task}, clip {clip:g}"] = [*map(cell, found), *apart, drift]
    return table([*names, "guarded - delay-adapted", "guarded - truncated", "drift"], rows)


def measures(grid: Runs, clips: Mapping[str, float]) -> list[str]:
    """Effective sample size and drift of what arrives, out of order."""
    found = [
        (task, delay)
        for task in TASKS
        for delay, order in cells(grid, task, clips)
        if order == "out of order"
    ]
    rows: dict[str, list[str]] = {c: [] for c in clips}
    for c, clip in clips.items():
        for task, delay in found:
            size, drift = grid[task, delay, "out of order", c, clip][:, :2].mean(0)
            rows[c].append(f"{size:.2f}, {drift:.3g}")
    return table([f"{task} {DELAYS[delay]}" for task, delay in found], rows)


def parts(grid: Runs) -> list[str]:
    """V-trace, its two parts, and current with the same clip: delay 1e4."""
    names = ("vtrace", *PARTS_OF_VTRACE, "current")
    found = [
        (task, *where) for task in TASKS for where in cells(grid, task, dict.fromkeys(names, APART))
    ]
    rows = {name: [cell(grid[*where, name, APART]) for where in found] for name in names}
    return table([f"{task}, {order}" for task, _, order in found], rows, f"clip {APART:g}")


def read_inverted(clips: Mapping[str, float]) -> dict[str, np.ndarray]:
    """The runs of inverted.csv with these clips (seeds, parts)."""
    found: dict[str, list[list[float]]] = {c: [] for c in clips}
    for correction, clip, _, *numbers in rows_of(INVERTED):
        if float(clip) == clips.get(correction):
            found[correction].append([float(x) for x in numbers])
    return {c: np.array(runs) for c, runs in found.items()}


def inverted_table(clips: Mapping[str, float]) -> list[str]:
    """Mean over the run with its interval, and the last fifth with its interval."""
    rows = {
        f"{c}, clip {clips[c]:g}": [both(values.mean(1)), both(values[:, -2:].mean(1))]
        for c, values in read_inverted(clips).items()
    }
    head = "InvertedPendulum-v5, 5 seeds, 20,480 steps, geometric delays of mean 3,072 steps"
    return [f"### {head}", "", *table(["whole run", "last fifth"], rows)]


def speeds() -> dict[str, tuple[float, ...]]:
    """What speed.py measured: numbers, some with their interval."""
    times = np.array([[float(x) for x in row] for row in rows_of(PAIRS)])
    plain, ours = times[:, :2].sum(1), times[:, 2:].sum(1)
    steps = 2 * 256
    found = {
        "PPO, steps per second": median(steps / plain),
        "DelayedPPO without delays, steps per second": median(steps / ours),
        f"time of DelayedPPO / PPO, {len(times)} cycles": median(ours / plain),
        "time of PPO / PPO in the same cycles": median(times[:, 1] / times[:, 0]),
    }
    return found | {name: (float(number),) for name, number in rows_of(SPEED)}


def band(on: Axes, c: str, curve: np.ndarray, window: int) -> None:
    """The mean over seeds and its interval (seeds, windows)."""
    i = CORRECTIONS.index(c)
    steps = (np.arange(curve.shape[1]) + 0.5) * window / 1000
    mean, half = curve.mean(0), half_width(curve)
    on.plot(steps, mean, color=COLOURS[i], linestyle=STYLES[i], linewidth=1.6, label=c)
    on.fill_between(steps, mean - half, mean + half, color=COLOURS[i], alpha=0.10, linewidth=0)
    on.spines[["top", "right"]].set_visible(False)


def draw(on: Axes, grid: Runs, task: str, delay: int, order: str, clips: dict[str, float]) -> None:
    """Learning curves with bands over seeds."""
    for c, clip in clips.items():
        band(on, c, grid[task, delay, order, c, clip][:, 2:], STEPS)
    on.set(title=f"{task}, delay {DELAYS[delay]}, {order}", ylim=TASKS[task])
    on.set(xlabel="thousand steps", ylabel="return of ended episodes")


def curves(grid: Runs, clips: dict[str, float], path: Path) -> None:
    """A row for each task and order, a column for each delay, and a row for the two other tasks."""
    rows = [(task, order) for task in ("CartPole", "Pendulum") for order in ORDERS[:2]]
    figure, axes = plt.subplots(
        len(rows) + 1, 3, figsize=(12.0, 2.8 * (len(rows) + 1)), layout="constrained"
    )
    for across, (task, order) in zip(axes, rows, strict=False):
        for on, delay in zip(across, DELAYS, strict=True):
            draw(on, grid, task, delay, order, clips)
    first, second, third = axes[-1]
    draw(first, grid, "Acrobot", 20, "out of order", clips)
    for c, values in read_inverted(clips).items():
        band(second, c, values, 2048)
    second.set(title="InvertedPendulum, delay 3e3, out of order", ylim=(0, 2048))
    second.set(xlabel="thousand steps", ylabel="steps between falls")
    third.set_axis_off()
    third.legend(*first.get_legend_handles_labels(), loc="center", frameon=False, fontsize=11)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    if len(sys.argv) > 1:
        figure.savefig(Path(sys.argv[1]) / f"{path.name}.png", dpi=100)
    plt.close(figure)


def text() -> str:
    """The whole of benchmarks/STALE.md."""
    grid, tuning = read(GRID), read(TUNING)
    common, clips = dict.fromkeys(CORRECTIONS, COMMON), selected(tuning)
    narrow = selected(tuning, NARROW)
    moved = {c: clip for c, clip in narrow.items() if clip != clips[c]}
    chosen = [", ".join(f"{c} {x:g}" for c, x in best.items()) for best in (clips, narrow)]
    costs = {
        name: [f"{x:.4g}", " to ".join(f"{end:.4g}" for end in ends)]
        for name, (x, *ends) in speeds().items()
    }
    lines = [
        "# Stale rollouts",
        "",
        "Written by `python benchmarks/stale/report.py` from the files that `sweep.py`, "
        "`inverted.py` and `speed.py` write. Mean return over the whole run, half of a 95 % "
        "interval over five seeds, and mean of the last tenth. Delays are steps of the "
        "environment; a round is 512 steps, a run 153,600.",
        "",
        "## Clips selected on Swing-up and Docking",
        "",
        "Delay 1e4, out of order, 76,800 steps, five seeds.",
        "",
        *tuning_table(tuning),
        f"Selected of all five: {chosen[0]}.",
        "",
        f"Selected of 0.1, 0.2 and 0.4: {chosen[1]}.",
        "",
        "## With selected clips",
        "",
        *grid_tables(grid, clips),
        *inverted_table(clips),
        "### V-trace taken apart, delay 1e4",
        "",
        *parts(grid),
        "## Where a range of 0.1 to 0.4 selects another clip",
        "",
        *grid_tables(grid, moved),
        *inverted_table(moved),
        "## With a clip of 0.2 for all",
        "",
        *grid_tables(grid, common),
        "## Effective sample size and drift of what arrives, clip 0.2",
        "",
        *measures(grid, common),
        "## The guard on tasks on which its limit was not chosen",
        "",
        "Delay 1e4, out of order, 76,800 steps, five seeds; differences are seed by seed, drift is "
        "that of guarded.",
        "",
        *guard(tuning),
        "## What it costs",
        "",
        "Measured by `python benchmarks/stale/speed.py`: processor time in one thread, two 64-64 "
        "networks, CartPole. A cycle is two rollouts of 256 steps of each with their updates, in "
        "turn; numbers with an interval are medians over the cycles. The others are the best of "
        "several, for rollouts of 2048 steps.",
        "",
        *table(["median or best", "95 % interval"], costs),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "belated", "font.size": 9})
    (PLACE.parent / "STALE.md").write_text(text(), encoding="utf-8")
    curves(read(GRID), selected(read(TUNING)), DOCS / "stale_selected")


if __name__ == "__main__":
    main()
