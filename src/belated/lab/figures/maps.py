"""Maps of grid worlds: walls, visits and moves of the policy that was learned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from belated import config as kinds
from belated.config.registry import with_defaults
from belated.core.arrays import Bools, Floats
from belated.lab import store
from belated.lab.figures.style import Layout, Sheet, head, in_two_lines
from belated.lab.names import is_math
from belated.lab.spec import Experiment, Scene, Task
from belated.tabular.environments.gridworld import MOVES

SEEN = 0.05
"""A state with at least this many expected visits per episode gets an arrow."""


@dataclass(frozen=True, slots=True, eq=False)
class GridMap:
    """A policy on a grid, as a map.

    Attributes:
        name: the agent of the policy.
        walls: (height, width).
        visits: (height, width) expected visits per episode.
        moves: (height, width, 2) average direction, down and right, over the steps of an episode.
        goal: whether the goal is the last cell; costs of the experiment may put it elsewhere.
    """

    name: str
    walls: Bools
    visits: Floats
    moves: Floats
    goal: bool


def learned(
    directory: Path, experiment: Experiment, case: str, rows: pl.DataFrame
) -> list[GridMap]:
    """One map per agent of a case that has rows; none if the world is not a grid."""
    scene = experiment.scene(case)
    kept = [
        (name, store.visits(directory, Task(case, name, 0)))
        for name in rows["agent"].unique(maintain_order=True)
    ]
    return [_map(scene, name, visits) for name, visits in kept if visits is not None]


def _map(scene: Scene, name: str, taken: Floats) -> GridMap:
    grid = with_defaults(scene.environment, kinds.ENVIRONMENTS)
    size = grid["size"]
    height, width = size if isinstance(size, tuple) else (size, size)
    walls = np.zeros((height, width), dtype=bool)
    for cell in grid["walls"]:
        walls[cell] = True
    visits = taken.sum(axis=1)
    directions = np.array(MOVES, dtype=np.float64)  # (A, 2)
    moves = (taken @ directions) / np.maximum(visits, 1e-12)[:, None]
    return GridMap(
        name,
        walls,
        visits.reshape(height, width),
        moves.reshape(height, width, 2),
        goal=scene.costs is None,
    )


def draw(maps: list[GridMap], layout: Layout, title: str) -> Figure:
    """One map per agent, side by side, with a common colour scale."""
    across = min(3 if layout.width is None else max(1, int(layout.width / 1.6)), len(maps))
    down = math.ceil(len(maps) / across)
    wide = layout.width or max(2.6 * across + 0.7, 4.2)
    tall = (wide - 0.7) / across + 0.5
    figure = Sheet(figsize=(wide, tall * down + 0.3), layout="constrained")
    head(figure, layout, title)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    top = max(float(np.delete(item.visits.ravel(), -1).max(initial=0.1)) for item in maps)
    for axes, item in zip(panels, maps, strict=False):
        height, width = item.walls.shape
        shade = axes.imshow(item.visits, cmap="Blues", vmin=0, vmax=top)
        for row, column in np.argwhere(item.walls):
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="0.85",
                                     edgecolor="0.45", hatch="xxx", linewidth=0))  # fmt: skip
        row, column = np.nonzero((item.visits >= SEEN) & ~item.walls)
        drop, right = item.moves[row, column].T
        dark = item.visits[row, column] > 0.6 * top
        axes.quiver(column, row, right, -drop, color=np.where(dark, "white", "0.1"), pivot="mid",
                    scale=1.4 * width, width=0.009, headwidth=4)  # fmt: skip
        marked = [((0, 0), "start")] + [((height - 1, width - 1), "goal")] * item.goal
        for cell, text in marked:
            axes.add_patch(Rectangle((cell[1] - 0.5, cell[0] - 0.5), 1, 1, fill=False,
                                     edgecolor="#D55E00", linewidth=1.6))  # fmt: skip
            first = cell[0] == 0
            axes.annotate(
                text, (cell[1], cell[0] + (-0.5 if first else 0.5)), fontsize=7.5,
                ha="left" if cell[1] == 0 else "right", color="#B34700",
                va="bottom" if first else "top", xytext=(-6 if first else 6, 2 if first else -2),
                textcoords="offset points", annotation_clip=False,
            )  # fmt: skip
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color="0.7")
        name = layout.named(item.name)
        heading = axes.set_title(in_two_lines(name, 24), pad=15, fontsize=9)
        heading.set_parse_math(is_math(name))
    for axes in panels[len(maps) :]:
        axes.set_visible(False)
    figure.colorbar(shade, ax=list(panels), shrink=0.7, extend="max", label="visits per episode")
    return figure
