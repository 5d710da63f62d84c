"""The tables of docs/suite.md and its figure.

    belated run suite --seeds 2
    python docs/suite.py out/suite

takes the results: scores go to docs/suite.csv, the figure to docs/suite.png, tables to the page.
Without a directory the tables are made again from the scores.
"""

import csv
import dataclasses
import io
import sys
from pathlib import Path

import tables

from belated.lab import Results, named, toml
from belated.lab.catalogue import suite
from belated.lab.table import number

DOCS = Path(__file__).parent
PAGE, SCORES, FIGURE = (DOCS / f"suite{ending}" for ending in (".md", ".csv", ".png"))
OURS = suite.RECOMMENDED.name
NEAR = 0.02
"""Scores that differ by at most this are as good as equal."""


def gather(directory: Path) -> None:
    """Keep the scores, and draw the profiles of the agents that are told nothing."""
    results = Results(directory)
    whole = dataclasses.replace(named("suite"), seeds=results.experiment.seeds)
    if toml.dumps(results.experiment) != toml.dumps(whole):
        raise ValueError(f"{directory} must be a whole run of the suite")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["case", "agent", "score"])
    writer.writerows([line.case, line.agent, line.score.mean] for line in results.lines)
    SCORES.write_text(buffer.getvalue(), encoding="utf-8")
    plain = Results(directory, dataclasses.replace(whole, agents=suite.AGENTS))
    plain.figure("profile", title=False, legend=True).savefig(FIGURE, dpi=160)


def scores() -> dict[str, dict[str, float]]:
    """The scores by agent and case."""
    found: dict[str, dict[str, float]] = {}
    with SCORES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["agent"], {})[row["case"]] = float(row["score"])
    return found


def split(found: dict[str, dict[str, float]]) -> tuple[dict[str, dict[str, float]], ...]:
    """The agents that are told nothing, and those of later papers."""
    plain = {learner.name for learner in suite.AGENTS}
    first = {agent: own for agent, own in found.items() if agent in plain}
    return first, {agent: own for agent, own in found.items() if agent not in plain}


def summary() -> str:
    """Agents that are told nothing, over all cases, the best mean first.

    The best of a case is the best of all agents, those of later papers included.
    """
    every = scores()
    found, _ = split(every)
    cases = list(found[OURS])
    least = {case: min(own[case] for own in every.values() if case in own) for case in cases}
    table = []
    for agent, own in sorted(found.items(), key=lambda item: mean(item[1].values())):
        full = [value for case, value in own.items() if case.startswith("full")]
        bandit = [value for case, value in own.items() if not case.startswith("full")]
        near = sum(own[case] <= least[case] + NEAR for case in cases)
        numbers = (max(own.values()), mean(own.values()), mean(bandit), mean(full))
        table.append([agent, *map(number, numbers), f"{near} of {len(cases)}"])
    head = ["agent", "worst", "mean", "mean, bandit cases", "mean, full cases"]
    near_best = f"within {NEAR} of the best of all {len(every)}, before rounding"
    return tables.markdown([*head, near_best], table, "---:")


def later() -> str:
    """Agents of later papers, on the cases that each is run in, beside the recommended agent."""
    plain, found = split(scores())
    table = []
    for agent, own in found.items():
        ours = [plain[OURS][case] for case in own]
        ahead = sum(value < plain[OURS][case] - NEAR for case, value in own.items())
        numbers = (max(own.values()), mean(own.values()), mean(ours))
        table.append([agent, str(len(own)), *map(number, numbers), str(ahead)])
    head = ["agent", "cases", "worst", "mean", "recommended on the same", "ahead of it in"]
    return tables.markdown(head, table, "---:")


def behind() -> str:
    """Where the recommended agent is behind another one, and behind which."""
    every = scores()
    texts = []
    for case, ours in every[OURS].items():
        others = {agent: own[case] for agent, own in every.items() if case in own}
        best = min(others, key=lambda agent: others[agent])
        if others[best] < ours - NEAR:
            texts.append(f"{case} ({number(ours)} against {number(others[best])} of {best})")
    return "; ".join(texts) + "."


def by_case(which: int) -> str:
    """Scores by case, of the agents that are told nothing (0) or of the later ones (1)."""
    found = split(scores())[which]
    cases = list(split(scores())[0][OURS])
    table = [[case, *_starred([own.get(case) for own in found.values()])] for case in cases]
    if which == 0:
        for name, summed in (("worst", max), ("mean", mean)):
            table.append([name, *_starred([summed(own.values()) for own in found.values()])])
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
        "later": later(),
        "behind": behind(),
        "by case": by_case(0),
        "later by case": by_case(1),
    }
    return tables.renewed(PAGE, made)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        gather(Path(sys.argv[1]))
    PAGE.write_text(text(), encoding="utf-8")
