"""The promised names: how many, where they moved, and a runnable example of each."""

import doctest
from importlib import import_module

import numpy as np
import pytest

import belated as bl
from belated import names

GYMNASIUM = ("from_gymnasium", "gym_problem", "table_rewards")
PROMISED = """
Problem Choice Transitions MDP World simulate Run recommend advise Agent Episode Decision Trajectory
Costs StepCost Reward FeedbackError Inbox Report Outcome DelayLine NEVER save load SavedFileError
DelayedOPPO DelayedOREPS DelayedUCBVI DAPO DelayedFTRL UOBREPS ZimmertSeldin ThompsonSampling
PosteriorSampling LinearSampler Features parts wrappers planning delays costs environments tuning
testing stale lab
"""


def public():
    """Every public name that has an example: of the top, and of the public modules."""
    for name in names.TOP:
        yield f"belated.{name}"
    for module in ("parts", "wrappers", "delays", "costs", "environments", "planning", "tuning"):
        for name in vars(import_module(f"belated.{module}")):
            if not name.startswith("_"):
                yield f"belated.{module}.{name}"


def found(path):
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


UNSHOWN = (
    "belated.costs.CostProcess",
    "belated.delays.DelayModel",
    "belated.delays.OutcomeDependentDelay",
    "belated.delays.PlayedEpisode",
    "belated.environments.DecisionWorld",
    "belated.environments.Rewards",
    "belated.environments.Visits",
)
"""Protocols and results of functions; the examples of the functions show these results."""
EXAMPLES = [path for path in public() if callable(found(path)) and path not in UNSHOWN]


@pytest.mark.parametrize("path", EXAMPLES)
def test_every_public_name_has_an_example_that_runs(path, tmp_path, monkeypatch):
    if path.rpartition(".")[2] in GYMNASIUM:
        pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    item = found(path)
    text = item.__doc__ or ""
    scope = {name: getattr(bl, name) for name in names.TOP} | {"bl": bl, "np": np}
    test = doctest.DocTestParser().get_doctest(text, scope, path, None, 0)
    assert test.examples, f"{path} has no example"
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_the_promised_names_are_there_and_at_most_48_are_shown():
    assert len(dir(bl)) <= 48
    assert set(PROMISED.split()) <= set(dir(bl))
    for name in dir(bl):
        assert getattr(bl, name) is not None
