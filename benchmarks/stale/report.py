"""Tables and figures of the sweeps: `python benchmarks/stale/report.py [folder for PNG copies]`.

Reads tuning.csv, grid.csv and mujoco.csv beside this file. Writes benchmarks/STALE.md and
docs/stale_selected.svg. Cells that are not complete are left out.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PLACE = Path(__file__).parent
ROOT = PLACE.parent.parent
DOCS = ROOT / "docs"
CORRECTIONS = (
    "behaviour", "current", "delay-adapted", "decoupled",
    "truncated", "guarded", "vtrace", "waiting",
)  # fmt: skip
ORDERS = ("in order", "out of order", "lost")
TASKS = ("CartPole", "Pendulum", "Acrobot")
DELAYS = {2: "1e3", 20: "1e4", 78: "4e4"}
CLIPS, COMMON, STEPS = (0.1, 0.2, 0.4), 0.2, 5120
COLOURS = dict(
    zip(
        CORRECTIONS,
        ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#999999"),
        strict=True,
    )
)
STYLES = dict(zip(CORRECTIONS, ("-", "-", "-", "--", "--", "-.", ":", ":"), strict=True))
Runs = dict[tuple[str, int, str, str, float], np.ndarray]


def read(name: str) -> Runs:
    """The runs of a file: (seeds, 2 + windows), the first two effective sample size and drift."""
    file = PLACE / name
    found: dict[tuple[str, int, str, str, float], dict[int, list[float]]] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines()[1:]:
            task, delay, order, correction, clip, seed, *numbers = line.split(",")
            key = (task, int(delay), order, correction, float(clip))
            found.setdefault(key, {})[int(seed)] = [float(x) for x in numbers]
    return {key: np.array([runs[s] for s in sorted(runs)]) for key, runs in found.items()}


def tuned(tuning: Runs) -> dict[str, float]:
    """The clip of each correction, by the same rule as sweep.py; empty without all runs."""
    total = dict.fromkeys(((c, clip) for c in CORRECTIONS for clip in CLIPS), 0.0)
    for task in ("Swing-up", "Docking"):
        means = {k[3:]: runs[:, 2:].mean() for k, runs in tuning.items() if k[0] == task}
        if set(means) != set(total):
            return {}
        low, high = min(means.values()), max(means.values())
        for key, mean in means.items():
            total[key] += (mean - low) / (high - low)
    return {c: max(CLIPS, key=lambda clip: total[c, clip]) for c in CORRECTIONS}


def half_width(values: np.ndarray) -> np.ndarray:
    """Half of a 95 % interval of the mean over seeds, by Student's distribution."""
    quantile = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}[len(values)]
    return quantile * values.std(0, ddof=1) / np.sqrt(len(values))


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
            if all((task, delay, order, c, clips[c]) in grid for c in CORRECTIONS)
        ]
        if not cells:
            continue
        lines += [f"### {task}", ""]
        names = [f"{DELAYS[delay]}, {order}" for delay, order in cells]
        lines += [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(cells)}"]
        for c in CORRECTIONS:
            made = [cell(grid[task, delay, order, c, clips[c]]) for delay, order in cells]
            lines.append(f"| {c}, clip {clips[c]:g} | {' | '.join(made)} |")
        lines.append("")
    return lines


def tuning_table(tuning: Runs) -> list[str]:
    """Both tasks of the tuning with every clip: 20 rounds, out of order."""
    head = [f"{task}, clip {clip:g}" for task in ("Swing-up", "Docking") for clip in CLIPS]
    lines = [f"| | {' | '.join(head)} |", f"|---|{'---|' * len(head)}"]
    for c in CORRECTIONS:
        made = [
            cell(tuning[task, 20, "out of order", c, clip])
            for task in ("Swing-up", "Docking")
            for clip in CLIPS
        ]
        lines.append(f"| {c} | {' | '.join(made)} |")
    return [*lines, ""]


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


def draw(on: Axes, grid: Runs, task: str, delay: int, order: str, clips: dict[str, float]) -> None:
    """Learning curves with bands over seeds."""
    for c in CORRECTIONS:
        curve = grid[task, delay, order, c, clips[c]][:, 2:]
        steps = (np.arange(curve.shape[1]) + 0.5) * STEPS / 1000
        mean, half = curve.mean(0), half_width(curve)
        on.plot(steps, mean, color=COLOURS[c], linestyle=STYLES[c], linewidth=1.6, label=c)
        on.fill_between(steps, mean - half, mean + half, color=COLOURS[c], alpha=0.10, linewidth=0)
    low, high = {"CartPole": (0, 510), "Pendulum": (-1600, -100), "Acrobot": (-510, -60)}[task]
    on.set(title=f"{task}, delay {DELAYS[delay]}, {order}", ylim=(low, high))
    on.set(xlabel="thousand steps", ylabel="return of ended episodes")
    on.spines[["top", "right"]].set_visible(False)


def curves(grid: Runs, clips: dict[str, float], path: Path) -> None:
    """A row for each task and order, a column for each delay; unfinished cells are empty."""

    def complete(task: str, delay: int, order: str) -> bool:
        return all((task, delay, order, c, clips[c]) in grid for c in CORRECTIONS)

    rows = [
        (task, order)
        for task in TASKS
        for order in ("in order", "out of order")
        if any(complete(task, delay, order) for delay in DELAYS)
    ]
    if not rows:
        return
    figure, axes = plt.subplots(
        len(rows), 3, figsize=(12.0, 2.8 * len(rows) + 0.5), squeeze=False, layout="constrained"
    )
    for across, (task, order) in zip(axes, rows, strict=True):
        for on, delay in zip(across, DELAYS, strict=True):
            if complete(task, delay, order):
                draw(on, grid, task, delay, order, clips)
            else:
                on.set_axis_off()
    drawn = next(on for on in axes.flat if on.lines)
    handles, names = drawn.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    if len(sys.argv) > 1:
        figure.savefig(Path(sys.argv[1]) / f"{path.name}.png", dpi=100)
    plt.close(figure)


def mujoco() -> list[str]:
    """The table of mujoco.csv: mean over the run and the last fifth."""
    file = PLACE / "mujoco.csv"
    if not file.exists():
        return []
    found: dict[tuple[str, str], list[list[float]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        correction, steps, _, *numbers = line.split(",")
        found.setdefault((correction, steps), []).append([float(x) for x in numbers])
    if not found:
        return []
    lines = ["| correction | steps | seeds | all | last fifth |", "|---|---|---|---|---|"]
    for (correction, steps), runs in found.items():
        array = np.array(runs)
        mean, last = array.mean(), array[:, -2:].mean()
        lines.append(f"| {correction} | {steps} | {len(runs)} | {mean:.0f} | {last:.0f} |")
    return ["## HalfCheetah-v5, delays of mean 6 rollouts, out of order", "", *lines, ""]


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "belated", "font.size": 9})
    grid, tuning = read("grid.csv"), read("tuning.csv")
    common = dict.fromkeys(CORRECTIONS, COMMON)
    clips = tuned(tuning)
    lines = [
        "# Stale rollouts",
        "",
        "Written by `python benchmarks/stale/report.py` from the files that `sweep.py` and "
        "`mujoco.py` write. Mean return over the whole run, half of a 95 % interval over five "
        "seeds, and mean of the last tenth. Delays are steps of the environment; a round is 512 "
        "steps, a run 153,600.",
        "",
    ]
    if clips:
        lines += ["## Clips selected on Swing-up and Docking", ""]
        lines += ["Delay 1e4, out of order, 76,800 steps, three seeds.", "", *tuning_table(tuning)]
        lines += ["Selected: " + ", ".join(f"{c} {x:g}" for c, x in clips.items()) + ".", ""]
        lines += ["## With selected clips", "", *table(grid, clips)]
    lines += ["## With a clip of 0.2 for all", "", *table(grid, common)]
    lines += ["## Effective sample size and drift of what arrives, clip 0.2", ""]
    lines += measures(grid, common) + mujoco()
    (PLACE.parent / "STALE.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    if clips:
        curves(grid, clips, DOCS / "stale_selected")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
