"""Experiments from Python: functions as parts, progress, failures, and what is returned."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import belated as bl
from belated import cli
from belated.config.part import function_name
from belated.lab import Results, RunBrief, RunsFailed, experiment, part, run
from belated.lab.run import execute
from config.test_own import MODULE
from lab.small import TINY, files

SMALL = {"episodes": 12, "seeds": 2, "name": "py"}


def corridor(length=3):
    return bl.environments.chain(states=length, horizon=4)


def known(told: RunBrief, rate=0.5):
    update = bl.parts.Softmax(learning_rate=rate)
    return bl.DelayedOPPO(told.problem, transitions=told.transitions, update=update)


def described(**changes):
    """Functions that cannot be sent to another process."""
    return SMALL | {
        "environment": lambda length=4: corridor(length),
        "agents": {
            "mine": lambda told: known(told, 0.5),
            "OPPO": part("oppo", transitions="known"),
        },
        "delays": lambda: bl.delays.fixed(2),
        "costs": lambda world: np.full((world.problem.states, world.problem.actions), 0.5),
        **changes,
    }


def test_functions_describe_an_experiment():
    rows = run(**described(), engine="here").rows
    assert len(rows) == 2 * 2 * 12
    np.testing.assert_allclose(rows["value"], 2.0)  # four steps, each 0.5 whatever is done
    assert set(rows["delay"]) == {2}


def test_a_function_is_swept_like_a_kind(capsys):
    result = run(
        **described(costs=None, agents={"mine": known}),
        sweep={"agents.mine.rate": [0.1, 5.0], "environment.length": [2, 5]},
        engine="here",
    )
    rates = result.rows["rate"].unique(maintain_order=True).to_list()
    assert rates == [0.1, 5.0]
    assert result.experiment.case_names() == ["environment.length = 2", "environment.length = 5"]
    assert (
        result.rows.filter(rate=5.0)["value"].mean() < result.rows.filter(rate=0.1)["value"].mean()
    )
    capsys.readouterr()
    with pytest.raises(ValueError, match=r"agents\[0\]\.rat = 1: unknown key.*'rate'"):
        run(**described(costs=None, agents={"mine": known}), sweep={"agents.mine.rat": [1]})


def test_a_changed_function_is_another_specification(tmp_path, capsys):
    def agent(rate):
        return lambda told: known(told, rate)

    run(experiment(**described(agents={"a": agent(0.1)})), tmp_path, engine="here")
    run(experiment(**described(agents={"a": agent(0.1)})), tmp_path, engine="here")
    with pytest.raises(ValueError, match=r"another specification .agents differs"):
        run(experiment(**described(agents={"a": agent(0.2)})), tmp_path, engine="here")
    read = Results(tmp_path)  # without the functions
    assert "test_run:" in read.experiment.agents[0].agent.kind
    with pytest.raises(ValueError, match="is a function of the session that ran this"):
        run(read.experiment, tmp_path / "again", engine="here")


def test_functions_of_modules_are_named_like_in_files(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    import mine

    assert function_name(mine.uniform) == "mine:uniform"
    assert part(mine.wide, factor=np.float64(2)) == part("mine:wide", factor=2.0)
    assert part("oppo", update=mine.half) == part("oppo", update={"kind": "mine:half"})


@pytest.mark.long
def test_functions_of_a_script_go_to_workers(tmp_path):
    script = """
import belated as bl
from belated import lab
def agent(told):
    return bl.DelayedOPPO(told.problem)
if __name__ == "__main__":
    result = lab.run(environment="chain", agents={"a": agent}, episodes=5, seeds=2)
    print(len(result.rows))
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "10\n"
    assert "in this process" not in done.stderr


def test_failed_runs_raise_and_the_others_are_kept(tmp_path, capsys):
    def sometimes():
        class Model:
            def draw(self, episodes, rng, costs=None):
                if calls.pop():
                    raise ArithmeticError("no luck")
                return np.zeros(episodes, dtype=np.int64)

        return Model()

    calls = [True, False, False]  # the rehearsal comes first
    given = described(delays=sometimes, agents={"a": known})
    with pytest.raises(
        RunsFailed, match=r"1 of 2 runs failed, the first, a/seed-1: Arith.*luck"
    ) as e:
        run(experiment(**given), tmp_path, engine="here")
    assert [outcome.task.seed for outcome in e.value.failed] == [1]
    assert Results(tmp_path, experiment(**given)).rows["seed"].unique().to_list() == [0]


def test_some_agents_now_and_the_others_later(tmp_path, capsys):
    run(TINY, tmp_path / "whole", engine="here")
    some = run(TINY, tmp_path / "out", engine="here", only=["B"])
    assert set(some.rows["agent"]) == {"B"}
    assert set(run(TINY, tmp_path / "out", engine="here", only=["A", "B"]).rows["agent"]) > {"B"}
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert execute(TINY, tmp_path / "out", engine="here", only=["A"])[0] == 4
    with pytest.raises(ValueError, match="only must be one of 'A', 'B', got 'C'"):
        run(TINY, tmp_path / "none", engine="here", only=["C"])
    assert not (tmp_path / "none").exists()
    assert cli.main(["run", "paper-grid", "--only", "C", "--out", str(tmp_path / "none")]) == 2
    assert "only must be one of 'Delayed OPPO'" in capsys.readouterr().err.replace("\n", " ")


def test_what_is_wrong_is_said_in_one_line():
    for given, says in [
        ({"delays": bl.delays.fixed(1)}, r"delays must be a kind, .*\(lambda: \.\.\.\)"),
        ({"agents": ["oppo"]}, "agents must be given by name"),
        ({"agents": {"a": 3}}, r"agents\.a must be a kind"),
        ({"episode": 3}, "episode = 3: unknown key.*'episodes'"),
        ({"environment": "chian"}, "did you mean 'chain'"),
    ]:
        with pytest.raises(ValueError, match=says):
            experiment(**described(**given))
    with pytest.raises(ValueError, match="not both"):
        run("paper-grid", **described())
    with pytest.raises(ValueError, match="not both"):
        run()
    with pytest.raises(ValueError, match='jobs must be 1 with the engine "here", got 2'):
        run(**described(), engine="here", jobs=2)


def test_results_show_table_and_curves(capsys):
    result = run(**described(costs=None), engine="here")
    assert "py" in repr(result)
    page = result._repr_html_()
    assert "<table>" in page
    assert 'src="data:image/svg+xml;base64,' in page
    assert result.figures() == ["cost", "regret"]
    figure = result.figure("cost", width="column", title=False)
    assert figure.get_figwidth() == 3.4
    assert figure.axes[0].get_title(loc="left") == ""
    with pytest.raises(ValueError, match="name must be one of 'cost', 'regret'"):
        result.figure("costs")
    with pytest.raises(ValueError, match="has no selected settings"):
        result.table("selected")
    assert "mine" in str(result.table())
    gone = result.directory
    assert gone.exists()
    del result
    assert not gone.exists()


def test_plots_are_axes_to_adjust(capsys, tmp_path):
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from belated import lab

    result = run(
        **described(costs=None), sweep={"agents.oppo.update.scale": [0.5, 2]}, engine="here"
    )
    axes = lab.plot.cost(result, block=3)
    assert len(axes.lines[0].get_xdata()) == 4
    axes.figure.savefig(tmp_path / "x.pdf")
    assert b"Type3" not in (tmp_path / "x.pdf").read_bytes()
    _, (left, right) = plt.subplots(1, 2)
    assert lab.plot.regret(result, ax=left) is left
    assert lab.plot.sweep(result, ax=right) is right
    assert right.get_xlabel() == "scale"
    with pytest.raises(ValueError, match="case must be one of"):
        lab.plot.cost(result, "x")
    plt.close("all")
