"""Numbers do not move: policies of every agent over a fixed run, as they were recorded."""

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
