"""The tables are those of the recorded runs, and what the page says of them holds."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs Matplotlib: pip install 'belated[lab]'")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    place = str(ROOT / "benchmarks" / "stale")
    sys.path.insert(0, place)
    try:
        yield importlib.import_module("report")
    finally:
        sys.path.remove(place)
        for name in ("report", "runs"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def cells(report):
    """Means over the run and half widths with the selected clips, by cell and correction."""
    grid, clips = report.read(report.GRID), report.selected(report.read(report.TUNING))
    found = {}
    for (task, delay, order, name, clip), runs in grid.items():
        if clips.get(name) == clip:
            assert len(runs) == 5
            means = runs[:, 2:].mean(1)
            cell = found.setdefault((task, delay, order), {})
            cell[name] = (means.mean(), float(report.half_width(means)), runs[:, -3:].mean())
    return found


def better(first, second):
    return first[0] - first[1] > second[0] + second[1]


def test_the_tables_are_written_from_the_files(report):
    assert (ROOT / "benchmarks" / "STALE.md").read_text(encoding="utf-8") == report.text()


def test_all_cells_have_all_corrections(report, cells):
    grid = {
        (task, delay, order)
        for task in ("CartPole", "Pendulum")
        for delay in report.DELAYS
        for order in report.ORDERS
    }
    assert set(cells) == grid | {("Acrobot", 20, "out of order")}
    assert all(set(cell) == set(report.CORRECTIONS) for cell in cells.values())


def test_what_the_page_says_of_the_corrections(cells):
    for key, cell in cells.items():
        assert not better(cell["behaviour"], cell["delay-adapted"]), key
        assert not better(cell["delay-adapted"], cell["behaviour"]), key
        assert not better(cell["guarded"], cell["delay-adapted"]), key
        if key[2] != "in order":
            best = max(mean for mean, _, _ in cell.values())
            assert cell["vtrace"][0] >= best - 0.5, key
    for order in ("in order", "lost"):
        cell = cells["CartPole", 78, order]
        for name in ("behaviour", "delay-adapted", "guarded"):
            assert better(cell["current"], cell[name])
    acrobot = cells["Acrobot", 20, "out of order"]
    assert better(acrobot["vtrace"], acrobot["delay-adapted"])
    assert acrobot["current"][2] < -280
    assert max(acrobot[name][2] for name in ("decoupled", "truncated")) > -90
    first = cells["Pendulum", 2, "in order"]
    assert better(first["behaviour"], first["truncated"])
    assert better(
        cells["CartPole", 2, "in order"]["behaviour"], cells["CartPole", 2, "in order"]["guarded"]
    )
    for order in ("in order", "out of order"):
        cell = cells["Pendulum", 2, order]
        assert all(better(cell[name], cell["waiting"]) for name in cell if name != "waiting")
    ended = [
        cells["CartPole", 20, order]["current"][2] for order in ("in order", "out of order", "lost")
    ]
    np.testing.assert_array_equal(np.round(ended), [205, 224, 305])


@pytest.mark.parametrize(
    ("task", "numbers"), [("CartPole", [409, 275, 366]), ("Pendulum", [-769, -1179, -1046])]
)
def test_what_the_page_says_of_the_parts_of_vtrace(report, task, numbers):
    grid = report.read(report.GRID)
    found = {}
    for name in ("values alone", "current", "ratio alone"):
        means = grid[task, 20, "out of order", name, 0.1][:, 2:].mean(1)
        found[name] = (means.mean(), float(report.half_width(means)))
    assert better(found["values alone"], found["current"])
    assert not better(found["ratio alone"], found["current"])
    assert [round(mean) for mean, _ in found.values()] == numbers
