"""Run the unfinished tasks of an experiment, which is described in Python or read from a file."""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from rich import progress
from rich.console import Console

from belated.config.part import Part, structured
from belated.core import checks, saving
from belated.lab import store
from belated.lab.engine import ENGINES, REHEARSAL, Attempt, outcomes
from belated.lab.results import Results
from belated.lab.spec import Experiment, Learner
from belated.lab.toml import named

EVERY = 60.0
"""Seconds between two lines where there is no terminal."""
COLUMNS = (
    progress.TextColumn("{task.description}", markup=False),
    progress.BarColumn(),
    progress.MofNCompleteColumn(),
    progress.TextColumn("runs, time left"),
    progress.TimeRemainingColumn(),
)
Described = Part | str | Callable[..., Any] | Mapping[str, Any]
"""The forms of a part in Python: a kind, a function, `lab.part(...)` or a table."""


class RunsFailed(RuntimeError):
    """Some runs of an experiment raised; the finished ones are kept.

    Attributes:
        failed: what failed and why, with tracebacks; they are in the directory as well.
    """

    def __init__(self, message: str, failed: tuple[Attempt, ...]) -> None:
        super().__init__(message)
        self.failed = failed


def experiment(
    *,
    environment: Described,
    agents: Mapping[str, Described] | Sequence[Learner],
    delays: Described = "none",
    costs: Described | None = None,
    name: str = "experiment",
    **others: Any,
) -> Experiment:
    """Describe an experiment with values and functions.

    Args:
        environment: a kind, `lab.part(kind, ...)`, or a function that returns a world.
        agents: by name: a kind, a part, or a function of a `lab.RunBrief` that returns an agent;
            or a list of `lab.Learner`.
        delays: a kind, a part, or a function that returns a delay model.
        costs: None for those of the environment; a kind, a part, or a function of the world.
        name: the name of the experiment.
        others: fields of `lab.Experiment`: episodes, seeds, information, paths, cases, sweep,
            select, against, title, about.
    """
    if isinstance(agents, Mapping):
        agents = [Learner(key, _part(f"agents.{key}", item)) for key, item in agents.items()]
    if not all(isinstance(item, Learner) for item in agents):
        raise ValueError(f"agents must be given by name, got {checks.show(agents)}")
    given = {
        "name": name,
        "environment": _part("environment", environment),
        "delays": _part("delays", delays),
        "costs": None if costs is None else _part("costs", costs),
        "agents": tuple(agents),
    }
    return structured("", Experiment, "an experiment", given | others)


def _part(key: str, given: Described) -> Any:
    if not isinstance(given, Part | str | Mapping) and not callable(given):
        raise ValueError(
            f"{key} must be a kind, a lab.part or a function that makes it (lambda: ...), "
            f"got {checks.show(given)}"
        )
    return given


def run(
    what: Experiment | str | None = None,
    directory: str | Path | None = None,
    /,
    *,
    jobs: int = 1,
    engine: str = "local",
    only: Sequence[str] | None = None,
    **described: Any,
) -> Results:
    """Run an experiment, or continue one that was stopped, and return its results.

    Terminals and notebooks show a progress bar.

    Args:
        what: an experiment, or its name; or leave it out and pass the arguments of `lab.experiment`
            as keywords: run(environment=..., agents={...}, ...).
        directory: the directory for the results; by default a temporary one, which is removed with
            the returned value.
        jobs: the number of simultaneous runs.
        engine: "local" (processes on this machine), "here" (this process), "ray" or "dask" (a
            cluster).
        only: the names of the agents to run now; the others are left for a later call.
        described: see `what`.

    Raises:
        RunsFailed: if runs failed. The others are finished, and kept in the directory.
    """
    if (what is None) == (not described):
        raise ValueError("run takes an experiment, or keywords that describe one, not both")
    found = named(what) if isinstance(what, str) else what or experiment(**described)
    checks.instance("experiment", found, Experiment, ", e.g. lab.named('paper-grid')")
    place = Path(tempfile.mkdtemp(prefix="belated-") if directory is None else directory)
    try:
        _, _, failed = execute(found, place, jobs=jobs, engine=engine, only=only)
        if failed:
            many = f"{len(failed)} of {len(found.tasks())} runs failed"
            first = f"the first, {failed[0].task.name}: {failed[0].reason}"
            raise RunsFailed(f"{many}, {first}", tuple(failed))
        results = Results(place, found)
    except BaseException:
        if directory is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if directory is None:
        weakref.finalize(results, shutil.rmtree, place, ignore_errors=True)
    return results


MOST_JOBS = 4096


def execute(
    experiment: Experiment,
    directory: str | Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    source: str = "",
    only: Sequence[str] | None = None,
) -> tuple[int, int, list[Attempt]]:
    """Run an experiment in a directory, or continue one that was stopped.

    Returns the number of runs that were finished before, that of those finished now, and the runs
    that failed. The arguments are those of `run`.

    source: the file of the experiment, for error messages.
    """
    directory = Path(directory)
    checks.choice("engine", engine, ENGINES)
    checks.integer("jobs", jobs, 1, MOST_JOBS)
    if engine == "here" and jobs > 1:
        raise ValueError(f'jobs must be 1 with the engine "here", got {jobs}')
    left = store.unfinished(directory, experiment)
    names = [learner.name for learner in experiment.learners]
    chosen = names if only is None else [checks.choice("only", name, names) for name in only]
    tasks = [one for one in left if one.learner in chosen]
    planned = [REHEARSAL, *tasks] if tasks else []
    failed: list[Attempt] = []
    with closing(outcomes(experiment, planned, min(jobs, len(tasks)), engine)) as found:
        for rehearsal in islice(found, 1):
            if rehearsal.trace:  # if only its worker has died, the runs show whose it was
                raise ValueError(f"{source}: {rehearsal.reason}" if source else rehearsal.reason)
        store.open_for(directory, experiment)
        for outcome in progressed(experiment.name, found, len(tasks)):
            if outcome.rows is not None:
                store.keep(directory, outcome.task, outcome.rows, outcome.seconds)
            else:
                failed.append(outcome)
                store.keep_failure(directory, outcome.task, outcome.trace or outcome.reason)
    if not failed:
        saving.sweep(directory)
    return len(experiment.tasks()) - len(left), len(tasks) - len(failed), failed


def progressed(
    name: str, outcomes: Iterable[Attempt], total: int, console: Console | None = None
) -> Iterator[Attempt]:
    """The same outcomes; the number of runs done and left is shown as they come.

    A terminal or a notebook shows a bar, anything else a line per minute.
    """
    console = console or Console(stderr=True, markup=False, emoji=False)
    if console.is_terminal or console.is_jupyter:
        with progress.Progress(*COLUMNS, console=console, transient=True) as bar:
            yield from bar.track(outcomes, total, description=name)
        return
    start = last = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        yield outcome
        now = time.monotonic()
        if now - last >= EVERY and done < total:
            last, left = now, total - done
            so_far, rest = _minutes(now - start), _minutes((now - start) * left / done)
            text = f"belated: {name}: {done} of {total} runs done, {left} left; "
            console.print(f"{text}{so_far} so far, about {rest} left", soft_wrap=True)


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
