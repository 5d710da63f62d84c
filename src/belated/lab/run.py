"""Run the unfinished tasks of an experiment and keep each result as it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from belated import checks, files
from belated.lab import build, store
from belated.lab.engines import cluster, local
from belated.lab.engines.outcome import Outcome
from belated.lab.spec import Experiment

ENGINES = {"local": local.opened, "ray": cluster.opened}
MOST_JOBS = 4096


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a call of `run` did.

    Attributes:
        found: runs that were finished before.
        done: runs finished now.
        failed: runs that failed.
    """

    found: int
    done: int
    failed: tuple[Outcome, ...]


def run(
    experiment: Experiment,
    directory: str | Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    begun: Callable[[int], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
    progress: Callable[[Outcome], None] | None = None,
) -> Sweep:
    """Run an experiment in a directory, or continue one that was stopped.

    Args:
        experiment: what to run.
        directory: where the results are kept.
        jobs: how many runs at once.
        engine: "local" or "ray".
        begun: called with the number of runs to do, before the first is started.
        meanwhile: called once runs have been handed to workers.
        progress: called with every outcome as it comes.
    """
    checks.instance("experiment", experiment, Experiment, ", e.g. lab.named('paper-grid')")
    directory = Path(directory)
    checks.choice("engine", engine, ENGINES)
    checks.integer("jobs", jobs, 1, MOST_JOBS)
    tasks = store.unfinished(directory, experiment)
    failed: list[Outcome] = []
    with ENGINES[engine](experiment, min(jobs, len(tasks))) as perform:
        build.rehearse(experiment)  # while workers start
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
    return Sweep(total - len(tasks), len(tasks) - len(failed), tuple(failed))
