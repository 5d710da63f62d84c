"""The result files of the sweeps, and the clip that they select for each correction."""

import csv
from pathlib import Path

import numpy as np

PLACE = Path(__file__).parent
TUNING, GRID, INVERTED, SPEED, PAIRS = (
    PLACE / f"{name}.csv" for name in ("tuning", "grid", "inverted", "speed", "pairs")
)
CORRECTIONS = (
    "behaviour", "current", "delay-adapted", "decoupled",
    "truncated", "guarded", "vtrace", "waiting",
)  # fmt: skip
PARTS_OF_VTRACE = ("ratio alone", "values alone")
CLIPS, NARROW, COMMON, APART = (0.05, 0.1, 0.2, 0.4, 0.8), (0.1, 0.2, 0.4), 0.2, 0.1
"""The clips to select from, the range that was tried first, one clip for all corrections, and the
one with which V-trace is taken apart."""
SELECTING = ("Swing-up", "Docking")
"""The tasks on which clips are selected."""
ORDERS = ("in order", "out of order", "lost")
DELAYS = {2: "1e3", 20: "1e4", 78: "4e4"}
"""Rounds of 512 steps, and the steps that they stand for."""
Cell = tuple[str, int, str, str, float]
Runs = dict[Cell, np.ndarray]


def rows_of(file: Path) -> list[list[str]]:
    """The rows of a file without its header; none if it is not there."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines))[1:]


def add(file: Path, header: str, rows: list[str]) -> None:
    """Add rows to a file, after its header if it is new."""
    lines = rows if file.exists() else [header, *rows]
    with file.open("a", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def read(file: Path) -> Runs:
    """The runs of a file by task, delay, order, correction and clip.

    Each is (seeds, 2 + windows): effective sample size, drift, and the returns.
    """
    found: dict[Cell, dict[int, list[float]]] = {}
    for task, delay, order, correction, clip, seed, *numbers in rows_of(file):
        key = (task, int(delay), order, correction, float(clip))
        found.setdefault(key, {})[int(seed)] = [float(x) for x in numbers]
    return {key: np.array([runs[s] for s in sorted(runs)]) for key, runs in found.items()}


def selected(tuning: Runs, clips: tuple[float, ...] = CLIPS) -> dict[str, float]:
    """The clip of each correction: the best mean over the curve on average over both tasks.

    The means of a task are brought to [0, 1], from the worst to the best of all settings.
    """
    total = dict.fromkeys(((c, clip) for c in CORRECTIONS for clip in clips), 0.0)
    for task in SELECTING:
        means = {
            key[3:]: runs[:, 2:].mean()
            for key, runs in tuning.items()
            if key[0] == task and key[4] in clips
        }
        if set(means) != set(total):
            raise ValueError(f"{TUNING.name} must hold every setting on {task}: run sweep.py tune")
        low, high = min(means.values()), max(means.values())
        for key, mean in means.items():
            total[key] += (mean - low) / (high - low)
    return {c: max(clips, key=lambda clip: total[c, clip]) for c in CORRECTIONS}
