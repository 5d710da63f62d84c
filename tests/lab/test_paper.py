"""The statements of the paper hold in our rows, with fixed seeds."""

import dataclasses

import numpy as np
import pytest

from belated.lab import Learner, RunBrief, named, part, run, statistics, store
from belated.lab.task import delays_of, world_of
from limits import FULL
from oracles import delay_lower_bound, oppo_bound

SEEDS = 5


def lines(tmp_path_factory, name, **changes):
    experiment = dataclasses.replace(named(name), seeds=SEEDS, **changes)
    directory = tmp_path_factory.mktemp(name)
    run(experiment, directory)
    rows = store.rows(directory)
    return {line.agent: line for line in statistics.summary(rows)}, rows


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return lines(tmp_path_factory, "paper-grid")


@pytest.fixture(scope="module")
def walls(tmp_path_factory):
    return lines(tmp_path_factory, "paper-walls")


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return lines(tmp_path_factory, "paper-short-delays")


def first_and_last(rows, agent):
    values = statistics.curves(rows, "value")["", agent].values
    tenth = values.shape[1] // 10
    return values[:, :tenth].mean(), values[:, -tenth:].mean()


@pytest.mark.long
def test_plain_grid_delayed_before_pipeline_before_parallel(plain):
    line, rows = plain
    assert line["Delayed OPPO"].cost.high < line["Pipeline-OPPO"].cost.low
    assert line["Pipeline-OPPO"].cost.high < line["Parallel-OPPO"].cost.low
    assert line["Delayed OPPO"].end.mean < 1.02 * line["Delayed OPPO"].optimum
    start, end = first_and_last(rows, "Parallel-OPPO")
    assert start - end < 0.1  # of 50: it does not improve


@pytest.mark.long
def test_with_walls_everything_takes_longer_and_delayed_stays_ahead(plain, walls):
    line, _ = walls
    assert line["Delayed OPPO"].cost.high < line["Pipeline-OPPO"].cost.low
    assert line["Pipeline-OPPO"].cost.high < line["Parallel-OPPO"].cost.low
    for agent in ("Delayed OPPO", "Pipeline-OPPO"):
        assert halfway(walls[1], agent) > 1.1 * halfway(plain[1], agent)


def halfway(rows, agent):
    """The episode in which an agent has come half the way from its first cost to the optimum."""
    values = statistics.curves(rows, "value")["", agent].values.mean(axis=0)
    best = rows["comparator"].mean()
    return int(np.argmax(values < (values[0] + best) / 2))


@pytest.mark.long
def test_short_delays_parallel_improves_pipeline_does_well_delayed_is_ahead(short):
    line, rows = short
    start, end = first_and_last(rows, "Parallel-OPPO")
    assert start > 48
    assert end < 36
    assert line["Pipeline-OPPO"].end.mean < 1.03 * line["Pipeline-OPPO"].optimum
    (pair,) = [
        d
        for d in statistics.differences(rows)
        if (d.first, d.second) == ("Delayed OPPO", "Pipeline-OPPO")
    ]
    assert pair.cost.high < 0
    assert pair.won == 1.0


@pytest.mark.long
def test_a_few_lost_records_hurt_pipeline_and_parallel_only(tmp_path_factory, plain):
    line, _ = lines(tmp_path_factory, "lost-records")
    assert line["Delayed OPPO"].cost.mean < 1.03 * plain[0]["Delayed OPPO"].cost.mean
    for agent in ("Pipeline-OPPO", "Parallel-OPPO"):
        assert line[agent].end.mean > 49.9  # as bad as at the start


@pytest.fixture(scope="module")
def lower_bound(tmp_path_factory):
    experiment = named("lower-bound-delay")
    experiment = dataclasses.replace(
        experiment, agents=experiment.agents[:1], seeds=60 if FULL else 8, episodes=256
    )
    directory = tmp_path_factory.mktemp("lower-bound")
    run(experiment, directory, engine="here")
    return experiment, store.rows(directory)


@pytest.mark.slow
def test_regret_on_the_lower_bound_world_is_the_exact_one(lower_bound):
    experiment, rows = lower_bound
    delays, means = [], []
    for (case, _), curve in statistics.curves(rows, "regret").items():
        final = curve.values[:, -1]
        expected = delay_lower_bound(experiment.scene(case))
        error = final.std(ddof=1) / np.sqrt(len(final))
        assert abs(final.mean() - expected) < 3.5 * error
        delays.append(experiment.scene(case).delays.values["delay"])
        means.append(final.mean())
    slope = np.polyfit(np.log(np.array(delays) + 1.0), np.log(means), 1)[0]
    assert slope == pytest.approx(0.5, abs=0.05)


@pytest.mark.long
def test_every_setting_has_the_exact_regret_of_the_lower_bound_world(tmp_path):
    """12 seeds, 21 means: each within 4 standard errors of the exact one."""
    experiment = named("lower-bound-delay")
    experiment = dataclasses.replace(
        experiment, agents=experiment.agents[1:], seeds=12, cases=experiment.cases[::2]
    )
    run(experiment, tmp_path)
    for (case, _), curve in statistics.curves(store.rows(tmp_path), "regret").items():
        final = curve.values[:, -1]
        expected = delay_lower_bound(experiment.scene(case))
        assert abs(final.mean() - expected) < 4 * final.std(ddof=1) / np.sqrt(len(final))


@pytest.mark.long
def test_tuned_full_information_agents_stay_under_the_exact_bound(tmp_path):
    experiment = named("grid-delay")
    tuned = part("softmax", learning_rate="tuned")
    agents = (
        Learner("tuned", part("oppo", transitions="known", update=tuned)),
        Learner("anytime", part("oppo", transitions="known")),
        Learner("O-REPS", part("oreps", transitions="known")),
    )
    experiment = dataclasses.replace(experiment, agents=agents, seeds=2, episodes=1500)
    run(experiment, tmp_path)
    rows = store.rows(tmp_path)
    for case in experiment.case_names():
        scene = experiment.scene(case)
        world = world_of(scene)
        for seed in range(2):
            delays = delays_of(scene, world, seed)
            told = RunBrief(world.problem, "full", "late", world.mdp.transitions, delays)
            H, S, A = world.problem.shape
            K, D = told.episodes, told.total_delay
            oreps = np.sqrt(2 * np.log(S * A) / (K + 3 * D))
            bounds = {
                "tuned": oppo_bound(H, A, K, D, 1 / (H * np.sqrt(K + D))),
                "anytime": H * (H + 1) * np.sqrt(2 * np.log(A) * (K + D)),
                "O-REPS": 2 * H * np.log(S * A) / oreps + oreps * H * (K + 3 * D),
            }
            for agent, bound in bounds.items():
                one = rows.filter(case=case, agent=agent, seed=seed)
                assert 0 < one["regret"][-1] <= bound
