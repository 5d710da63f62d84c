"""One task: from the specification of a run to its rows, one per episode.

Columns: experiment, case, agent, parameters (of the agent, as JSON), seed, episode, value (exact
expected cost of the policy played), realised (cost suffered), comparator (exact expected cost of
the best fixed policy in hindsight), uniform (exact expected cost of uniform play), regret
(cumulative, in values), missing (episodes up to this one whose feedback had not come by its end)
and delay (-1 if the feedback is lost). Then the same for mean costs, which are the costs themselves
where these have no noise: mean_value, mean_comparator, mean_uniform; best_each (the least expected
cost of the episode) and best_so_far (that of all episodes up to this one, by one fixed policy).
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass

import numpy as np
import polars as pl

from belated.config.file import as_content
from belated.config.part import table
from belated.core.arrays import Floats
from belated.core.delays import NEVER
from belated.lab import build
from belated.lab.spec import SCORE, Experiment, Task
from belated.simulation import Run, simulate
from belated.tabular.planning import occupancy

COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("experiment", "case", "agent", "parameters"), pl.String()),
    **dict.fromkeys(("seed", "episode"), pl.Int64()),
    **dict.fromkeys(("value", "realised", "comparator", "uniform", "regret"), pl.Float64()),
    **dict.fromkeys(("missing", "delay"), pl.Int64()),
    **dict.fromkeys(("mean_value", "mean_comparator", "mean_uniform"), pl.Float64()),
    **dict.fromkeys(("best_each", "best_so_far"), pl.Float64()),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What is kept of a run: files as bytes, so that a worker needs no shared disk.

    Attributes:
        parquet: the rows.
        visits: (S, A) expected visits per episode under the policy learned by the end, as a NumPy
            file; only for the first seed on a grid.
    """

    parquet: bytes
    visits: bytes | None


def perform(experiment: Experiment, task: Task) -> Result:
    """Run a task; the same task gives the same bytes."""
    scene = experiment.scene(task.case)
    learner = experiment.learner(task.learner)
    world = build.world(scene, task.seed)
    delays = build.delays(scene, world, task.seed)
    agent = build.agent(experiment, learner, world, delays, task.case, task.seed)
    run = simulate(
        world,
        agent,
        delays=delays,
        episodes=scene.episodes,
        seed=task.seed,
        paths=experiment.paths_of(learner),
    )
    if experiment.against == SCORE and run.means is not None:
        run = run.means  # scores do not depend on the noise of the costs
    visits = None
    if task.seed == experiment.first_seed and scene.environment.kind == "gridworld":
        with contextlib.suppress(Exception):  # an agent may refuse to begin another episode
            visits = _array(occupancy(world.mdp, agent.begin_episode().policy).sum(axis=0))
    buffer = io.BytesIO()
    _frame(experiment, task, run).write_parquet(buffer)
    return Result(buffer.getvalue(), visits)


def parameters(experiment: Experiment, task: Task) -> str:
    """The parameters of the agent of a run, as JSON."""
    learner = experiment.learner(task.learner)
    given = table(learner.agent, as_content) | {
        "information": experiment.information_of(learner, task.case),
        "paths": experiment.paths_of(learner),
    }
    return json.dumps(given, sort_keys=True)


def _frame(experiment: Experiment, task: Task, run: Run) -> pl.DataFrame:
    """The rows of a run."""
    K = len(run.values)
    means = run.means or run
    text = {
        "experiment": experiment.name,
        "case": task.case,
        "agent": task.learner,
        "parameters": parameters(experiment, task),
    }
    return pl.DataFrame(
        {
            **{
                name: pl.repeat(value, K, dtype=pl.String, eager=True)
                for name, value in text.items()
            },
            "seed": pl.repeat(task.seed, K, dtype=pl.Int64, eager=True),
            "episode": np.arange(K),
            "value": run.values,
            "realised": run.realised,
            "comparator": run.comparator,
            "uniform": run.uniform,
            "regret": run.regret,
            "missing": run.missing,
            "delay": np.where(run.delays == NEVER, -1, run.delays),
            "mean_value": means.values,
            "mean_comparator": means.comparator,
            "mean_uniform": means.uniform,
            **_best(run),
        }
    )


def _best(run: Run) -> dict[str, Floats]:
    """What the best policies cost, on mean costs."""
    best = (run.means or run).best
    if best is None:
        raise ValueError("run must be one of `simulate`")
    return {"best_each": best.each, "best_so_far": best.so_far}


def _array(values: Floats) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()
