"""One task: its rows are what `simulate` says, and always the same."""

import dataclasses
import io

import numpy as np
import polars as pl

import belated as bl
from belated.lab import part
from belated.lab.spec import Case, Learner
from belated.lab.task import perform, world_of
from lab.small import TINY


def test_rows_are_what_simulate_says_column_by_column(tmp_path):
    """Paths at once for one agent and late for the other; a case with its own K, costs, delays."""
    oppo = part("oppo", transitions="bonus", update=part("softmax", learning_rate=0.3))
    own = Case("own", costs=part("random", seed=3), delays=part("uniform", low=1, high=6),
               episodes=33)  # fmt: skip
    experiment = dataclasses.replace(
        TINY,
        agents=(Learner("late", oppo), Learner("at once", oppo, "full", "at once")),
        cases=(Case("as is"), own),
        episodes=21,
    )
    runs = {}
    for task in experiment.tasks():
        K = 33 if task.case == "own" else 21
        found = pl.read_parquet(io.BytesIO(perform(experiment, task)[0]))
        world = world_of(experiment.scene(task.case))
        if task.case == "own":
            means = np.random.default_rng(3).random((1, *world.problem.shape[1:]))
            world = bl.World(world.mdp, bl.costs.stochastic(means))
        agent = bl.DelayedOPPO(
            world.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(learning_rate=0.3)
        )
        delays = bl.delays.uniform(1, 6) if task.case == "own" else bl.delays.geometric(2)
        run = bl.simulate(
            world, agent, delays=delays, episodes=K, seed=task.seed,
            paths="at once" if task.learner == "at once" else "late",
        )  # fmt: skip
        assert found["episode"].to_list() == list(range(K))
        for column in ("value", "realised", "comparator", "uniform", "regret", "missing", "delay"):
            want = {"value": "values", "delay": "delays"}.get(column, column)
            np.testing.assert_array_equal(found[column], getattr(run, want), err_msg=column)
        runs[task.case, task.learner, task.seed] = found["value"]
    assert not runs["own", "late", 0].equals(runs["own", "at once", 0])


def test_the_same_task_gives_the_same_bytes():
    task = TINY.tasks()[0]
    assert perform(TINY, task)[0] == perform(TINY, task)[0]
