"""The suite: every case builds, and scores and profiles follow their definitions."""

import dataclasses
import importlib.util
import io
import itertools
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchmarks import suite

import belated as bl
from belated import cli
from belated.config.part import Part, part
from belated.lab import (
    Results,
    named,
    plot,
    report,
    run,
    statistics,
    store,
    tables,
    toml,
)
from belated.lab.spec import Case, Experiment, Learner
from belated.lab.statistics import Interval, Line
from belated.lab.task import agent_of, delays_of, rehearse, world_of

PAGE = Path(__file__).parents[2] / "docs" / "suite.md"
LAZY = part("oppo", transitions="known", update=part("softmax", learning_rate=1e-9))
TINY = Experiment(
    name="tiny",
    title="Scores",
    environment=part("bandit", means=(0.2, 0.6, 0.7)),
    delays=part("geometric", mean=2),
    agents=(Learner("learns", part("recommended")), Learner("lazy", LAZY)),
    episodes=60,
    seeds=2,
    cases=(Case("bandit", information="bandit"), Case("full"),
           Case("blocks", costs=part("blocks", length=5))),
    against="score",
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny")
    run(TINY, directory, engine="here")
    return directory


def line(case, agent, score, verdict=""):
    one = Interval(score, score, score)
    return Line(case, agent, 1, one, one, one, 0.0, one, verdict)


def informed(experiment):
    return [case.information or experiment.information for case in experiment.cases]


def test_the_suite_has_cases_of_both_kinds():
    whole = named("benchmarks.suite:suite")
    assert len(whole.cases) >= 24
    assert informed(whole).count("bandit") >= 16
    assert informed(whole).count("full") >= 8
    kinds = {case.delays.kind.rpartition(":")[2] for case in whole.cases if case.delays}
    assert {"geometric", "fixed", "heavy_tailed", "lost", "bursts", "flights"} <= kinds
    processes = {case.costs.kind.rpartition(":")[2] for case in whole.cases if case.costs}
    assert {f"random_{name}" for name in ("switching", "drifting", "walking")} | {
        "improving",
        "moving_goal",
        "blocks",
    } <= processes


def test_the_quick_suite_is_a_part_of_the_suite():
    quick, names = (
        named("benchmarks.suite:suite_quick"),
        {case.name for case in named("benchmarks.suite:suite").cases},
    )
    assert len(quick.cases) >= 8
    assert {case.name for case in quick.cases} == set(suite.QUICK) <= names
    assert set(informed(quick)) == {"full", "bandit"}
    assert quick.episodes * len(quick.tasks()) <= 105_000


@pytest.mark.parametrize("name", ["suite", "suite_quick", "suite_tuning", "paper_grid_bandit"])
def test_every_case_builds(name):
    rehearse(named(f"benchmarks.suite:{name}"))


def test_without_gymnasium_its_case_is_left_out(monkeypatch):
    assert any(case.name == "FrozenLake" for case in named("benchmarks.suite:suite").cases)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert len(named("benchmarks.suite:suite").cases) >= 24
    assert not any(case.name == "FrozenLake" for case in named("benchmarks.suite:suite").cases)


@pytest.mark.slow
def test_scores_equal_a_hand_computation(tiny):
    rows = store.rows(tiny)
    lines = {(item.case, item.agent): item for item in statistics.summary(rows)}
    for (case, agent), found in lines.items():
        some = rows.filter((pl.col("case") == case) & (pl.col("agent") == agent))
        by_seed = [
            (one["mean_value"].sum() - one["mean_comparator"].sum())
            / (one["mean_uniform"].sum() - one["mean_comparator"].sum())
            for one in some.partition_by("seed")
        ]
        assert found.score.mean == pytest.approx(np.mean(by_seed))
        assert found.score.low == pytest.approx(min(by_seed))
    assert lines["bandit", "lazy"].score.mean == pytest.approx(1.0, abs=1e-6)
    assert lines["bandit", "learns"].score.mean < 0.7
    assert rows.filter(pl.col("case") == "full")["uniform"].mean() == pytest.approx(0.5, abs=0.1)


def test_an_agent_that_does_not_learn_is_named(tiny):
    lines = statistics.summary(store.rows(tiny))
    found = tables.warnings(lines)
    assert "WARNING: lazy (in bandit; full): no better than uniform play in its last quarter" in [
        text.replace("; blocks", "") for text in found
    ]
    assert not any("learns (in bandit" in text for text in found)
    drawings = plot.draw(Results(tiny))
    assert [drawing.name for drawing in drawings] == ["profile"]
    page = report.html(Results(tiny), drawings)
    assert "WARNING: lazy (in bandit" in page
    assert "bandit or full" in page


@pytest.mark.long
def test_the_terminal_shows_the_warning_too(tmp_path, capsys):
    file = tmp_path / "tiny.toml"
    file.write_text(toml.dumps(TINY))
    assert cli.main(["run", str(file), "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "WARNING: lazy (in bandit" in out
    assert "no better than uniform play" in out
    assert "worst" in out


def test_results_of_another_version_are_named(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "old")
    task = TINY.tasks()[0]
    path = tmp_path / "old" / "runs" / f"{task.name}.parquet"
    rows = pl.read_parquet(path).drop("uniform")
    path.unlink()
    buffer = io.BytesIO()
    rows.write_parquet(buffer)
    store.keep(tmp_path / "old", task, buffer.getvalue())
    with pytest.raises(ValueError, match=r"another version of belated.*no column 'uniform'"):
        store.rows(tmp_path / "old")


def test_the_information_of_a_case():
    back = toml.loads(toml.dumps(TINY))
    assert back == TINY
    learns, lazy = TINY.agents
    assert TINY.information_of(learns, "bandit") == "bandit"
    assert TINY.information_of(learns, "full") == TINY.information_of(learns) == "full"
    own = dataclasses.replace(lazy, information="full")
    assert TINY.information_of(own, "bandit") == "full"
    with pytest.raises(ValueError, match=r"information must be one of"):
        dataclasses.replace(TINY, cases=(Case("a", information="half"), Case("b")))


def test_the_table_of_scores():
    experiment = dataclasses.replace(TINY, cases=(Case("a"), Case("b")))
    lines = [line("a", "learns", 0.104), line("a", "lazy", 1.0), line("b", "learns", -0.5)]
    table = tables.scores(experiment, lines, "T")
    assert table.head == ("case", "learns", "lazy")
    assert table.cells == (
        ("a", "0.10*", "1.00 "),
        ("b", "-0.50*", ""),
        ("worst", "0.10*", ""),
        ("mean", "-0.20*", ""),
    )


def test_an_agent_of_some_cases_has_its_own_mean():
    some = dataclasses.replace(TINY.agents[1], cases=("full", "blocks"))
    experiment = dataclasses.replace(TINY, agents=(TINY.agents[0], some))
    lines = [line(case.name, "learns", 0.1) for case in TINY.cases]
    lines += [line("full", "lazy", 0.5), line("blocks", "lazy", 1.0)]
    name, learns, lazy = tables.scores(experiment, lines, "").rows[-1]
    assert (name, learns) == ("mean", 0.1)
    assert np.isnan(lazy)
    results = Results(".", experiment)
    results._lines["means", None, False] = lines
    _, labels = results.figure("profile").axes[0].get_legend_handles_labels()
    assert labels == ["learns (0.10)", "lazy (0.75 of 2)"]


def test_profile_numbers():
    scores, at = np.array([-0.5, 0.1, 0.1, 2.0]), np.array([-1.0, -0.5, 0.0, 0.1, 1.0, 2.0])
    share, low, high = statistics.profile(scores, at)
    assert share.tolist() == [0.0, 0.25, 0.25, 0.75, 0.75, 1.0]
    assert low[0] == high[0] == 0.0
    assert low[-1] == high[-1] == 1.0
    assert low[3] < 0.75 < high[3]


@pytest.fixture(scope="module")
def page():
    found = importlib.util.spec_from_file_location("suite_page", PAGE.with_suffix(".py"))
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_tables_of_the_page_are_made_of_the_scores(page):
    assert page.text() == PAGE.read_text(encoding="utf-8")
    assert page.readme() == page.README.read_text(encoding="utf-8")
    whole = named(page.EXPERIMENT)
    found = _pairs(page.scores("bandit")) | _pairs(page.scores("full"))
    assert found == {(task.case, task.learner) for task in whole.tasks()}
    every = [*page.scores("bandit").values(), *page.scores("full").values()]
    assert {len(values) for own in every for values in own.values()} == {page.SEEDS}


def test_an_interval_decides_the_digits_and_who_is_ahead(page):
    assert page.interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.4841), abs=1e-4)  # t: 4.3027
    assert page.shown(0.123, 0.04) == "0.12 ± 0.04"
    assert page.shown(-0.46, 0.21) == "-0.5 ± 0.2"
    assert page.ahead([0.1, 0.2, 0.3], [0.2, 0.3, 0.41])
    assert not page.ahead([0.1, 0.2, 0.3], [0.2, 0.1, 0.5])


def _pairs(scores):
    return {(case, agent) for agent, own in scores.items() for case in own}


@pytest.mark.long
def test_a_score_measured_again(page):
    """The seeds of the page; only rounding may differ, and the margin is 0.05."""
    whole = named(page.EXPERIMENT)
    for case, agent in (("20 arms, flights", "Zimmert-Seldin"), ("noise", "recommended")):
        scene = whole.scene(case)
        found = []
        for seed in range(page.SEEDS):
            world = world_of(scene, seed)
            delays = delays_of(scene, world, seed)
            made = agent_of(whole, whole.learner(agent), world, delays, case, seed)
            run = bl.simulate(world, made, delays=delays, episodes=scene.episodes, seed=seed)
            found.append(run.score_on_means)
        assert np.mean(found) == pytest.approx(
            np.mean(page.scores("bandit")[agent][case]), abs=0.05
        )


def shown(made):
    """A part in words, as the page writes it."""
    if made is None:
        return "those of the world"
    texts = []
    for name, value in made.parameters:
        if name == "means":
            texts.append(f"{len(value)} arms")
        elif name == "goals":
            texts.append(f"{len(value)} goals")
        elif isinstance(value, Part):
            texts.append(f"{name} ({shown(value)})")
        elif isinstance(value, tuple):
            texts.append(f"{name} {' x '.join(map(str, value))}")
        else:
            texts.append(f"{name} {value}")
    return f"`{made.kind.rpartition(':')[2]}` {', '.join(texts)}".strip()


def row(experiment, case):
    scene = experiment.scene(case.name)
    parts = (scene.environment, scene.costs, scene.delays)
    seen = case.information or experiment.information
    return f"| {case.name} | {seen} | {' | '.join(map(shown, parts))} |"


def test_the_page_lists_the_cases_and_the_agents_of_the_suite():
    text, whole = PAGE.read_text(encoding="utf-8"), named("benchmarks.suite:suite")
    after = text.split("| case | information |")[1].splitlines()[2:]
    assert list(itertools.takewhile(bool, after)) == [row(whole, case) for case in whole.cases]
    for learner in whole.agents:
        assert f"| {learner.name} |" in text


def test_agents_of_later_papers_are_run_where_they_apply():
    whole = named("benchmarks.suite:suite")
    bandit = [case for case in whole.case_names() if not case.startswith("full")]
    arms = [case for case in bandit if "arms" in case]
    assert whole.cases_of("Zimmert-Seldin") == arms
    for learner in whole.agents[len(suite.agents(whole.cases)) :]:
        cases = set(whole.cases_of(learner.name))
        assert cases.issuperset(set(arms) - set(suite.SEEN))
        assert learner.name == "Zimmert-Seldin" or "noise" in cases
        assert learner.information == "bandit"
    assert {one.name for one in whole.agents} == {
        one.name for one in named("benchmarks.suite:suite_quick").agents
    }
    told = {row[0]: row[1] for row in report.told(whole).rows}
    for agent in ("DAPO", "BOLD", "FTRL"):
        assert "transitions = known" in told[f"{agent}, known"]


@pytest.mark.parametrize(
    "agent", [learner.name for learner in named("benchmarks.suite:suite").agents]
)
def test_every_agent_runs_where_it_sees_what_it_uses(agent):
    whole = named("benchmarks.suite:suite")
    learner = whole.learner(agent)
    cases = whole.cases_of(agent)
    for name in {cases[0], cases[-1]}:
        scene = dataclasses.replace(whole.scene(name), episodes=15)
        world = world_of(scene)
        delays = delays_of(scene, world, 0)
        made = agent_of(whole, learner, world, delays, name)
        assert made.information == ("full" if name.startswith("full") else "bandit")
        assert np.isfinite(bl.simulate(world, made, delays=delays, episodes=15).values).all()
