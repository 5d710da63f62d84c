"""One self-contained HTML file per directory of results, with what each agent was told."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from belated import config as kinds
from belated.config import scenes
from belated.config.agents import COPIES, RESTARTS
from belated.config.briefing import TUNED, WORDS
from belated.config.part import Part, shown
from belated.config.registry import Registry, inside_of, with_defaults
from belated.lab import statistics, store, sweep, toml
from belated.lab.figures.style import Drawing
from belated.lab.results import Results
from belated.lab.spec import Experiment, Learner
from belated.lab.tables import Table
from belated.lab.toml import CHOICES, EXPERIMENTS, words

STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #fff; color: #222;
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p, ul { max-width: 44rem; }
figure { margin: 1.5rem 0; }
figure img { width: 100%; max-width: 46rem; height: auto; display: block; }
figcaption { color: #555; font-size: .9rem; max-width: 44rem; }
.wide { overflow-x: auto; margin-bottom: 1.5rem; }
figure .wide { margin-bottom: .3rem; }
summary { cursor: pointer; color: #0b5f94; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.caption { color: #555; font-size: .9rem; margin: 0 0 .3rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; white-space: nowrap;
         border-bottom: 1px solid #e3e3e3; }
th { border-bottom: 2px solid #999; font-weight: 600; white-space: normal;
     vertical-align: bottom; min-width: 4.5rem; }
tr > :first-child { position: sticky; left: 0; background: #fff; }
pre { background: #f6f6f4; padding: .9rem; overflow-x: auto; font-size: .82rem; line-height: 1.4; }
.warning { color: #a00; font-weight: 600; list-style: none; padding: 0; }
.small { color: #555; font-size: .9rem; }
"""

REM_PER_INCH = 3.6
"""The smallest width of a figure on the page, at which text of 9 points is 7 pixels high.

A figure that does not fit is scrolled.
"""
LONG = 40
"""Tables with more rows are collapsed."""

COMMON = (
    "Every agent is told the numbers of states, actions and steps, the start, and whether the "
    "dynamics are the same at every step. An agent that draws gets a seed of its run."
)
DECIDING = (
    "Every agent is told the actions, how many features there are, and which outcome silence "
    "stands for, if any; an agent that draws gets a seed of its run. Costs are outcomes with the "
    "sign turned, and scores compare with the best action for every visitor."
)
TOLD = {
    ("transitions", "known"): "the true transitions",
    ("costs", "averaged"): "that costs come from fixed laws",
    **WORDS,
}
"""What an agent knows by a parameter with this word or kind as its value."""
UNDELAYED = {
    TOLD["max_delay", "realised"]: None,
    TUNED: "the number of episodes, from which the parameters of its copies are tuned",
}
"""The same inside Parallel or Bold, where agents are tuned as if there were no delays."""
SEES = {"full": "whole cost functions", "bandit": "only the costs it suffered"}
REPLACED = ("learning_rate", "exploration")
"""The parameters that Doubling sets."""


def write(results: Results, drawings: Sequence[Drawing]) -> Path:
    """Write report.html, a self-contained file, into the directory."""
    path = results.directory / "report.html"
    store.write(path, html(results, drawings).encode())
    return path


def html(results: Results, drawings: Sequence[Drawing]) -> str:
    """The report as text."""
    directory, experiment = results.directory, results.experiment
    title, about = words(experiment)
    total = len(experiment.tasks())
    finished = total - len(store.unfinished(directory, experiment))
    state = f"{total} runs" if finished == total else f"{finished} of {total} runs are finished"
    raised = store.failed(directory, experiment)
    if raised:
        state += f"; raised: {', '.join(task.name for task in raised)}"
    versions = ", ".join(f"{name} {v}" for name, v in store.versions(directory).items())
    differences = results.table("differences")
    selected = experiment.select is not None
    unlearned = "".join(f"<li>{escape(text)}</li>" for text in results.warnings)
    told = "".join(f"<li>{escape(text)}</li>" for text in sentences(experiment))
    seeds = sweep.seeds(experiment.first_seed, experiment.seeds).capitalize()
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(about)}</p>" if about else "",
        f'<p class="small">{escape(experiment.name)}: {state}. {seeds}; '
        "every agent faces the same world, costs and delays, seed by seed.</p>",
        f'<ul class="warning">{unlearned}</ul>' if unlearned else "",
        f"<h2>Selection</h2>\n<p>{escape(sweep.sentence(experiment))}</p>" if selected else "",
        _table(results.table("selected")) if results.choices else "",
        "<h2>Figures</h2>",
        *(figure(drawing) for drawing in drawings),
        "<h2>Results</h2>",
        *map(_table, results.compared()),
        _table(results.table("costs")),
        "<h2>Differences, seed by seed</h2>" if differences.rows else "",
        _table(differences) if differences.rows else "",
        "<h2>What each agent was told</h2>",
        f"<ul>{told}</ul>",
        "<h2>What the paper leaves open</h2>" if experiment.name in EXPERIMENTS else "",
        f"<p>{escape(CHOICES)}</p>" if experiment.name in EXPERIMENTS else "",
        "<h2>Specification</h2>",
        f"<pre>{escape(toml.dumps(experiment, directory))}</pre>",
        "<h2>Made with</h2>",
        f"<p>{escape(versions)}</p>",
        "<p class='small'>Intervals and bands: percentiles of "
        f"{statistics.RESAMPLES} bootstrap resamples of the seeds. With few seeds they are too "
        "narrow: about 75 % of them hold the mean at 3 seeds, 83 % at 5, 90 % at 10.</p>",
    ]
    body = "\n".join(filter(None, sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def figure(drawing: Drawing) -> str:
    """A figure with its caption."""
    data = base64.b64encode(drawing.encoded("svg")).decode()
    caption = escape(drawing.caption)
    least = REM_PER_INCH * drawing.figure.get_figwidth()
    image = (
        f'<img alt="{caption}" style="min-width: {least:.1f}rem" '
        f'src="data:image/svg+xml;base64,{data}">'
    )
    return f"<figure><div class='wide'>{image}</div><figcaption>{caption}</figcaption></figure>"


def _table(table: Table) -> str:
    title = f'<p class="caption">{escape(table.title)}</p>'
    text = f'{title}<div class="wide">{table.html()}</div>'
    if len(table.cells) <= LONG:
        return text
    return f"<details><summary>Show {len(table.cells)} rows</summary>{text}</details>"


def sentences(experiment: Experiment) -> list[str]:
    """What all agents know, then one sentence for each agent."""
    told = (_sentence(experiment, learner) for learner in experiment.learners)
    faced = [experiment.scene(case) for case in experiment.case_names()]
    decisions = [scene.environment.kind in scenes.DECISIONS for scene in faced]
    common = [COMMON] * (not all(decisions)) + [DECIDING] * any(decisions)
    return [*common, *_by_case(experiment), *told]


def _by_case(experiment: Experiment) -> list[str]:
    """The cases with full information, if that depends on the case."""
    full = [c.name for c in experiment.cases if (c.information or experiment.information) == "full"]
    if len(full) in (0, len(experiment.cases)):
        return []
    return [
        f"Whole cost functions come back in {_list(full)}; in the other cases an agent sees only "
        "the costs it suffered. An agent with information of its own sees that everywhere."
    ]


AgentParameter = tuple[str, Any, Any, bool]
"""A parameter of an agent, or of a part inside it: its place in the agent's table, e.g.
update.learning_rate; the value (for a part, its kind); the default; whether it is of a copy."""


def _sentence(experiment: Experiment, learner: Learner) -> str:
    values = list(_values("", learner.agent, kinds.AGENTS))
    given = dict.fromkeys(filter(None, map(_told, values)))
    by_hand = " and ".join(
        f"{key} = {shown(value)}"
        for key, value, default, _ in values
        if isinstance(value, int | float) and value != default
    )
    items = [*given, *([f"{by_hand}, set by hand"] if by_hand else [])]
    cases = experiment.cases_of(learner.name)
    found = {experiment.information_of(learner, case) for case in cases}
    sees = SEES[found.pop()] if len(found) == 1 else "what its case shows"
    paths = {"late": "with the costs", "at once": "at once"}[experiment.paths_of(learner)]
    seen = f"It sees {sees}, and paths come {paths}."
    if learner.cases is not None:
        seen += f" It is run in {len(cases)} of {len(experiment.case_names())} cases."
    return f"{learner.name} is also given {_list(items)}. {seen}"


def _told(item: AgentParameter) -> str | None:
    """What an agent knows by a parameter, if anything."""
    key, value, _, copied = item
    name = key.rpartition(".")[2]
    if name == "kind" and ":" in value:
        return f"what {value} asks for, which may be the true transitions and the delays"
    text = TOLD.get((name, value)) if isinstance(value, str) else None
    return UNDELAYED.get(text, text) if text and copied else text


def _values(
    key: str, part: Part, registry: Registry, *, copied: bool = False, restarted: bool = False
) -> Iterator[AgentParameter]:
    """All parameters of a part and of the parts inside, with their defaults."""
    defaults = with_defaults(Part(part.kind), registry).values
    inner = {
        "copied": copied or part.kind in COPIES,
        "restarted": restarted or part.kind in RESTARTS,
    }
    yield (f"{key}kind", part.kind, None, copied)
    for name, value, inside in inside_of(with_defaults(part, registry), registry):
        parts = [v for v in (value if isinstance(value, tuple) else [value]) if isinstance(v, Part)]
        for item in parts:
            yield (f"{key}{name}", item.kind, None, copied)
            yield from _values(f"{key}{name}.", item, inside or registry, **inner)
        if not parts and not (restarted and name in REPLACED):
            yield (f"{key}{name}", value, defaults.get(name), copied)


def _list(items: list[str]) -> str:
    if len(items) < 2:
        return items[0] if items else "nothing"
    return f"{', '.join(items[:-1])}, and {items[-1]}"
