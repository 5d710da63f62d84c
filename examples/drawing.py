"""Functions that the figures of the examples share: colours, axes and bands over seeds."""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip


def axes(columns: int = 1, width: float = 7.0, height: float = 4.0):
    """A figure with one or several axes side by side. Returns the axes, or an array of them."""
    figure, drawn = plt.subplots(
        1, columns, figsize=(width, height), layout="constrained", squeeze=False
    )
    for one in drawn[0]:
        one.spines[["top", "right"]].set_visible(False)
    return figure, (drawn[0, 0] if columns == 1 else drawn[0])


FEWEST = 4
"""Seeds that a band needs."""


def band(on, runs, colour: str, label: str, style: str = "-", points: int = 400) -> None:
    """Mean over seeds and a 95% confidence band of the mean. runs: (seeds, K).

    With two or three seeds the runs are drawn instead: Student's band would fill the figure.
    """
    runs = np.asarray(runs, dtype=float)
    seeds, K = runs.shape
    at = np.unique(np.linspace(0, K - 1, min(points, K)).astype(int))
    mean = runs.mean(axis=0)[at]
    on.plot(at + 1, mean, color=colour, label=label, linestyle=style)
    if 1 < seeds < FEWEST:
        on.plot(at + 1, runs[:, at].T, color=colour, alpha=0.25, linewidth=0.8)
    if seeds >= FEWEST:
        half = student(seeds) * runs.std(axis=0, ddof=1)[at] / np.sqrt(seeds)
        on.fill_between(at + 1, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def student(seeds: int) -> float:
    """The 97.5% point of Student's t with seeds - 1 degrees of freedom."""
    from scipy.stats import t  # noqa: PLC0415  (slow to import)

    return float(t.ppf(0.975, seeds - 1))


def smooth(values, window: int) -> np.ndarray:
    """Mean over the last `window` episodes (fewer at the beginning) along the last axis."""
    values = np.asarray(values, dtype=float)
    total = np.cumsum(values, axis=-1)
    total[..., window:] = total[..., window:] - total[..., :-window]
    return total / np.minimum(np.arange(1, values.shape[-1] + 1), window)


def save(figure, name: str) -> Path:
    """Write out/<name>.png and return the path."""
    path = Path("out") / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
