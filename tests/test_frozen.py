"""Decisions, experiments and HTTP conversations over fixed runs equal those that were recorded."""

import json

import numpy as np
import pytest

import belated as bl
import frozen

STORED = json.loads(frozen.FILE.read_text())


@pytest.mark.parametrize("name", frozen.LEARNERS)
def test_decisions_are_those_that_were_recorded(name, tmp_path):
    """One learner plays throughout; another one is saved and loaded in the middle."""
    whole = frozen.decided(name, frozen.LEARNERS[name]())
    np.testing.assert_allclose(whole, STORED[name], atol=1e-5)  # BLAS rounds by its threads
    due, rng, agent = {}, np.random.default_rng(5), frozen.LEARNERS[name]()
    middle = frozen.DECISIONS // 2
    first = frozen.decided(name, agent, stop=middle, due=due, rng=rng)
    bl.save(agent, tmp_path / "agent.belated")
    loaded = bl.load(tmp_path / "agent.belated")
    assert first + frozen.decided(name, loaded, middle, due=due, rng=rng) == whole


@pytest.mark.slow
@pytest.mark.parametrize("make", [frozen.small_suite, frozen.demo], ids=lambda make: make.__name__)
def test_expected_costs_are_those_that_were_recorded(make, tmp_path):
    found, stored = make(tmp_path), STORED[make.__name__]
    assert found.keys() == stored.keys()
    for name in found:
        np.testing.assert_allclose(found[name], stored[name], atol=1e-8, err_msg=name)


def test_answers_are_those_that_were_recorded(tmp_path):
    assert frozen.conversation(tmp_path) == STORED["conversation"]
