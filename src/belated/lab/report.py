"""One self-contained HTML file per directory of results, with what each agent was told."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from belated.config import agents as kinds
from belated.config.part import Part, Registry, inside, with_defaults
from belated.lab import statistics, store, toml
from belated.lab.plot import Sheet
from belated.lab.results import Results
from belated.lab.spec import Experiment, shown
from belated.lab.tables import Table

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
    "Every agent is told the problem (of decisions: the actions, the features, and which outcome "
    "silence stands for) and, if it draws, a seed of its run. What else it is told is in its "
    'parameters, defaults included: "known" and "tuned" stand for what only the simulator knows, '
    'and "realised" for the largest delay that was drawn.'
)
CHOICES = (
    "The paper leaves some details open; they are chosen here so that its statements hold: counts "
    "are pooled over the steps of an episode (one model for all steps), the bonus is "
    "1 / sqrt(visits), a slip goes in each of the four directions alike, the goal can be left, "
    "delays are on 0, 1, 2, ..., and the walls are two offset ones of seven cells."
)


def write(results: Results, drawings: Sequence[Sheet]) -> Path:
    """Write report.html, a self-contained file, into the directory."""
    path = results.directory / "report.html"
    store.write(path, html(results, drawings).encode())
    return path


def html(results: Results, drawings: Sequence[Sheet]) -> str:
    """The report as text."""
    directory, experiment = results.directory, results.experiment
    title = results.title()
    total = len(experiment.tasks())
    finished = total - len(store.unfinished(directory, experiment))
    state = f"{total} runs" if finished == total else f"{finished} of {total} runs are finished"
    raised = store.failed(directory, experiment)
    if raised:
        state += f"; raised: {', '.join(task.name for task in raised)}"
    versions = ", ".join(map(" ".join, store.versions(directory).items()))
    differences = results.table("differences")
    unlearned = "".join(f"<li>{escape(text)}</li>" for text in results.warnings)
    seeds = statistics.seeds(experiment.first_seed, experiment.seeds).capitalize()
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(experiment.about)}</p>" if experiment.about else "",
        f'<p class="small">{escape(experiment.name)}: {state}. {seeds}; '
        "every agent faces the same world, costs and delays, seed by seed.</p>",
        f'<ul class="warning">{unlearned}</ul>' if unlearned else "",
        f"<h2>Selection</h2>\n<p>{escape(statistics.sentence(experiment))}</p>"
        if experiment.select
        else "",
        _table(results.table("selected")) if results.choices else "",
        "<h2>Figures</h2>",
        *(figure(drawing) for drawing in drawings),
        "<h2>Results</h2>",
        *map(_table, results.compared()),
        _table(results.table("costs")),
        "<h2>Differences, seed by seed</h2>" if differences.rows else "",
        _table(differences) if differences.rows else "",
        "<h2>What each agent was told</h2>",
        f"<p>{escape(COMMON)}</p>",
        _table(told(experiment)),
        "<h2>What the paper leaves open</h2>" if experiment.name in toml.EXPERIMENTS else "",
        f"<p>{escape(CHOICES)}</p>" if experiment.name in toml.EXPERIMENTS else "",
        "<h2>Specification</h2>",
        f"<pre>{escape(toml.dumps(experiment))}</pre>",
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


def figure(drawing: Sheet) -> str:
    """A figure with its caption."""
    data = base64.b64encode(drawing.encoded("svg")).decode()
    caption = escape(drawing.caption)
    least = REM_PER_INCH * drawing.get_figwidth()
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


def told(experiment: Experiment) -> Table:
    """What each agent was told: its parameters, which costs it sees, and when paths come."""
    rows = []
    for learner in experiment.learners:
        cases = experiment.cases_of(learner.name)
        sees = dict.fromkeys(experiment.information_of(learner, case) for case in cases)
        given = shown(_complete("", learner.agent, kinds.AGENTS))
        rows.append((learner.name, given, " or ".join(sees), experiment.paths_of(learner)))
    return Table("", ("agent", "parameters", "information", "paths"), tuple(rows), 4)


def _complete(key: str, part: Part, registry: Registry) -> Part:
    """The part, and the parts inside, with their defaults."""
    given = [pair for pair in with_defaults(part, registry).parameters if pair[1] is not None]
    values = inside(key, Part(part.kind, tuple(given)), registry, _complete)
    return Part(part.kind, tuple(values.items()))
