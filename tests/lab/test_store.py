"""Results are complete or absent, and never mixed with those of something else."""

import dataclasses
import json
import os

import polars as pl
import pytest

from belated.lab import part, run, store
from belated.lab.task import perform
from lab.small import TINY


def finish(directory, experiment, tasks=None):
    store.open_for(directory, experiment)
    for task in tasks or store.unfinished(directory, experiment):
        store.keep(directory, task, *perform(experiment, task))


def test_rows_hold_what_was_promised(tmp_path):
    finish(tmp_path, TINY)
    rows = store.rows(tmp_path)
    assert rows.columns == [
        "experiment", "case", "agent", "parameters", "seed", "episode", "value", "realised",
        "comparator", "uniform", "regret", "missing", "delay", "mean_value", "mean_comparator",
        "mean_uniform", "best_each", "best_so_far", "diagnostics", "step_delays",
    ]  # fmt: skip
    assert len(rows) == 4 * 12
    parameters = json.loads(rows["parameters"][0])
    assert parameters["update"] == {"kind": "softmax", "learning_rate": 0.1}
    assert (parameters["information"], parameters["paths"]) == ("full", "late")
    one = rows.filter((pl.col("agent") == "A") & (pl.col("seed") == 1))
    gap = (one["value"] - one["comparator"]).cum_sum()
    assert (gap - one["regret"]).abs().max() < 1e-9
    both = rows.pivot(on="agent", index=["seed", "episode"], values="delay")
    assert (both["A"] == both["B"]).all()
    assert json.loads((tmp_path / "versions.json").read_text())["belated"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_write_that_stops_leaves_nothing_that_counts(tmp_path, monkeypatch, moment):
    store.open_for(tmp_path, TINY)
    task = TINY.tasks()[0]
    result = perform(TINY, task)

    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, moment, stop)
        with pytest.raises(KeyboardInterrupt):
            store.keep(tmp_path, task, *result)
    assert task in store.unfinished(tmp_path, TINY)
    assert not list(tmp_path.rglob("*.partial"))
    finish(tmp_path, TINY)
    (tmp_path / "runs" / "a" / "seed-1.parquet.7.partial").write_text("left by a killed process")
    run(TINY, tmp_path)
    assert not list(tmp_path.rglob("*.partial"))
    assert len(store.rows(tmp_path)) == 4 * 12


def test_rows_are_the_last_thing_written(tmp_path, monkeypatch):
    store.open_for(tmp_path, TINY)
    written = []
    monkeypatch.setattr(store, "write", lambda path, content: written.append(path.suffix))
    store.keep(tmp_path, TINY.tasks()[0], *perform(TINY, TINY.tasks()[0]))
    assert written == [".json", ".sha256", ".parquet"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"episodes": 13}, "episodes differs"),
        ({"delays": part("geometric", mean=3)}, "delays differs"),
        ({"costs": part("random")}, "costs differs"),
        ({"agents": TINY.agents[:1]}, "agents differs"),
        ({"seeds": 1}, "seeds = 2, more than 1"),
    ],
)
def test_another_specification_is_refused_in_one_sentence(tmp_path, change, why):
    finish(tmp_path, TINY)
    with pytest.raises(ValueError, match=why) as caught:
        store.open_for(tmp_path, dataclasses.replace(TINY, **change))
    assert "\n" not in str(caught.value)
    assert store.spec(tmp_path) == TINY


def test_another_title_continues_the_runs(tmp_path):
    finish(tmp_path, TINY)
    other = dataclasses.replace(TINY, title="Another title", about="Other remarks.")
    store.open_for(tmp_path, other)
    assert store.unfinished(tmp_path, other) == []
    assert store.spec(tmp_path) == other


def test_another_version_is_refused(tmp_path, monkeypatch):
    finish(tmp_path, TINY)
    monkeypatch.setattr("belated.__version__", "99")
    with pytest.raises(ValueError, match=r"belated 0.*, this is 99"):
        store.open_for(tmp_path, TINY)


def test_a_directory_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="must be empty or hold results"):
        store.open_for(tmp_path, TINY)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("left", ["versions.json", "versions.json.77.partial"])
def test_a_directory_of_a_run_that_was_killed_at_its_start_is_used(tmp_path, left):
    (tmp_path / left).write_text("{")
    store.open_for(tmp_path, TINY)
    assert store.spec(tmp_path) == TINY


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("runs/a/seed-0.parquet", store.rows),
        ("versions.json", store.versions),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, file, read):
    finish(tmp_path, TINY)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is damaged") as caught:
        read(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_more_seeds_keep_what_is_finished(tmp_path):
    finish(tmp_path, TINY)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    more = dataclasses.replace(TINY, seeds=3)
    store.open_for(tmp_path, more)
    assert [task.seed for task in store.unfinished(tmp_path, more)] == [2, 2]
    finish(tmp_path, more)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert store.rows(tmp_path)["seed"].n_unique() == 3
