"""Figures for papers: several panels, chosen agents, labels with mathematics, and fonts."""

import io
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

from belated import cli, lab
from belated.lab import part
from belated.lab.figures import profile, style

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


def test_an_agent_has_the_same_colour_in_all_panels(result):
    whole = lab.plot.panels(result, "regret")
    assert [axes.get_title(loc="left") for axes in whole.axes] == ["soon", "late"]
    first, second = map(colours, whole.axes)
    assert first == second
    some = lab.plot.panels({"a": result, "b": result}, agents=["EXP3", "UCB"], cases=["late"])
    assert [axes.get_title(loc="left") for axes in some.axes] == ["a, late", "b, late"]
    for axes in some.axes:
        found = colours(axes)
        assert found.pop("best policy")
        assert found == {name: first[name] for name in ("UCB", "EXP3")}
    assert [text.get_text() for text in some.legends[0].get_texts()] == [
        "UCB", "EXP3", "best policy"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="agents must be one of"):
        lab.plot.panels(result, agents=["nobody"])
    with pytest.raises(ValueError, match="cases must be one of"):
        lab.plot.panels(result, cases=["never"])


def test_labels_hold_mathematics_and_names_do_not(result):
    figure = lab.plot.panels(result, labels={"EXP3": r"EXP3 ($\eta_t$)"})
    texts = {text.get_text(): text.get_parse_math() for text in figure.legends[0].get_texts()}
    assert texts[r"EXP3 ($\eta_t$)"]
    assert not texts["UCB"]
    assert not style.is_math("5 $ or $ 6 or $")
    axes = lab.plot.cost(result, "soon", labels={"UCB": "$U$"}, agents=["UCB"])
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["$U$", "best policy"]
    plt.close(axes.figure)


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


def test_titles_of_your_own_hold_mathematics(result):
    with lab.plot.style():
        figure, axes = plt.subplots()
        own = [axes.set_title("$x$"), axes.set_xlabel(r"$\eta$"), axes.text(0, 0, "$y$")]
    plt.close(figure)
    shown = lab.plot.cost(result, "soon")
    own += [shown.set_title("$x$"), shown.set_ylabel("$c$")]
    plt.close(shown.figure)
    assert all(text.get_parse_math() for text in own)
    some = lab.plot.panels({"$d = 5$": result, "2 $ or 3": result}, cases=["soon"])
    left, right = (axes.title if axes.get_title() else axes._left_title for axes in some.axes)
    assert left.get_parse_math()
    assert not right.get_parse_math()


@pytest.mark.parametrize("width", ["column", "page"])
def test_words_of_panels_stay_inside_the_figure_and_apart(result, width):
    figure = lab.plot.panels(result, "regret", width=width, columns=2, kind="so far")
    figure.draw_without_rendering()
    wide, tall = figure.get_size_inches() * figure.dpi
    for axes in figure.axes:
        box = axes.yaxis.label.get_window_extent()
        assert box.y0 >= 0
        assert box.y1 <= tall
        ticks = [t.get_window_extent() for t in axes.get_xticklabels() if t.get_text()]
        ticks = [t for t in ticks if t.x1 > 0 and t.x0 < wide]
        assert all(a.x1 <= b.x0 for a, b in pairwise(ticks))


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
    assert b"/Type3" not in fonts(lab.plot.panels(result))


def test_panels_share_their_vertical_axis_unless_told_otherwise(result):
    for given, shared in (({}, True), ({"share_y": False}, False)):
        figure = lab.plot.panels(result, "regret", **given)
        first, second = (axes.get_ylim() for axes in figure.axes)
        assert (first == second) == shared


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


@pytest.mark.parametrize("name", ["profile", "scores", "scaling", "sweep-delays-delay"])
def test_every_figure_shows_the_agents_and_names_that_are_asked_for(whole_runs, name):
    result = whole_runs["profile" if name == "scores" else name]
    figure = result.figure(name, legend=True, agents=["EXP3"], labels={"EXP3": "$E$"})
    texts = [text for text in figure.findobj(plt.Text) if text.get_visible()]
    assert not any("UCB" in text.get_text() or "EXP3" in text.get_text() for text in texts)
    drawn = [text.get_parse_math() for text in texts if "$E$" in text.get_text()]
    assert drawn
    assert all(drawn)
    for wrong in ({"agents": ["nobody"]}, {"labels": {"nobody": "x"}}):
        with pytest.raises(ValueError, match="must be one of"):
            result.figure(name, **wrong)


def test_a_slope_of_points_near_uniform_play_is_warned_of(whole_runs):
    result = whole_runs["scaling"]
    assert [one.near_uniform for one in result.exponents if one.agent == "lazy"] == [("20", "40")]
    assert any(
        text.startswith("WARNING: lazy: a score above 0.9 in 20; 40; it plays like chance there")
        for text in result.warnings
    )
    learned = [one for one in result.exponents if not one.near_uniform]
    assert not any(one.agent in text and "slope" in text
                   for one in learned for text in result.warnings)  # fmt: skip
    figure = result.figure("scaling", legend=True)
    assert "slope 1/2" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_slopes_and_scores_are_those_of_the_costs_that_are_asked_for(whole_runs):
    """The last points of the curves against the summary of the same costs."""
    result = whole_runs["scaling"]
    for on, regret in (("means", None), ("drawn", None), ("means", "dynamic")):
        figure = result.figure("scaling", legend=True, on=on, regret=regret, agents=["EXP3"])
        curve = next(one for one in figure.axes[0].containers if one.get_label() == "EXP3")
        lines = lab.statistics.summary(result.reported, on, regret)
        ends = [line.regret.mean for line in lines if line.agent == "EXP3"]
        np.testing.assert_allclose(curve[0].get_ydata(), ends)
        slope = np.diff(np.log(ends))[0] / np.log(2)
        text = " ".join(cell for row in result.table(on=on, regret=regret).cells for cell in row)
        assert f"{slope:.2f}" in text
    scores = whole_runs["profile"]
    drawn = scores.figure("profile", legend=True, on="drawn", agents=["UCB"])
    mean = np.mean([
        line.score.mean
        for line in lab.statistics.summary(scores.reported, "drawn")
        if line.agent == "UCB"
    ])  # fmt: skip
    assert f"({lab.tables.number(mean)})" in drawn.legends[0].get_texts()[0].get_text()


def test_agents_that_have_not_run_are_left_out_of_profiles():
    table = lab.statistics.Scores(
        ("one", "two"), ("A", "B"), np.array([[0.5, np.nan], [0.2, np.nan]])
    )
    assert profile._chosen(table, style.Layout()).agents == ("A",)


def test_the_command_line_asks_for_costs_and_regrets_too(result, capsys):
    given = {"on": "drawn", "regret": "so far"}
    options = [text for name, value in given.items() for text in (f"--{name}", value)]
    assert cli.main(["table", str(result.directory), *options]) == 0
    assert capsys.readouterr().out == result.table(**given).markdown()
    assert cli.FigureOptions(**given).layout() == style.Layout(**given)
    assert cli.main(["table", str(result.directory), "--regret", "static"]) == 2
    assert "regret must be one of" in capsys.readouterr().err


def test_a_baseline_asks_for_differences(result):
    found = result.table(baseline="UCB", on="drawn").cells
    assert found == result.table("differences", baseline="UCB", on="drawn").cells
    assert all("UCB" in row for row in found)
    with pytest.raises(ValueError, match="baseline is for the table of differences"):
        result.table("costs", baseline="UCB")
