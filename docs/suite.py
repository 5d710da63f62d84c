"""The tables of docs/suite.md and its figure.

    belated run benchmarks.suite:suite_strongest
    python docs/suite.py out/suite-strongest

takes the results: scores go to docs/suite.csv, the figure to docs/suite.png, tables to the page.
The scores of an agent that has no runs there, or with fewer seeds, stay as they are.
Without a directory figure and tables are made again from the scores. docs/suite_earlier.csv has the
scores of version 0.2.0 on the cases that it had; the tables of the other agents are made of it.
"""

import csv
import dataclasses
import io
import sys
from pathlib import Path

import matplotlib
import numpy as np
import tables
from benchmarks import suite

from belated.lab import Results, named, statistics, toml
from belated.lab.figures import curves, profile
from belated.lab.tables import number

DOCS = Path(__file__).parent
PAGE, SCORES, FIGURE = (DOCS / f"suite{ending}" for ending in (".md", ".csv", ".png"))
EARLIER = DOCS / "suite_earlier.csv"
OURS = suite.RECOMMENDED.name
NEAR = 0.02
"""Scores that differ by at most this are as good as equal."""

Scores = dict[str, dict[str, float]]
"""Scores by agent and case."""


def gather(directory: Path) -> None:
    """Keep the scores of every agent that is there in all its cases with as many seeds as before.

    The scores of the others stay.
    """
    results, whole = Results(directory), named("benchmarks.suite:suite_strongest")
    if toml.dumps(results.experiment) != toml.dumps(whole):
        raise ValueError(f"{directory} must be a run of suite-strongest")
    kept = {(row["agent"], row["case"]): row for row in rows()}
    lines = {(line.agent, line.case): line for line in results.lines}
    for learner in whole.agents:
        own = [(learner.name, case) for case in whole.cases_of(learner.name)]
        if all(key in lines and lines[key].seeds >= known(kept.get(key)) for key in own):
            for key in own:
                agent, case = key
                kept[key] = {
                    "case": case,
                    "agent": agent,
                    "score": str(lines[key].score.mean),
                    "seeds": str(lines[key].seeds),
                }
    wanted = dict.fromkeys((task.learner, task.case) for task in whole.tasks())
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ("case", "agent", "score", "seeds"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept[key] for key in wanted)
    SCORES.write_text(buffer.getvalue(), encoding="utf-8")


def draw() -> None:
    """The profiles of the agents that are run in every case."""
    every = {agent: own for agent, own in scores().items() if len(own) == len(scores()[OURS])}
    table = np.array([[own[case] for own in every.values()] for case in every[OURS]])
    found = statistics.Scores(tuple(every[OURS]), tuple(every), table)
    layout = dataclasses.replace(curves.DEFAULT, title=False, legend=True)
    with matplotlib.rc_context(layout.style):
        drawing = profile.profile(named("benchmarks.suite:suite_strongest"), found, layout, "")
    drawing.figure.savefig(FIGURE, dpi=160)


def rows(path: Path = SCORES) -> list[dict[str, str]]:
    """The rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def scores(path: Path = SCORES) -> Scores:
    """The scores of a file."""
    found: Scores = {}
    for row in rows(path):
        found.setdefault(row["agent"], {})[row["case"]] = float(row["score"])
    return found


def known(row: dict[str, str] | None) -> int:
    """The number of seeds of a row, if there is one."""
    return 0 if row is None else int(row["seeds"])


def seeds(agent: str) -> int:
    """How many seeds the scores of an agent are means of, at least."""
    return min(int(row["seeds"]) for row in rows() if row["agent"] == agent)


def summary() -> str:
    """Every agent over its cases, the best mean first; those of all cases before the others."""
    found = scores()
    least = best(found)
    table = []
    for agent, own in sorted(found.items(), key=lambda x: (-len(x[1]), mean(x[1].values()))):
        full = [value for case, value in own.items() if case.startswith("full")]
        bandit = [value for case, value in own.items() if not case.startswith("full")]
        near = sum(own[case] <= least[case] + NEAR for case in own)
        numbers = (max(own.values()), mean(own.values()), mean(bandit), mean(full))
        table.append([agent, str(seeds(agent)), *map(number, numbers), f"{near} of {len(own)}"])
    head = ["agent", "seeds", "worst", "mean", "mean, bandit cases", "mean, full cases"]
    return tables.markdown([*head, f"within {NEAR} of the best, before rounding"], table, "---:")


def best(found: Scores) -> dict[str, float]:
    """The least score of every case."""
    cases = found[OURS]
    return {case: min(own[case] for own in found.values() if case in own) for case in cases}


def others() -> str:
    """The agents that were run for version 0.2.0 only, beside what that one recommended."""
    earlier, now = scores(EARLIER), scores()
    table = []
    for agent, own in earlier.items():
        if agent not in now:
            ours = [earlier[OURS][case] for case in own]
            ahead = sum(value < earlier[OURS][case] - NEAR for case, value in own.items())
            numbers = (max(own.values()), mean(own.values()), mean(ours))
            table.append([agent, str(len(own)), *map(number, numbers), str(ahead)])
    head = ["agent", "cases", "worst", "mean", "recommended in 0.2.0", "ahead of it in"]
    return tables.markdown(head, table, "---:")


def behind() -> str:
    """Where the recommended agent is behind another one, and behind which."""
    every = scores()
    texts = []
    for case, ours in every[OURS].items():
        rivals = {agent: own[case] for agent, own in every.items() if case in own}
        first = min(rivals, key=lambda agent: rivals[agent])
        if rivals[first] < ours - NEAR:
            texts.append(f"{case} ({number(ours)} against {number(rivals[first])} of {first})")
    return "; ".join(texts) + "."


def by_case(found: Scores) -> str:
    """Scores by case."""
    cases = list(found[OURS])
    table = [[case, *_starred([own.get(case) for own in found.values()])] for case in cases]
    for name, summed in (("worst", max), ("mean", mean)):
        whole = [own if len(own) == len(cases) else {} for own in found.values()]
        table.append([name, *_starred([summed(own.values()) if own else None for own in whole])])
    return tables.markdown(["case", *found], table, "---:")


def _starred(row: list[float | None]) -> list[str]:
    shown = ["" if value is None else number(value) for value in row]
    least = min((float(text) for text in shown if text), default=None)
    return [f"{text}\\*" if text and float(text) == least else text for text in shown]


def mean(values: object) -> float:
    """The mean of some numbers."""
    listed = list(values)  # type: ignore[call-overload]
    return sum(listed) / len(listed)


def text() -> str:
    """The page with its tables made anew."""
    made = {
        "summary": summary(),
        "behind": behind(),
        "by case": by_case(scores()),
        "others": others(),
        "earlier": by_case(scores(EARLIER)),
    }
    return tables.renewed(PAGE, made)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        gather(Path(sys.argv[1]))
    draw()
    PAGE.write_text(text(), encoding="utf-8")
