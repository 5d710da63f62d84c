"""Run the unfinished tasks of an experiment and keep each result as it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from belated.config.part import inside
from belated.config.user_code import portable
from belated.core import checks, files
from belated.lab import build, store
from belated.lab.engines import cluster, here, local
from belated.lab.engines.outcome import Attempt
from belated.lab.spec import Experiment

ENGINES = {"local": local.opened, "ray": cluster.opened, "here": here.opened}
LOCAL = "local"
MOST_JOBS = 4096


@dataclass(frozen=True, slots=True)
class Done:
    """What a call of `execute` did.

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
    begun: Callable[[int], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
    progress: Callable[[Attempt], None] | None = None,
) -> Done:
    """Run an experiment in a directory, or continue one that was stopped.

    Runs that fail are returned, not raised.

    Args:
        experiment: what to run.
        directory: where the results are kept.
        jobs: how many runs at once.
        engine: "local" (processes on this machine), "ray" (a cluster) or "here" (in this process,
            one run after the other).
        source: the file that the experiment is from, to be named in errors.
        begun: called with the number of runs to do, before the first is started.
        meanwhile: called once runs have been handed to workers.
        progress: called with every outcome as it comes.
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
    tasks = store.unfinished(directory, experiment)
    failed: list[Attempt] = []
    with ENGINES[engine](experiment, min(jobs, len(tasks))) as perform:
        build.rehearse(experiment, source, 1 if engine == "ray" else jobs)  # while workers start
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
    return Done(total - len(tasks), len(tasks) - len(failed), tuple(failed))


def unportable(experiment: Experiment) -> list[str]:
    """The functions that cannot be handed to processes on this machine, by kind."""
    scenes = [experiment.scene(case) for case in experiment.case_names()]
    parts = [learner.agent for learner in experiment.learners]
    parts += [p for scene in scenes for p in (scene.environment, scene.costs, scene.delays) if p]
    found = [one for part in parts for one in inside(part)]
    return list(
        dict.fromkeys(one.kind for one in found if one.function and not portable(one.function))
    )
