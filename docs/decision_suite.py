"""The tables of docs/decision_suite.md and its figure.

    belated run benchmarks.decision_suite:decisions_tuning --out out/decisions-tuning
    belated run benchmarks.decision_suite:decisions --seeds 5 --out out/decisions
    python docs/decision_suite.py out/decisions out/decisions-tuning

takes the results: scores with their intervals go to docs/decision_suite.csv, those of the tuning,
if they are given, to docs/decision_tuning.csv, the figure to docs/decision_suite.png, tables to the
page. Without directories the tables are made again from the scores.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import tables
from benchmarks import decision_suite as decisions

from belated.lab import Experiment, Results, named, toml
from belated.lab.tables import number

DOCS = Path(__file__).parent
PAGE, SCORES, FIGURE = (DOCS / f"decision_suite{ending}" for ending in (".md", ".csv", ".png"))
TUNING = DOCS / "decision_tuning.csv"
OURS = decisions.OURS
COLUMNS = ("case", "agent", "score", "low", "high", "seeds")


def gather(directory: Path, tuning: Path | None = None) -> None:
    """Keep the scores of a whole run, and of the tuning, and draw the profiles."""
    if not _same(Results(directory).experiment, named("benchmarks.decision_suite:decisions")):
        raise ValueError(f"{directory} must be a whole run of decisions")
    for source, target in ((directory, SCORES), (tuning, TUNING)):
        if source is None:
            continue
        cells = []
        for line in Results(source).lines:
            score = (f"{x:.4f}" for x in (line.score.mean, line.score.low, line.score.high))
            cells.append([line.case, line.agent, *score, line.seeds])
        tables.write(target, COLUMNS, cells)
    figure = Results(directory).figure("profile", title=False)
    figure.savefig(FIGURE, dpi=160)


def _same(first: Experiment, second: Experiment) -> bool:
    """Whether two experiments differ at most in their number of seeds, and in what they show."""
    return toml.dumps(dataclasses.replace(first, seeds=1, about="")) == toml.dumps(
        dataclasses.replace(second, seeds=1, about="")
    )


def read(path: Path) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Score, lower and upper end, by agent and case."""
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for row in tables.read(path):
        values = (float(row["score"]), float(row["low"]), float(row["high"]))
        found.setdefault(row["agent"], {})[row["case"]] = values
    return found


def seeds() -> dict[int, list[str]]:
    """The agents by the number of seeds of their scores, most first."""
    counts = {row["agent"]: int(row["seeds"]) for row in tables.read(SCORES)}
    return {n: [a for a in counts if counts[a] == n] for n in sorted(set(counts.values()))[::-1]}


def told() -> str:
    """What the scores are means of."""
    most, *fewer = seeds().items()
    text = f"Means over {most[0]} seeds"
    if fewer:
        others = ", ".join(str(n) for n, _ in fewer)
        text += f" ({'; '.join(most[1])}), {others} of the other agents"
    return f"{text}, with the interval over seeds in brackets."


def summary() -> str:
    """Every agent over its cases, the best mean first."""
    found = read(SCORES)
    every = found.values()
    least = {case: min(own[case][0] for own in every if case in own) for case in found[OURS]}
    table = []
    for agent, own in sorted(found.items(), key=lambda item: mean(item[1])):
        ours = np.mean([found[OURS][case][0] for case in own])
        worst = max(own, key=lambda case: own[case][0])
        near = sum(own[case][0] <= least[case] + 0.02 for case in own)
        table.append(
            [
                agent,
                str(len(own)),
                number(mean(own)),
                number(float(ours)),
                f"{number(own[worst][0])} ({worst})",
                str(near),
            ]
        )
    near_best = "within 0.02 of the best in"
    head = ["agent", "cases", "mean", "recommended on the same", "worst", near_best]
    return tables.markdown(head, table, "---:")


def by_case() -> str:
    """Scores by case with intervals, of all agents."""
    found = read(SCORES)
    agents = list(found)
    table = []
    for case in found[OURS]:
        row = [case]
        least = min(found[a][case][0] for a in agents if case in found[a])
        for agent in agents:
            if case not in found[agent]:
                row.append("")
                continue
            middle, low, high = found[agent][case]
            star = "\\*" if number(middle) == number(least) else ""
            around = f" ({number(low)} to {number(high)})" if low < high else ""
            row.append(f"{number(middle)}{star}{around}")
        table.append(row)
    return tables.markdown(["case", *agents], table, "---:")


def tuned() -> str:
    """The settings that were tried, with their mean scores, and the chosen ones."""
    found = read(TUNING)
    table = []
    for name, settings in decisions.TRIED.items():
        means = [mean(found[f"{name} ({i})"]) for i in range(len(settings))]
        best = int(np.argmin(means))
        tried = "; ".join(f"{words(s)}: {number(m)}" for s, m in zip(settings, means, strict=True))
        table.append([name, tried, words(settings[best])])
    return tables.markdown(["rival", "settings and their mean scores", "chosen"], table)


def chosen() -> dict[str, int]:
    """Which setting of every rival the tuning selects."""
    found = read(TUNING)
    return {
        name: int(np.argmin([mean(found[f"{name} ({i})"]) for i in range(len(settings))]))
        for name, settings in decisions.TRIED.items()
    }


def words(setting: dict[str, object]) -> str:
    """A setting without what all settings of a rival share."""
    hidden = ("rule", "join")
    return ", ".join(f"{key} {value}" for key, value in setting.items() if key not in hidden)


def behind() -> str:
    """Where the recommended learner is behind another one, and behind which."""
    found = read(SCORES)
    texts = []
    for case, (ours, _, _) in found[OURS].items():
        others = {agent: own[case][0] for agent, own in found.items() if case in own}
        best = min(others, key=lambda agent: others[agent])
        if others[best] < ours - 0.02:
            texts.append(f"{case} ({number(ours)} against {number(others[best])} of {best})")
    return "; ".join(texts) + "." if texts else "None."


def mean(own: dict[str, tuple[float, float, float]]) -> float:
    """The mean score over cases."""
    return float(np.mean([value[0] for value in own.values()]))


def text() -> str:
    """The page with its tables made anew."""
    made = {
        "seeds": told(),
        "summary": summary(),
        "by case": by_case(),
        "tuned": tuned(),
        "behind": behind(),
    }
    return tables.renewed(PAGE, made)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        gather(*map(Path, sys.argv[1:3]))
    PAGE.write_text(text(), encoding="utf-8")
