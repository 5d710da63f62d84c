"""The look of figures, for print and for colour-blind readers.

The first colours are those of Okabe & Ito (2008) without the yellow, the others of Tol's muted
scheme. Every agent has its own dash as well. A legend is below the curves; with `MANY` curves or
more, each has its own panel, with the others in grey. `belated.mplstyle` has the settings of
Matplotlib: PDF files embed fonts as Type 42, and SVG files contain text as text.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from belated.core import checks
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
WIDTHS = {"column": 3.4, "page": 7.0}
"""Inches, for papers in two columns."""
NARROW = 5.0
"""Narrower figures have smaller letters."""
FORMS = ("png", "svg", "pdf")
STYLE: dict[Any, Any] = dict(
    matplotlib.rc_params_from_file(
        str(Path(__file__).with_name("belated.mplstyle")), use_default_template=False
    )
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How figures are laid out.

    Attributes:
        width: "column", "page" or a number of inches; None for the width that suits the figure.
        title: whether a figure has a title.
        legend: all curves in one plot, however many there are.
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
            super().savefig(*args, **kwargs)

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

    def encoded(self, form: str) -> bytes:
        """The figure as a png, svg or pdf file; the same figure gives the same bytes."""
        buffer, date = io.BytesIO(), {"svg": "Date", "pdf": "CreationDate"}.get(form)
        self.figure.savefig(buffer, format=form, metadata={date: None} if date else None)
        return buffer.getvalue()


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


Paint = Callable[[Axes, str | None], None]
"""A function that draws all curves into axes; given a name, all others in grey."""


def plot(
    names: Sequence[str], paint: Paint, layout: Layout, title: str
) -> tuple[Figure, list[Axes]]:
    """Curves in one plot, or each in a panel of its own if there are many."""
    if len(names) < MANY or layout.legend:
        one = Sheet(figsize=layout.size(6.2, 3.9), layout="constrained")
        axes = one.subplots()
        paint(axes, None)
        legend_below(one, axes)
        head(one, layout, title)
        return one, [axes]
    width = layout.width or 7.4
    most = max(2, round(width / 1.85))
    across = min((most, max(2, most - 1)), key=lambda n: -len(names) % n)  # fewest empty places
    figure, panels = grid(len(names), across, width, 0.72)
    for axes, name in zip(panels, names, strict=True):
        paint(axes, name)
        entitle(axes, name, round(14 * width / across), fontsize=8)
        axes.label_outer()
    head(figure, layout, title)
    return figure, panels


def grid(
    number: int, across: int, width: float, ratio: float, *, share_y: bool = True
) -> tuple[Figure, list[Axes]]:
    """Panels with one vertical axis, `across` in a row, each `ratio` times as tall as wide."""
    down = math.ceil(number / across)
    figure = Sheet(figsize=(width, 0.8 + down * ratio * width / across), layout="constrained")
    panels = list(
        figure.subplots(down, across, sharex=share_y, sharey=share_y, squeeze=False).ravel()
    )
    for axes in panels[number:]:
        axes.remove()
    return figure, panels[:number]


def entitle(axes: Axes, name: str, longest: int, **options: Any) -> None:
    """A title in at most two lines of `longest` characters; a formula is not broken."""
    text = name if is_math(name) else textwrap.fill(name, longest, max_lines=2, placeholder="…")
    axes.set_title(text, **options).set_parse_math(is_math(name))


def legend_below(figure: Figure, *panels: Axes) -> None:
    """A legend below the plots, with the curves that have labels; a long one makes it taller."""
    named: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    longest = max((len(label.replace("$", "")) for label in named), default=1)
    columns = max(1, int((figure.get_figwidth() - 0.2) / (0.5 + 0.068 * longest)))
    legend = figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=min(columns, len(named) or 1),
        handlelength=2.6,
    )
    for text in legend.get_texts():
        text.set_parse_math(is_math(text.get_text()))
    more = (
        max(math.ceil(len(named) / columns) - 2, 0) * 1.25 * matplotlib.rcParams["font.size"] / 72
    )
    figure.set_figheight(figure.get_figheight() + more)


def head(figure: Figure, layout: Layout, title: str) -> None:
    """A title above a figure, if the layout has titles."""
    if layout.title:
        text = textwrap.fill(title, max(20, round(12.1 * figure.get_figwidth())))
        size = matplotlib.rcParams["axes.titlesize"]
        figure.suptitle(text, x=0.01, ha="left", fontsize=size)


def short(name: str, longest: int) -> str:
    """A name for a figure, cut if it is too long and holds no formula."""
    return name if len(name) <= longest or is_math(name) else f"{name[: longest - 1]}…"
