"""The `belated` command: run experiments, draw and report their results, serve learners.

Exit codes: 0 success, 1 some runs failed, 2 wrong input; 130 interrupted (`__main__`).
"""

import dataclasses
import os
import sys
import textwrap
import traceback
from collections.abc import Sequence
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.text import Text

from belated.core import checks
from belated.service.commands import COMMANDS, Whole

app = App(
    name="belated",
    help="Run experiments in learning from delayed feedback.",
    help_epilogue="Start here: belated run paper-grid --seeds 3.",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative=()),  # no --no-x and no --empty-x
)
for command in COMMANDS:
    app.command(command, group="The learner service")


def _say(text: object, style: str = "", *, error: bool = False) -> None:
    """Print a text literally: without markup, and with control characters, such as ESC, escaped."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
        for c in str(text)
    )
    Console(stderr=error).print(Text(shown, style), soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; wrong input gets one line."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _complain(f"{' '.join(str(error).split())} (see belated --help)")
    except ValueError as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if not Path(frame.f_code.co_filename).is_relative_to(Path(__file__).parent):
            raise  # a bug: checks of the package raise with a sentence for the user
        return _complain(str(error))
    except OSError as error:
        named = error.strerror and error.filename
        return _complain(f"{error.strerror}: {error.filename}" if named else str(error))
    return code or 0


def _lab(module: str) -> Any:
    """A module of the lab, imported by the commands that need it."""
    return import_module(f"belated.lab.{module}")


def _complain(message: str) -> int:
    _say(f"belated: {message}", "red", error=True)
    return 2


@app.command
def list_() -> None:
    """List the experiments that can be run by name."""
    _say(f"{'name':<20}{'runs':>6}  what it is")
    for name in _lab("toml").EXPERIMENTS:
        experiment = _lab("toml").named(name)
        _say(f"{name:<20}{len(experiment.tasks()):>6}  {experiment.title}")
    _say(
        "\nbelated run NAME runs one; belated show NAME > my.toml gives a copy to change. "
        "In a checkout there are suites too: belated run benchmarks.suite:suite."
    )


@app.command
def run(
    experiment: str,
    /,
    *,
    seeds: Whole | None = None,
    episodes: Whole | None = None,
    first_seed: Whole | None = None,
    case: list[str] | None = None,
    jobs: Whole | None = None,
    engine: str = "local",
    out: Path | None = None,
    only: list[str] | None = None,
) -> int:
    """Run an experiment, or continue one that was stopped.

    Args:
        experiment: A name from `belated list`, a TOML file, or a module:function that returns one.
        seeds: Number of repetitions, instead of the experiment's.
        episodes: Episodes per run, instead of the experiment's.
        first_seed: The first seed, instead of the experiment's.
        case: A case to run, leaving the others out of the experiment; may be given again.
        jobs: Number of runs at once; all cores by default.
        engine: local (processes on this machine), ray (the cluster at RAY_ADDRESS, else one
            that is started here), dask (the one at DASK_SCHEDULER_ADDRESS), or here (this
            process, one run after the other).
        out: Directory for the results; out/NAME by default.
        only: An agent to run now, leaving the others for another time; may be given again.
    """
    found, source = _find(experiment)
    given = {"seeds": seeds, "first_seed": first_seed, "episodes": episodes}
    changes: dict[str, Any] = {key: n for key, n in given.items() if n is not None}
    if not source and (set(changes) - {"seeds"} or case is not None):
        changes |= {"title": "", "about": ""}  # the words are about the experiment as it is named
    elif not source and changes:
        changes["about"] = ""  # it may be a conclusion from other seeds
    chosen = _changed(found, changes, case)
    directory = out or Path("out") / _lab("spec").slug(chosen.name)
    if jobs is None:
        jobs = 1 if engine == "here" else import_module("joblib").cpu_count()
    before, done, failed = _lab("run").execute(
        chosen, directory, jobs=jobs, engine=engine, source=source, only=only
    )
    for outcome in failed:
        _say(f"failed: {outcome.task.name}: {outcome.reason}", "red", error=True)
    if before:
        _say(f"Finished before: {_runs(before)}.")
    if failed:
        _say(f"Failed: {_runs(len(failed))}; see {directory / 'failed'}.", error=True)
        if before + done == 0:
            return 1
    results = _lab("results").Results(directory, chosen)
    drawings = _lab("plot").draw(results)
    shown = [results.table()]
    if results.choices:
        shown.insert(0, results.table("selected"))
        if chosen.against in dict(chosen.sweep):
            shown.append(results.table("costs"))
    for table in shown:
        _say(f"{table}\n")
    if chosen.select is not None:
        _say(_lab("statistics").sentence(chosen))
    for warning in results.warnings:
        _say(warning, "bold red")
    _lab("plot").save(directory, drawings, ("png", "svg"))
    _lab("report").write(results, drawings)
    _say(f"figures: {directory / 'figures'}\nreport: {directory / 'report.html'}")
    return 1 if failed else 0


@app.command
def plot_(
    directory: Path,
    /,
    *,
    width: str | None = None,
    no_title: bool = False,
    block: Whole | None = None,
    on: str = "means",
    regret: str | None = None,
    format: str = "png,svg",
) -> None:
    """Draw the figures of a directory of results again.

    Args:
        directory: Where `belated run` put the results.
        width: column (3.4 inches), page (7 inches) or a number of inches.
        no_title: Leave titles out, for papers.
        block: Curves over time show means of so many episodes.
        on: Costs: means (over their noise), or drawn (as they were).
        regret: hindsight, means, dynamic or 'so far', see docs/sweeps.md.
        format: png, svg or pdf, or several: png,svg,pdf.
    """
    plot = _lab("plot")
    forms = [checks.choice("--format", one.strip(), plot.FORMS) for one in format.split(",")]
    look = plot.Look(width, not no_title, block, on, regret)
    for path in plot.save(directory, plot.draw(_lab("results").Results(directory), look), forms):
        _say(path)


@app.command
def report_(directory: Path, /) -> None:
    """Write report.html, one self-contained file, for a directory of results.

    Args:
        directory: Where `belated run` put the results.
    """
    _say(_lab("results").Results(directory).report())


@app.command
def table_(
    directory: Path,
    /,
    *,
    which: str | None = None,
    format: str = "markdown",
    baseline: str | None = None,
    on: str = "means",
    regret: str | None = None,
) -> None:
    """Print a table of a directory of results, for a paper or a spreadsheet.

    Args:
        directory: Where `belated run` put the results.
        which: results (what `belated run` prints, the default), costs, differences or selected.
        format: markdown, latex (with the rules of booktabs) or csv (numbers in full).
        baseline: Differences of all agents from this one, instead of all pairs.
        on: Costs: means (over their noise), or drawn (as they were).
        regret: hindsight, means, dynamic (against the best policy of every episode) or 'so far'
            (against the best fixed policy of the episodes up to each).
    """
    forms = _lab("tables").FORMS
    checks.choice("--format", format, forms)
    results = _lab("results").Results(directory)
    sys.stdout.write(forms[format](results.table(which, baseline=baseline, on=on, regret=regret)))


@app.command
def kinds_(name: str | None = None, /) -> None:
    """List the kinds that an experiment can name, with parameters and defaults.

    Args:
        name: A kind, to print its full description.
    """
    found = list(import_module("belated.lab.listing").all_kinds())
    if name is not None:
        checks.choice("kind", name, dict.fromkeys(kind for _, kind, _, _ in found))
        found = [one for one in found if one[1] == name]
    for section, kinds in groupby(found, key=itemgetter(0)):
        _say(f"\n{section}" if name is None else section, "bold")
        for _, kind, about, parameters in kinds:
            _say(f"  {kind}: {', '.join(parameters) or 'no parameters'}")
            _say(textwrap.indent(about.splitlines()[0] if name is None else about, " " * 6))


@app.command
def show(experiment: str, /) -> None:
    """Print an experiment as TOML, a copy to change: belated show paper-grid > my.toml.

    Args:
        experiment: A name from `belated list`, or a TOML file.
    """
    found, source = _find(experiment)
    given = found if source else dataclasses.replace(found, title="", about="")
    sys.stdout.write(_lab("toml").dumps(given))


def _find(name: str) -> tuple[Any, str]:
    """An experiment, and the file that it was read from, if any."""
    if name.endswith(".toml") or os.sep in name or Path(name).is_file():
        return _lab("toml").read(Path(name)), name
    return _lab("toml").named(name), ""


def _changed(experiment: Any, changes: dict[str, Any], cases: Sequence[str] | None) -> Any:
    """The experiment with other numbers, and with these of its cases only."""
    if cases is not None:
        names = [case.name for case in experiment.cases]
        kept = [checks.choice("--case", name, names) for name in cases]
        changes["cases"] = tuple(case for case in experiment.cases if case.name in kept)
        changes["agents"] = tuple(
            dataclasses.replace(one, cases=one.cases and tuple(c for c in one.cases if c in kept))
            for one in experiment.agents
            if one.cases is None or set(one.cases) & set(kept)
        )
        if len(changes["cases"]) < 2 and experiment.against in ("episodes", "total_delay", "score"):
            changes["against"] = None  # there is nothing to compare over
    if "episodes" in changes and any(case.episodes for case in experiment.cases):
        raise ValueError(
            f"--episodes must be left out if cases have their own, got {changes['episodes']}"
        )
    return dataclasses.replace(experiment, **changes)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
