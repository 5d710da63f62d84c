"""One task: from the specification of a run to its rows, one per episode.

Columns: experiment, case, agent, parameters (of the agent, as JSON), seed, episode, value (exact
expected cost of the policy played), realised (cost suffered), comparator (exact expected cost of
the best fixed policy in hindsight), uniform (exact expected cost of uniform play), regret
(cumulative, in values), missing (episodes up to this one whose feedback had not come by its end)
and delay (-1 if the feedback is lost). Then the same for mean costs, which are the costs themselves
where these have no noise: mean_value, mean_comparator, mean_uniform; best_each (the least expected
cost of the episode) and best_so_far (that of all episodes up to this one, by one fixed policy).
For decisions with features costs are outcomes with the sign turned, and the best policy is the
best action for every visitor. Last diagnostics: the agent's own numbers after some episodes, as
JSON; null after the others.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from belated.config.file import as_content
from belated.config.part import table
from belated.core.arrays import Floats
from belated.core.contract import Agent
from belated.core.delays import NEVER
from belated.lab import build
from belated.lab.spec import Experiment, Task
from belated.simulation import Run, simulate
from belated.tabular.planning import occupancy
from belated.tabular.world import World

COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("experiment", "case", "agent", "parameters"), pl.String()),
    **dict.fromkeys(("seed", "episode"), pl.Int64()),
    **dict.fromkeys(("value", "realised", "comparator", "uniform", "regret"), pl.Float64()),
    **dict.fromkeys(("missing", "delay"), pl.Int64()),
    **dict.fromkeys(("mean_value", "mean_comparator", "mean_uniform"), pl.Float64()),
    **dict.fromkeys(("best_each", "best_so_far"), pl.Float64()),
    **dict.fromkeys(("diagnostics", "step_delays"), pl.String()),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What is kept of a run: files as bytes, so that a worker needs no shared disk.

    Attributes:
        parquet: the rows.
        visits: (S, A) expected visits per episode under the policy learned by the end, as a NumPy
            file; only for the first seed on a grid.
        seconds: processor time of the run, which differs from one time to the next.
    """

    parquet: bytes
    visits: bytes | None
    seconds: float = field(default=math.nan, compare=False)


def perform(experiment: Experiment, task: Task) -> Result:
    """Run a task; the same task gives the same bytes."""
    scene = experiment.scene(task.case)
    learner = experiment.learner(task.learner)
    world = build.world(scene, task.seed)
    delays = build.delays(scene, world, task.seed)
    agent = build.agent(experiment, learner, world, delays, task.case, task.seed)
    watched = Watched(agent, scene.episodes)
    begun = time.process_time()
    run = simulate(
        world,
        agent,
        delays=delays,
        episodes=scene.episodes,
        seed=task.seed,
        paths=experiment.paths_of(learner),
        progress=watched.over,
    )
    seconds = time.process_time() - begun
    visits = None
    first = task.seed == experiment.first_seed
    if first and isinstance(world, World) and scene.environment.kind == "gridworld":
        with contextlib.suppress(Exception):  # an agent may refuse to begin another episode
            visits = _array(occupancy(world.mdp, agent.begin_episode().policy).sum(axis=0))
    buffer = io.BytesIO()
    _frame(experiment, task, run, watched).write_parquet(buffer)
    return Result(buffer.getvalue(), visits, seconds)


POINTS = 200
"""How often the diagnostics of a run are noted, at most."""


class Watched:
    """Notes the diagnostics of an agent at even distances, and after the last episode.

    Attributes:
        found: the diagnostics as JSON, by episode.
    """

    def __init__(self, agent: Agent, episodes: int) -> None:
        self._agent = agent
        self._every = -(-episodes // POINTS)
        self.found: dict[int, str] = {}

    def over(self, episodes: range) -> Iterator[int]:
        """The episodes one by one; what is asked for between two is after the first."""
        for k in episodes:
            yield k
            if (k + 1) % self._every == 0 or k == episodes[-1]:
                self.found[k] = json.dumps(dict(self._agent.diagnostics()), sort_keys=True)


def parameters(experiment: Experiment, task: Task) -> str:
    """The parameters of the agent of a run, as JSON."""
    learner = experiment.learner(task.learner)
    given = table(learner.agent, as_content) | {
        "information": experiment.information_of(learner, task.case),
        "paths": experiment.paths_of(learner),
    }
    return json.dumps(given, sort_keys=True)


def _frame(experiment: Experiment, task: Task, run: Run, watched: Watched) -> pl.DataFrame:
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
            "diagnostics": pl.Series([watched.found.get(k) for k in range(K)], dtype=pl.String),
            "step_delays": pl.Series(_of_steps(run), dtype=pl.String),
        }
    )


def _of_steps(run: Run) -> list[str | None]:
    """The delays of the single costs of every episode, as JSON."""
    if run.step_delays is None:
        return [None] * len(run.values)
    told = np.where(run.step_delays == NEVER, -1, run.step_delays)
    return [json.dumps(row) for row in told.tolist()]


def _best(run: Run) -> dict[str, Floats]:
    """What the best policies cost, on mean costs."""
    best = (run.means or run).best
    if best is None:  # decisions: the comparator is the best action of every visitor
        return {"best_each": run.comparator, "best_so_far": np.cumsum(run.comparator)}
    return {"best_each": best.each, "best_so_far": best.so_far}


def _array(values: Floats) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()
