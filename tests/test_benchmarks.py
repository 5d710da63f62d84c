"""Benchmarks can be saved and compared, and those of the service write their sections."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from serving import full

PLACE = Path(__file__).parent.parent / "benchmarks"


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", PLACE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


earlier = loaded("earlier")

HEADER = ("grid", "pass", "time", "memory", "times faster")


def cells(seconds, megabytes=10.0, passes=("known",)):
    rows = [
        ("10 x 10", name, earlier.duration(seconds), earlier.memory(megabytes), "11")
        for name in passes
    ]
    return earlier.measured("Passes", HEADER, rows)


def test_numbers_are_printed_in_the_unit_that_fits():
    assert earlier.duration(12e-6) == "12 us"
    assert earlier.duration(0.0123) == "12.3 ms"
    assert earlier.duration(123) == "123 s"
    assert earlier.whole_seconds(1.234) == "1.23 s"
    assert earlier.memory(61.2) == "61 MB"


def test_a_cell_is_named_by_section_labels_and_column():
    assert cells(0.5) == {
        "Passes | 10 x 10 | known | time": {"value": 0.5, "unit": "s"},
        "Passes | 10 x 10 | known | memory": {"value": 10.0, "unit": "MB"},
    }
    with pytest.raises(ValueError, match="two cells are named"):
        cells(0.5, passes=("known", "known"))


def test_what_is_saved_is_compared_row_by_row(tmp_path):
    earlier.save(tmp_path / "a.json", {"belated": "1"}, cells(0.5, passes=("known", "bonus")))
    versions, before = earlier.load(tmp_path / "a.json")
    assert versions == {"belated": "1"}
    now = cells(0.75, 20.0, ("known", "confidence"))
    _, _, *lines = earlier.compare(before | {"Growth | time": {"value": 1, "unit": "s"}}, now)
    assert lines == [
        "| Passes, 10 x 10, known, time | 500.0 ms | 750.0 ms | 1.50 |",
        "| Passes, 10 x 10, known, memory | 10 MB | 20 MB | 2.00 |",
        "| Passes, 10 x 10, confidence, time | - | 750.0 ms | - |",
        "| Passes, 10 x 10, confidence, memory | - | 20 MB | - |",
        "| Passes, 10 x 10, bonus, time | 500.0 ms | - | - |",
        "| Passes, 10 x 10, bonus, memory | 10 MB | - | - |",
    ]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', "no file"])
def test_other_files_are_refused_in_one_sentence(content, tmp_path):
    path = tmp_path / "a.json"
    if content != "no file":
        path.write_text(content)
    with pytest.raises(ValueError, match=r"a\.json (cannot be read|must be a file written by)"):
        earlier.load(path)
    path.write_text('{"format": 2, "versions": {}, "cells": {}}')
    with pytest.raises(ValueError, match="must have format 1, got 2"):
        earlier.load(path)


def test_a_section_of_the_service_is_replaced_and_the_others_stay(monkeypatch):
    monkeypatch.syspath_prepend(str(PLACE))
    service = loaded("service")
    text = service.replaced(service.TITLE, "Speed", ["fast"])
    text = service.replaced(text, "Memory", ["small", "", "| a |"])
    assert text == "# The service\n\n## Speed\n\nfast\n\n## Memory\n\nsmall\n\n| a |\n"
    again = service.replaced(text, "Speed", ["faster"])
    assert again == text.replace("fast", "faster")
    assert service.replaced(again, "Speed", ["fast"]) == text


@pytest.mark.parametrize("name", ["known", "confidence"])
def test_both_sides_of_the_benchmark_of_passes_compute_the_same(name, monkeypatch):
    monkeypatch.syspath_prepend(str(PLACE))
    bench = loaded("run").Bench(3, horizon=4)
    assert (bench.bonus.counts.visits[0] == 30).all()
    np.testing.assert_allclose(bench.bonus.probabilities.sum(axis=-1), 1.0)
    model = bench.known if name == "known" else bench.confident
    model.add_q(bench.costs, bench.policy, bench.total)
    getattr(bench.dense, name)()
    np.testing.assert_allclose(bench.total, bench.dense.total, atol=1e-12)


@pytest.mark.long
@pytest.mark.skipif(not full(), reason="needs BELATED_FULL_TESTS=1")
def test_the_benchmark_of_the_service_runs_as_a_whole(tmp_path):
    out = tmp_path / "SERVICE.md"
    options = ["--episodes", "4000", "--seconds", "0.3", "--out", str(out)]
    subprocess.run([sys.executable, PLACE / "service.py", *options], check=True, cwd=tmp_path)
    text = out.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# The service", "## Speed", "## Decisions with features", "## Memory"
    ]  # fmt: skip
    assert "bytes per episode" in text
