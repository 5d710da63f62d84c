"""The command line, as a newcomer meets it."""

import csv
import io
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from belated import cli
from belated.lab import EXPERIMENTS, Results, store

TINY = ["--seeds", "2", "--episodes", "15", "--jobs", "1", "--engine", "here"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cli") / "grid"
    assert cli.main(["run", "paper-grid", *TINY, "--out", str(directory)]) == 0
    return directory


def call(capsys, *arguments):
    code = cli.main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_names_every_experiment(capsys):
    code, out, _ = call(capsys, "list")
    assert code == 0
    assert all(name in out for name in EXPERIMENTS)


def test_help_says_what_to_do(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert "belated run paper-grid" in out
    code, out, _ = call(capsys, "run", "--help")
    assert code == 0
    for option in ("--seeds", "--episodes", "--jobs", "--engine", "--out"):
        assert option in out


@pytest.mark.slow
def test_run_prints_a_table_and_says_where_the_figures_are(results, capsys):
    code, out, _ = call(capsys, "run", "paper-grid", *TINY, "--out", str(results))
    assert code == 0
    assert "Finished before: 6 runs." in out
    assert "Delayed OPPO" in out
    assert "2 seeds" in out
    assert str(results / "report.html") in out
    names = {path.name for path in (results / "figures").iterdir()}
    assert names == {f"{n}.{e}" for n in ("cost", "regret") for e in ("png", "svg")}


@pytest.mark.long
def test_show_gives_a_file_that_runs(tmp_path, capsys, monkeypatch):
    _, text, _ = call(capsys, "show", "paper-grid")
    assert tomllib.loads(text)["name"] == "paper-grid"
    (tmp_path / "my.toml").write_text(text.replace('name = "paper-grid"', 'name = "My grid!"', 1))
    monkeypatch.chdir(tmp_path)
    code, _, _ = call(capsys, "run", "my.toml", "--seeds", "1", "--episodes", "5", "--jobs", "1")
    assert code == 0
    assert (tmp_path / "out" / "my-grid" / "report.html").exists()


@pytest.mark.long
def test_plot_and_report_need_the_directory_only(results, tmp_path, capsys):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("spec.toml", "versions.json"):
        (moved / name).write_bytes((results / name).read_bytes())
    (results / "runs").rename(moved / "runs")
    try:
        code, out, _ = call(capsys, "plot", str(moved), "--format", "png,svg,pdf")
        assert code == 0
        heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
        for form, head in heads.items():
            assert (moved / "figures" / f"cost.{form}").read_bytes().startswith(head)
            assert f"cost.{form}" in out
        assert call(capsys, "report", str(moved))[0] == 0
        assert (moved / "report.html").stat().st_size > 50_000
    finally:
        (moved / "runs").rename(results / "runs")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "paper-gird"], "did you mean 'paper-grid'?"),
        (["run", "nowhere.toml"], "nowhere.toml is missing: there is no such file"),
        (["run", "paper-grid", "--seeds", "many"], "--seeds"),
        (["run", "paper-grid", "--seeds", "1.5"], "must be a whole number, got '1.5'"),
        (["run", "grid-episodes", "--episodes", "9"], "--episodes must be left out if cases"),
        (["run", "paper-grid", "--seeds", "0"], "seeds must be a whole number"),
        (["run", "paper-grid", "--jobs", "0"], "jobs must be a whole number"),
        (["run", "paper-grid", "--engine", "steam"], "engine must be one of 'local', 'here'"),
        (["run"], "EXPERIMENT"),
        (["rnu", "paper-grid"], 'Did you mean "run"?'),
        (["plot", "nowhere"], "nowhere is missing: there is no such directory"),
        (["report", "."], "must be a directory of results"),
        (["show", "grid"], "experiment must be one of"),
        (["kinds", "opo"], "did you mean 'oppo'?"),
        (["plot", "x", "--width", "wide"], "width must be 'column', 'page' or a number of inches"),
        (["plot", "x", "--format", "gif"], "--format must be one of 'png', 'svg', 'pdf'"),
        (["plot", "x", "--block", "0"], "block must be a whole number of at least 1"),
        (["table", "x", "--format", "word"], "--format must be one of 'latex', 'markdown', 'csv'"),
    ],
)  # fmt: skip
def test_wrong_input_gets_one_line_and_exit_code_2(capsys, monkeypatch, tmp_path, arguments, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.startswith("belated: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_kinds_lists_every_kind_with_its_parameters(capsys):
    code, out, _ = call(capsys, "kinds")
    assert code == 0
    assert "  geometric: mean (required)\n      Delays are geometric on 0, 1, 2, ..." in out
    assert '  oppo: transitions = "confidence", costs (optional), update = "softmax"' in out
    code, out, _ = call(capsys, "kinds", "random")
    assert out.startswith("Costs\n  random: seed = 0, noise")
    code, out, _ = call(capsys, "kinds", "gridworld")
    assert "walls:" in out  # the whole description


def test_a_wrong_value_is_named_with_its_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("odd.toml").write_text(ODD.replace("probability = 1", "probability = 2"))
    code, _, err = call(capsys, "run", "odd.toml", "--jobs", "1")
    assert code == 2
    assert err.startswith("belated: odd.toml: delays: probability must be")
    assert not Path("out").exists()


@pytest.mark.long
def test_a_copied_experiment_does_not_keep_its_description(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, text, _ = call(capsys, "show", "paper-grid")
    assert "learns at once" not in text
    assert "title" not in text
    Path("my.toml").write_text(text.replace("mean = 10", "mean = 30"))
    small = ["--seeds", "1", "--episodes", "5", "--jobs", "1"]
    assert call(capsys, "run", "my.toml", *small, "--out", "o")[0] == 0
    page = Path("o/report.html").read_text()
    assert "learns at once" not in page
    assert "mean 10" not in page
    assert "<h1>paper-grid</h1>" in page


@pytest.mark.slow
def test_tables_for_papers_and_spreadsheets(results, capsys):
    code, text, _ = call(capsys, "table", str(results), "--format", "latex")
    assert code == 0
    assert r"\begin{tabular}{lrrrr}" in text
    code, text, _ = call(capsys, "table", str(results), "--which", "costs", "--format", "csv")
    (row, *_) = csv.DictReader(io.StringIO(text))
    rows = store.rows(results).filter(agent="Delayed OPPO")
    assert float(row["cost per episode"]) == pytest.approx(rows["value"].mean())
    assert float(row["cost per episode low"]) <= float(row["cost per episode"])
    _, text, _ = call(capsys, "table", str(results), "--which", "differences")
    assert re.search(r"\| Delayed OPPO +\| Pipeline-OPPO +\| +[-+]0", text)


ODD = """
name = "odd"
title = 'Costs of 5 $ \\nix$ [red]'
episodes = 12
seeds = 1
environment = { kind = "chain", states = 2, horizon = 3 }
delays = { kind = "lost", probability = 1 }
[[agents]]
name = "OPPO [known]"
kind = "oppo"
transitions = "known"
[[agents]]
name = "OPPO [/unknown] :a:"
kind = "oppo"
"""


@pytest.mark.long
def test_names_are_shown_as_they_are(tmp_path, capsys, monkeypatch):
    """Terminal, figures and file names do not interpret special characters in them."""
    monkeypatch.chdir(tmp_path)
    Path("odd.toml").write_text(ODD)
    out = "some [a] out"
    code, text, err = call(capsys, "run", "odd.toml", "--jobs", "1", "--out", out)
    assert (code, err) == (0, "")
    assert r"Costs of 5 $ \nix$ [red]" in text
    assert "OPPO [known]" in text
    assert "[/unknown]" in text
    assert ":a:" in text
    assert Path(out, "figures", "cost.png").exists()
    assert call(capsys, "report", out)[0] == 0


@pytest.mark.long
def test_nothing_of_a_table_is_cut(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a-rather-long-name-of-an-agent"
    Path("odd.toml").write_text(ODD.replace("seeds = 1", "seeds = 2").replace("OPPO [known]", name))
    monkeypatch.setenv("COLUMNS", "50")
    _, text, _ = call(capsys, "run", "odd.toml", "--jobs", "1", "--out", "one")
    for word in ("agent", "episode", "tenth", "regret", name):
        assert word in text
    assert text.count("]") == text.count("[")
    assert "…" not in text


@pytest.mark.parametrize("command", ["run", "plot", "report"])
@pytest.mark.slow
def test_a_damaged_result_is_named_in_one_line(results, tmp_path, capsys, command):
    shutil.copytree(results, tmp_path / "copy")
    damaged = tmp_path / "copy" / "runs" / "delayed-oppo" / "seed-0.parquet"
    damaged.write_bytes(b"")
    arguments = ["paper-grid", *TINY, "--out"] if command == "run" else []
    code, _, err = call(capsys, command, *arguments, str(tmp_path / "copy"))
    assert code == 2
    assert f"{damaged} is damaged" in err
    assert err.count("\n") == 1


@pytest.mark.long
def test_failed_runs_give_exit_code_1_and_the_rest_a_table(tmp_path, capsys, monkeypatch):
    trace = tmp_path / "d.csv"
    trace.write_text("delay\n1\n1\n1\n")
    (tmp_path / "late_by_a_file.py").write_text(f"""
import belated as bl, numpy as np

def waits():
    return bl.delays.trace(np.loadtxt({str(trace)!r}, skiprows=1))
""")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text("""
name = "x"
episodes = 3
seeds = 1
environment = { kind = "gridworld", size = 2, horizon = 3 }
delays = { kind = "none" }
[[cases]]
name = "fine"
[[cases]]
name = "broken"
delays = { kind = "late_by_a_file:waits" }
[[agents]]
name = "A"
kind = "oppo"
""")
    monkeypatch.setattr("belated.lab.engine.rehearse", lambda *given: trace.unlink())
    command = ["run", str(tmp_path / "x.toml"), "--engine", "here", "--out", str(tmp_path / "o")]
    code, out, err = call(capsys, *command)
    assert code == 1
    assert "failed: broken/a/seed-0: PartError" in err
    assert "fine" in out
    report = (tmp_path / "o" / "report.html").read_text()
    assert "1 of 2 runs are finished; raised: broken/a/seed-0" in report
    trace.write_text("delay\n1\n1\n1\n")
    monkeypatch.setattr("belated.lab.engine.rehearse", lambda *given: None)
    call(capsys, *command)
    assert not list((tmp_path / "o" / "failed").rglob("*.txt"))
    assert "raised" not in (tmp_path / "o" / "report.html").read_text()


def test_help_shows_the_commands_of_the_service_beside_those_of_the_lab(capsys):
    _, out, _ = call(capsys, "--help")
    service = ["serve", "warmup", "token", "extract"]
    for name in ("run", "report", "list", *service):
        assert f" {name} " in out
    for name in service:
        assert call(capsys, name, "--help")[0] == 0


def test_without_the_packages_one_line_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['cyclopts'] = None; from belated.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "belated needs cyclopts: pip install 'belated[lab]' for experiments, 'belated[serve]' for "
        "the service\n"
    )


def test_the_library_does_not_import_the_lab(tmp_path):
    code = (
        "import sys, belated; print(sorted(m for m in sys.modules if 'lab' in m or 'polars' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "belated.lab" not in done.stdout
    assert "polars" not in done.stdout


def test_another_first_seed_and_some_of_the_cases(tmp_path, capsys):
    command = ["run", "grid-delay", "--first-seed", "40", "--seeds", "1", "--episodes", "12"]
    command += ["--case", "mean 8", "--only", "full, known", "--engine", "here"]
    assert cli.main([*command, "--out", str(tmp_path / "out")]) == 0
    rows = Results(tmp_path / "out").rows
    assert set(rows["seed"]) == {40}
    assert set(rows["case"]) == {"mean 8"}
    assert cli.main([*command[:2], "--case", "mean 9"]) == 2
    assert "--case must be one of 'mean 0', 'mean 2', 'mean 8'" in capsys.readouterr().err
