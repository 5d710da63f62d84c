"""One run: from a specification to rows.

Columns: experiment, case, agent, parameters (of the agent, as JSON), seed, episode, value (exact
expected cost of the policy played), realised (cost suffered), comparator (exact expected cost of
the best fixed policy in hindsight), regret (cumulative, in values), missing (episodes whose
feedback had not come by the end of this one) and delay (-1 where the feedback is lost).
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass

import numpy as np
import polars as pl

from belated.arrays import Floats
from belated.delays import NEVER
from belated.lab import parts
from belated.lab.spec import Experiment, Task
from belated.planning import occupancy
from belated.simulation import Run, simulate


@dataclass(frozen=True, slots=True)
class Result:
    """What is kept of a run: files as bytes, so that a worker needs no shared disk.

    visits: (S, A) expected per episode under the policy learned by the end, for the first seed on
    a grid.
    """

    rows: bytes
    visits: bytes | None


def perform(experiment: Experiment, task: Task) -> Result:
    """Run it; the same task gives the same bytes."""
    setting = experiment.setting(task.case)
    learner = experiment.learner(task.learner)
    world = setting.world()
    delays = setting.draw(world, task.seed)
    agent = experiment.make(learner, world, delays)
    run = simulate(
        world,
        agent,
        delays=delays,
        episodes=setting.episodes,
        seed=task.seed,
        paths={"delayed": "late", "immediate": "at once"}[experiment.trajectory_of(learner)],
    )
    visits = None
    if task.seed == 0 and setting.environment.kind == "gridworld":
        with contextlib.suppress(Exception):  # an agent may refuse to go on after the last one
            visits = _array(occupancy(world.mdp, agent.begin_episode().policy).sum(axis=0))
    buffer = io.BytesIO()
    rows(experiment, task, run).write_parquet(buffer)
    return Result(buffer.getvalue(), visits)


def rows(experiment: Experiment, task: Task, run: Run) -> pl.DataFrame:
    """The rows of a run, one per episode."""
    learner = experiment.learner(task.learner)
    K = len(run.values)
    parameters = parts.table(learner.agent) | {
        "information": experiment.information_of(learner),
        "trajectory": experiment.trajectory_of(learner),
    }
    text = {
        "experiment": experiment.name,
        "case": task.case,
        "agent": task.learner,
        "parameters": json.dumps(parameters, sort_keys=True),
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
            "regret": run.regret,
            "missing": run.missing,
            "delay": np.where(run.delays == NEVER, -1, run.delays),
        }
    )


def _array(values: Floats) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()
