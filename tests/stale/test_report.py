"""The tables come from the recorded runs, and the statements of the page on them hold."""

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


def better_than(cell, name):
    return {other for other in cell if better(cell[other], cell[name])}


def test_what_the_page_says_of_the_corrections(cells):
    for key, cell in cells.items():
        assert "behaviour" not in better_than(cell, "delay-adapted"), key
        assert "delay-adapted" not in better_than(cell, "behaviour"), key
        assert "guarded" not in better_than(cell, "delay-adapted"), key
        if key[:2] in {("CartPole", 20), ("CartPole", 78)}:
            assert min(cell, key=cell.get) == "waiting", key
        if key[0] == "Pendulum":
            assert cell["guarded"][2] < -970, key
            if key[1] > 2 and key[2] != "in order":
                assert "vtrace" in better_than(cell, "delay-adapted"), key
    late = cells["CartPole", 78, "in order"]
    for name in ("behaviour", "delay-adapted", "vtrace"):
        assert "current" in better_than(late, name)
    acrobot = cells["Acrobot", 20, "out of order"]
    assert better(acrobot["vtrace"], acrobot["delay-adapted"])
    assert better_than(acrobot, "waiting") == set(acrobot) - {"waiting", "current"}
    assert acrobot["current"][2] < -280
    for name in ("decoupled", "truncated"):
        assert acrobot[name][0] > max(acrobot["behaviour"][0], acrobot["delay-adapted"][0])
        assert "vtrace" in better_than(cells["Pendulum", 2, "in order"], name)
        assert "delay-adapted" in better_than(cells["Pendulum", 20, "in order"], name)
    ended = [
        cells["CartPole", 20, order]["current"][2] for order in ("in order", "out of order", "lost")
    ]
    np.testing.assert_array_equal(np.round(ended), [205, 224, 305])


def test_what_the_page_says_of_a_common_clip(report):
    grid, found = report.read(report.GRID), {}
    for key, runs in grid.items():
        if key[3:] in {("behaviour", 0.2), ("delay-adapted", 0.2)}:
            means = runs[:, 2:].mean(1)
            pair = found.setdefault(key[:3], {})
            pair[key[3]] = (means.mean(), float(report.half_width(means)))
    assert len(found) == 5
    for key, pair in found.items():
        assert pair["delay-adapted"][0] > pair["behaviour"][0]
        assert better(*(pair[name] for name in ("delay-adapted", "behaviour"))) == (
            key == ("Pendulum", 20, "out of order")
        )


def test_what_the_page_says_of_current(report, cells):
    """Runs with `current` come close to the best and fall back."""
    grid = report.read(report.GRID)
    acrobot = grid["Acrobot", 20, "out of order", "current", 0.1]
    ends, best = acrobot[:, -3:].mean(1), acrobot[:, 2:].max(1)
    assert ((ends < -250).sum(), (ends == -500).sum(), (best > -140).all()) == (3, 2, True)
    for order in report.ORDERS:
        assert (grid["CartPole", 20, order, "current", 0.1][:, 2:].max(1) > 470).all()
        assert -1100 < cells["Pendulum", 20, order]["current"][2] < -900


def test_what_the_page_says_of_delay_adapted(report):
    """No mean over seeds falls back by a quarter of what was gained, up to a clip of 0.4."""
    for key, runs in {**report.read(report.GRID), **report.read(report.TUNING)}.items():
        if key[3] == "delay-adapted" and key[4] <= 0.4:
            curve = runs[:, 2:].mean(0)
            end = curve[-max(1, len(curve) // 10) :].mean()
            assert curve.max() - end < 0.25 * (curve.max() - curve.min()), key
    tuning = report.read(report.TUNING)
    best = {
        name: max(
            tuning["Docking", 20, "out of order", name, clip][:, 2:].mean() for clip in report.CLIPS
        )
        for name in ("delay-adapted", "truncated", "current")
    }
    assert best["delay-adapted"] < min(best["truncated"], best["current"])


def test_what_the_page_says_of_short_delays(report):
    """All corrections learn, except with clips of 0.8."""
    for (task, delay, *_, name, clip), runs in report.read(report.GRID).items():
        if delay == 2 and clip < 0.8 and name != "waiting":
            assert runs[:, -3:].mean() > {"CartPole": 460, "Pendulum": -450}[task]


def test_what_the_page_says_of_guarded(report, cells):
    worse = {key for key, cell in cells.items() if "delay-adapted" in better_than(cell, "guarded")}
    pendulum = {("Pendulum", delay, order) for delay in (2, 20) for order in report.ORDERS}
    in_order = {("Pendulum", 78, "in order"), ("CartPole", 20, "in order")}
    assert worse == pendulum | in_order
    for order in report.ORDERS:
        assert "truncated" in better_than(cells["Pendulum", 2, order], "guarded")


def test_what_the_page_says_of_vtrace(cells):
    best = {key for key, cell in cells.items() if max(cell, key=cell.get) == "vtrace"}
    mixed = {key for key in cells if key[2] != "in order"}
    assert mixed - best == {("CartPole", 2, "lost")}
    third = cells["CartPole", 2, "lost"]
    assert sorted(third, key=third.get)[-3] == "vtrace"
    assert {key[:2] for key in best - mixed} == {
        ("Pendulum", 2),
        ("Pendulum", 20),
        ("CartPole", 20),
    }
    late = cells["Pendulum", 78, "in order"]
    assert min(late, key=late.get) == "vtrace"


def test_what_the_page_says_of_the_first_range(report, cells):
    """The clip that the first range selects against the one of the whole range, cell by cell."""
    grid, tuning = report.read(report.GRID), report.read(report.TUNING)
    clips, narrow = report.selected(tuning), report.selected(tuning, report.NARROW)
    gains, losses, ends = [], [], {}
    for key, cell in cells.items():
        for name in (name for name in narrow if narrow[name] != clips[name]):
            runs = grid[*key, name, narrow[name]]
            means = runs[:, 2:].mean(1)
            first = (means.mean(), float(report.half_width(means)))
            if better(cell[name], first):
                gains.append((name, *key))
            if better(first, cell[name]):
                losses.append((name, *key))
            ends[name, *key] = [round(runs[:, -3:].mean()), round(cell[name][2])]
            if name in ("behaviour", "guarded"):
                assert not better(first, cell["delay-adapted"])
                assert not better(cell["delay-adapted"], first)
    assert (len(gains), len(losses)) == (2, 20)
    assert {key[:3] for key in gains} == {("waiting", "Pendulum", 2)}
    assert {key[3] for key in gains} == {"in order", "out of order"}
    assert sum(name == "waiting" for name, *_ in losses) == 8
    for key in (("CartPole", 2), ("CartPole", 20), ("Acrobot", 20)):
        cell = cells[*key, "out of order"]
        means = grid[*key, "out of order", "waiting", 0.4][:, 2:].mean(1)
        wide = (means.mean(), float(report.half_width(means)))
        assert {name for name in cell if better(cell[name], wide)} == {"vtrace"}
    for delay, numbers in ((2, [-290, -781]), (20, [-269, -1071])):
        assert ends["behaviour", "Pendulum", delay, "in order"] == numbers
        assert ("behaviour", "Pendulum", delay, "in order") in losses
    assert ends["vtrace", "Pendulum", 20, "in order"] == [-892, -349]
    assert ends["vtrace", "CartPole", 20, "in order"] == [359, 480]
    assert {key[1:] for key in losses if key[0] == "vtrace"} == {
        ("Acrobot", 20, "out of order"),
        ("CartPole", 2, "lost"),
    }


def test_what_the_page_says_of_small_effective_sample_sizes(report):
    grid = report.read(report.GRID)
    small = [runs for key, runs in grid.items() if key[0] == "Pendulum" and runs[:, 0].mean() < 0.5]
    assert sum(runs[:, -3:].mean() > -890 for runs in small) == 1


def test_what_the_page_says_of_inverted_pendulum(report):
    tuning = report.read(report.TUNING)
    found, last, first, first_last = {}, {}, {}, {}
    for clips, means, ends in (
        (report.selected(tuning), found, last),
        (report.selected(tuning, report.NARROW), first, first_last),
    ):
        for name, values in report.read_inverted(clips).items():
            assert len(values) == 5
            for into, part in ((means, values), (ends, values[:, -2:])):
                into[name] = (part.mean(), float(report.half_width(part.mean(1))))
    worse = [(a, b) for a in found for b in found if better(found[b], found[a])]
    assert {a for a, _ in worse} == {"waiting"}
    assert {b for _, b in worse} == set(found) - {"waiting", "current"}
    assert [round(x["behaviour"][0]) for x in (found, first)] == [651, 151]
    assert [round(x["guarded"][0]) for x in (last, first_last)] == [457, 1809]
    assert [round(x["waiting"][0]) for x in (last, first_last)] == [32, 928]
    assert better(found["truncated"], first["behaviour"])
    assert better(first_last["guarded"], last["guarded"])
    assert better(last["truncated"], last["guarded"])


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


def test_what_the_page_says_of_the_range_of_clips(report):
    tuning = report.read(report.TUNING)
    assert all(len(runs) == 5 for runs in tuning.values())
    clips, wide = report.selected(tuning, report.NARROW), report.selected(tuning)
    assert sum(clip in (0.05, 0.8) for clip in wide.values()) == 4
    assert clips["vtrace"] == 0.1
    assert {clips[name] for name in ("behaviour", "guarded", "waiting")} == {0.4}
    moved = {"behaviour": 0.8, "guarded": 0.8, "vtrace": 0.05, "waiting": 0.05}
    assert {name: wide[name] for name in wide if wide[name] != clips[name]} == moved
    found = {
        (task, name): [
            report.cell(tuning[task, 20, "out of order", name, clip]).split(" /")[0]
            for clip in (clips[name], wide[name])
        ]
        for task in ("Swing-up", "Docking")
        for name in moved
    }
    assert found["Docking", "behaviour"] == ["-149 ± 11", "-123 ± 16"]
    assert found["Swing-up", "behaviour"] == ["10 ± 4", "17 ± 7"]
    assert found["Swing-up", "vtrace"] == ["41 ± 26", "54 ± 6"]
    assert found["Docking", "vtrace"] == ["-107 ± 23", "-112 ± 7"]
    for name in ("guarded", "waiting"):
        means = {
            task: [
                tuning[task, 20, "out of order", name, x[name]][:, 2:].mean() for x in (clips, wide)
            ]
            for task in ("Swing-up", "Docking")
        }
        assert means["Swing-up"][0] < means["Swing-up"][1]
        assert means["Docking"][0] > means["Docking"][1]


def test_what_the_page_says_of_the_guard(report):
    tuning = report.read(report.TUNING)
    apart = {}
    for task in ("Swing-up", "Docking"):
        for clip in report.CLIPS:
            means = {
                name: tuning[task, 20, "out of order", name, clip][:, 2:].mean(1)
                for name in ("guarded", "delay-adapted", "truncated")
            }
            for name in ("delay-adapted", "truncated"):
                difference = means["guarded"] - means[name]
                half = float(report.half_width(difference))
                apart.setdefault(name, []).append(
                    np.sign(difference.mean()) * (abs(difference.mean()) > half)
                )
            if task == "Docking" and clip <= 0.1:
                ours, slow, fast = (x.mean() for x in means.values())
                assert [round(ours - slow), round(fast - slow)] == {
                    0.05: [39, 75],
                    0.1: [34, 80],
                }[clip]
                drift = tuning[task, 20, "out of order", "guarded", clip][:, 1].mean()
                assert 0.015 < drift < 0.035
    assert sorted(apart["delay-adapted"]) == [0] * 7 + [1] * 3
    assert sorted(apart["truncated"]) == [-1] * 3 + [0] * 7


def test_what_the_page_says_of_a_clip_of_four_fifths(report):
    tuning = report.read(report.TUNING)
    ends = {
        (name, clip): round(tuning["Docking", 20, "out of order", name, clip][:, -1:].mean())
        for name in ("behaviour", "delay-adapted")
        for clip in (0.4, 0.8)
    }
    assert (ends["delay-adapted", 0.4], ends["delay-adapted", 0.8]) == (-34, -208)
    assert ends["behaviour", 0.8] > ends["behaviour", 0.4]


def test_the_interval_of_a_median(report):
    """The interval of six values spans them all: it misses the median with probability 2 / 64."""
    assert report.median(np.arange(6.0)) == (2.5, 0.0, 5.0)
    rng = np.random.default_rng(0)
    ends = np.array([report.median(rng.normal(size=25))[1:] for _ in range(2000)])
    inside = ((ends[:, 0] <= 0.0) & (ends[:, 1] >= 0.0)).mean()
    assert 0.94 < inside < 0.98


def test_what_the_page_says_of_speed(report):
    """DelayedPPO is within 5 % of PPO, `correct` below 1 % of an update; the page says so."""
    found = report.speeds()
    plain, ours, ratio, itself, update, own, *corrections, late = found.values()
    assert 0.95 < 1.0 / ratio[2] < 1.0 / ratio[1] < 1.05
    assert max(corrections)[0] < 0.01 * update[0]
    assert own[0] < 0.001 * update[0]
    page = (ROOT / "docs" / "stale.md").read_text(encoding="utf-8").replace("\n", " ")
    for sentence in (
        f"{len(report.rows_of(report.PAIRS))} cycles",
        f"ratio of their times is {ratio[0]:.3f} (95 % interval {ratio[1]:.3f} to {ratio[2]:.3f})",
        f"against itself it is {itself[0]:.3f} ({itself[1]:.3f} to {itself[2]:.3f})",
        f"{ours[0]:.0f} and {plain[0]:.0f} steps",
        f"{own[0]:.2f} ms",
        f"{corrections[0][0]:.2f} ms for 2048 numbers of NumPy and {corrections[1][0]:.2f} ms",
        f"({update[0] / 1e3:.1f} s)",
        f"takes {late[0]:.1f} ms before its update, {100 * late[0] / update[0]:.1f} % of it",
        f"{100 * max(corrections)[0] / update[0]:.2f} % of PPO's update",
    ):
        assert sentence in page, sentence
