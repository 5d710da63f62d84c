"""Figures of results, for print and for colour-blind readers.

    axes = lab.plot.cost(result)
    axes.set_ylim(0, 4)
    axes.figure.savefig("cost.pdf")

With `ax` they are drawn into your own axes, in which every agent keeps its colour::

    with lab.plot.style():                      # fonts and colours for figures of your own
        figure, axes = plt.subplots(1, 2, layout="constrained")
        lab.plot.cost(result, ax=axes[0])
        lab.plot.regret(result, kind="dynamic", ax=axes[1])
        figure.savefig("both.pdf")              # with TrueType fonts

The first colours are those of Okabe & Ito (2008) without the yellow, the others of Tol's muted
scheme; every agent has its own dash as well. `belated.mplstyle` has the settings of Matplotlib.
"""

import contextlib
import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from belated.core import checks
from belated.core.arrays import Floats
from belated.lab import statistics, store
from belated.lab.results import Results
from belated.lab.spec import AGENTS, SCORE, label, shown, slug
from belated.lab.statistics import Curves, Series
from belated.lab.tables import number, text

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255",
    "#999933", "#332288", "#44AA99", "#661100", "#888888", "#AA4499", "#117733", "#DDAA33",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (6, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1.2, 1.2)), (0, (8, 2, 1, 2)))
DOTTED: dict[str, Any] = {"color": "0.45", "linewidth": 1, "linestyle": ":", "zorder": 0}
WIDTHS = {"column": 3.4, "page": 7.0}
"""Inches, for papers in two columns."""
NATURAL = 6.2
NARROW = 5.0
"""Narrower figures have smaller letters."""
FORMS = ("png", "svg", "pdf")
STYLE: dict[Any, Any] = dict(
    matplotlib.rc_params_from_file(
        str(Path(__file__).with_name("belated.mplstyle")), use_default_template=False
    )
)
POINTS = 250
"""The largest number of points of a curve; more would blur in print."""
FEW = 4
"""A sweep that makes more cases than this has no figures of single cases."""
REFERENCE = 0.5
"""The slope of the reference line: that of sqrt(K)."""
SCORES = (-1.0, 1.1)
"""The range of scores that is drawn. Scores beyond it count, but are not visible."""
BANDS = 2
"""A profile has bands for at most this many agents; more would hide one another."""


class Sheet(Figure):
    """A figure that is saved in the lab's style, independent of Matplotlib's settings.

    Attributes:
        name: its name as a file.
        caption: what it shows.
    """

    name: str = ""
    caption: str = ""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save the figure like Matplotlib, by default with 300 dots per inch."""
        with matplotlib.rc_context(STYLE):
            super().savefig(*args, **kwargs)

    def encoded(self, form: str) -> bytes:
        """The figure as a png, svg or pdf file; the same figure gives the same bytes."""
        buffer, date = io.BytesIO(), {"svg": "Date", "pdf": "CreationDate"}.get(form)
        self.savefig(buffer, format=form, metadata={date: None} if date else None)
        return buffer.getvalue()

    def _repr_svg_(self) -> str:
        return self.encoded("svg").decode()


@dataclass(frozen=True, slots=True)
class Look:
    """How figures look, and what they show.

    Attributes:
        width: "column", "page" or a number of inches; None for the width that suits the figure.
        title: whether a figure has a title.
        block: the number of episodes per point of costs over time; None: chosen by the length.
        on: costs in expectation over their noise ("means"), or as they were drawn ("drawn").
        regret: "hindsight" (for the costs that were drawn), "means" (for mean costs), "dynamic"
            (against the best policy of every episode) or "so far" (against the best fixed policy
            of the episodes up to k); None for the best fixed policy, on the costs of `on`.
        agents: the agents to show, each in its own colour; None for all.
        labels: the names to show for agents, in which `$...$` is mathematics.
    """

    width: Any = None
    title: bool = True
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
            checks.fix(self, "width", _inches(self.width))

    def named(self, agent: str) -> str:
        """The name of an agent in figures."""
        return (self.labels or {}).get(agent) or literal(agent)

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The agents to show, in their order; checks that there are such agents."""
        for key, given in (("agents", self.agents), ("labels", self.labels)):
            for agent in given or ():
                checks.choice(key, agent, names)
        return list(names) if self.agents is None else [n for n in names if n in self.agents]

    @property
    def style(self) -> dict[Any, Any]:
        """Settings of Matplotlib; narrow figures have smaller letters."""
        if self.width is None or self.width >= NARROW:
            return STYLE
        return STYLE | {"font.size": 7.5, "axes.titlesize": 8, "lines.linewidth": 1.2}


DEFAULT = Look()


def _inches(width: str | float) -> float:
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    try:
        return checks.real("width", float(width), 1.0, 40.0)
    except (ValueError, TypeError):
        raise ValueError(
            f"width must be 'column', 'page' or a number of inches from 1 to 40, got {width!r}"
        ) from None


def literal(text: str) -> str:
    """A text in which dollars are dollars, not the ends of a formula."""
    return text.replace("$", r"\$")


@contextlib.contextmanager
def style(width: str | float | None = None) -> Iterator[None]:
    """The lab's style for your own figures; PDF files then embed TrueType fonts.

    width: "column" or "page" or inches; narrow figures have smaller letters.
    """
    with matplotlib.rc_context(Look(width).style):
        yield


def cost(
    result: Results,
    case: str | None = None,
    *,
    ax: Axes | None = None,
    legend: bool = True,
    **look: Any,
) -> Axes:
    """Expected cost per episode over time, mean over seeds with 95 % bands.

    Args:
        result: the return value of `lab.run`, or `lab.Results(directory)`.
        case: one of the cases; None for the only one.
        ax: axes to draw into; new ones by default.
        legend: whether there is a legend inside the axes.
        look: on, block, agents and labels of `Look`.
    """
    given = Look(**look)
    return _on(ax, legend, lambda axes: _over_time(axes, result, case, "cost", given))


def regret(
    result: Results,
    case: str | None = None,
    *,
    kind: str | None = None,
    ax: Axes | None = None,
    legend: bool = True,
    **look: Any,
) -> Axes:
    """Cumulative regret over time, mean over seeds with 95 % bands.

    kind: the `regret` of `Look`. The other arguments are those of `cost`.
    """
    given = Look(regret=kind, **look)
    return _on(ax, legend, lambda axes: _over_time(axes, result, case, "regret", given))


def diagnostic(
    result: Results,
    name: str,
    case: str | None = None,
    *,
    ax: Axes | None = None,
    legend: bool = True,
    **look: Any,
) -> Axes:
    """A diagnostic of the agents over time, mean over seeds with 95 % bands.

    name: one of `agent.diagnostics()`, e.g. "open"; agents without it are left out. The other
    arguments are those of `cost`.
    """
    given, names = Look(**look), result.agents
    rows = _of_case(result.diagnostics, case, given.chosen(names))
    checks.choice("name", name, sorted(rows["name"].unique()))
    rows = rows.filter(name=name)

    def paint(axes: Axes) -> None:
        for (agent, _), curve in statistics.curves(rows, "value", ["agent", "name"]).items():
            at = rows.filter(agent=agent)["episode"].unique(maintain_order=True).to_numpy() + 1.0
            _band(axes, at, curve.values, **_look(names, agent), label=given.named(agent))
        axes.set(xlabel="episode", ylabel=name.replace("_", " "))

    return _on(ax, legend, paint)


def sweep(
    result: Results,
    path: str | None = None,
    *,
    kind: str | None = None,
    ax: Axes | None = None,
    legend: bool = True,
    **look: Any,
) -> Axes:
    """Regret of whole runs over a parameter of the sweep.

    path: a path of the sweep; None for the only one. agents are the names of the curves; the other
    arguments are those of `cost` and `regret`.
    """
    given = Look(regret=kind, **look)
    path = _only("path", path, [path for path, _ in result.experiment.sweep])
    return _on(ax, legend, lambda axes: _swept(axes, result, path, given))


def _only(key: str, given: str | None, known: Sequence[str]) -> str:
    """The name that is given, or the only one there is."""
    return checks.choice(key, known[0] if given is None and len(known) == 1 else given, known)


def _on(ax: Axes | None, legend: bool, paint: Callable[[Axes], object]) -> Axes:
    """Draw into these axes, or into new ones."""
    with matplotlib.rc_context(STYLE):
        if ax is None:
            figure: Any = plt.figure(FigureClass=Sheet, figsize=(NATURAL, 3.5),
                                     layout="constrained")  # fmt: skip
            ax = figure.subplots()
        paint(ax)
        if checks.flag("legend", legend):
            ax.legend()
    return ax


def figures(result: Results, look: Look = DEFAULT) -> dict[str, Callable[[], Sheet]]:
    """The functions that draw the figures of results, by name; the first says most."""
    experiment = result.experiment
    if experiment.against == SCORE:
        return {"profile": partial(_drawing, result, "profile", "", _profile, look)}
    if experiment.against in ("episodes", "total_delay"):
        return {"scaling": partial(_drawing, result, "scaling", "", _scaling, look)}
    found: dict[str, Callable[[], Sheet]] = {}
    cases = experiment.case_names()
    for case in cases if experiment.against is None else ():
        if case in result.reported["case"] and (len(cases) <= FEW or not experiment.sweep):
            for what in ("cost", "regret"):
                name = _file_name(what, case)
                paint = partial(_over_time, case=case, what=what)
                found[name] = partial(_drawing, result, name, case, paint, look)
    for path, values in experiment.sweep:
        if experiment.against in (None, path) and len(values) > 1:
            name = _file_name("sweep", path)
            found[name] = partial(_drawing, result, name, "", partial(_swept, path=path), look)
    return found


def draw(result: Results, look: Look = DEFAULT) -> list[Sheet]:
    """All figures of results."""
    return [make() for make in figures(result, look).values()]


def save(directory: Path, drawings: Sequence[Sheet], forms: Sequence[str]) -> list[Path]:
    """Write figures into the directory's `figures`."""
    paths = []
    for drawing in drawings:
        for form in forms:
            path = directory / "figures" / f"{drawing.name}.{form}"
            store.write(path, drawing.encoded(form))
            paths.append(path)
    return paths


def _file_name(name: str, of: str) -> str:
    return "-".join(filter(None, [name, slug(of)]))


def _drawing(result: Results, name: str, case: str, paint: Callable[..., str], look: Look) -> Sheet:
    """A figure with a legend below its axes. paint: draws into axes and returns the caption."""
    with matplotlib.rc_context(look.style):
        width = look.width or NATURAL
        figure = Sheet(figsize=(width, 1.2 + 0.44 * width), layout="constrained")
        axes = figure.subplots()
        figure.name, figure.caption = name, paint(axes, result, look=look)
        _legend_below(figure, axes)
        if look.title:
            text = textwrap.fill(literal(result.title(case)), max(20, round(12.1 * width)))
            size = matplotlib.rcParams["axes.titlesize"]
            figure.suptitle(text, x=0.01, ha="left", fontsize=size)
    return figure


def _legend_below(figure: Figure, axes: Axes) -> None:
    """A legend below the plot; a long one makes the figure taller."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max((len(label.replace("$", "")) for label in labels), default=1)
    columns = max(1, int((figure.get_figwidth() - 0.2) / (0.5 + 0.068 * longest)))
    place: Any = {"loc": "outside lower center", "handlelength": 2.6}
    figure.legend(handles, labels, ncols=min(columns, len(labels) or 1), **place)
    rows = max(math.ceil(len(labels) / columns) - 2, 0)
    more = rows * 1.25 * matplotlib.rcParams["font.size"] / 72
    figure.set_figheight(figure.get_figheight() + more)


def _look(names: Sequence[str], name: str) -> dict[str, Any]:
    """The colour and the dash of an agent among all agents."""
    i = names.index(name)
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def _band(axes: Axes, at: Floats, values: Floats, **style: Any) -> None:
    """The mean over seeds with its 95 % band. values: (N, points)."""
    mean, low, high = statistics.bootstrap(values)
    axes.fill_between(at, low, high, color=style["color"], alpha=0.2, linewidth=0)
    axes.plot(at, mean, **style, marker="o" if len(at) == 1 else "")


def _of_case(rows: pl.DataFrame, case: str | None, agents: Sequence[str]) -> pl.DataFrame:
    """The rows of some agents in a case, or in the only one there is."""
    case = _only("case", case, rows["case"].unique(maintain_order=True).to_list())
    return rows.filter(pl.col("agent").is_in(agents), case=case)


def _over_time(axes: Axes, result: Results, case: str | None, what: str, look: Look) -> str:
    """Cost per episode, or cumulative regret, over time."""
    names = result.agents
    rows = _of_case(result.reported, case, look.chosen(names))
    label, curves = _curves(rows, what, look)
    K = max(curve.values.shape[1] for curve in curves.values())
    block = (look.block if what == "cost" else None) or -(-K // POINTS)
    for agent, curve in curves.items():
        at, values = _blocks(curve.values, block, cumulative=what == "regret")
        _band(axes, at, values, **_look(names, agent), label=look.named(agent))
    axes.set_xlim(1, max(K, 2))
    axes.set(xlabel="episode", ylabel=label)
    numbers = sorted({len(curve.seeds) for curve in curves.values()})
    seeds = " to ".join(map(str, numbers)) + (" seed" if numbers == [1] else " seeds")
    caption = f"{label[0].upper()}{label[1:]}, exact, mean of {seeds} with 95 % bootstrap bands"
    if what == "regret":
        return f"{caption}."
    caption += f", averaged over every {block} episodes." if block > 1 else "."
    best = next(iter(statistics.curves(rows, statistics.COLUMNS[look.on][1]).values())).values
    level = best.mean(axis=0)
    if np.ptp(level) < 1e-9:
        axes.axhline(level[0], **DOTTED, label="best policy")
        caption += " Dotted: the best fixed policy."
    return caption


def _curves(rows: pl.DataFrame, what: str, look: Look) -> tuple[str, dict[str, Curves]]:
    """The label of the axis, which mentions noise if there is some, and the curves by agent."""
    noisy = statistics.noisy(rows)
    column = statistics.COLUMNS[look.on][0]
    label = f"{'mean' if noisy and look.on == 'means' else 'expected'} cost per episode"
    if what == "regret":
        kind = look.regret or statistics.DEFAULT[look.on]
        rows, column = statistics.with_regret(rows, kind), "regret"
        kind = "hindsight" if kind == "means" and not noisy else kind
        label = f"cumulative {statistics.REGRETS[kind]}"
    return label, {name: curve for (_, name), curve in statistics.curves(rows, column).items()}


def _blocks(values: Floats, block: int, *, cumulative: bool) -> tuple[Floats, Floats]:
    """Points of curves (N, K): means of blocks, or the last values of cumulative curves."""
    K = values.shape[1]
    first = np.arange(0, K, block)
    last = np.append(first[1:], K) - 1
    if cumulative:
        return last + 1.0, values[:, last]
    return (first + last) / 2 + 1, np.add.reduceat(values, first, axis=1) / (last - first + 1)


def _series(axes: Axes, names: Sequence[str], found: Mapping[str, Series], look: Look) -> None:
    """Draw the regret of whole runs, with intervals."""
    for name in filter(found.get, names):
        one, style = found[name], {**_look(names, name), "label": look.named(name)}
        bands = np.array([(band.mean, band.low, band.high) for band in one.regret])
        mean, low, high = bands.T
        if one.level:
            axes.axhline(mean[0], **style)
            axes.axhspan(low[0], high[0], color=style["color"], alpha=0.12, linewidth=0)
            continue
        axes.errorbar(
            one.x, mean, np.maximum([mean - low, high - mean], 0.0), **style, elinewidth=1,
            marker=MARKERS[names.index(name) % len(MARKERS)], markersize=4, capsize=2,
        )  # fmt: skip
        for i in one.chosen:
            axes.plot(one.x[i], mean[i], marker="o", markersize=11, color=style["color"],
                      linestyle="", markerfacecolor="none", markeredgewidth=1.3)  # fmt: skip
    axes.set_ylabel("regret of the run")


def _scaling(axes: Axes, result: Results, look: Look) -> str:
    """The regret of whole runs against K, or against K + D, on logarithmic axes."""
    agents = look.chosen(result.agents)
    slopes = result.exponents(look.on, look.regret)
    means = {name: np.array([band.mean for band in slopes[name].regret]) for name in agents}
    found = {name: slopes[name] for name in agents if min(means[name], default=0.0) > 0}
    _series(axes, result.agents, found, look)
    if found:
        x = np.unique(np.concatenate([one.x for one in found.values()]))[[0, -1]]
        lowest = min(float((means[name] / found[name].x ** REFERENCE).min()) for name in found)
        y = 0.7 * lowest * x**REFERENCE
        axes.plot(x, y, color="0.6", linestyle=(0, (4, 3)), linewidth=0.9, label="slope 1/2")
    _logarithmic(axes, "x")
    _logarithmic(axes, "y")
    over_episodes = result.experiment.against == "episodes"
    axes.set_xlabel("episodes K" if over_episodes else "episodes + total delay, K + D")
    notes = "; ".join(f"{name} {text(slopes[name].slope)}" for name in agents)
    return (
        "Regret of whole runs, mean over seeds with 95 % bootstrap intervals; an agent without "
        f"regret is not drawn. Slopes, with intervals over seeds: {notes}. Dashed grey: slope 1/2."
    )


def _logarithmic(axes: Axes, which: str) -> None:
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _swept(axes: Axes, result: Results, path: str, look: Look) -> str:
    """The regret of whole runs over a parameter of the sweep."""
    experiment = result.experiment
    found = over(result, path, look)
    names = list(found)
    chosen = look.chosen(names)
    values = dict(experiment.sweep)[path]
    if not _numeric(values):
        texts = [literal(textwrap.shorten(shown(v), 20, placeholder="…")) for v in values]
        axes.set_xticks(range(len(values)), texts)
    elif min(values) > 0 and max(values) >= 10 * min(values):
        _logarithmic(axes, "x")
    _series(axes, names, {name: found[name] for name in chosen}, look)
    axes.set_xlabel(literal(label(experiment, path)))
    caption = (
        f"Regret of whole runs over {path}, mean over seeds with 95 % bootstrap intervals; an "
        "agent that is not swept is a level line"
    )
    if experiment.select is not None:
        on = statistics.seeds(experiment.first_seed, experiment.select.seeds)
        caption += f". These are {on}, on which settings were selected; the selected are ringed"
    return f"{caption}."


def over(result: Results, path: str, look: Look = DEFAULT) -> dict[str, Series]:
    """The curves over a parameter: one for each agent and each setting of everything else.

    Over a parameter of one agent, other swept agents are left out: they have their own figures.
    """
    experiment = result.experiment
    values = dict(experiment.sweep)[path]
    places = dict(zip(values, values if _numeric(values) else range(len(values)), strict=True))
    chosen = {(lines[0].case, lines[0].agent) for lines in result.choices.values()}
    found = {}
    lines = result.lines_on(look.on, look.regret, swept=True)
    for name, curve in statistics.over(experiment, lines, path).items():
        first = next(iter(curve.values()))
        level = path not in experiment.at(first.case, first.agent)
        elsewhere = level and first.agent != experiment.base(first.agent)
        if elsewhere and path.startswith(f"{AGENTS}."):
            continue
        at = sorted(curve, key=places.__getitem__)
        ringed = [i for i, v in enumerate(at) if (curve[v].case, curve[v].agent) in chosen]
        x = np.array([float(places[value]) for value in at])
        regret = tuple(curve[value].regret for value in at)
        found[name] = Series(x, regret, chosen=tuple(ringed), level=level)
    return found


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _profile(axes: Axes, result: Results, look: Look) -> str:
    """For every agent the share of cases with at most a score."""
    names = result.agents
    lines = result.lines_on(look.on, look.regret)
    cases, scores = statistics.score_table(result.experiment, lines)
    shown = [i for i, name in enumerate(names) if name in look.chosen(names)]
    means = {i: scores[:, i][~np.isnan(scores[:, i])] for i in shown}
    order = sorted((i for i in shown if len(means[i])), key=lambda i: float(means[i].mean()))
    left = -0.1 if np.nanmin(scores, initial=0.0) >= -0.1 else SCORES[0]
    at = np.linspace(left, SCORES[1], 400)
    for rank, i in enumerate(order):
        style = _look(names, names[i])
        share, low, high = statistics.profile(means[i], at)
        if rank < BANDS:
            axes.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)
        of = f" of {len(means[i])}" if len(means[i]) < len(cases) else ""
        label = f"{look.named(names[i])} ({number(float(means[i].mean()))}{of})"
        axes.plot(at, share, **style, label=label, zorder=3 - rank / len(order))
    for score, what in ((0.0, "best fixed policy"), (1.0, "uniform play")):
        axes.axvline(score, **DOTTED)
        axes.text(score, 1.01, what, ha="center", va="bottom", color="0.35", fontsize=8)
    axes.set(xlim=(left, SCORES[1]), ylim=(0, 1), xlabel="score", ylabel="share of cases")
    return (
        f"Performance profile over {len(cases)} cases: the share of cases in which an agent "
        "has at most a score (mean over seeds); higher is better. In brackets: the mean score, "
        "and how many cases it is of if not of all. "
        "Dotted: the best fixed policy (0) and uniform play (1). Bands: 95 % bootstrap over "
        f"cases, for the {BANDS} agents with the best means."
    )
