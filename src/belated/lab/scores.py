"""Figures of an experiment over many cases: a profile of the scores, and the scores themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from belated.lab.drawing import Drawing, look, short
from belated.lab.spec import Experiment
from belated.lab.statistics import Line, Scores, score_table

RANGE = (-1.0, 1.1)
"""Scores that are drawn; what is beyond counts, but lies outside."""
BANDS = 2
"""How many agents have bands; more would hide one another."""
WIDEST = 40
"""Most characters of the name of a case."""


def draw(experiment: Experiment, lines: Sequence[Line]) -> list[Drawing]:
    """The profile, and a map of all scores."""
    table = score_table(experiment, lines)
    return [profile(experiment, table), by_case(experiment, table)]


def profile(experiment: Experiment, table: Scores) -> Drawing:
    """For every agent the share of cases with at most a score."""
    N = len(table.agents)
    figure = Figure(figsize=(7.4, max(3.8, 0.8 + 0.2 * N)), layout="constrained")
    axes = figure.subplots()
    at = np.linspace(*RANGE, 400)
    order = np.argsort(np.nan_to_num(table.mean, nan=np.inf), kind="stable")
    for rank, i in enumerate(order):
        colour, dash = look(experiment, table.agents[i])
        share, low, high = table.profile(int(i), at)
        if rank < BANDS:
            axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        name = short(table.agents[i], WIDEST)
        label = f"{name} ({table.mean[i]:.2f})"
        axes.plot(at, share, color=colour, linestyle=dash, label=label, zorder=3 - rank / N)
    for score, what in ((0.0, "best fixed policy"), (1.0, "uniform play")):
        axes.axvline(score, color="0.45", linewidth=1, linestyle=":", zorder=0)
        axes.text(score, 1.01, what, ha="center", va="bottom", color="0.35", fontsize=8)
    axes.set(xlim=RANGE, ylim=(0, 1), xlabel="score", ylabel="share of cases with at most that")
    figure.legend(loc="outside right upper", frameon=False, title="agent (mean score)")
    caption = (
        f"Performance profile over {len(table.cases)} cases: the share of cases in which an agent "
        "has at most a score (mean over seeds); higher is better. Bands: 95 % bootstrap over "
        f"cases, for the {BANDS} agents with the best means."
    )
    return Drawing("profile", caption, figure)


def by_case(experiment: Experiment, table: Scores) -> Drawing:
    """All scores, as a map of colours with numbers."""
    C, N = table.scores.shape
    figure = Figure(figsize=(2.8 + 0.72 * N, 1.2 + 0.24 * C), layout="constrained")
    axes = figure.subplots()
    axes.imshow(np.clip(table.scores, *RANGE), cmap="RdYlBu_r", vmin=-1, vmax=1, aspect="auto",
                alpha=0.75)  # fmt: skip
    for (row, column), score in np.ndenumerate(table.scores):
        if not np.isnan(score):
            best = score <= np.nanmin(table.scores[row]) + 0.005
            shown = f"{round(score, 2) + 0.0:.2f}"
            axes.text(column, row, shown, ha="center", va="center", fontsize=8, color="0.05",
                      weight="bold" if best else "normal")  # fmt: skip
    names = [short(name, WIDEST) for name in table.agents]
    axes.set_xticks(range(N), names, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(C), [short(case, WIDEST) for case in table.cases])
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    caption = (
        "Scores by case, mean over seeds: 0 is the best fixed policy, 1 is uniform play, and below "
        "0 an agent follows changes that no fixed policy can follow. Bold: the best of a case."
    )
    return Drawing("scores", caption, figure)
