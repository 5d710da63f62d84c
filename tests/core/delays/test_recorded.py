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
    model = bl.delays.trace(waited, decided=decided)
    assert draw(model, len(steps)) == by_hand(decided, waited)


@given(st.lists(waits, min_size=1, max_size=20), st.integers(1, 7))
def test_a_rate_is_evenly_spaced_decisions(waited, per_unit):
    """The oracle has decision times on a grid so long that nothing is cut off."""
    long = np.array([*map(float, waited), *[0.0] * (41 * per_unit)])
    scaled = np.arange(len(long), dtype=float)  # time is counted in decisions: no rounding
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
    with pytest.raises(ValueError, match=r"give decided or rate .* got 2.5 in line 2"):
        bl.delays.trace(path, "hours")
    with pytest.raises(ValueError, match="decided must be one of 'at', 'hours', got 'att'"):
        bl.delays.trace(path, "hours", decided="att")
    with pytest.raises(ValueError, match=r"a time in every row, got none in line 3 of visits.csv"):
        bl.delays.trace(path, "at", decided="hours")


def test_time_zones_count_and_units_are_said(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(
        "at,seconds\n2024-03-01T12:00:00Z,90\n2024-03-01T14:01:00+02:00,10\n"
        "2024-03-01 12:02:00Z,\n2024-03-01T12:03:00Z,1\n"
    )
    model = bl.delays.trace(path, "seconds", decided="at", unit="s")
    assert draw(model, 4) == [1, 0, bl.NEVER, 0]
    model = bl.delays.trace(path, "seconds", decided="at", unit="ms")
    assert draw(model, 4) == [0, 0, bl.NEVER, 0]
    with pytest.raises(ValueError, match="unit must be one of 'us', 'ms', 's', 'min', 'h', 'd'"):
        bl.delays.trace(path, "seconds", decided="at")


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
    assert draw(bl.delays.trace(path, "wait", decided="at"), 4) == expected
    for column in ("seconds", "text"):
        assert draw(bl.delays.trace(path, column, decided="at", unit="s"), 4) == expected
    assert draw(bl.delays.trace(str(path), "episodes"), 4) == expected
    assert draw(bl.delays.trace(path, "wait", rate=2, unit="min"), 4) == [2, 0, bl.NEVER, 1]
    with pytest.raises(ValueError, match="column must be one of 'at', 'wait'"):
        bl.delays.trace(path, decided="at")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match="readable Parquet file") as caught:
        bl.delays.trace(broken, "wait")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"absent\.parquet, which is missing"):
        bl.delays.trace(tmp_path / "absent.parquet", "wait")


MESSY = """\ufeffvisit,decided,converted
a,2024-03-31T00:30:00+01:00,2024-03-31T03:10:00+02:00
b,2024-03-30T23:45:00Z,
a,2024-03-31T00:30:00+01:00,2024-03-31T03:20:00+02:00
c,2024-03-31T00:00:00Z,NA
d,2024-03-31T00:00:00Z,2024-03-31T00:00:30Z
 c,2024-03-31T00:00:00+00:00,2024-03-31T01:10:00Z
e,2024-03-31T03:10:00+02:00,2024-03-31 03:10:00+02:00
f,2024-03-31T01:30:00Z,null
g,2024-03-31T01:40:00Z,2024-03-31T09:00:00Z
"""
"""A log with a byte order mark, two zones, a change of summer time, doubled rows and empty cells.

In UTC: a is decided at 23:30 and converts at 01:10, when e is decided, three decisions later (b, c
and d pass). b never converts. c, decided at 00:00 with d, first without and then with an outcome,
converts at 01:10 as well: d passes. d converts before the next decision, e at once. f never does. g
converts after the last decision.
"""
CONVERTED = [3, bl.NEVER, 1, 0, 0, bl.NEVER, 0]


def test_a_messy_file_worked_out_by_hand(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(MESSY, encoding="utf-8")
    model = bl.delays.trace(path, decided="decided", arrived="converted", key="visit")
    assert draw(model, 7) == CONVERTED
    assert str(model) == (
        "7 recorded delays, 28.6% lost; of the others 50 % within 0, 90 % within 3, "
        "99 % within 3 and all within 3 episodes"
    )
    assert repr(model) == "trace([3, NEVER, 1, 0, 0, NEVER, 0])"
    with pytest.raises(ValueError, match=r"must not decrease .* got line 4 of visits.csv"):
        bl.delays.trace(path, decided="decided", arrived="converted")
    with pytest.raises(ValueError, match="column must hold waiting times, got times in line 2"):
        bl.delays.trace(path, "converted", decided="decided")
    with pytest.raises(ValueError, match=r"column must be the name .* got times in line 2"):
        bl.delays.trace(path, "converted")
    path.write_text(MESSY.replace("d,2024-03-31T00:00:00Z", "d,2024-03-31T00:00:00"))
    with pytest.raises(ValueError, match=r"with a time zone in line 2 .* without a .* in line 6"):
        bl.delays.trace(path, decided="decided", arrived="converted", key="visit")
    path.write_text(MESSY.replace(" c,2024-03-31T00:00:00", "c,2024-03-31T00:01:00"))
    with pytest.raises(ValueError, match="same in all rows with visit = 'c', got others in line 5"):
        bl.delays.trace(path, decided="decided", arrived="converted", key="visit")


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy", "lists", "texts", "numbers"])
def test_two_columns_of_times_from_anywhere(kind):
    """The same seven decisions, in every kind of container."""
    lines = [line.split(",") for line in MESSY.splitlines()[1:]]
    keep = [lines[i] for i in (0, 1, 5, 4, 6, 7, 8)]
    texts = [[row[i] if len(row[i]) > 4 else None for row in keep] for i in (1, 2)]
    times = [[t and datetime.fromisoformat(t).astimezone(UTC) for t in column] for column in texts]
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        times = [pandas.Series(pandas.to_datetime(column)) for column in times]
        assert times[0].dt.tz is not None
    elif kind == "polars":
        times = [polars.Series(column) for column in times]
    elif kind == "numpy":
        plain = [[t and t.replace(tzinfo=None) for t in column] for column in times]
        times = [np.array(column, dtype="datetime64[ns]") for column in plain]
    elif kind == "texts":
        times = texts
    elif kind == "numbers":
        times = [np.array([t.timestamp() if t else np.nan for t in column]) for column in times]
    model = bl.delays.trace(decided=times[0], arrived=times[1])
    assert draw(model, 7) == CONVERTED
    if kind in ("pandas", "polars"):
        waited = times[1] - times[0]
        assert draw(bl.delays.trace(waited, decided=times[0]), 7) == CONVERTED


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
        (lambda: bl.delays.trace([1.0], unit="h"), "unit needs decided or rate"),
        (lambda: bl.delays.trace([1.0], rate=1, unit="hours"), "unit must be one of 'us', 'ms'"),
        (lambda: bl.delays.trace([1.0], key="id"), "key is the name of a column for files only"),
        (lambda: bl.delays.trace([1.0], decided=[0], arrived=[1]), "delays must be None where arr"),
        (lambda: bl.delays.trace(decided=[0], arrived=[1], rate=2), "rate must be None where arr"),
        (lambda: bl.delays.trace(decided=[0], arrived=[1], unit="s"), "unit must be None where"),
        (lambda: bl.delays.trace(arrived=[1.0]), "decided must be given where arrived is"),
        (lambda: bl.delays.trace([MINUTE], rate=1), "unit of the rate must be one of"),
        (lambda: bl.delays.trace([MINUTE], decided=[0.0]), "decided must be dates where"),
        (lambda: bl.delays.trace([NOON], rate=1), r"got times in delays\[0\]: give times of arr"),
        (lambda: bl.delays.trace([1, NOON], rate=1), "one kind of thing, got numbers in delays"),
        (lambda: bl.delays.trace([True, None], rate=1), r"got True in delays\[0\]"),
        (lambda: bl.delays.trace(decided=[MINUTE], arrived=[NOON]), "decided must hold times"),
        (lambda: bl.delays.trace(decided=[NOON], arrived=[3.0]), "arrived must hold times like"),
        (lambda: bl.delays.trace(decided=[NOON], arrived=[MINUTE]), "arrived must hold times like"),
        (lambda: bl.delays.trace(decided=[9.0, 10.0], arrived=[9.5, 2.0]), "before in arrived.1."),
        (
            lambda: bl.delays.trace(decided=[NOON], arrived=[NOON.replace(tzinfo=None)]),
            "both have time zones or neither, got them for decided",
        ),
        (
            lambda: bl.delays.trace([1.7e6 + 5, 1.7e6 + 90], decided=[1.7e6, 1.7e6 + 60]),
            "like those of decided: give times of arrival as arrived, or let decided begin at 0",
        ),
        (lambda: bl.delays.trace([1.0], "at"), "column is the name of a column for files only"),
        (lambda: bl.delays.trace(["a"], rate=1), r"delays must hold numbers.* got 'a'"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


EPOCH = 1_711_843_800  # in 2024


@pytest.mark.parametrize("scale", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("layout", ["counts", "file", "rate", "relative times", "list"])
def test_times_of_a_clock_are_not_taken_for_delays(scale, layout, tmp_path):
    """Seconds, milliseconds, microseconds and nanoseconds since 1970, after a small number."""
    times = [3, EPOCH * scale, EPOCH * scale + 7]
    path = tmp_path / "visits.csv"
    path.write_text("at\n" + "".join(f"{time}\n" for time in times))
    call, where = {
        "counts": (lambda: bl.delays.trace(np.array(times)), r"in delays\[1\], which looks"),
        "list": (lambda: bl.delays.trace(times), r"in delays\[1\], which looks like a time"),
        "file": (lambda: bl.delays.trace(path, "at"), "in line 3 of visits.csv, which looks"),
        "rate": (lambda: bl.delays.trace(path, "at", rate=2), "line 3 of visits.csv = 1.?71184"),
        "relative times": (
            lambda: bl.delays.trace(times, decided=[0, 5, 9]),
            r"below 946684800, got delays\[1\] = 1.?71184.*as arrived, or say their unit",
        ),
    }[layout]
    with pytest.raises(ValueError, match=where) as caught:
        call()
    assert "give times of arrival as arrived" in str(caught.value)


def test_two_clocks_with_different_units_are_not_compared():
    seconds = np.array([EPOCH, EPOCH + 60])
    with pytest.raises(ValueError, match="arrived must be in the unit of decided"):
        bl.delays.trace(decided=seconds, arrived=1000 * seconds)
    late = bl.delays.trace(decided=[1, 2], arrived=[500, 700])  # long after the last decision
    assert draw(late, 2) == [1, 0]


def test_a_list_may_have_gaps():
    assert draw(bl.delays.trace([3, None, 0]), 3) == [3, bl.NEVER, 0]
    assert draw(bl.delays.trace(("3", "NA", "0")), 3) == [3, bl.NEVER, 0]
    with pytest.raises(ValueError, match=r"delays must be whole numbers .* got durations in"):
        bl.delays.trace([MINUTE, None])
    with pytest.raises(ValueError, match=r"delays must be whole numbers .* got 0.5 in delays\[1\]"):
        bl.delays.trace([None, 0.5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "with a header, got .*visits.csv, which is empty"),
        ("at,hours\n", "at least one delay, got none"),
        ("at,hours\n0,1\n1,0,5\n", "as many cells in every row .* line 3 of visits.csv"),
        ("at,hours\n0,1\n1,2\n2", "as many cells in every row .* line 4 of visits.csv"),
    ],
)
def test_rows_that_do_not_fit_the_header_are_named(tmp_path, text, message):
    """A decimal comma adds a cell, and a truncated file lacks one."""
    path = tmp_path / "visits.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        bl.delays.trace(path, "hours", decided="at")


def test_long_waits_are_taken_if_their_unit_is_said():
    """Twenty days in milliseconds, with one decision per hour, are taken; fifty years are not."""
    assert draw(bl.delays.trace([1.728e9, 0], rate=1 / 3.6e6, unit="ms"), 2) == [479, 0]
    assert draw(bl.delays.trace([946_684_799, 5], rate=1e-8), 2) == [9, 0]
    with pytest.raises(ValueError, match=r"below 946684800 seconds, got delays\[0\] = 1.6e\+12"):
        bl.delays.trace([1.6e12], rate=1, unit="ms")
    for unit, scale in (("s", 1), ("us", 10**6)):
        with pytest.raises(ValueError, match="below 946684800 seconds"):
            bl.delays.trace([EPOCH * scale], decided=[NOON], unit=unit)
    assert draw(bl.delays.trace([946_684_799, bl.NEVER]), 2) == [946_684_799, bl.NEVER]


def test_a_panic_of_the_parquet_reader_is_one_sentence(tmp_path, monkeypatch):
    """Some damaged files make the compiled reader panic; a panic is not an `Exception`."""

    def panic(path):
        raise polars.exceptions.PanicException("called unwrap\non an Err")

    monkeypatch.setattr(polars, "read_parquet", panic)
    with pytest.raises(ValueError, match=r"readable Parquet file, got .*: called unwrap$"):
        bl.delays.trace(tmp_path / "waits.parquet", "wait")


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
