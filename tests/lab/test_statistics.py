"""Intervals, pairs and slopes, against closed forms and brute force."""

import numpy as np
import polars as pl
import pytest

from belated.lab import statistics, tables


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
                "uniform": [3.0] * len(values),
                "regret": list(np.cumsum(np.array(values) - 1.0)),
                "mean_value": np.array(values) + 0.5,
                "mean_comparator": [1.0] * len(values),
                "mean_uniform": [3.0] * len(values),
                "best_each": [0.5] * len(values),
                "best_so_far": np.arange(1, len(values) + 1) * 0.75,
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
    (line,) = statistics.summary(rows, "drawn")
    assert line.cost.mean == pytest.approx((4.6 + 6.6) / 2)
    assert line.end.mean == pytest.approx(2.0)
    assert line.regret.mean == pytest.approx((36.0 + 56.0) / 2)
    table = tables.costs([line], "T")
    assert table.title == "T, 2 seeds"
    assert table.head[0] == "agent"
    assert table.cells[0][1].startswith("5.60 [")


def test_costs_and_regrets_are_those_that_are_asked_for():
    """Means are 0.5 above the drawn costs; the comparators are 1, 0.5 and 0.75 per episode."""
    rows = frame({"A": {0: [2.0, 4.0], 1: [4.0, 4.0]}})
    found = {
        (on, kind): statistics.summary(rows, on, kind)[0]
        for on in statistics.ON
        for kind in (None, *statistics.REGRETS)
    }
    assert found["drawn", None].cost.mean == 3.5
    assert found["means", None].cost.mean == 4.0
    assert found["drawn", None].score.mean == pytest.approx(2.5 / 2)
    assert found["means", None].score.mean == pytest.approx(3.0 / 2)
    for on in statistics.ON:
        regrets = {kind: found[on, kind].regret.mean for kind in statistics.REGRETS}
        assert regrets == {"hindsight": 5.0, "means": 6.0, "dynamic": 7.0, "so far": 6.5}
    assert found["drawn", None].regret.mean == 5.0
    assert found["means", None].regret.mean == 6.0
    assert statistics.noisy(rows)
    with pytest.raises(ValueError, match="regret must be one of"):
        statistics.summary(rows, kind="static")


def test_differences_against_one_baseline():
    rows = frame({name: {0: [cost]} for name, cost in (("A", 1.0), ("B", 2.0), ("C", 4.0))})
    found = [(d.first, d.second, d.cost.mean) for d in statistics.differences(rows, "B")]
    assert found == [("A", "B", -1.0), ("C", "B", 2.0)]
    assert len(statistics.differences(rows)) == 3
    with pytest.raises(ValueError, match="baseline must be one of"):
        statistics.differences(rows, "D")


def test_slopes_have_intervals_over_the_seeds_that_all_cases_have():
    x = np.array([10.0, 100.0, 1000.0])
    exact = {str(c): {seed: float(x[c] ** 0.7) for seed in range(5)} for c in range(3)}
    found = statistics._slope(x, exact)
    assert (found.mean, found.low, found.high) == pytest.approx((0.7, 0.7, 0.7))
    rng = np.random.default_rng(0)
    noisy = {
        c: {seed: y * rng.uniform(0.5, 1.5) for seed, y in own.items()} for c, own in exact.items()
    }
    found = statistics._slope(x, noisy)
    assert found.low < found.mean < found.high
    assert found.high - found.low < 0.3
    assert np.isnan(statistics._slope(x[:1], {"0": exact["0"]}).mean)
    assert np.isnan(statistics._slope(x, {**exact, "2": {9: 1.0}}).mean)
