"""The tables and figures of docs/later.md.

    belated run benchmarks.bandit_feedback:bandit_feedback_tuning   # and delayed_bandits_tuning,
    python docs/later.py out        # bandit_feedback, bandit_feedback_theory, delayed_bandits

takes the results in `out`: numbers go to docs/later/*.csv, figures to docs, tables to the page. The
numbers of an experiment that is not there stay as they are. Without a directory the tables are made
again from the numbers.
"""

import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import tables
from matplotlib.figure import Figure

from belated.lab import Results, named, statistics, store, toml
from belated.lab import plot as lab_plot
from belated.lab.statistics import Line, score_table
from belated.lab.tables import number

DOCS = Path(__file__).parent
PAGE = DOCS / "later.md"
MDPS, THEORY, ARMS = "bandit-feedback", "bandit-feedback-theory", "delayed-bandits"
TUNINGS = ("bandit-feedback-tuning", "delayed-bandits-tuning")
OURS = "recommended"
FIXED_LAWS = ("PSRL", "Thompson sampling", "UCB1", "UCBVI", "Lazy UCBVI")
"""Agents made for costs that come from fixed laws."""
NOISE, CYCLE = "random MDP", "random MDP, cycle"
GROWTH = ("no delay", "", "delay 100", "K = 4000")
"""How cases of the random MDP end."""

Row = dict[str, str]


def gather(out: Path) -> None:
    """Copy numbers and figures out of the directories of results that are there."""
    there = {path.name for path in out.iterdir()}
    for name in there & {MDPS, THEORY, ARMS}:
        results = _finished(out / name)
        _file(name).write_text(results.table("costs").csv(), encoding="utf-8")
    for name in there & set(TUNINGS):
        results = _finished(out / name)
        settings: dict[str, list[Line]] = {}
        for line in results.lines_on(swept=True):
            settings.setdefault(line.agent, []).append(line)
        taken = {best.agent for best, *_ in results.choices.values()}
        cells = []
        for learner, lines in settings.items():
            agent = results.experiment.base(learner)
            setting = learner.removeprefix(f"{agent}, ")
            score = statistics.mean_score(lines)
            cells.append([agent, setting, score, "yes" if learner in taken else ""])
        tables.write(_file(name), ["agent", "setting", "mean score", "taken"], cells)
    for name, figure in ((MDPS, "later.svg"), (ARMS, "arms.svg")):
        if name in there:
            _score_map(_finished(out / name)).savefig(DOCS / figure, metadata={"Date": None})


def _score_map(results: Results) -> Figure:
    """All scores, as a map of colours with numbers; the best of a case is bold."""
    table = score_table(results.experiment, results.lines)
    C, N = table.scores.shape
    with lab_plot.style():
        figure, axes = plt.subplots(figsize=(2.8 + 0.72 * N, 1.4 + 0.24 * C), layout="constrained")
        axes.imshow(table.scores, cmap="RdYlBu_r", vmin=-1, vmax=1, aspect="auto", alpha=0.75)
        for (row, column), score in np.ndenumerate(table.scores):
            if not np.isnan(score):
                best = score <= np.nanmin(table.scores[row]) + 0.005
                weight = "bold" if best else "normal"
                axes.text(column, row, number(score), ha="center", va="center", weight=weight)
        axes.set_xticks(range(N), table.agents, rotation=40, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(C), table.cases)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)
    return figure


def _finished(directory: Path) -> Results:
    results = Results(directory)
    known = toml.dumps(
        named(f"benchmarks.bandit_feedback:{results.experiment.name.replace('-', '_')}")
    )
    left = store.unfinished(directory, results.experiment)
    if toml.dumps(results.experiment) != known or left:
        raise ValueError(f"{directory} must be a whole run of {results.experiment.name}")
    return results


def _file(name: str) -> Path:
    return DOCS / "later" / f"{name}.csv"


def rows(name: str) -> list[Row]:
    """The numbers of an experiment."""
    return tables.read(_file(name))


def rows_by(column: str, name: str) -> dict[str, list[Row]]:
    """The rows of a table, for each value of a column."""
    found: dict[str, list[Row]] = {}
    for row in rows(name):
        found.setdefault(row[column], []).append(row)
    return found


def band(row: Row) -> str:
    """A score and its interval, which is that of the regret on another scale."""
    score, regret = float(row["score"]), float(row["regret"])
    low, high = (score * float(row[f"regret {end}"]) / regret for end in ("low", "high"))
    return f"{number(score)} [{number(low)}, {number(high)}]"


def winners(name: str) -> str:
    """The best of every case, the best of those made for adversarial costs, and our own default."""
    table = []
    for case, lines in rows_by("case", name).items():
        lines.sort(key=lambda row: float(row["score"]))
        for_any = next(row for row in lines if short(row["agent"]) not in (OURS, *FIXED_LAWS))
        (ours,) = [row for row in lines if row["agent"] == OURS]
        table.append([case, *(_named(row, name) for row in (lines[0], for_any)), band(ours)])
    return tables.markdown(["case", "best", "best of those for adversarial costs", OURS], table)


def _named(row: Row, name: str) -> str:
    """An agent and its score; for arms, theory and factors are distinguished."""
    agent = row["agent"] if name == ARMS else short(row["agent"])
    return f"{agent}: {band(row)}"


def short(agent: str) -> str:
    """An agent without its factors."""
    return re.sub(r", \w*scale = .*", "", agent)


def growth() -> str:
    """Scores on the random MDP as delays and K grow: noise / cycle; then over all cases."""
    by = {(row["case"], row["agent"]): row for row in rows(MDPS)}
    table = []
    for agent in dict.fromkeys(agent for _, agent in by):
        cells = []
        for end in GROWTH:
            pair = [", ".join(filter(None, [start, end])) for start in (NOISE, CYCLE)]
            cells.append(" / ".join(number(float(by[case, agent]["score"])) for case in pair))
        scores = [float(row["score"]) for (_, other), row in by.items() if other == agent]
        table.append([short(agent), *cells, _mean(scores), number(max(scores))])
    head = ["agent", "no delay", "mean 10", "fixed 100", "mean 10, K = 4000"]
    head += ["all cases: mean", "worst"]
    return tables.markdown(head, table, "---:")


def theory() -> str:
    """Mean scores with the constants of the theory and with the factors, on the same cases."""
    plain = rows(THEORY)
    cases = {row["case"] for row in plain}
    chosen = [row for row in rows(MDPS) if row["case"] in cases]
    table = []
    for agent in dict.fromkeys(row["agent"] for row in plain):
        own = [float(row["score"]) for row in plain if row["agent"] == agent]
        scaled = [row for row in chosen if short(row["agent"]) == agent]
        (name,) = {row["agent"] for row in scaled}
        factor = name.removeprefix(f"{agent}, ")
        scores = [float(row["score"]) for row in scaled]
        table.append([agent, *map(_mean, (own, scores)), f"{min(own):.2f}", factor])
    head = ["agent", "theory", "with the factor", "theory, its best case", "factor"]
    return tables.markdown(head, table)


def _mean(values: list[float]) -> str:
    return number(sum(values) / len(values))


def tried(name: str) -> str:
    """The mean score of every setting on the seeds of the selection."""
    table = []
    for agent, lines in rows_by("agent", name).items():
        cells = [f"{row['setting']}: {number(float(row['mean score']))}" for row in lines]
        (taken,) = [row["setting"] for row in lines if row["taken"]]
        table.append([agent, "; ".join(cells), taken])
    return tables.markdown(["agent", "tried, and its mean score", "taken"], table)


def made() -> dict[str, str]:
    """All tables of the page, by name."""
    return {
        "winners": winners(MDPS),
        "growth": growth(),
        "theory": theory(),
        "arms": winners(ARMS),
        **{name: tried(name) for name in TUNINGS},
    }


def text() -> str:
    """The page with its tables made anew."""
    return tables.renewed(PAGE, made())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        gather(Path(sys.argv[1]))
    PAGE.write_text(text(), encoding="utf-8")
