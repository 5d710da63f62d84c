"""Figures of an experiment over many cases: a profile of the scores, and the scores themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from belated.core.arrays import Floats
from belated.lab.figures.style import (
    OTHERS,
    Drawing,
    Layout,
    Sheet,
    chosen,
    head,
    look,
    plot,
    short,
)
from belated.lab.names import is_math
from belated.lab.spec import Experiment
from belated.lab.statistics import Line, Scores, score_table
from belated.lab.tables import number
from belated.lab.toml import title

RANGE = (-1.0, 1.1)
"""The range of scores that is drawn. Scores beyond it count, but are not visible."""
LEFT = -0.1
"""The left end of the range if no score is smaller."""
BANDS = 2
"""Bands are drawn for at most this many agents; more would hide one another."""
WIDEST = 40
"""The largest number of characters of a case's name."""


def makers(
    experiment: Experiment, lines: Sequence[Line], layout: Layout
) -> dict[str, Callable[[], Drawing]]:
    """The functions that draw the profile and the map of all scores."""
    table = _chosen(score_table(experiment, lines), layout)
    heading = title(experiment)
    return {
        "profile": lambda: profile(experiment, table, layout, heading),
        "scores": lambda: by_case(table, layout, heading),
    }


def _chosen(table: Scores, layout: Layout) -> Scores:
    """The scores of the agents that are shown: of those that have any."""
    places = [table.agents.index(name) for name in chosen(table.agents, layout)]
    places = [i for i in places if not np.isnan(table.scores[:, i]).all()] or places
    return replace(table, agents=tuple(table.agents[i] for i in places),
                   scores=table.scores[:, places])  # fmt: skip


def profile(experiment: Experiment, table: Scores, layout: Layout, heading: str) -> Drawing:
    """For every agent the share of cases with at most a score."""
    all_names = [learner.name for learner in experiment.learners]
    order = np.argsort(np.nan_to_num(table.mean, nan=np.inf), kind="stable")
    labels = {
        i: f"{short(layout.named(table.agents[i]), WIDEST)} ({_mean(table.scores[:, i])})"
        for i in order
    }

    shown = (LEFT if np.nanmin(table.scores, initial=0.0) >= LEFT else RANGE[0], RANGE[1])

    def paint(axes: Axes, focus: str | None) -> None:
        at = np.linspace(*shown, 400)
        for rank, i in sorted(enumerate(order), key=lambda item: labels[item[1]] == focus):
            colour, dash = look(all_names, table.agents[i])
            share, low, high = table.profile(int(i), at)
            if focus not in (None, labels[i]):
                axes.plot(at, share, **OTHERS)
                continue
            if rank < BANDS or focus is not None:
                axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(at, share, color=colour, linestyle=dash, label=labels[i],
                      zorder=3 - rank / len(order))  # fmt: skip
        for score, what in ((0.0, "best fixed policy"), (1.0, "uniform play")):
            axes.axvline(score, color="0.45", linewidth=1, linestyle=":", zorder=0)
            if focus is None:
                axes.text(score, 1.01, what, ha="center", va="bottom", color="0.35", fontsize=8)
        axes.set(xlim=shown, ylim=(0, 1), xlabel="score", ylabel="share of cases")

    figure, panels = plot(list(labels.values()), paint, layout, heading)
    bands = f"the {BANDS} agents with the best means" if len(panels) == 1 else "each agent"
    caption = (
        f"Performance profile over {len(table.cases)} cases: the share of cases in which an agent "
        "has at most a score (mean over seeds); higher is better. In brackets: the mean score, "
        "and how many cases it is of if not of all. "
        "Dotted: the best fixed policy (0) and uniform play (1). Bands: 95 % bootstrap over "
        f"cases, for {bands}."
    )
    return Drawing("profile", caption, figure)


def _mean(scores: Floats) -> str:
    """The mean score over the cases of an agent, and their number if not all."""
    own = scores[~np.isnan(scores)]
    if not len(own):
        return ""
    return number(float(own.mean())) + (f" of {len(own)}" if len(own) < len(scores) else "")


def by_case(table: Scores, layout: Layout, heading: str) -> Drawing:
    """All scores, as a map of colours with numbers."""
    C, N = table.scores.shape
    natural = 2.8 + 0.72 * N
    size = 8 * min(1.0, (layout.width or natural) / natural)
    figure = Sheet(figsize=(layout.width or natural, 1.4 + 0.03 * C * size), layout="constrained")
    axes = figure.subplots()
    axes.imshow(np.clip(table.scores, *RANGE), cmap="RdYlBu_r", vmin=-1, vmax=1, aspect="auto",
                alpha=0.75)  # fmt: skip
    for (row, column), score in np.ndenumerate(table.scores):
        if not np.isnan(score):
            best = score <= np.nanmin(table.scores[row]) + 0.005
            axes.text(column, row, number(score), ha="center", va="center", fontsize=size,
                      color="0.05", weight="bold" if best else "normal")  # fmt: skip
    names = [short(layout.named(name), WIDEST) for name in table.agents]
    axes.set_xticks(range(N), names, rotation=40, ha="left", rotation_mode="anchor",
                    fontsize=size + 1)  # fmt: skip
    axes.set_yticks(range(C), [short(case, WIDEST) for case in table.cases], fontsize=size + 1)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    for label in axes.get_xticklabels():
        label.set_parse_math(is_math(label.get_text()))
    axes.spines[:].set_visible(False)
    head(figure, layout, heading)
    caption = (
        "Scores by case, mean over seeds: 0 is the best fixed policy, 1 is uniform play, and below "
        "0 an agent follows changes that no fixed policy can follow. Bold: the best of a case."
    )
    return Drawing("scores", caption, figure)
