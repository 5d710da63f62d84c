"""Figures and reports are made from the directory of results alone, and are complete."""

import base64
import dataclasses
import re

import numpy as np
import pytest

from belated.lab import Results, named, part, plot, report, run, statistics, store
from belated.lab.spec import Case, Experiment, Learner
from lab.small import TINY

TUNED = part("oppo", update=part("softmax", learning_rate="tuned"))
CASED = Experiment(
    name="cased",
    title="Two <cases>",
    environment=part("gridworld", size=(2, 3), walls=((0, 1),), horizon=5),
    delays=part("lost", probability=0.2, otherwise=part("geometric", mean=2)),
    agents=(
        Learner("A", part("oppo", transitions="known", update=part("softmax", learning_rate=0.3))),
        Learner("B", part("pipeline", agent=TUNED), "full"),
        Learner("C", part("skipping", agent=TUNED), "bandit"),
    ),
    episodes=30,
    seeds=3,
    cases=(Case("plain"), Case("late", delays=part("fixed", delay=9))),
)


@pytest.fixture(scope="module")
def cased(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cased")
    run(CASED, directory, engine="here")
    return directory


def drawn(directory):
    return plot.draw(Results(directory))


@pytest.mark.long
def test_every_case_has_its_figures(cased):
    drawings = drawn(cased)
    names = ["cost", "regret"]
    assert [d.name for d in drawings] == [f"{n}-{c}" for c in ("plain", "late") for n in names]
    assert all(d.caption.endswith(".") for d in drawings)


@pytest.mark.long
def test_figures_are_the_same_every_time(cased):
    first, second = (drawn(cased)[0].encoded("svg") for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_the_curve_is_the_mean_over_seeds(cased):
    rows = store.rows(cased)
    (axes,) = drawn(cased)[0].figure.axes
    values = rows.filter((rows["case"] == "plain") & (rows["agent"] == "B"))["value"].to_numpy()
    np.testing.assert_allclose(axes.lines[1].get_ydata(), values.reshape(3, 30).mean(axis=0))
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert labels[:3] == ["A", "B", "C"]


def test_the_band_is_the_interval_over_seeds_and_the_best_policy_is_drawn(cased):
    rows = store.rows(cased)
    (axes,) = drawn(cased)[0].figure.axes
    values = rows.filter(case="plain", agent="B")["value"].to_numpy().reshape(3, 30)
    _, low, high = statistics.bootstrap(values)
    band = axes.collections[1].get_paths()[0].vertices
    for k in (3, 20):
        at = np.sort(band[band[:, 0] == k + 1][:, 1])
        np.testing.assert_allclose(at[[0, -1]], [low[k], high[k]])
    assert axes.figure.legends[0].get_texts()[-1].get_text() == "best policy"
    level = rows.filter(case="plain")["comparator"][0]
    assert any(np.allclose(line.get_ydata(), level) for line in axes.lines)


def test_long_runs_are_drawn_in_blocks(cased, monkeypatch):
    monkeypatch.setattr(plot, "POINTS", 8)  # 30 episodes: seven blocks of 4, one of 2
    rows = store.rows(cased)
    cost, regret = drawn(cased)[:2]
    one = rows.filter((rows["case"] == "plain") & (rows["agent"] == "B"))
    line = cost.figure.axes[0].lines[1]
    mean = one["value"].to_numpy().reshape(3, 30).mean(axis=0)
    np.testing.assert_allclose(line.get_xdata(), [2.5, 6.5, 10.5, 14.5, 18.5, 22.5, 26.5, 29.5])
    np.testing.assert_allclose(
        line.get_ydata(), [*mean[:28].reshape(7, 4).mean(axis=1), mean[28:].mean()]
    )
    line = regret.figure.axes[0].lines[1]
    so_far = one["regret"].to_numpy().reshape(3, 30).mean(axis=0)
    ends = [4, 8, 12, 16, 20, 24, 28, 30]
    np.testing.assert_allclose(line.get_xdata(), ends)
    np.testing.assert_allclose(line.get_ydata(), so_far[np.array(ends) - 1])
    assert "averaged over every 4 episodes" in cost.caption
    assert "averaged" not in regret.caption


@pytest.mark.long
def test_a_sweep_is_drawn_against_its_axis(tmp_path):
    cases = tuple(Case(f"d{d}", delays=part("fixed", delay=d)) for d in (0, 3, 9))
    experiment = Experiment(
        name="s", environment=part("chain", states=3, horizon=4), delays=part("none"),
        agents=CASED.agents[:1], episodes=40, seeds=2, cases=cases, against="total_delay",
    )  # fmt: skip
    run(experiment, tmp_path, engine="here")
    (drawing,) = drawn(tmp_path)
    (axes,) = drawing.figure.axes
    cut = [sum(min(d, 39 - k) for k in range(40)) for d in (0, 3, 9)]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), 40.0 + np.array(cut))
    assert drawing.name == "scaling"


@pytest.mark.slow
def test_the_report_is_one_file_that_needs_nothing_else(cased):
    text = report.write(Results(cased), drawn(cased)).read_text()
    sources = re.findall(r'(?:src|href)\s*=\s*["\']([^"\']{0,30})', text)
    assert len(sources) == 4
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert "@import" not in text
    image = base64.b64decode(re.search(r'base64,([^"]*)', text)[1])
    assert image.startswith(b"<?xml")
    assert "<h1>Two &lt;cases&gt;</h1>" in text
    assert "kind = &quot;gridworld&quot;" in text
    assert "won by the first" in text
    assert "belated 0." in text
    assert "What each agent was told" in text
    assert "transitions = known, update = softmax (learning_rate = 0.3" in text


def test_a_part_of_the_runs_is_said_to_be_a_part(cased, tmp_path):
    for name in ("spec.toml", "versions.json"):
        (tmp_path / name).write_bytes((cased / name).read_bytes())
    kept = tmp_path / "runs" / "plain" / "a"
    kept.mkdir(parents=True)
    for path in (cased / "runs" / "plain" / "a").glob("seed-1.*"):
        (kept / path.name).write_bytes(path.read_bytes())
    drawings = drawn(tmp_path)
    assert [d.name for d in drawings] == ["cost-plain", "regret-plain"]
    assert "1 of 18 runs are finished" in report.html(Results(tmp_path), drawings)


def test_the_report_of_a_paper_experiment_says_what_the_paper_leaves_open(tmp_path):
    small = dataclasses.replace(named("paper-grid"), episodes=4, seeds=1)
    page = run(small, tmp_path / "one", engine="here").report().read_text()
    for choice in ("pooled over the steps", "1 / sqrt(visits)", "two offset ones of seven cells"):
        assert choice in page
    assert "What each agent was told" in page
    other = run(dataclasses.replace(TINY, seeds=1), tmp_path / "two", engine="here")
    assert "What the paper leaves open" not in other.report().read_text()
