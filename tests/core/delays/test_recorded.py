"""Recorded delays: numbers of episodes, and the times of decisions and outcomes."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl

NOON, MINUTE = datetime(2024, 3, 1, 12, tzinfo=UTC), timedelta(minutes=1)
waits = st.one_of(st.integers(0, 40), st.just(np.inf))


def draw(model, n):
    return model.draw(n, np.random.default_rng(0)).tolist()


def by_hand(decided, waited):
    """The delay of each record, found by a search through all later decisions."""
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
    model = bl.delays.from_times(decided, decided + waited)
    assert draw(model, len(steps)) == by_hand(decided, waited)


DECIDED = [0, 15, 30, 30, 100, 120, 130]
ARRIVED = [100, None, 100, 31, 100, None, 570]
"""Minutes. The first outcome arrives when the fifth decision is made, after three others. The third
decision, made together with the fourth, reports then too; the last reports after all decisions."""
DELAYS = [3, bl.NEVER, 1, 0, 0, bl.NEVER, 0]


def as_dates(minutes):
    return [None if m is None else NOON + m * MINUTE for m in minutes]


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy", "dates", "numbers", "plain"])
def test_columns_of_times_from_anywhere(kind):
    times = [as_dates(DECIDED), as_dates(ARRIVED)]
    naive = [[t and t.replace(tzinfo=None) for t in column] for column in times]
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        times = [pandas.Series(pandas.to_datetime(column)) for column in times]
        assert times[0].dt.tz is not None
    elif kind == "polars":
        times = [polars.Series(column) for column in times]
    elif kind == "numpy":
        times = [np.array(column, dtype="datetime64[ns]") for column in naive]
    elif kind == "plain":
        times = [DECIDED, ARRIVED]
    elif kind == "numbers":
        times = [np.array(DECIDED), np.array([np.nan if m is None else m for m in ARRIVED])]
    model = bl.delays.from_times(*times)
    assert draw(model, 7) == DELAYS
    assert repr(model) == "trace([3, NEVER, 1, 0, 0, NEVER, 0])"


def test_time_zones_count():
    east = [t.astimezone().astimezone(tz=None) for t in as_dates(DECIDED)]
    assert draw(bl.delays.from_times(east, as_dates(ARRIVED)), 7) == DELAYS


def test_a_csv_file_is_read_by_polars(tmp_path):
    """Two zones, a repeated row, and visits without an outcome."""
    path = tmp_path / "visits.csv"
    path.write_text(
        "visit,decided,booked\n"
        "a,2024-03-31T00:30:00+01:00,2024-03-31T03:10:00+02:00\n"
        "a,2024-03-31T00:30:00+01:00,2024-03-31T03:20:00+02:00\n"
        "b,2024-03-30T23:45:00Z,\n"
        "c,2024-03-31T03:10:00+02:00,2024-03-31T03:10:00+02:00\n"
    )
    log = polars.read_csv(path).with_columns(
        polars.col("decided", "booked").str.to_datetime("%Y-%m-%dT%H:%M:%S%#z")
    )
    log = log.group_by("visit", maintain_order=True).agg(
        polars.col("decided").first(), polars.col("booked").min()
    )
    assert draw(bl.delays.from_times(log["decided"], log["booked"]), 3) == [1, bl.NEVER, 0]


def test_lost_records_stay_lost_in_a_run():
    world = bl.environments.bandit([0.2, 0.8])
    model = bl.delays.trace([2.0, np.nan, 2.0, bl.NEVER, None, 0.0])
    run = bl.simulate(world, bl.DelayedOPPO(world.problem), delays=model, episodes=6)
    assert run.delays.tolist() == [2, bl.NEVER, 2, bl.NEVER, bl.NEVER, 0]
    assert run.missing.tolist() == [1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: bl.delays.from_times([0, 1], [1]),
            "arrived must hold 2 times like decided, got 1",
        ),
        (
            lambda: bl.delays.from_times([1, 0], [1, 2]),
            r"decided must not decrease .* decided\[1\]",
        ),
        (lambda: bl.delays.from_times([1, np.nan], [1, 2]), r"finite.* got none in decided\[1\]"),
        (lambda: bl.delays.from_times([9.0, 10.0], [9.5, 2.0]), r"before decided.* arrived\[1\]"),
        (lambda: bl.delays.from_times([NOON], [3.0]), "arrived must hold dates .*, got numbers"),
        (
            lambda: bl.delays.from_times([NOON], [NOON.replace(tzinfo=None)]),
            "arrived must hold dates with a time zone like decided, got dates without",
        ),
        (
            lambda: bl.delays.from_times([NOON, NOON.replace(tzinfo=None)], [NOON, NOON]),
            "decided must hold dates that all have a time zone, or all none",
        ),
        (lambda: bl.delays.from_times([], []), r"decided must have shape \(K,\), got shape \(0,\)"),
        (lambda: bl.delays.from_times([[0]], [1]), r"decided must have shape"),
        (
            lambda: bl.delays.from_times(["noon"], [1]),
            "decided must be numbers of shape .* or dates",
        ),
        (lambda: bl.delays.trace([1], repeat=3), "repeat must be True or False"),
        (lambda: bl.delays.trace([None, 0.5]), "delays must be whole numbers .* got 0.5"),
        (lambda: bl.delays.trace([MINUTE, None]), "delays must be numbers"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


EPOCH = 1_711_843_800  # in 2024


@pytest.mark.parametrize("scale", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("kind", [list, np.array])
def test_times_of_a_clock_are_not_taken_for_delays(scale, kind):
    """Seconds, milliseconds, microseconds and nanoseconds since 1970, after a small number."""
    with pytest.raises(ValueError, match=r"looks like a time: use from_times\(decided, arrived\)"):
        bl.delays.trace(kind([3, EPOCH * scale, EPOCH * scale + 7]))
    assert draw(bl.delays.trace([946_684_799, bl.NEVER]), 2) == [946_684_799, bl.NEVER]


def test_two_clocks_with_different_units_are_not_compared():
    seconds = np.array([EPOCH, EPOCH + 60])
    with pytest.raises(ValueError, match="arrived must be in the unit of decided"):
        bl.delays.from_times(seconds, 1000 * seconds)
    late = bl.delays.from_times([1, 2], [500, 700])  # long after the last decision
    assert draw(late, 2) == [1, 0]


def test_numbers_of_numpy_and_plain_ones_are_the_same_delays():
    plain = bl.delays.trace([3, None, 0])
    for same in (
        [np.int64(3), None, np.uint8(0)],
        [3.0, float("nan"), np.float32(0)],
        np.array([3, np.inf, 0], dtype=np.float32),
        np.array([3, bl.NEVER, 0], dtype=np.uint64),
        polars.Series([3, None, 0]),
        (3, bl.NEVER, False + 0),
    ):
        assert bl.delays.trace(same) == plain
