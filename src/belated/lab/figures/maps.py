"""Maps of grid worlds: walls, visits and moves of the policy that was learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from belated import config as kinds
from belated.config.registry import with_defaults
from belated.core.arrays import Floats
from belated.lab import store
from belated.lab.figures.style import Layout, entitle, grid, head
from belated.lab.spec import Experiment, Scene, Task
from belated.tabular.environments.gridworld import MOVES

SEEN = 0.05
"""A state with at least this many expected visits per episode gets an arrow."""


def learned(
    directory: Path, experiment: Experiment, case: str, rows: pl.DataFrame
) -> dict[str, Floats]:
    """Expected visits (S, A) of the first seed by agent; none if the world is not a grid."""
    found = {}
    for name in rows["agent"].unique(maintain_order=True):
        visits = store.visits(directory, Task(case, name, experiment.first_seed))
        if visits is not None:
            found[name] = visits
    return found


def draw(maps: dict[str, Floats], scene: Scene, layout: Layout, title: str) -> Figure:
    """One map per agent, side by side, with a common colour scale."""
    described = with_defaults(scene.environment, kinds.ENVIRONMENTS)
    size = described["size"]
    height, width = size if isinstance(size, tuple) else (size, size)
    across = min(3 if layout.width is None else max(1, int(layout.width / 1.6)), len(maps))
    wide = layout.width or max(2.6 * across + 0.7, 4.2)
    figure, panels = grid(len(maps), across, wide, 1.0)
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
        entitle(axes, layout.named(name), 24, fontsize=9)
    figure.colorbar(shade, ax=panels, shrink=0.7, extend="max", label="visits per episode")
    head(figure, layout, title)
    return figure
