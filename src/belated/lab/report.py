"""One self-contained HTML file per directory of results."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from belated.lab import knowledge, statistics, store, sweep, tables, toml
from belated.lab.catalogue import CHOICES, EXPERIMENTS, words
from belated.lab.figures.style import Drawing
from belated.lab.results import Results
from belated.lab.spec import AGAINST, SCORE, Experiment
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


def write(results: Results, drawings: Sequence[Drawing]) -> Path:
    """Write report.html, a self-contained file, into the directory."""
    path = results.directory / "report.html"
    store.write(path, html(results, drawings).encode())
    return path


def html(results: Results, drawings: Sequence[Drawing]) -> str:
    """The report as text."""
    directory, experiment = results.directory, results.experiment
    lines, pairs = results.lines, results.differences
    title, about = words(experiment)
    total = len(experiment.tasks())
    finished = total - len(store.unfinished(directory, experiment))
    state = f"{total} runs" if finished == total else f"{finished} of {total} runs are finished"
    raised = store.failed(directory, experiment)
    if raised:
        state += f"; raised: {', '.join(task.name for task in raised)}"
    versions = ", ".join(f"{name} {v}" for name, v in store.versions(directory).items())
    summary = tables.costs(lines, "Exact expected cost: means with 95 % intervals")
    unlearned = "".join(f"<li>{escape(text)}</li>" for text in results.warnings)
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(about)}</p>" if about else "",
        f'<p class="small">{escape(experiment.name)}: {state}. {_seeds(experiment)}; '
        "every agent faces the same world, costs and delays, seed by seed.</p>",
        f'<ul class="warning">{unlearned}</ul>' if unlearned else "",
        *_selected(results),
        "<h2>Figures</h2>",
        *(_figure(drawing) for drawing in drawings),
        "<h2>Results</h2>",
        _against(results),
        _table(summary),
    ]
    if pairs:
        caption = "Difference in cost per episode (below 0 the first is better)"
        sections += [
            "<h2>Differences, seed by seed</h2>",
            _table(tables.differences(pairs, caption)),
        ]
    given = "".join(f"<li>{escape(text)}</li>" for text in knowledge.sentences(experiment))
    sections += [
        "<h2>What each agent was told</h2>",
        f"<ul>{given}</ul>",
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


def _selected(results: Results) -> list[str]:
    """The selected settings, if settings are selected."""
    said = sweep.sentence(results.experiment)
    if not said:
        return []
    table = tables.choices(results.choices, "The selected settings, on the seeds selected on")
    return ["<h2>Selection</h2>", f"<p>{escape(said)}</p>", _table(table)]


def _against(results: Results) -> str:
    """The tables over all cases and over the sweep, if the experiment compares them."""
    experiment, lines = results.experiment, results.lines
    if experiment.against == SCORE:
        caption = f"{tables.SCALE}; mean over seeds, * marks the least of a row"
        return _table(tables.scores(experiment, lines, caption))
    caption = "Regret of whole runs, means over seeds"
    if experiment.against in AGAINST:
        return _table(tables.scaling(experiment, lines, caption, results.exponents))
    caption += sweep.seeds_of_choice(experiment)
    found = [
        tables.swept(experiment, results.swept_lines, path, f"{caption}, over {path}")
        for path, values in experiment.sweep
        if len(values) > 1
    ]
    return "".join(map(_table, found))


def _seeds(experiment: Experiment) -> str:
    return sweep.seeds(experiment.first_seed, experiment.seeds).capitalize()


def _figure(drawing: Drawing) -> str:
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
