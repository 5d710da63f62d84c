"""Figures for papers: chosen agents, labels with mathematics, and fonts."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

from belated import cli, lab
from belated.lab import part

ARMS = {
    "Thompson": "thompson_sampling",
    "UCB": "benchmarks.rivals:ucb1",
    "EXP3": "benchmarks.rivals:exp3",
}


@pytest.fixture(scope="module")
def result():
    late = lab.Case("late", delays=part("fixed", delay=9))
    return lab.run(
        environment=part("bandit", means=(0.3, 0.7)), information="bandit", agents=ARMS,
        cases=[lab.Case("soon"), late], episodes=30, seeds=2, engine="here",
    )  # fmt: skip


def colours(axes):
    return {line.get_label(): line.get_color() for line in axes.lines if line.get_label()[0] != "_"}


def test_an_agent_keeps_its_colour_and_labels_hold_mathematics(result):
    whole = lab.plot.regret(result, "soon")
    some = lab.plot.cost(
        result, "late", agents=["EXP3", "UCB"], labels={"EXP3": r"EXP3 ($\eta_t$)"}
    )
    first, second = colours(whole), colours(some)
    assert second.pop("best policy")
    assert second == {"UCB": first["UCB"], r"EXP3 ($\eta_t$)": first["EXP3"]}
    assert lab.plot.literal("5 $ or $ 6 or $") == r"5 \$ or \$ 6 or \$"
    plt.close(whole.figure)
    plt.close(some.figure)
    with pytest.raises(ValueError, match="agents must be one of"):
        lab.plot.cost(result, "soon", agents=["nobody"])
    with pytest.raises(ValueError, match="case must be one of"):
        lab.plot.cost(result, "never")


def boxes(figure, texts):
    figure.draw_without_rendering()
    return [text.get_window_extent() for text in texts]


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_names_do_not_run_into_the_next_panel(result, layout):
    with lab.plot.style():
        figure, axes = plt.subplots(1, 2, figsize=(7, 2.5), layout=layout)
        for one in axes:
            lab.plot.cost(result, "late", ax=one)
            one.set_ylabel("")
        left, right = axes
        texts = left.get_legend().get_texts()
        assert {text.get_text() for text in texts} >= set(ARMS)
        found = boxes(figure, texts)
        assert all(box.x1 <= right.get_tightbbox().x0 for box in found)
        assert all(box.y0 >= 0 for box in found)
        plt.close(figure)


def fonts(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf")
    return buffer.getvalue()


def test_own_figures_in_the_style_hold_truetype_fonts(result):
    before = dict(matplotlib.rcParams)
    with lab.plot.style("column"):
        figure, axes = plt.subplots(1, 2)
        for one in axes:
            lab.plot.regret(result, "soon", ax=one)
        made = fonts(figure)
    assert b"/Type3" not in made
    assert b"/Type0" in made or b"/TrueType" in made
    assert dict(matplotlib.rcParams) == before
    plt.close(figure)
    assert b"/Type3" not in fonts(lab.plot.cost(result, "soon").figure)


@pytest.mark.parametrize("kind", [None, "hindsight", "means", "dynamic", "so far"])
def test_a_regret_by_name_is_that_of_the_rows(result, kind):
    axes = lab.plot.regret(result, "soon", kind=kind, agents=["UCB"])
    line = next(line for line in axes.lines if line.get_label() == "UCB")
    rows = result.reported.filter(case="soon", agent="UCB")
    against = {"hindsight": ("value", "comparator"), "dynamic": ("mean_value", "best_each")}
    value, best = against.get(kind, ("mean_value", "mean_comparator"))
    regret = np.cumsum((rows[value] - rows[best]).to_numpy().reshape(2, -1), axis=1)
    if kind == "so far":
        so_far = rows["best_so_far"].to_numpy().reshape(2, -1)
        regret = np.cumsum(rows["mean_value"].to_numpy().reshape(2, -1), axis=1) - so_far
    np.testing.assert_allclose(line.get_ydata(), regret.mean(axis=0))
    plt.close(axes.figure)
    with pytest.raises(ValueError, match="regret must be one of"):
        lab.plot.regret(result, "soon", kind="static")


def test_the_agents_own_numbers_over_time(result):
    found = result.diagnostics
    assert found["episode"].max() == 29
    assert set(found["name"]) >= {"open"}
    axes = lab.plot.diagnostic(result, "open", "late")
    ends = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert set(ARMS) <= set(ends)
    assert ends["UCB"][0] == 1  # one episode has begun, and has not reported
    assert ends["UCB"][-1] == 9
    plt.close(axes.figure)
    with pytest.raises(ValueError, match="name must be one of"):
        lab.plot.diagnostic(result, "nothing", "late")


def test_processor_time_is_kept_beside_the_rows(result):
    assert result.seconds.height == 12
    assert (result.seconds["seconds"] >= 0).all()
    assert not any("second" in name for name in result.rows.columns)


@pytest.fixture(scope="module")
def whole_runs():
    """Experiments whose figures show whole runs: scores, slopes over K, and a sweep."""
    bandit = {"environment": part("bandit", means=(0.3, 0.7)), "information": "bandit",
              "episodes": 20, "seeds": 2, "engine": "here"}  # fmt: skip
    longer = [lab.Case("20"), lab.Case("40", episodes=40)]
    two = {"UCB": "benchmarks.rivals:ucb1", "EXP3": "benchmarks.rivals:exp3"}
    lazy = part("oppo", transitions="known", update=part("softmax", learning_rate=1e-9))
    return {
        "profile": lab.run(**bandit, agents=two, cases=longer, against="score"),
        "scaling": lab.run(
            **bandit, agents={**two, "lazy": lazy}, cases=longer, against="episodes"
        ),
        "sweep-delays-delay": lab.run(
            **bandit, agents=two, delays=part("fixed", delay=1),
            sweep={"delays.delay": [1, 3]}, against="delays.delay",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["profile", "scaling", "sweep-delays-delay"])
def test_every_figure_shows_the_agents_and_names_that_are_asked_for(whole_runs, name):
    result = whole_runs[name]
    figure = result.figure(name, agents=["EXP3"], labels={"EXP3": "$E$"})
    texts = [text for text in figure.findobj(plt.Text) if text.get_visible()]
    assert not any("UCB" in text.get_text() or "EXP3" in text.get_text() for text in texts)
    assert any("$E$" in text.get_text() for text in texts)
    for wrong in ({"agents": ["nobody"]}, {"labels": {"nobody": "x"}}):
        with pytest.raises(ValueError, match="must be one of"):
            result.figure(name, **wrong)


def test_a_slope_of_points_near_uniform_play_is_warned_of(whole_runs):
    result = whole_runs["scaling"]
    assert any(
        text.startswith("WARNING: lazy: a score above 0.9 in 20; 40; it plays like chance there")
        for text in result.warnings
    )
    learned = [
        line.agent for line in result.lines if line.agent != "lazy" and line.score.mean <= 0.9
    ]
    assert learned
    figure = result.figure("scaling")
    assert "slope 1/2" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_slopes_and_scores_are_those_of_the_costs_that_are_asked_for(whole_runs):
    """The last points of the curves against the summary of the same costs."""
    result = whole_runs["scaling"]
    for on, regret in (("means", None), ("drawn", None), ("means", "dynamic")):
        figure = result.figure("scaling", on=on, regret=regret, agents=["EXP3"])
        curve = next(one for one in figure.axes[0].containers if one.get_label() == "EXP3")
        lines = lab.statistics.summary(result.reported, on, regret)
        ends = [line.regret.mean for line in lines if line.agent == "EXP3"]
        np.testing.assert_allclose(curve[0].get_ydata(), ends)
        slope = np.diff(np.log(ends))[0] / np.log(2)
        text = " ".join(cell for row in result.table(on=on, regret=regret).cells for cell in row)
        assert f"{slope:.2f}" in text
    scores = whole_runs["profile"]
    drawn = scores.figure("profile", on="drawn", agents=["UCB"])
    mean = np.mean([
        line.score.mean
        for line in lab.statistics.summary(scores.reported, "drawn")
        if line.agent == "UCB"
    ])  # fmt: skip
    assert f"({lab.tables.number(mean)})" in drawn.legends[0].get_texts()[0].get_text()


def test_agents_that_have_not_run_are_left_out_of_profiles():
    cases = [lab.Case("one"), lab.Case("two")]
    found = lab.run(
        environment=part("bandit", means=(0.3, 0.7)), information="bandit", episodes=20, seeds=2,
        agents=ARMS, cases=cases, against="score", engine="here", only=["UCB"],
    )  # fmt: skip
    texts = found.figure("profile").legends[0].get_texts()
    assert [text.get_text().partition(" ")[0] for text in texts] == ["UCB"]


def test_the_command_line_asks_for_costs_and_regrets_too(result, capsys):
    given = {"on": "drawn", "regret": "so far"}
    options = [text for name, value in given.items() for text in (f"--{name}", value)]
    assert cli.main(["table", str(result.directory), *options]) == 0
    assert capsys.readouterr().out == result.table(**given).markdown()
    assert cli.main(["table", str(result.directory), "--regret", "static"]) == 2
    assert "regret must be one of" in capsys.readouterr().err


def test_a_baseline_asks_for_differences(result):
    found = result.table(baseline="UCB", on="drawn").cells
    assert found == result.table("differences", baseline="UCB", on="drawn").cells
    assert all("UCB" in row for row in found)
    with pytest.raises(ValueError, match="baseline is for the table of differences"):
        result.table("costs", baseline="UCB")
