"""The pictures of the documentation, drawn when it is built."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from belated.simulation import missing_feedback

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.45"
NEVER = 2**62
DELAYS = np.array([0, 3, 1, NEVER, 2, 2, 0, 4, 1, 0])


def timeline(path: Path) -> None:
    """Every episode as a bar from its play to the arrival of its record; below, M^k."""
    figure, (top, below) = plt.subplots(
        2, 1, figsize=(7.5, 5.2), height_ratios=(3, 1), sharex=True, layout="constrained"
    )
    K = len(DELAYS)
    for k, d in enumerate(DELAYS):
        top.plot([k, k + 1], [k, k], color=BLUE, linewidth=7, solid_capstyle="butt")
        if d == NEVER:
            top.plot([k + 1, K + 0.6], [k, k], color=GREY, linewidth=1, linestyle=":")
            top.text(K + 0.7, k, "never", va="center", color=GREY)
        else:
            top.plot([k + 1, k + d + 1], [k, k], color=VERMILION, linewidth=1.5)
            top.plot([k + d + 1], [k], color=VERMILION, marker=">", markersize=7)
    top.set(ylabel="episode", yticks=range(K), ylim=(K - 0.5, -0.5))
    top.plot([], [], color=BLUE, linewidth=7, label="played")
    top.plot([], [], color=VERMILION, marker=">", label="record on its way, released")
    top.legend(frameon=False, loc="lower left")
    below.step(np.arange(K) + 1, missing_feedback(DELAYS), where="post", color=GREEN)
    below.set(ylabel="missing", xlabel="time in episodes", xlim=(0, K + 2), ylim=(0, None))
    below.set_xticks(range(K + 1))
    save(figure, path)


def facts(path: Path) -> None:
    """When the two facts of an episode come, in the two models."""
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.0), layout="constrained", sharey=True)
    titles = ('trajectory="delayed"', 'trajectory="immediate"')
    for on, title, path_late in zip(axes, titles, (True, False), strict=True):
        on.plot([0, 1], [0.5, 0.5], color=BLUE, linewidth=7, solid_capstyle="butt")
        for height, name, late in ((1, "path", path_late), (0, "costs", True)):
            end = 4 if late else 1
            on.annotate(
                "", (end, height), (1, 0.5), arrowprops={"arrowstyle": "->", "color": VERMILION}
            )
            on.text(end + 0.1, height, name, va="center")
        on.text(0.5, 0.7, "episode k", ha="center", color=BLUE)
        on.set(xlim=(-0.2, 5), ylim=(-0.3, 1.4), yticks=[], xticks=[1, 4])
        on.set_xticklabels(["end of k", "end of k + d"])
        on.set_title(title, fontsize=10, family="monospace")
    save(figure, path)


def save(figure, path: Path) -> None:
    """Write an SVG without the date, so that drawing again changes nothing."""
    for on in figure.axes:
        on.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    with plt.rc_context({"svg.hashsalt": "belated", "svg.fonttype": "none"}):
        timeline(folder / "timeline.svg")
        facts(folder / "facts.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
