"""Tables and figures of the sweeps: `python benchmarks/stale/report.py [folder for PNG copies]`.

Reads tuning.csv, grid.csv, inverted.csv and speed.csv beside this file. Writes
benchmarks/STALE.md and docs/stale_selected.svg. Cells that are not complete are left out.
"""

import csv
import sys
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
    PARTS_OF_VTRACE,
    PLACE,
    SELECTING,
    SPEED,
    TUNING,
    Runs,
    read,
    selected,
)

ROOT = PLACE.parent.parent
DOCS = ROOT / "docs"
TASKS = ("CartPole", "Pendulum", "Acrobot")
STEPS = 5120
COLOURS = dict(
    zip(
        CORRECTIONS,
        ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#999999"),
        strict=True,
    )
)
STYLES = dict(
    zip(CORRECTIONS, ("-", "-", "-", "--", "--", "-.", (0, (4, 1, 1, 1, 1, 1)), ":"), strict=True)
)


STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""The 97.5 % quantile of Student's distribution, by the number of seeds."""


def half_width(values: np.ndarray) -> np.ndarray:
    """Half of a 95 % interval of the mean over seeds, by Student's distribution."""
    return STUDENT[len(values)] * values.std(0, ddof=1) / np.sqrt(len(values))


def cell(runs: np.ndarray) -> str:
    """Mean over the curve with its interval, and the mean of the last tenth."""
    curve = runs[:, 2:]
    last = curve[:, -max(1, curve.shape[1] // 10) :].mean()
    means = curve.mean(1)
    return f"{means.mean():.0f} ± {half_width(means):.0f} / {last:.0f}"


def table(grid: Runs, clips: dict[str, float]) -> list[str]:
    """A table for each task: corrections by delays and orders."""
    lines = []
    for task in TASKS:
        cells = [
            (delay, order)
            for delay in DELAYS
            for order in ORDERS
            if all((task, delay, order, c, clip) in grid for c, clip in clips.items())
        ]
        if not cells:
            continue
        lines += [f"### {task}", ""]
        names = [f"{DELAYS[delay]}, {order}" for delay, order in cells]
        lines += [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(cells)}"]
        for c, clip in clips.items():
            made = [cell(grid[task, delay, order, c, clip]) for delay, order in cells]
            lines.append(f"| {c}, clip {clip:g} | {' | '.join(made)} |")
        lines.append("")
    return lines


def tuning_table(tuning: Runs) -> list[str]:
    """Both tasks of the tuning with every clip: 20 rounds, out of order."""
    head = [f"{task}, clip {clip:g}" for task in SELECTING for clip in CLIPS]
    lines = [f"| | {' | '.join(head)} |", f"|---|{'---|' * len(head)}"]
    for c in CORRECTIONS:
        made = [
            cell(tuning[task, 20, "out of order", c, clip]) for task in SELECTING for clip in CLIPS
        ]
        lines.append(f"| {c} | {' | '.join(made)} |")
    return [*lines, ""]


def guard(tuning: Runs) -> list[str]:
    """Guarded, what it chooses between, and by how much it differs from each, seed by seed."""
    names = ("guarded", "delay-adapted", "truncated")
    head = f"| | {' | '.join(names)} | guarded - delay-adapted | guarded - truncated | drift |"
    title = "## The guard on tasks on which its limit was not chosen"
    told = (
        "Delay 1e4, out of order, 76,800 steps, five seeds; differences are seed by seed, drift is "
        "that of guarded."
    )
    lines = [title, "", told, "", head, f"|---|{'---|' * 6}"]
    for task in SELECTING:
        for clip in CLIPS:
            found = [tuning[task, 20, "out of order", name, clip] for name in names]
            means = [values[:, 2:].mean(1) for values in found]
            made = [cell(values) for values in found]
            for other in means[1:]:
                apart = means[0] - other
                made.append(f"{apart.mean():.0f} ± {half_width(apart):.0f}")
            made.append(f"{found[0][:, 1].mean():.3f}")
            lines.append(f"| {task}, clip {clip:g} | {' | '.join(made)} |")
    return [*lines, ""]


def speed() -> list[str]:
    """What speed.py measured."""
    if not SPEED.exists():
        return []
    with SPEED.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    told = "Written by `python benchmarks/stale/speed.py`: processor time, 2048 steps of CartPole."
    made = [f"| {name} | {float(number):g} |" for name, number in rows]
    return ["## What it costs", "", told, "", "| | |", "|---|---|", *made, ""]


def measures(grid: Runs, clips: dict[str, float]) -> list[str]:
    """Effective sample size and drift of what arrives, out of order."""
    cells = [
        (task, delay)
        for task in TASKS
        for delay in DELAYS
        if all((task, delay, "out of order", c, clips[c]) in grid for c in CORRECTIONS)
    ]
    if not cells:
        return []
    names = [f"{task} {DELAYS[delay]}" for task, delay in cells]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(cells)}"]
    for c in CORRECTIONS:
        made = []
        for task, delay in cells:
            size, drift = grid[task, delay, "out of order", c, clips[c]][:, :2].mean(0)
            made.append(f"{size:.2f}, {drift:.3g}")
        lines.append(f"| {c} | {' | '.join(made)} |")
    return [*lines, ""]


def band(on: Axes, c: str, curve: np.ndarray, window: int) -> None:
    """The mean over seeds and its interval (seeds, windows)."""
    steps = (np.arange(curve.shape[1]) + 0.5) * window / 1000
    mean, half = curve.mean(0), half_width(curve)
    on.plot(steps, mean, color=COLOURS[c], linestyle=STYLES[c], linewidth=1.6, label=c)
    on.fill_between(steps, mean - half, mean + half, color=COLOURS[c], alpha=0.10, linewidth=0)
    on.spines[["top", "right"]].set_visible(False)


def draw(on: Axes, grid: Runs, task: str, delay: int, order: str, clips: dict[str, float]) -> None:
    """Learning curves with bands over seeds."""
    for c in CORRECTIONS:
        band(on, c, grid[task, delay, order, c, clips[c]][:, 2:], STEPS)
    low, high = {"CartPole": (0, 510), "Pendulum": (-1600, -100), "Acrobot": (-510, -60)}[task]
    on.set(title=f"{task}, delay {DELAYS[delay]}, {order}", ylim=(low, high))
    on.set(xlabel="thousand steps", ylabel="return of ended episodes")
    on.spines[["top", "right"]].set_visible(False)


def curves(
    grid: Runs, inverted: dict[str, np.ndarray], clips: dict[str, float], path: Path
) -> None:
    """A row for each task and order, a column for each delay, and a row for the two other tasks."""

    def complete(task: str, delay: int, order: str) -> bool:
        return all((task, delay, order, c, clips[c]) in grid for c in CORRECTIONS)

    rows = [(task, order) for task in TASKS[:2] for order in ORDERS[:2]]
    figure, axes = plt.subplots(
        len(rows) + 1, 3, figsize=(12.0, 2.8 * (len(rows) + 1)), layout="constrained"
    )
    for across, (task, order) in zip(axes, rows, strict=False):
        for on, delay in zip(across, DELAYS, strict=True):
            if complete(task, delay, order):
                draw(on, grid, task, delay, order, clips)
            else:
                on.set_axis_off()
    first, second, third = axes[-1]
    if complete("Acrobot", 20, "out of order"):
        draw(first, grid, "Acrobot", 20, "out of order", clips)
    else:
        first.set_axis_off()
    if inverted:
        for c, values in inverted.items():
            band(second, c, values, 2048)
        second.set(title="InvertedPendulum, delay 3e3, out of order", ylim=(0, 2048))
        second.set(xlabel="thousand steps", ylabel="steps between falls")
    else:
        second.set_axis_off()
    third.set_axis_off()
    drawn = next(on for on in axes.flat if on.lines)
    handles, names = drawn.get_legend_handles_labels()
    third.legend(handles, names, loc="center", frameon=False, fontsize=11)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    if len(sys.argv) > 1:
        figure.savefig(Path(sys.argv[1]) / f"{path.name}.png", dpi=100)
    plt.close(figure)


def parts(grid: Runs) -> list[str]:
    """V-trace, its two parts, and current with the same clip: delay 1e4."""
    names = ("vtrace", *PARTS_OF_VTRACE, "current")
    cells = [
        (task, order)
        for task in TASKS
        for order in ORDERS
        if all((task, 20, order, name, APART) in grid for name in names)
    ]
    if not cells:
        return []
    lines = [f"| clip {APART:g} | {' | '.join(f'{t}, {o}' for t, o in cells)} |"]
    lines.append(f"|---|{'---|' * len(cells)}")
    for name in names:
        made = [cell(grid[task, 20, order, name, APART]) for task, order in cells]
        lines.append(f"| {name} | {' | '.join(made)} |")
    return ["### V-trace taken apart, delay 1e4", "", *lines, ""]


def read_inverted(clips: dict[str, float]) -> dict[str, np.ndarray]:
    """The runs of inverted.csv with these clips (seeds, parts); {} unless all are there."""
    found: dict[str, list[list[float]]] = {c: [] for c in clips}
    if INVERTED.exists():
        for line in INVERTED.read_text(encoding="utf-8").splitlines()[1:]:
            correction, clip, _, *numbers = line.split(",")
            if float(clip) == clips.get(correction):
                found[correction].append([float(x) for x in numbers])
    fewest = min(map(len, found.values()))
    return {c: np.array(runs[:fewest]) for c, runs in found.items()} if fewest > 1 else {}


def inverted_table(runs: dict[str, np.ndarray], clips: dict[str, float]) -> list[str]:
    """Mean over the run with its interval, and the last fifth with its interval."""
    if not runs:
        return []
    seeds = len(next(iter(runs.values())))
    lines = ["| | whole run | last fifth |", "|---|---|---|"]
    for c, values in runs.items():
        made = [
            f"{part.mean():.0f} ± {half_width(part):.0f}"
            for part in (values.mean(1), values[:, -2:].mean(1))
        ]
        lines.append(f"| {c}, clip {clips[c]:g} | {' | '.join(made)} |")
    head = f"InvertedPendulum-v5, {seeds} seeds, 20,480 steps, geometric delays of mean 3,072 steps"
    return [f"### {head}", "", *lines, ""]


def text() -> str:
    """The whole of benchmarks/STALE.md."""
    grid, tuning = read(GRID), read(TUNING)
    common, clips = dict.fromkeys(CORRECTIONS, COMMON), selected(tuning)
    narrow = selected(tuning, NARROW)
    lines = [
        "# Stale rollouts",
        "",
        "Written by `python benchmarks/stale/report.py` from the files that `sweep.py` and "
        "`inverted.py` write. Mean return over the whole run, half of a 95 % interval over five "
        "seeds, and mean of the last tenth. Delays are steps of the environment; a round is 512 "
        "steps, a run 153,600.",
        "",
    ]
    lines += ["## Clips selected on Swing-up and Docking", ""]
    lines += ["Delay 1e4, out of order, 76,800 steps, five seeds.", "", *tuning_table(tuning)]
    for range_, best in (("all five", clips), ("0.1, 0.2 and 0.4", narrow)):
        chosen = ", ".join(f"{c} {x:g}" for c, x in best.items())
        lines += [f"Selected of {range_}: {chosen}.", ""]
    lines += ["## With selected clips", "", *table(grid, clips)]
    lines += inverted_table(read_inverted(clips), clips) + parts(grid)
    moved = {c: clip for c, clip in narrow.items() if clip != clips[c]}
    lines += ["## Where a range of 0.1 to 0.4 selects another clip", "", *table(grid, moved)]
    lines += inverted_table(read_inverted(moved), moved)
    lines += ["## With a clip of 0.2 for all", "", *table(grid, common)]
    lines += ["## Effective sample size and drift of what arrives, clip 0.2", ""]
    lines += measures(grid, common) + guard(tuning) + speed()
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "belated", "font.size": 9})
    (PLACE.parent / "STALE.md").write_text(text(), encoding="utf-8")
    clips = selected(read(TUNING))
    curves(read(GRID), read_inverted(clips), clips, DOCS / "stale_selected")


if __name__ == "__main__":
    main()
