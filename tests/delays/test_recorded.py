"""Traces in units of time: CSV and Parquet, decision times and rates, lost records."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl

waits = st.one_of(st.integers(0, 40), st.just(np.inf))


def draw(model, n):
    return model.draw(n, np.random.default_rng(0)).tolist()


def by_hand(decided, waited):
    """The first later decision that can use the record, by looking at every one."""
    delays = []
    for k, (t, w) in enumerate(zip(decided, waited, strict=True)):
        if w == np.inf:
            delays.append(bl.NEVER)
            continue
        later = [m for m in range(k + 1, len(decided)) if decided[m] >= t + w]
        delays.append((later[0] if later else len(decided)) - k - 1)
    return delays


@given(st.lists(st.tuples(st.integers(0, 5), waits), min_size=1, max_size=30))
def test_the_first_decision_after_the_arrival_can_use_it(steps):
    decided = np.cumsum([gap for gap, _ in steps]).astype(float)
    waited = np.array([float(w) for _, w in steps])
    model = bl.delays.trace(waited, decided=decided)
    assert draw(model, len(steps)) == by_hand(decided, waited)


@given(st.lists(waits, min_size=1, max_size=20), st.integers(1, 7))
def test_a_rate_is_evenly_spaced_decisions(waited, per_unit):
    """Against decision times on a grid so long that nothing is cut off."""
    long = np.array([*map(float, waited), *[0.0] * (41 * per_unit)])
    scaled = np.arange(len(long), dtype=float)  # times in decisions, so without rounding
    expected = by_hand(scaled, long * per_unit)[: len(waited)]
    assert draw(bl.delays.trace(np.array(waited, float), rate=per_unit), len(waited)) == expected


def test_a_rate_is_not_fooled_by_rounding():
    assert 0.07 * 100 > 7
    assert draw(bl.delays.trace([0.07, 0.57, 0.0, 0.005], rate=100), 4) == [6, 56, 0, 0]


def test_csv_in_units_of_time(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("at,hours\n0,2.5\n1,\n2,0.5\n2,never\n4.5,1e3\n5,0\n")
    expected = [3, bl.NEVER, 1, bl.NEVER, 1, 0]
    assert draw(bl.delays.trace(path, "hours", decided="at"), 6) == expected
    assert draw(bl.delays.trace(path, "hours", rate=2), 6) == [
        4, bl.NEVER, 0, bl.NEVER, 1999, 0,
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"give decided or rate .* got '2.5' in line 2"):
        bl.delays.trace(path, "hours")
    with pytest.raises(ValueError, match="decided must be one of 'at', 'hours', got 'att'"):
        bl.delays.trace(path, "hours", decided="att")
    with pytest.raises(ValueError, match="column of numbers or dates with times, got ''"):
        bl.delays.trace(path, "at", decided="hours")


def test_dates_are_seconds_and_time_zones_count(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(
        "at,seconds\n2024-03-01T12:00:00Z,90\n2024-03-01T14:01:00+02:00,10\n"
        "2024-03-01 12:02:00,\n2024-03-01T12:03:00Z,1\n"
    )
    assert draw(bl.delays.trace(path, "seconds", decided="at"), 4) == [1, 0, bl.NEVER, 0]


def test_parquet_with_numbers_dates_and_durations(tmp_path):
    path = tmp_path / "visits.parquet"
    start = datetime(2024, 3, 1, 12, tzinfo=UTC)
    minute = timedelta(minutes=1)
    polars.DataFrame(
        {
            "at": [start, start + minute, start + 2 * minute, start + 3 * minute],
            "wait": [1.5 * minute, timedelta(0), None, minute],
            "seconds": [90.0, 0.0, float("nan"), 60.0],
            "episodes": [1, 0, None, 0],
            "text": ["90", "0", "never", "60"],
        }
    ).write_parquet(path)
    expected = [1, 0, bl.NEVER, 0]
    for column in ("wait", "seconds", "text"):
        assert draw(bl.delays.trace(path, column, decided="at"), 4) == expected
    assert draw(bl.delays.trace(str(path), "episodes"), 4) == expected
    assert draw(bl.delays.trace(path, "wait", rate=1 / 30), 4) == [2, 0, bl.NEVER, 1]
    with pytest.raises(ValueError, match="column must be one of 'at', 'wait'"):
        bl.delays.trace(path, decided="at")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match="readable Parquet file") as caught:
        bl.delays.trace(broken, "wait")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="readable Parquet file"):
        bl.delays.trace(tmp_path / "absent.parquet", "wait")


def test_lost_records_stay_lost_in_a_run():
    world = bl.environments.bandit([0.2, 0.8])
    model = bl.delays.trace([5.0, np.nan, 5.0, bl.NEVER, 0.0, 0.0], rate=0.5)
    run = bl.simulate(world, bl.DelayedOPPO(world.problem), delays=model, episodes=6)
    assert run.delays.tolist() == [2, bl.NEVER, 2, bl.NEVER, 0, 0]
    assert run.missing.tolist() == [1, 2, 2, 3, 2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bl.delays.trace([1.0, -2.0], rate=1), r"delays\[1\] = -2"),
        (lambda: bl.delays.trace([1.0, -np.inf], rate=1), r"delays\[1\] = -inf"),
        (lambda: bl.delays.trace([1.0], rate=0), "rate must be a finite number above 0, got 0"),
        (lambda: bl.delays.trace([1.0], rate=1, decided=[0.0]), "rate must be None"),
        (lambda: bl.delays.trace([1.0, 2.0], decided=[0.0]), "decided must hold 2 times"),
        (lambda: bl.delays.trace([1.0, 2.0], decided=[1, 0]), r"decided\[1\] = 0 after 1"),
        (lambda: bl.delays.trace([1.0, 2.0], decided=[1, np.nan]), "decided must be finite"),
        (lambda: bl.delays.trace([1.0], decided="at"), "decided is the name of a column for"),
        (lambda: bl.delays.trace([1.0], "at"), "column is the name of a column for files only"),
        (lambda: bl.delays.trace(["a"], rate=1), "delays must be numbers"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_without_polars_the_message_says_what_to_install():
    code = """
import sys
sys.modules["polars"] = None
import belated as bl
try:
    bl.delays.trace("a.parquet", "wait")
except ImportError as error:
    assert "pip install polars" in str(error)
else:
    raise SystemExit("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
