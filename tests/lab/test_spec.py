"""Experiments as data: TOML there and back, stable names, one line for every mistake."""

import dataclasses

import pytest

from belated.lab import EXPERIMENTS, Case, Results, named, part, report, toml
from belated.lab import toml as experiments
from belated.lab.run import Done, execute
from belated.lab.task import rehearse
from lab.small import TINY

HERE = "here"
"""The engine."""

GOOD = """
name = "mine"
episodes = 20
seeds = 2

[environment]
kind = "gridworld"
size = 3
horizon = 5

[delays]
kind = "lost"
probability = 0.1
otherwise = { kind = "geometric", mean = 2 }

[[agents]]
name = "Delayed OPPO"
kind = "oppo"
transitions = "bonus"
update = { kind = "softmax", learning_rate = 0.1 }

[[agents]]
name = "Copies"
kind = "parallel"
paths = "at once"
agent = { kind = "oppo", update = { kind = "softmax", learning_rate = "tuned" } }
"""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_named_experiment_survives_toml_and_can_be_built(name):
    experiment = named(name)
    assert experiment.name == name
    assert toml.loads(toml.dumps(experiment)) == experiment
    rehearse(experiment)


def test_a_file_means_what_it_says():
    experiment = toml.loads(GOOD)
    assert experiment.environment == part("gridworld", size=3, horizon=5)
    assert experiment.delays.values["otherwise"] == part("geometric", mean=2)
    assert experiment.agents[1].paths == "at once"
    inside = experiment.agents[1].agent.values["agent"]
    assert inside == part("oppo", update=part("softmax", learning_rate="tuned"))
    assert toml.loads(toml.dumps(experiment)) == experiment


def test_other_seeds_and_agents_of_some_cases():
    some = dataclasses.replace(
        TINY,
        agents=(TINY.agents[0], dataclasses.replace(TINY.agents[1], cases=("late",))),
        cases=(Case("soon"), Case("late", delays=part("fixed", delay=3))),
        seeds=2,
        first_seed=7,
    )
    assert toml.loads(toml.dumps(some)) == some
    assert [task.name for task in some.tasks()] == [
        f"{run}/seed-{seed}" for seed in (7, 8) for run in ("soon/a", "late/a", "late/b")
    ]
    assert some.cases_of("B") == ["late"]
    assert "It is run in 1 of 2 cases." in report.sentences(some)[-1]
    swept = dataclasses.replace(some, sweep={"delays.delay": [1, 2]}, delays=part("fixed", delay=1))
    with pytest.raises(ValueError, match=r"agents\[1\]\.cases must be one of 'soon', 'late'"):
        dataclasses.replace(
            some, agents=(TINY.agents[0], dataclasses.replace(TINY.agents[1], cases=("no",)))
        )
    with pytest.raises(ValueError, match=r"cases must be names of cases, got 'late'"):
        dataclasses.replace(
            some, agents=(TINY.agents[0], dataclasses.replace(TINY.agents[1], cases="late"))
        )
    with pytest.raises(ValueError, match="first_seed must be a whole number"):
        dataclasses.replace(TINY, first_seed=-1)
    assert len(swept.cases_of("B")) == 2
    assert len(swept.tasks()) == 2 * (4 + 2)


def test_run_names_are_stable():
    names = [task.name for task in toml.loads(GOOD).tasks()]
    assert names == ["delayed-oppo/seed-0", "copies/seed-0", "delayed-oppo/seed-1", "copies/seed-1"]
    cased = dataclasses.replace(toml.loads(GOOD), cases=(Case("Mean 2"),), seeds=1)
    assert [task.name for task in cased.tasks()] == [
        "mean-2/delayed-oppo/seed-0",
        "mean-2/copies/seed-0",
    ]


MISTAKES = {
    "learning_rate = 0.1": [
        (
            "lerning_rate = 0.1",
            "agents[0].update.lerning_rate = 0.1: unknown key; 'softmax' takes",
            "did you mean 'learning_rate'?",
        ),
        ("learning_rate = -1", "agents[0].update: learning_rate must be", "at least 0, got -1"),
        ('learning_rate = "fast"', "agents[0].update: learning_rate", "'tuned', got 'fast'"),
        (
            'scale = { kind = "softmax" }',
            "agents[0].update.scale must be a plain value",
            "kind='softmax'",
        ),
    ],
    'transitions = "bonus"': [
        ('transitions = "bonsu"', "agents[0].transitions.kind must be", "did you mean 'bonus'?"),
        ("transitions = 3", "agents[0].transitions must be a table with a kind", "got 3"),
        ("transitions = {}", "agents[0].transitions.kind is required: one of", "'confidence'"),
        ('costs = "avreaged"', "agents[0].costs.kind must be", "did you mean 'averaged'?"),
        ('costs = "averaged"', "agents[0] must be an agent for information = 'full'", "'bandit'"),
        ('explore = { kind = "few_visits", threshold = -1 }', "agents[0].explore: threshold", "-1"),
        ('information = "some"', "agents[0].information must be one of 'full', 'bandit'", "'some'"),
        ('paths = "immediate"', "agents[0].paths must be one of 'late', 'at once'", "'immediate'"),
        ('trajectory = "delayed"', "agents[0].trajectory = 'delayed': unknown key", "'oppo'"),
    ],
    'kind = "gridworld"': [
        ('kind = "gridwrld"', "environment.kind must be one of", "(did you mean 'gridworld'?)"),
        ("", "environment.kind is required: one of", "'gridworld'"),
    ],
    "size = 3": [
        ("size = 0", "environment: size must be a whole number of at least 1", "got 0"),
        ("walls = 3", "environment: walls must be (row, column) pairs", "got 3"),
        ("walls = [[0, 0]]", "environment: walls must leave the start free", "(0, 0)"),
    ],
    "probability = 0.1": [
        ("probability = 2", "delays: probability must be", "at most 1, got 2"),
        ("", "delays.probability is required for kind 'lost'", ""),
    ],
    "mean = 2": [("mean = nan", "delays.otherwise: mean must be", "got nan"),
                 ("men = 2", "delays.otherwise.men = 2: unknown key", "did you mean 'mean'?")],
    "episodes = 20": [
        ("episodes = 0", "episodes must be a whole number from 1 to", "got 0"),
        ("episode = 20", "episode = 20: unknown key; an experiment", "did you mean 'episodes'?"),
        ('paths = "delayed"', "paths must be one of 'late', 'at once'", "'delayed'"),
        ("cases = [{ seeds = 3 }]", "cases[0].seeds = 3: unknown key; a case takes", "'delays'"),
        ("title = 3", "title must be a text", "got 3"),
        ('against = "time"', "against must be one of 'episodes', 'total_delay'", "'time'"),
        ("agents = 3", "is not TOML", ""),
    ],
    'name = "mine"': [
        (f"name = '{101 * 'x'}'", "name must be a text", "1 to 100 letters"),
        ("", "name is required", ""),
        ("name = '?'", "name must be a text", "'?'"),
    ],
    'name = "Copies"': [
        ('name = "delayed oppo"', "agents must have names that differ", "'delayed-oppo' twice"),
        ("", "agents[1].name must be a text", "got ''"),
    ],
    '{ kind = "oppo", update = { kind = "softmax", learning_rate = "tuned" } }': [
        ('{ kind = "opo" }', "agents[1].agent.kind must be one of", "did you mean 'oppo'?"),
        (
            '{ kind = "oppo", transitions = { kind = "confidence", delta = 0 } }',
            "agents[1].agent.transitions: delta must be",
            "got 0",
        ),
        ("3", "agents[1].agent must be a table with a kind", "got 3"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "where", "what"),
    [(right, *case) for right, cases in MISTAKES.items() for case in cases],
)
def test_a_mistake_gets_one_line_with_key_value_and_what_is_allowed(right, wrong, where, what):
    assert right in GOOD
    with pytest.raises(ValueError, match=r"mine\.toml|must") as caught:
        rehearse(toml.loads(GOOD.replace(right, wrong), "mine.toml"))
    message = str(caught.value)
    assert "\n" not in message
    assert where in message
    assert what in message


@pytest.mark.parametrize(
    ("place", "made", "says"),
    [
        ("delays", part("trace", delays=[-1]), r"delays: delays must be"),
        ("costs", part("moving_goal", size=3, goals=5, every=2), r"costs: goals must be pairs"),
        ("costs", part("moving_goal", size=3, goals=[[1]], every=2), r"costs: goals\[0\] must be"),
        ("environment", part("gymnasium", env="x", horizon=3), r"environment[.:] ?.*x"),
        ("environment", part("gridworld", size=10**9), r"environment: size must make arrays of"),
        (
            "costs",
            part("random_switching", count=10**9),
            r"costs: count must make arrays of at most",
        ),
    ],
)
def test_what_a_part_raises_is_one_line_with_its_key(place, made, says):
    experiment = dataclasses.replace(toml.loads(GOOD), **{place: made})
    with pytest.raises(ValueError, match=says) as caught:
        rehearse(experiment)
    assert "\n" not in str(caught.value)


def test_specifications_are_frozen_and_hashable():
    experiment = toml.loads(GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.episodes = 3
    assert hash(experiment) == hash(toml.loads(GOOD))


def test_a_kind_alone_is_a_part_without_parameters():
    rehearse(toml.loads(GOOD.replace('"bonus"', '{ kind = "bonus" }')))
    whole = toml.loads('environment = "chain"\n' + GOOD[: GOOD.index("[environment]")]
                       + GOOD[GOOD.index("[delays]") :])  # fmt: skip
    assert whole.environment == part("chain")


def test_the_files_of_recorded_delays_are_beside_the_specification(tmp_path, monkeypatch):
    """They are found from any directory; the copy among the results means the same."""
    inside = 'otherwise = { kind = "trace", delays = { file = "data/waits.csv" }, repeat = true }'
    text = GOOD.replace('otherwise = { kind = "geometric", mean = 2 }', inside)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "waits.csv").write_text("waited\n3\n0\nnever\n")
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.chdir(tmp_path / "data")
    experiment = toml.read(tmp_path / "mine.toml")
    rehearse(experiment)
    copy = tmp_path / "out" / "spec.toml"
    copy.parent.mkdir()
    copy.write_text(toml.dumps(experiment, copy.parent))
    assert toml.read(copy) == experiment
    monkeypatch.chdir(tmp_path / "out")
    assert toml.read("spec.toml") == experiment
    assert 'file = "../data/waits.csv"' in copy.read_text()
    assert "data/waits.csv" in toml.dumps(experiment)
    assert str(tmp_path) not in toml.dumps(experiment) + copy.read_text()


def test_swept_files_are_beside_the_specification_and_named_without_their_directory(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("waited\n3\n")
    text = """
name = "files"
episodes = 5
seeds = 1
environment = { kind = "chain" }
delays = { kind = "trace", delays = { file = "one.csv" }, repeat = true }
agents = [{ name = "OPPO", kind = "oppo", transitions = "known" }]
"""
    (tmp_path / "mine.toml").write_text(text)
    title = experiments.title(toml.read(tmp_path / "mine.toml"))
    assert "delays trace (delays = one.csv, repeat = true)" in title
    (tmp_path / "mine.toml").write_text(
        f'{text}[sweep]\n"delays.delays" = [{{ file = "one.csv" }}, {{ file = "two.csv" }}]\n'
    )
    experiment = toml.read(tmp_path / "mine.toml")
    rehearse(experiment)
    assert experiment.case_names() == ["delays.delays = one.csv", "delays.delays = two.csv"]


FILED = """
name = "filed"
episodes = 4
seeds = 1
environment = { kind = "chain", horizon = 3 }
delays = { kind = "trace", delays = { file = "data/waits.csv" }, repeat = true }
agents = [{ name = "OPPO", kind = "oppo", transitions = "known" }]
"""


def project(directory, text=FILED):
    (directory / "data").mkdir(parents=True)
    (directory / "data" / "waits.csv").write_text("waited\n3\n0\n")
    (directory / "mine.toml").write_text(text)
    return directory


@pytest.mark.parametrize("how", ["file", "sweep", "python"])
def test_a_project_that_is_moved_is_the_same_and_other_data_are_another(tmp_path, monkeypatch, how):
    swept = '[sweep]\n"delays.delays" = [{ file = "data/waits.csv" }]\n'
    text = FILED if how != "sweep" else FILED + swept
    old = project(tmp_path / "old", text)
    new = tmp_path / "elsewhere" / "new"

    def work(where):
        monkeypatch.chdir(where)
        if how == "python":
            waits = part("trace", delays={"file": "data/waits.csv"}, repeat=True)
            return execute(dataclasses.replace(toml.loads(FILED), delays=waits), "out", engine=HERE)
        return execute(toml.read(where / "mine.toml"), where / "out", engine=HERE)

    assert work(old) == Done(0, 1, ())
    Results(old / "out").report()
    named = [path for path in (old / "out").rglob("*") if path.is_file()]
    assert len(named) >= 5
    assert not [path for path in named if str(tmp_path).encode() in path.read_bytes()]
    monkeypatch.chdir(tmp_path)
    new.parent.mkdir()
    old.rename(new)
    assert work(new) == Done(1, 0, ())
    (new / "data" / "waits.csv").write_text("waited\n3\n1\n")
    with pytest.raises(ValueError, match=r"specification \(the content of waits.csv differs\)"):
        work(new)
    assert Results(new / "out").rows["delay"].to_list() == [3, 0, 3, 0]  # read without the data


def test_the_specification_among_the_results_runs_only_with_its_data(tmp_path):
    old = project(tmp_path / "old")
    execute(toml.read(old / "mine.toml"), old / "out", engine=HERE)
    again = toml.read(old / "out" / "spec.toml")
    rehearse(again)
    (old / "data" / "waits.csv").write_text("waited\n3\n1\n")
    with pytest.raises(ValueError, match=r"delays.delays must be the file with sha256 \w{12}"):
        rehearse(again)
    absolute = FILED.replace("data/waits.csv", str(old / "data" / "waits.csv"))
    (old / "mine.toml").write_text(absolute)
    assert f'file = "{old}/data/waits.csv"' in toml.dumps(toml.read(old / "mine.toml"), old / "out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{ file = 3 }", "mine.toml: file must be a path, got 3"),
        ('{ file = "x.csv", sha256 = "abc" }', "mine.toml: sha256 must be 64 letters from 0 to f"),
        ('{ file = "x.csv", md5 = "abc" }', "delays.delays must be a plain value"),
        ('{ file = "nowhere.csv" }', "nowhere.csv: No such file"),
        ('"data/waits.csv"', 'delays must be numbers, or { file = "data/waits.csv" }, got'),
    ],
)
def test_files_that_cannot_be_are_named(given, message):
    text = FILED.replace('{ file = "data/waits.csv" }', given)
    with pytest.raises(ValueError, match=message):
        rehearse(toml.loads(text, "mine.toml"))


def test_files_with_the_same_content_can_be_swept(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("waited\n3\n")
    swept = f'{FILED}[sweep]\n"delays.delays" = [{{ file = "one.csv" }}, {{ file = "two.csv" }}]\n'
    experiment = toml.loads(swept, directory=tmp_path)
    assert experiment.case_names() == ["delays.delays = one.csv", "delays.delays = two.csv"]
    with pytest.raises(ValueError, match=r"different values, got one\.csv twice"):
        toml.loads(swept.replace("two.csv", "one.csv"), directory=tmp_path)
