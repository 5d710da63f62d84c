"""Run the unfinished tasks of an experiment, which is described in Python or read from a file."""

from __future__ import annotations

import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belated.config.part import Part, parts_in, read
from belated.config.user_code import portable
from belated.core import checks, files
from belated.lab import spec, store, task
from belated.lab.catalogue import named
from belated.lab.engines import cluster, here, local
from belated.lab.engines.outcome import Attempt
from belated.lab.progress import bar
from belated.lab.results import Results
from belated.lab.spec import Experiment, Learner

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
        agents: by name: a kind, a part, or a function of a `lab.Told` that returns an agent; or a
            list of `lab.Learner`.
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
    spec.check_fields(others)
    return Experiment(
        name=name,
        environment=_part("environment", environment),
        delays=_part("delays", delays),
        costs=None if costs is None else _part("costs", costs),
        agents=tuple(agents),
        **others,
    )


def _part(key: str, given: Described) -> Part:
    if not isinstance(given, Part | str | Mapping) and not callable(given):
        raise ValueError(
            f"{key} must be a kind, a lab.part or a function that makes it (lambda: ...), "
            f"got {checks.show(given)}"
        )
    return read(key, given)


def run(
    what: Experiment | str | None = None,
    directory: str | Path | None = None,
    /,
    *,
    jobs: int = 1,
    engine: str | None = None,
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
        engine: "local" (processes on this machine), "ray" (a cluster) or "here" (this process).
            The default is local, or here if a function cannot be sent to another process, such as
            one of a notebook cell; a note on the error output then says so.
        only: the names of the agents to run now; the others are left for a later call.
        described: see `what`.

    Raises:
        RunsFailed: if runs failed. The others are finished, and kept in the directory.
    """
    if (what is None) == (not described):
        raise ValueError("run takes an experiment, or keywords that describe one, not both")
    found = named(what) if isinstance(what, str) else what or experiment(**described)
    checks.instance("experiment", found, Experiment, ", e.g. lab.named('paper-grid')")
    stuck = unportable(found) if engine is None else []
    if stuck:
        print(
            f"belated: the runs are made in this process, one after the other, since {stuck[0]} "
            "cannot be handed to other processes; put it into a module to use them.",
            file=sys.stderr,
        )
        engine, jobs = "here", 1
    if directory is not None:
        return _run(found, Path(directory), jobs, engine or LOCAL, only)
    temporary = tempfile.mkdtemp(prefix="belated-")
    try:
        results = _run(found, Path(temporary), jobs, engine or LOCAL, only)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    weakref.finalize(results, shutil.rmtree, temporary, ignore_errors=True)
    return results


def _run(
    found: Experiment, directory: Path, jobs: int, engine: str, only: Sequence[str] | None
) -> Results:
    with bar(found.name) as shown:
        done = execute(
            found,
            directory,
            jobs=jobs,
            engine=engine,
            only=only,
            begun=shown.begun,
            progress=lambda outcome: shown.advance(),
        )
    if done.failed:
        first = done.failed[0]
        raise RunsFailed(
            f"{len(done.failed)} of {len(found.tasks())} runs failed, the first, "
            f"{first.task.name}: {first.reason}",
            done.failed,
        )
    return Results(directory, found)


ENGINES = {"local": local.opened, "ray": cluster.opened, "here": here.opened}
LOCAL = "local"
MOST_JOBS = 4096


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a call of `execute`.

    Attributes:
        found: runs that were finished before.
        done: runs finished now.
        failed: runs that failed.
    """

    found: int
    done: int
    failed: tuple[Attempt, ...]


def execute(
    experiment: Experiment,
    directory: str | Path,
    *,
    jobs: int = 1,
    engine: str = LOCAL,
    source: str = "",
    only: Sequence[str] | None = None,
    begun: Callable[[int], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
    progress: Callable[[Attempt], None] | None = None,
) -> Done:
    """Run an experiment in a directory, or continue one that was stopped.

    Runs that fail are returned, not raised.

    Args:
        experiment: the experiment to run.
        directory: the directory for the results.
        jobs: the number of simultaneous runs.
        engine: "local" (processes on this machine), "ray" (a cluster) or "here" (in this process,
            one run after the other).
        source: the file of the experiment, for error messages.
        only: the names of the agents to run now; None for all.
        begun: called with the number of runs to do, before the first is started.
        meanwhile: called once after runs have been given to workers.
        progress: called with every outcome.
    """
    checks.instance("experiment", experiment, Experiment, ", e.g. lab.named('paper-grid')")
    directory = Path(directory)
    checks.choice("engine", engine, ENGINES)
    checks.integer("jobs", jobs, 1, MOST_JOBS)
    if engine == LOCAL and (stuck := unportable(experiment)):
        raise ValueError(
            f'engine must be "here" or "ray", since workers cannot be given {stuck[0]}, which is '
            'not in a module or a script; got "local"'
        )
    left = store.unfinished(directory, experiment)
    names = [learner.name for learner in experiment.learners]
    chosen = names if only is None else [checks.choice("only", name, names) for name in only]
    tasks = [one for one in left if one.learner in chosen]
    failed: list[Attempt] = []
    with ENGINES[engine](experiment, min(jobs, len(tasks))) as perform:
        task.rehearse(experiment, source, 1 if engine == "ray" else jobs)  # while workers start
        store.open_for(directory, experiment)
        if begun is not None:
            begun(len(tasks))
        outcomes = perform(tasks)
        if meanwhile is not None:
            meanwhile()
        for outcome in outcomes:
            if outcome.result is not None:
                store.keep(directory, outcome.task, outcome.result)
            else:
                failed.append(outcome)
                store.keep_failure(directory, outcome.task, outcome.trace or outcome.reason)
            if progress is not None:
                progress(outcome)
    if not failed:
        files.sweep(directory)
    total = len(experiment.tasks())
    return Done(total - len(left), len(tasks) - len(failed), tuple(failed))


def unportable(experiment: Experiment) -> list[str]:
    """The kinds of the functions that cannot be sent to processes on this machine."""
    scenes = [experiment.scene(case) for case in experiment.case_names()]
    parts = [learner.agent for learner in experiment.learners]
    parts += [p for scene in scenes for p in (scene.environment, scene.costs, scene.delays) if p]
    found = [one for part in parts for one in parts_in(part)]
    return list(
        dict.fromkeys(one.kind for one in found if one.function and not portable(one.function))
    )
