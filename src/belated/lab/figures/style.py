"""The style of figures, for print and for colour-blind readers.

The first colours are those of Okabe & Ito (2008) without the yellow, the others of Tol's muted
scheme. Every agent has its own dash as well. Fewer than `MANY` curves are labelled at their ends;
otherwise each has its own panel, with the others in grey. PDF files embed fonts as Type 42, and SVG
files contain text as text.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator

from belated.core import checks
from belated.core.arrays import Floats
from belated.lab import statistics, store
from belated.lab.names import is_math, slug

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255",
    "#999933", "#332288", "#44AA99", "#661100", "#888888", "#AA4499", "#117733", "#DDAA33",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (6, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1.2, 1.2)), (0, (8, 2, 1, 2)))
OTHERS: dict[str, Any] = {"color": "0.8", "linewidth": 0.9, "zorder": 1}
"""The other curves of a panel."""
MANY = 8
"""With at least this many curves, each has a panel of its own."""
WIDEST = 32
"""The largest number of characters of a label; longer names are cut."""
WIDTHS = {"column": 3.4, "page": 7.0}
"""Inches, for papers in two columns."""
NARROW = 5.0
"""Narrower figures have a legend below, since labels would leave no room for the curves."""
ROWS = 2
"""The number of lines of a legend that fit into the height of a figure."""
DPI = 300
FORMS = ("png", "svg", "pdf")
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
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "belated",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How figures are laid out.

    Attributes:
        width: "column", "page" or a number of inches; None for the width that suits the figure.
        title: whether a figure has a title.
        legend: all curves in one plot with a legend below, instead of labels or panels.
        block: the number of episodes per point of curves over time; None: chosen by their length
            and jaggedness.
        on: costs in expectation over their noise ("means"), or as they were drawn ("drawn").
        regret: "hindsight", "means", "dynamic" or "so far", see `statistics.REGRETS`; None for the
            regret against the best fixed policy, on the same costs.
        agents: the agents to show, each in its own colour; None for all.
        labels: the names to show for agents, in which `$...$` is mathematics.
    """

    width: Any = None
    title: bool = True
    legend: bool = False
    block: int | None = None
    on: str = "means"
    regret: str | None = None
    agents: Sequence[str] | None = None
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.block is not None:
            checks.integer("block", self.block, 1)
        checks.choice("on", self.on, statistics.ON)
        if self.regret is not None:
            checks.choice("regret", self.regret, statistics.REGRETS)
        if self.width is not None:
            object.__setattr__(self, "width", _inches(self.width))

    def named(self, agent: str) -> str:
        """The name of an agent in figures."""
        return (self.labels or {}).get(agent, agent)

    def size(self, width: float, height: float) -> tuple[float, float]:
        """The size of a figure whose natural size is this one."""
        if self.width is None:
            return width, height
        return self.width, height * (0.5 + 0.5 * min(1.5, self.width / width))

    @property
    def style(self) -> dict[Any, Any]:
        """Settings of Matplotlib; narrow figures have smaller letters."""
        if self.width is None or self.width >= NARROW:
            return STYLE
        return STYLE | {"font.size": 7.5, "axes.titlesize": 8, "lines.linewidth": 1.2}


def chosen(names: Sequence[str], layout: Layout) -> list[str]:
    """The agents to show, in their order; checks that both keywords name existing agents."""
    for agent in (*(layout.agents or ()), *(layout.labels or ())):
        checks.choice("agents" if agent in (layout.agents or ()) else "labels", agent, names)
    return list(names if layout.agents is None else layout.agents)


def _inches(width: str | float) -> float:
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    try:
        return checks.real("width", float(width), 1.0, 40.0)
    except (ValueError, TypeError):
        raise ValueError(
            f"width must be 'column', 'page' or a number of inches from 1 to 40, got {width!r}"
        ) from None


DEFAULT = Layout()


def file_name(name: str, of: str) -> str:
    """The name of a figure as a file: cost-plain."""
    return "-".join(filter(None, [name, slug(of)]))


class Sheet(Figure):
    """A figure that is saved in the lab's style, independent of Matplotlib's settings."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save the figure like Matplotlib, by default with 300 dots per inch."""
        with matplotlib.rc_context(STYLE):
            super().savefig(*args, **{"dpi": DPI, **kwargs})

    def _repr_svg_(self) -> str:
        buffer = io.StringIO()
        self.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()


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
            self.figure.dpi = DPI
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


def look(names: Sequence[str], name: str) -> tuple[str, Any]:
    """The colour and the dash of an agent among all agents."""
    i = names.index(name)
    return COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]


End = tuple[float, str, str]
"""The last level of a curve, its name and its colour."""
Paint = Callable[[Axes, str | None], list[End]]
"""A function that draws all curves into axes; given a name, all others in grey."""


def plot(
    names: Sequence[str], paint: Paint, layout: Layout, title: str, *, logarithmic: bool = False
) -> tuple[Figure, list[Axes]]:
    """Curves in one plot, or each in a panel of its own if there are many."""
    if len(names) >= MANY and not layout.legend:
        return _panels(names, paint, layout, title)
    figure = Sheet(figsize=layout.size(6.2, 3.5), layout="constrained")
    axes = figure.subplots()
    ends = paint(axes, None)
    if layout.legend or figure.get_figwidth() < NARROW:
        legend_below(figure, axes)
    else:
        label_ends(axes, ends, logarithmic=logarithmic)
    if layout.title:
        axes.set_title(wrapped(title, figure.get_figwidth()))
    apart(figure)
    return figure, [axes]


def _panels(
    names: Sequence[str], paint: Paint, layout: Layout, title: str
) -> tuple[Figure, list[Axes]]:
    width = layout.width or 7.4
    most = max(2, round(width / 1.85))
    across = min((most, max(2, most - 1)), key=lambda n: -len(names) % n)  # fewest empty places
    down = math.ceil(len(names) / across)
    figure = Sheet(figsize=(width, 0.8 + down * 0.72 * width / across), layout="constrained")
    panels = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel())
    for axes, name in zip(panels, names, strict=False):
        paint(axes, name)
        heading = axes.set_title(in_two_lines(name, round(14 * width / across)), fontsize=8)
        heading.set_parse_math(is_math(name))
    for i, axes in enumerate(panels):
        axes.set_visible(i < len(names))
        below = i + across >= len(names)
        axes.tick_params(labelbottom=below, labelsize=7)
        first = i == across * (down // 2)
        axes.set_xlabel(axes.get_xlabel() if below else "", fontsize=8)
        axes.set_ylabel(axes.get_ylabel() if first else "", fontsize=8)
    head(figure, layout, title)
    return figure, panels[: len(names)]


def legend_below(figure: Figure, *panels: Axes) -> None:
    """A legend below the plots, with the curves that have labels; a long one makes it taller."""
    named: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    labels, handles = list(named), list(named.values())
    longest = max((len(label.replace("$", "")) for label in labels), default=1)
    columns = max(1, int((figure.get_figwidth() - 0.2) / (0.5 + 0.068 * longest)))
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=min(columns, len(labels) or 1),
        frameon=False, fontsize="small", handlelength=2.6,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(is_math(text.get_text()))
    line = 1.25 * matplotlib.rcParams["font.size"] / 72
    rows = math.ceil(len(labels) / columns)
    figure.set_figheight(figure.get_figheight() + line * max(rows - ROWS, 0))


def head(figure: Figure, layout: Layout, title: str) -> None:
    """A title above a figure of several panels, if the layout has titles."""
    if layout.title:
        size = matplotlib.rcParams["axes.titlesize"]
        text = wrapped(title, figure.get_figwidth())
        figure.suptitle(text, x=0.01, ha="left", fontsize=size)


def wrapped(title: str, width: float) -> str:
    """A title in lines that fit a width in inches."""
    return textwrap.fill(title, max(20, round(12.1 * width)))


def label_ends(axes: Axes, ends: Sequence[End], *, logarithmic: bool = False) -> None:
    """Write names at the right ends of curves, moved apart if they would overlap."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # no longer automatic
    if logarithmic:
        low, high = np.log(low), np.log(high)
    wanted = np.array([np.log(y) if logarithmic else y for y, _, _ in ends])
    wanted = (wanted - low) / (high - low)
    figure = axes.get_figure(root=True)
    tall = figure.get_figheight() if figure is not None else 3.5
    placed = spread(wanted, gap=0.19 / max(tall - 0.7, 1.0))
    for (_, text, colour), at, to in zip(ends, wanted, placed, strict=True):
        line = Line2D((1.005, 1.04), (at, to), color=colour, linewidth=1.4,
                      transform=axes.transAxes, clip_on=False)  # fmt: skip
        axes.add_artist(line)
        label = axes.text(1.05, to, short(text, WIDEST), va="center", color="0.1",
                          transform=axes.transAxes)  # fmt: skip
        label.set_parse_math(is_math(text))


def fitting(axes: Axes) -> None:
    """Break the label of a vertical axis into lines that are no longer than the axis."""
    figure = axes.get_figure(root=True)
    if figure is not None:
        tall = axes.get_position().height * figure.get_figheight()
        size = 72 / (0.56 * float(axes.yaxis.label.get_fontsize()))
        axes.set_ylabel(textwrap.fill(axes.get_ylabel(), max(8, round(tall * size))))


def apart(figure: Figure) -> None:
    """Remove ticks of horizontal axes until their labels do not overlap."""
    for _ in range(6):
        figure.draw_without_rendering()
        crowded = [axes for axes in figure.axes if axes.get_visible() and _collide(axes)]
        if not crowded:
            return
        for axes in crowded:
            low, high = sorted(axes.get_xlim())
            ticks = [t for t in axes.xaxis.get_majorticklocs() if low <= t <= high]
            if axes.xaxis.get_majorticklabels()[0].get_rotation() == 0 and _named(axes):
                axes.tick_params(axis="x", rotation=30)
                for label in axes.xaxis.get_majorticklabels():
                    label.set_horizontalalignment("right")
            elif len(ticks) > 2:
                axes.xaxis.set_major_locator(FixedLocator(ticks[:: 2 if len(ticks) > 3 else 3]))


def _named(axes: Axes) -> bool:
    """Whether ticks have names rather than numbers."""
    return isinstance(axes.xaxis.get_major_formatter(), FixedFormatter)


def _collide(axes: Axes) -> bool:
    labels = [t for t in axes.xaxis.get_majorticklabels() if t.get_visible() and t.get_text()]
    boxes = sorted((t.get_window_extent() for t in labels), key=lambda box: float(box.x0))
    if labels and labels[0].get_rotation():
        return False
    gap = 0.25 * matplotlib.rcParams["font.size"]
    return any(a.x1 + gap > b.x0 for a, b in pairwise(boxes))


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


def in_two_lines(name: str, longest: int) -> str:
    """A name in at most two lines of at most `longest` characters; a formula is not broken."""
    if is_math(name):
        return name
    return textwrap.fill(name, longest, max_lines=2, placeholder="…")


def short(name: str, longest: int) -> str:
    """A name for a figure, cut if it is too long and holds no formula."""
    return name if len(name) <= longest or is_math(name) else f"{name[: longest - 1]}…"
