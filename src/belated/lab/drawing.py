"""How figures look, for print and for colour-blind readers.

Colours are those of Okabe & Ito (2008) without the yellow, and a wine red. Every agent has its own
dash as well, and curves are labelled at their ends.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from belated.arrays import Floats
from belated.lab import store
from belated.lab.spec import Experiment

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (6, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1.2, 1.2)), (0, (8, 2, 1, 2)))
WIDEST = 32
"""Most characters of a label; longer names are cut."""
INK = "0.2"
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.size": 9,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "belated",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure, its name as a file, and its caption."""

    name: str
    caption: str
    figure: Figure
    _files: dict[str, bytes] = field(default_factory=dict, repr=False)

    def encoded(self, form: str) -> bytes:
        """The figure as a png, svg or pdf file."""
        if form not in self._files:
            buffer = io.BytesIO()
            with matplotlib.rc_context(STYLE):
                self._print(form, buffer)
            self.figure.set_layout_engine("none")  # the same layout in every form
            self._files[form] = buffer.getvalue()
        return self._files[form]

    def _print(self, form: str, buffer: io.BytesIO) -> None:
        """Print PNG and SVG without savefig, which draws everything twice."""
        canvas: Any
        if form == "png":
            self.figure.dpi = 160
            canvas = FigureCanvasAgg(self.figure)
            canvas.print_png(buffer)
        elif form == "svg":
            canvas = FigureCanvasSVG(self.figure)
            canvas.print_svg(buffer, metadata={"Date": None})
        else:
            self.figure.savefig(buffer, format=form, metadata={"CreationDate": None})


def save(directory: Path, drawings: Sequence[Drawing], forms: Sequence[str]) -> list[Path]:
    """Write figures into the directory's `figures`."""
    paths = []
    for drawing in drawings:
        for form in forms:
            path = directory / "figures" / f"{drawing.name}.{form}"
            store.write(path, drawing.encoded(form))
            paths.append(path)
    return paths


def one_axes() -> tuple[Figure, Axes]:
    """An empty figure with room for one plot."""
    figure = Figure(figsize=(6.2, 3.5), layout="constrained")
    return figure, figure.subplots()


def look(experiment: Experiment, agent: str) -> tuple[str, Any]:
    """The colour and the dash of an agent."""
    i = [learner.name for learner in experiment.agents].index(agent)
    return COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]


def label_ends(
    axes: Axes, ends: Sequence[tuple[float, str, str]], *, logarithmic: bool = False
) -> None:
    """Write names at the right ends of curves, moved apart if they would overlap."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # no longer automatic
    if logarithmic:
        low, high = np.log(low), np.log(high)
    wanted = np.array([np.log(y) if logarithmic else y for y, _, _ in ends])
    wanted = (wanted - low) / (high - low)
    placed = spread(wanted, gap=0.066)
    for (_, text, colour), at, to in zip(ends, wanted, placed, strict=True):
        axes.plot((1.005, 1.04), (at, to), color=colour, linewidth=1.4, transform=axes.transAxes,
                  clip_on=False)  # fmt: skip
        axes.text(1.05, to, short(text, WIDEST), va="center", color="0.1",
                  transform=axes.transAxes)  # fmt: skip


def spread(wanted: Floats, gap: float) -> Floats:
    """Positions near the wanted ones, in the same order, at least `gap` apart, none above 1.

    wanted: (N,), as shares of the height.
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    # Positions minus steps must be nondecreasing: pool neighbours that violate this.
    blocks: list[list[float]] = []
    for value in wanted[order] - steps:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    flat = np.concatenate([np.full(int(n), a) for a, n in blocks]) if blocks else np.zeros(0)
    highest = max(1.0, wanted.max(initial=0.0)) - steps[::-1]  # leaves room for the labels above
    placed = np.empty(len(wanted))
    placed[order] = np.minimum(flat + steps, highest)
    return placed


def short(name: str, longest: int) -> str:
    """A name for a figure, cut if it is too long."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
