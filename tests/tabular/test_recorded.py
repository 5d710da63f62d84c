"""The policies of every agent over a fixed run equal those that were recorded."""

import json

import numpy as np
import pytest

import recorded

STORED = json.loads(recorded.FILE.read_text())
CASES = [
    pytest.param(world, make, f"{name}: {agent}", id=f"{name}: {agent}")
    for name, (world, agents) in recorded.worlds().items()
    for agent, make in agents.items()
]


@pytest.mark.parametrize(("world", "make", "name"), CASES)
def test_policies_are_those_that_were_recorded(world, make, name):
    found = recorded.record(world, make)["values"]
    np.testing.assert_allclose(found, STORED[name]["values"], atol=1e-9)


BEFORE = json.loads((recorded.FILE.parent / "policies_0_2.json").read_text())
"""The same runs of the agents that the registry of belated 0.2.0 had."""
CHANGED = {
    "the default": (
        *("practice full", "practice full known", "practice bandit", "practice bandit known"),
        *("skipping practice bandit", "parallel practice full", "bold practice bandit"),
        *("pipeline practice full", "inbox practice bandit", "inbox grace"),
    ),
    "ties at random": ("ucbvi", "ucbvi known", "ucbvi bonus", "lazy ucbvi"),
    "an option or an agent that is gone": (  # use_costs, share_model, ties, Blend, Mixture
        *("oppo bonus full exploring", "parallel bonus full", "dapo known in turn"),
        *("predicted exploring", "predicted confidence", "mixture"),
    ),
}
"""Entries whose policies are not those of 0.2.0, by the reason; CHANGELOG.md has the table."""


def test_no_other_policy_has_moved_since_0_2():
    expected = {f"per step: {name}" for names in CHANGED.values() for name in names}
    moved = {
        name
        for name, values in BEFORE.items()
        if name not in STORED or not np.allclose(values, STORED[name]["values"], rtol=0, atol=1e-9)
    }
    assert len(BEFORE) == 63
    assert moved == expected
