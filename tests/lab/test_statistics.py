"""Intervals, pairs, slopes and exact numbers, against closed forms and brute force."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.lab import figures, statistics, tables, theory
from belated.lab.parts import part
from belated.lab.spec import Setting


def frame(costs):
    """Rows of one case: costs[agent] is (seeds, episodes)."""
    parts = [
        pl.DataFrame(
            {
                "case": "",
                "agent": agent,
                "seed": seed,
                "episode": range(len(values)),
                "value": values,
                "comparator": [1.0] * len(values),
                "regret": list(np.cumsum(np.array(values) - 1.0)),
            }
        )
        for agent, seeds in costs.items()
        for seed, values in seeds.items()
    ]
    return pl.concat(parts)


def test_the_interval_of_a_mean_has_the_width_of_the_central_limit_theorem():
    values = np.random.default_rng(1).normal(5.0, 2.0, 400)
    found = statistics.interval(values)
    half = 1.96 * values.std() / 20
    assert found.mean == values.mean()
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(150):
        found = statistics.interval(rng.normal(0.0, 1.0, 30))
        hits += found.low <= 0.0 <= found.high
    assert 0.90 <= hits / 150 <= 0.97


def test_with_few_seeds_intervals_are_as_narrow_as_the_report_says():
    rng = np.random.default_rng(4)
    for seeds, says in ((3, 0.75), (5, 0.83), (10, 0.90)):
        _, low, high = statistics.bootstrap(rng.normal(size=(seeds, 4000)))
        assert ((low <= 0) & (high >= 0)).mean() == pytest.approx(says, abs=0.025)


def test_bands_are_intervals_episode_by_episode():
    values = np.random.default_rng(3).random((7, 4))
    mean, low, high = statistics.bootstrap(values)
    for k in range(4):
        one = statistics.interval(values[:, k])
        assert (mean[k], low[k], high[k]) == pytest.approx((one.mean, one.low, one.high))


def test_one_seed_gives_a_point():
    found = statistics.interval(np.array([3.0]))
    assert (found.low, found.mean, found.high) == (3.0, 3.0, 3.0)


def test_differences_are_taken_on_common_seeds_only():
    rows = frame(
        {
            "A": {0: [1.0, 3.0], 1: [3.0, 3.0], 2: [100.0, 100.0]},
            "B": {1: [3.0, 3.0], 0: [4.0, 4.0]},
        }
    )
    (found,) = statistics.differences(rows)
    assert (found.first, found.second, found.seeds) == ("A", "B", 2)
    assert found.cost.mean == pytest.approx(-1.0)
    assert found.won == 0.75  # one seed won, one tied


def test_the_summary_averages_over_episodes_then_seeds():
    rows = frame({"A": {0: [5.0] * 9 + [1.0], 1: [7.0] * 9 + [3.0]}})
    (line,) = statistics.summary(rows)
    assert line.cost.mean == pytest.approx((4.6 + 6.6) / 2)
    assert line.end.mean == pytest.approx(2.0)
    assert line.regret.mean == pytest.approx((36.0 + 56.0) / 2)
    table = tables.costs([line], "T")
    assert table.title == "T, 2 seeds"
    assert table.head[0] == "agent"
    assert table.rows[0][1].startswith("5.60 [")


def test_slope_of_a_power():
    x = np.array([1.0, 2.0, 8.0])
    assert statistics.slope(x, 3.0 * x**0.7) == pytest.approx(0.7)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_labels_are_moved_apart_in_their_order(wanted):
    wanted = np.array(wanted)
    placed = figures.spread(wanted, gap=0.06)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(placed[order]) >= 0.06 - 1e-9).all()
    if len(wanted) > 1 and np.diff(np.sort(wanted)).min() >= 0.06:
        np.testing.assert_allclose(placed, wanted)


def test_labels_that_must_move_down_leave_the_others_where_they_are():
    placed = figures.spread(np.array([0.3, 0.98, 0.99, 1.0]), gap=0.06)
    np.testing.assert_allclose(placed, [0.3, 0.88, 0.94, 1.0])


@pytest.mark.parametrize(("blocks", "actions"), [(1, 2), (3, 2), (4, 3), (5, 2)])
def test_the_largest_surplus_agrees_with_enumeration(blocks, actions):
    coins = itertools.product(itertools.product((0, 1), repeat=blocks), repeat=actions)
    surpluses = [max(blocks / 2 - sum(arm) for arm in arms) for arms in coins]
    expected = sum(surpluses) / len(surpluses)
    assert theory.expected_largest_surplus(blocks, actions) == pytest.approx(expected)


def test_the_exact_lower_bound_tends_to_that_of_normal_variables():
    # (H / 2) E[largest of A standard normals] sqrt(K (d + 1)); E = 1.02938 for A = 4
    for delay in (0, 4, 19):
        world = part("delay_lower_bound", delay=delay, actions=4, horizon=3)
        found = theory.delay_lower_bound(Setting(world, None, part("fixed", delay=delay), 4000))
        assert found == pytest.approx(1.5 * 1.02938 * math.sqrt(4000 * (delay + 1)), rel=2e-3)


def test_no_exact_number_where_it_would_be_wrong():
    world = part("delay_lower_bound", delay=3)
    assert theory.delay_lower_bound(Setting(world, None, part("fixed", delay=2), 400)) is None
    assert theory.delay_lower_bound(Setting(world, None, part("fixed", delay=3), 402)) is None
    assert theory.delay_lower_bound(Setting(part("chain"), None, part("none"), 400)) is None


def test_the_bound_is_least_at_its_own_rate():
    H, A, K, D = 3, 4, 100, 50
    squares = 1 + 4 + 9
    rate = math.sqrt(H * math.log(A) / ((K + D) * squares))
    best = theory.oppo_bound(H, A, K, D, rate)
    assert best == pytest.approx(2 * math.sqrt(H * math.log(A) * (K + D) * squares))
    assert theory.oppo_bound(H, A, K, D, rate / 2) > best
