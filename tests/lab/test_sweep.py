"""Sweeps: the agents and cases that a path makes, refusals, and selection."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from belated.lab import Case, Learner, Results, Select, part, plot, report, run, toml
from belated.lab.statistics import choose, chosen_on, reported, sentence
from belated.lab.task import rehearse
from lab.small import TINY

RATE = "agents.oppo.update.learning_rate"
SWEPT = dataclasses.replace(
    TINY,
    name="swept",
    agents=(
        Learner("OPPO", part("oppo", transitions="bonus")),
        Learner("plain", part("oppo", transitions="known")),
    ),
    environment=part("chain", states=3, horizon=5),
    episodes=25,
    seeds=4,
    sweep={RATE: [0.01, 0.1, 1], "delays.mean": [0, 6]},
    select=Select(2),
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return run(SWEPT, tmp_path_factory.mktemp("swept"), engine="here")


def test_a_grid_of_agents_and_cases():
    names = [f"OPPO, learning_rate = {rate}" for rate in ("0.01", "0.1", "1")]
    assert [learner.name for learner in SWEPT.learners] == [*names, "plain"]
    assert SWEPT.case_names() == ["delays.mean = 0", "delays.mean = 6"]
    assert len(SWEPT.tasks()) == 4 * 2 * 4
    rates = [learner.agent.values["update"] for learner in SWEPT.learners[:3]]
    assert rates == [part("softmax", learning_rate=rate) for rate in (0.01, 0.1, 1)]
    assert [SWEPT.scene(case).delays for case in SWEPT.case_names()] == [
        part("geometric", mean=mean) for mean in (0, 6)
    ]
    two = dataclasses.replace(
        SWEPT, sweep={RATE: [0.1, 1], "agents.OPPO.transitions.scale": [1, 2], "episodes": [9, 20]}
    )
    found = [two.at("episodes = 9", learner.name) for learner in two.learners[:-1]]
    assert found == [
        {"episodes": 9, RATE: rate, "agents.OPPO.transitions.scale": scale}
        for rate, scale in itertools.product([0.1, 1], [1, 2])
    ]


def test_toml_there_and_back_in_any_spelling():
    assert toml.loads(toml.dumps(SWEPT)) == SWEPT
    text = toml.dumps(dataclasses.replace(SWEPT, sweep=(), select=None))
    text = f'select = {{ seeds = 2 }}\n{text}\n[sweep]\n"{RATE}" = [0.01, 0.1, 1]\n'
    assert toml.loads(f'{text}"delays.mean" = [0, 6]\n') == SWEPT


def test_the_files_of_the_page_can_be_built():
    found = sorted((Path(__file__).parents[2] / "examples" / "lab").glob("step_sizes*.toml"))
    assert len(found) == 2
    for file in found:
        rehearse(toml.loads(file.read_text(encoding="utf-8")))


def test_whole_parts_lists_and_own_cases():
    cased = dataclasses.replace(
        SWEPT,
        agents=(Learner("B", part("oppo", update="softmax")),),
        cases=(Case("late", delays=part("by_action", models=["none", "none"])),),
        sweep={
            "agents.b.update": ["softmax", "regret_matching"],
            "delays.models.1": ["none", {"kind": "fixed", "delay": 3}],
        },
        select=None,
    )
    assert cased.learners[1].agent.values["update"] == part("regret_matching")
    assert cased.case_names() == [
        "late, delays.models.1 = none",
        "late, delays.models.1 = fixed (delay = 3)",
    ]
    delays = cased.scene(cased.case_names()[1]).delays
    assert delays.values["models"] == (part("none"), part("fixed", delay=3))
    assert toml.loads(toml.dumps(cased)) == cased


def test_swept_agents_learn_as_if_they_were_written_out(swept):
    written = dataclasses.replace(
        SWEPT,
        agents=SWEPT.learners,
        cases=tuple(SWEPT.case(name) for name in SWEPT.case_names()),
        sweep=(),
        select=None,
    )
    same = run(written, engine="here").rows
    assert same.equals(swept.rows.select(same.columns))


def test_nothing_is_reported_while_nothing_is_chosen(swept):
    alone = dataclasses.replace(SWEPT, agents=SWEPT.agents[:1])
    assert len(reported(alone, swept.rows, {})) == 0


def test_another_swept_agent_has_a_figure_of_its_own():
    other = "agents.plain.update.learning_rate"
    both = dataclasses.replace(
        SWEPT,
        agents=(*SWEPT.agents, Learner("third", part("oppo", transitions="known"))),
        episodes=5,
        seeds=1,
        sweep={RATE: [0.1, 1], other: [0.1, 1]},
        select=None,
    )
    results = run(both, engine="here")
    for path, name in ((RATE, "OPPO"), (other, "plain")):
        assert list(plot.over(results, path)) == [name, "third"]


def test_one_setting_for_all_cases(swept):
    """By hand: scores of seeds 0 and 1, averaged over the cases; the choice is the same in both."""
    together = dataclasses.replace(SWEPT, select=Select(2, "together"))
    assert toml.loads(toml.dumps(together)) == together
    rows = swept.rows.filter((pl.col("seed") < 2) & pl.col("agent").str.starts_with("OPPO"))
    sums = rows.group_by("agent", "case", "seed").agg(
        pl.col("value").sum(), pl.col("comparator").sum(), pl.col("uniform").sum()
    )
    gap = pl.col("uniform") - pl.col("comparator")
    scores = sums.with_columns(score=(pl.col("value") - pl.col("comparator")) / gap)
    best = scores.group_by("agent").agg(pl.col("score").mean()).sort("score")["agent"][0]
    results = Results(swept.directory, together)
    assert [lines[0].agent for lines in results.choices.values()] == [best, best]
    assert {line.agent for line in results.lines} == {best, "plain"}
    assert "one for all cases, by its mean score over cases on seeds 0 to 1" in sentence(together)


@pytest.mark.parametrize(
    ("sweep", "says"),
    [
        ({"agents.oppo.update.lerning_rate": [1]}, "'softmax' takes .*mean 'learning_rate'"),
        ({"agents.opo.update.learning_rate": [1]}, "a NAME among 'oppo', 'plain'.*mean 'oppo'"),
        ({"agents.oppo": [1]}, r"sweep\.agents\.oppo: unknown path; it must be agents\.NAME\.KEY"),
        ({"agents.oppo.updte.scale": [1]}, r"'oppo' takes .* \(did you mean 'update'\?\)"),
        ({"agents.oppo.costs.exploration": [1]}, "no table that could take 'exploration'"),
        ({"agents.oppo.update.scale.x": [1]}, "no table that could take 'x'"),
        ({"delay.mean": [1]}, r"must begin with one of .*'delays'.* \(did you mean 'delays'\?\)"),
        ({"delays.men": [1]}, "'geometric' takes 'mean' .*did you mean 'mean'"),
        ({"episodes.x": [1]}, "unknown path"),
        ({"seeds": [1, 2]}, "must begin with one of"),
        ({"delays.mean": 3}, r"must be a list of values, e\.g\. .*got 3"),
        ({"delays.mean": []}, r"must be a list of values.*got \[\]"),
        ({"delays.mean": [1, 1]}, "must be different values, got 1 twice"),
        ({"delays.mean": "12"}, "must be a list of values"),
        (3, "sweep must be a table of lists by path, got 3"),
        ({"episodes": [5, 0]}, "episodes must be a whole number"),
        ({"episodes": range(2000), "delays.mean": range(1000)}, "sweep must make at most 1000000"),
        ({"environment": ["gridwrld"]}, "did you mean 'gridworld'"),
        ({"agents.oppo.paths": ["late", "never"]}, "paths must be one of"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_one_sentence(sweep, says):
    with pytest.raises(ValueError, match=says) as caught:
        dataclasses.replace(SWEPT, sweep=sweep, select=None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"select": {"seeds": 4}}, "select.seeds must be less than seeds = 4"),
        ({"select": {"seeds": 0}}, "select.seeds must be a whole number of at least 1"),
        ({"select": {"seds": 2}}, "select.seds = 2: unknown key.*'seeds'"),
        (
            {"select": {"seeds": 2, "cases": "all"}},
            "select.cases must be one of 'each', 'together'",
        ),
        ({"select": 2}, "select must be"),
        ({"sweep": {"delays.mean": [1, 2]}}, "select needs a sweep over a parameter of an agent"),
        ({"against": "delays.men"}, "against must be one of .*did you mean 'delays.mean'"),
    ],
)
def test_what_cannot_be_selected_is_refused_in_one_sentence(change, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SWEPT, **change)


def test_the_best_setting_is_chosen_on_some_seeds_and_reported_on_others(swept):
    rows = swept.rows
    first = rows.filter(pl.col("seed") < 2, pl.col("learning_rate").is_not_null())
    means = first.group_by("case", "learning_rate").agg(pl.col("value").mean())
    for (case, agent), lines in swept.choices.items():
        best = means.filter(case=case).sort("value")[0]
        assert lines[0].agent == f"OPPO, learning_rate = {best['learning_rate'][0]:g}"
        assert lines[0].cost.mean == pytest.approx(best["value"][0])
        assert (agent, len(lines), lines[0].seeds) == ("OPPO", 3, 2)
    assert [case for case, _ in swept.choices] == SWEPT.case_names()
    assert set(swept.reported["seed"]) == {2, 3}
    found = {(line.case, line.agent): line for line in swept.lines}
    assert set(found) == {
        *((case, lines[0].agent) for (case, _), lines in swept.choices.items()),
        *((case, "plain") for case in SWEPT.case_names()),
    }
    for (case, agent), line in found.items():
        some = rows.filter(pl.col("seed") >= 2, case=case, agent=agent)
        assert line.cost.mean == pytest.approx(some["value"].mean())


@pytest.mark.long
def test_the_report_says_what_was_selected_on_what(swept):
    drawings = plot.draw(swept)
    text = report.html(swept, drawings)
    assert "on seeds 0 to 1; tables, curves and differences" in text
    assert "settings on seeds 2 to 3 only" in text
    assert swept.table("selected").cells[0][2] in text
    captions = {drawing.name: drawing.caption for drawing in drawings}
    assert "These are seeds 0 to 1, on which" in captions["sweep-delays-mean"]
    assert "mean of 2 seeds" in captions["cost-delays-mean-0"]


def test_a_table_over_a_swept_parameter_says_which_seeds_it_shows(swept):
    over = dataclasses.replace(SWEPT, against=RATE)
    table = Results(swept.directory, over).table()
    assert table.title.endswith(", seeds 0 to 1, on which settings are selected")
    some = swept.rows.filter(pl.col("episode") == 24, pl.col("seed") < 2, agent="plain")
    row = next(row for row in table.rows if row[0] == "delays.mean = 6: plain")
    assert row[1] == pytest.approx(some.filter(case="delays.mean = 6")["regret"].mean())
    plain = dataclasses.replace(over, select=None)
    assert "selected" not in Results(swept.directory, plain).table().title
    with pytest.raises(ValueError, match="has no selected settings: select is not given"):
        Results(swept.directory, plain).table("selected")


def test_seeds_that_begin_elsewhere(swept):
    later = dataclasses.replace(SWEPT, first_seed=5, seeds=3, select=Select(1))
    assert "on seed 5;" in sentence(later)
    assert "on seeds 6 to 7 only" in sentence(later)
    rows = swept.rows.with_columns(seed=pl.col("seed") + 5)
    assert set(chosen_on(later, rows)["seed"]) == {5}
    assert set(reported(later, rows, choose(later, rows))["seed"]) == {6, 7, 8}


def test_a_setting_with_a_seed_missing_is_not_chosen(swept, tmp_path):
    (place, (best, *_)), *_ = swept.choices.items()
    rows = swept._read.filter(
        ~((pl.col("agent") == best.agent) & (pl.col("case") == best.case) & (pl.col("seed") == 1))
    )
    again = Results(swept.directory)
    again.__dict__["_read"] = rows
    assert best.agent not in [line.agent for line in again.choices[place]]
    assert len(again.choices[place]) == 2


def test_regret_over_a_parameter(swept):
    every = dataclasses.replace(SWEPT, select=None, against="delays.mean")
    result = Results(swept.directory, every)
    (drawing,) = plot.draw(result)
    assert drawing.name == "sweep-delays-mean"
    (axes,) = drawing.figure.axes
    assert axes.get_xlabel() == "delays.mean"
    last = swept.rows.filter(pl.col("episode") == 24)
    for line, learner in zip(axes.lines[::3], every.learners, strict=False):
        regret = [
            last.filter(case=case, agent=learner.name)["regret"].mean()
            for case in every.case_names()
        ]
        np.testing.assert_allclose(line.get_xdata(), [0, 6])
        np.testing.assert_allclose(line.get_ydata(), regret)
    table = result.table()
    assert table.head == ("mean regret, delays.mean =", "0", "6")
    assert [row[0] for row in table.rows] == [learner.name for learner in every.learners]
    assert table.rows[0][2] == pytest.approx(
        last.filter(case="delays.mean = 6", agent=every.learners[0].name)["regret"].mean()
    )
    over = Results(swept.directory, dataclasses.replace(SWEPT, select=None, against=RATE))
    names = [row[0] for row in over.table().rows]
    assert names == [f"delays.mean = {m}: {a}" for m in (0, 6) for a in ("OPPO", "plain")]
    assert len(set(over.table().cells[1][1:])) == 1  # the plain agent has no such parameter
