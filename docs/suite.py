"""The tables of docs/suite.md, the table of the README and the figure.

    belated run benchmarks.suite:suite --seeds 5
    python docs/suite.py out/suite

takes the results: score and processor time of every run go to docs/suite.csv, the figure to
docs/suite.png, tables to the pages. Without a directory figure and tables are made again from the
scores.
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import tables
from benchmarks import suite
from scipy import stats

from belated.lab import Learner, Results, named, rows

DOCS = Path(__file__).parent
PAGE, SCORES, FIGURE = (DOCS / f"suite{ending}" for ending in (".md", ".csv", ".png"))
README = DOCS.parent / "README.md"
OURS = suite.RECOMMENDED.name
EXPERIMENT = "benchmarks.suite:suite"
SEEDS = 5
LEVEL = 0.95

Scores = dict[str, dict[str, list[float]]]
"""Scores by agent and case, one per seed."""


def gather(directory: Path) -> None:
    """Write score, in expectation over the noise of the costs too, and time of every run."""
    columns = [pl.col(f"mean_{name}").sum() for name in ("value", "comparator", "uniform")]
    found = rows(directory).group_by("case", "agent", "seed").agg(*columns)
    own, best, uniform = (pl.col(f"mean_{name}") for name in ("value", "comparator", "uniform"))
    found = found.with_columns(score=(own - best) / (uniform - best))
    known = {(r["case"], r["agent"], r["seed"]): r["score"] for r in found.to_dicts()}
    whole = dataclasses.replace(named(EXPERIMENT), seeds=SEEDS)
    taken = {row[:3]: row[3] for row in Results(directory).seconds.rows()}
    wanted = [(task.case, task.learner, task.seed) for task in whole.tasks()]
    missing = [key for key in wanted if key not in known]
    if missing:
        raise ValueError(f"the results must have every run, got none of {missing[0]}")
    cells = ((*key, f"{known[key]:.6f}", f"{taken[key]:.2f}") for key in wanted)
    tables.write(SCORES, ("case", "agent", "seed", "score", "seconds"), cells)


def time() -> str:
    """The processor time of the runs whose time is known, and what takes longest."""
    spent: dict[str, Counter[str]] = {"agent": Counter(), "case": Counter()}
    timed = [row for row in tables.read(SCORES) if row["seconds"]]
    for row in timed:
        for kind, total in spent.items():
            total[row[kind]] += float(row["seconds"])
    minutes = sum(spent["agent"].values()) / 60
    most = [each.most_common(1)[0] for each in spent.values()]
    longest = ", ".join(f"{name} {taken / 60:.0f}" for name, taken in most)
    return f"{len(timed):,} runs took {minutes:.0f} minutes of processor time (most: {longest})."


def scores(information: str) -> Scores:
    """The scores of the cases with "bandit" or "full" information."""
    found: Scores = {}
    for row in tables.read(SCORES):
        if row["case"].startswith("full") == (information == "full"):
            own = found.setdefault(row["agent"], {}).setdefault(row["case"], [])
            own.append(float(row["score"]))
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """The mean of independent values, and half the length of its t-interval."""
    half = stats.t.ppf((1.0 + LEVEL) / 2.0, len(values) - 1) * stats.sem(values)
    return float(np.mean(values)), float(half)


def shown(mean: float, half: float) -> str:
    """A mean and its interval: two decimals only where the interval allows them."""
    digits = 2 if half < 0.1 else 1
    return f"{round(mean, digits) + 0.0:.{digits}f} ± {max(half, 0.005):.{digits}f}"


def over_cases(own: dict[str, list[float]]) -> tuple[float, float]:
    """The mean over cases, with its interval over seeds."""
    return interval(np.mean(list(own.values()), axis=0).tolist())


def ahead(rival: list[float], ours: list[float]) -> bool:
    """Whether a rival is better, by the t-interval of the difference over paired seeds."""
    mean, half = interval((np.array(ours) - np.array(rival)).tolist())
    return mean - half > 0.0


def summary(information: str, names: dict[str, str] | None = None) -> str:
    """The agents that are run in every case, the best mean first."""
    found = scores(information)
    ours = found[OURS]
    whole = {agent: own for agent, own in found.items() if len(own) == len(ours)}
    cells = []
    for agent, own in sorted(whole.items(), key=lambda item: over_cases(item[1])[0]):
        if names is not None and agent not in names:
            continue
        worst = max(own.values(), key=lambda values: float(np.mean(values)))
        better = sum(ahead(own[case], ours[case]) for case in ours)
        worse = sum(ahead(ours[case], own[case]) for case in ours)
        told = ("", "") if agent == OURS else (str(better), str(worse))
        name = agent if names is None else names[agent]
        cells.append([name, shown(*over_cases(own)), shown(*interval(worst)), *told])
    head = ["agent", "mean", "worst case", "cases ahead of ours", "cases behind ours"]
    return tables.markdown(head, cells, "---:")


def behind() -> str:
    """Where the recommended agent is behind another one, and behind which."""
    texts = []
    for information in ("bandit", "full"):
        found = scores(information)
        for case, ours in found[OURS].items():
            rivals = {a: own[case] for a, own in found.items() if case in own and a != OURS}
            first = min(rivals, key=lambda agent: float(np.mean(rivals[agent])))
            if ahead(rivals[first], ours):
                pair = f"{shown(*interval(ours))} against {shown(*interval(rivals[first]))}"
                texts.append(f"{case} ({pair} of {first})")
    return "; ".join(texts) + "." if texts else "none."


def by_case(information: str, agents: Sequence[Learner] | None = None) -> str:
    """Scores by case, of some agents and the recommended one; the least mean of a row is marked."""
    found = scores(information)
    if agents is not None:
        found = {name: found[name] for name in (OURS, *(learner.name for learner in agents))}
    cells = []
    for case in found[OURS]:
        means = {a: float(np.mean(own[case])) for a, own in found.items() if case in own}
        least = min(means.values())
        row = [case]
        for agent, own in found.items():
            text = shown(*interval(own[case])) if case in own else ""
            row.append(f"{text}\\*" if means.get(agent) == least else text)
        cells.append(row)
    return tables.markdown(["case", *found], cells, "---:")


def draw() -> None:
    """The share of cases with at most a score, by agent, in the cases with bandit feedback."""
    found = scores("bandit")
    whole = {agent: own for agent, own in found.items() if len(own) == len(found[OURS])}
    at = np.linspace(-1.0, 1.2, 400)
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for agent, own in sorted(whole.items(), key=lambda item: over_cases(item[1])[0]):
        means = np.array([np.mean(values) for values in own.values()])
        share = (means[:, None] <= at).mean(axis=0)
        label = f"{agent} ({over_cases(own)[0]:.2f})"
        axes.plot(at, share, label=label, linewidth=2.6 if agent == OURS else 1.3)
    axes.set(xlabel="score (0: best fixed policy, 1: uniform play)", ylabel="share of cases")
    axes.set(xlim=(at[0], at[-1]), ylim=(0.0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(FIGURE, dpi=160)
    plt.close(figure)


NAMES = {
    OURS: OURS,
    "PSRL, forget 0.999": "posterior sampling, forgetting (0.999)",
    "PSRL": "posterior sampling",
    "UCBVI of 20 lines": "UCBVI, ties at random (20 lines)",
    "UCBVI, bonus 0.3": "UCBVI, Hoeffding bonus",
    "Lazy UCBVI": "lazy UCBVI",
    "Q-learning": "Q-learning",
}
"""The agents in the table of the README, and their names there."""


def text() -> str:
    """The page with its tables made anew."""
    later = suite.later_agents(named(EXPERIMENT).cases)
    made = {
        "summary": summary("bandit"),
        "summary, full information": summary("full"),
        "behind": behind(),
        "time": time(),
        "by case": by_case("bandit", (*suite.BANDIT, suite.GUARANTEE)),
        "by case, later papers": by_case("bandit", later),
        "by case, full information": by_case("full"),
    }
    return tables.renewed(PAGE, made)


def readme() -> str:
    """The README with its table made anew."""
    return tables.renewed(README, {"suite": summary("bandit", NAMES)})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        gather(Path(sys.argv[1]))
    draw()
    PAGE.write_text(text(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")
