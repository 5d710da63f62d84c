"""Feedback as JSON: every record comes back as it was, and a wrong field is named."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.core.contract import Scale
from belated.service import wire
from belated.service.wire import End, Outcome
from belated.tabular.records import Costs, StepCost, Trajectory, read

episodes = st.integers(0, 2**40)
unit = st.floats(0, 1)
records = st.one_of(
    st.builds(End, episodes, st.integers(0, 9)),
    st.builds(StepCost, episodes, st.integers(0, 9), unit),
    st.builds(Costs, episodes, st.lists(unit, min_size=1, max_size=5).map(np.array)),
    st.builds(
        lambda e, actions: Trajectory(e, np.array([0, *actions]), np.array(actions)),
        episodes,
        st.lists(st.integers(0, 9), min_size=1, max_size=5),
    ),
)


ANY = SimpleNamespace(states=10, horizon=2, read=read, check=lambda record, information: None)
"""A problem for which all records are valid that could be."""


def parsed(given, **terms):
    return wire.read(given, {}, 0.0, ANY, **terms)[0]


@given(records)
def test_a_record_comes_back_as_it_was(record):
    again = parsed(json.loads(json.dumps(written(record))))
    assert type(again) is type(record)
    assert written(again) == written(record)


def written(record):
    if isinstance(record, End):
        return {"episode": record.episode, "end": record.state}
    return record.to_json()


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1))
def test_rewards_become_costs(a, b, share):
    low, high = min(a, b), max(a, b)
    if high - low < 1e-3:
        return
    reward = min(high, max(low, low + share * (high - low)))
    one = parsed({"episode": 1, "step": 0, "reward": reward, "range": [low, high]})
    all_ = parsed({"episode": 1, "rewards": [reward, high]}, rewards=Scale(low, high))
    assert one.cost == pytest.approx(1 - share, abs=1e-6)
    assert all_.values == pytest.approx([1 - share, 0], abs=1e-6)


WRONG = [
    ({}, "episode"),
    ({"episode": -1, "end": 0}, "episode"),
    ({"episode": True, "end": 0}, "episode"),
    ({"episode": 0}, "record"),
    ({"episode": 0, "end": 1, "cost": 1}, "end"),
    ({"episode": 0, "end": 1.5}, "end"),
    ({"episode": 0, "end": 1, "step": 0}, "step"),
    ({"episode": 0, "step": 0, "cost": 2}, "cost"),
    ({"episode": 0, "step": 0, "cost": "0.1"}, "cost"),
    ({"episode": 0, "step": 0, "cost": math.nan}, "cost"),
    ({"episode": 0, "cost": 0.5}, "step"),
    ({"episode": 0, "costs": 0.5}, "costs"),
    ({"episode": 0, "costs": [[0.5]]}, "costs"),
    ({"episode": 0, "costs": [0.5, "a"]}, "costs"),
    ({"episode": 0, "costs": [[[0.5], [0.1, 0.2]]]}, "costs"),
    ({"episode": 0, "costs": [[[[[1]]]]]}, "costs"),
    ({"episode": 0, "path": [0, 1]}, "path"),
    ({"episode": 0, "path": {"states": [0, 1], "actions": [0.5]}}, "path.actions"),
    ({"episode": 0, "path": {"states": [0, 2**70], "actions": [0]}}, "path.states"),
    ({"episode": 0, "path": {"states": [0], "actions": [0]}}, "path"),
    ({"episode": 0, "step": 0, "reward": 1}, "range"),
    ({"episode": 0, "step": 0, "reward": 1, "range": [1, 1]}, "range"),
    ({"episode": 0, "step": 0, "reward": 1, "range": [-1e308, 1e308]}, "range"),
    ({"episode": 0, "step": 0, "reward": 3, "range": [0, 1]}, "reward"),
    ({"episode": 0, "rewards": [math.nan], "range": [0, 1]}, "rewards"),
    ([], "record"),
]


@pytest.mark.parametrize(("given_", "field"), WRONG, ids=str)
def test_what_is_wrong_is_named(given_, field):
    outcome = parsed(given_)
    assert (outcome.outcome, outcome.field) == ("invalid", field)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
            ["episode", "path", "states", "actions", "costs", "cost", "end", "step", "range",
             "reward", "rewards", "x"]), inner, max_size=5),
        max_leaves=12,
    )
)  # fmt: skip
def test_anything_is_a_record_or_an_error(value):
    record = parsed(value)
    assert isinstance(record, Outcome) or written(record)
