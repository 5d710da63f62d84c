"""V-trace against its sum, the recursion of the paper, and recorded numbers of TorchRL."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.stale import vtrace

RECORDED = json.loads((Path(__file__).parent / "torchrl.json").read_text(encoding="utf-8"))


def rollout(steps, seed, shape=()):
    """A rollout whose episodes end, some of them by a time limit."""
    rng = np.random.default_rng(seed)
    then, now = -rng.exponential(size=(2, steps, *shape))
    rewards, values = rng.normal(size=(2, steps, *shape))
    terminated = rng.random((steps, *shape)) < 0.15
    ends = terminated | (rng.random((steps, *shape)) < 0.15)
    next_values = np.concatenate([values[1:], rng.normal(size=(1, *shape))])
    next_values = np.where(ends, rng.normal(size=next_values.shape), next_values)
    return {
        "then": then, "now": now, "rewards": rewards, "values": values,
        "discounts": 0.97 * ~terminated, "next_values": next_values, "ends": ends,
    }  # fmt: skip


def recursion(then, now, rewards, values, discounts, next_values, ends, rho_cap, c_cap, trace):
    """Remark 1 of Espeholt et al., step by step from the end."""
    rho = np.minimum(rho_cap, np.exp(now - then))
    c = trace * np.minimum(c_cap, np.exp(now - then))
    target, advantage = np.empty_like(values), np.empty_like(values)
    following, beyond = next_values[-1], 0.0 * values[0]
    for t in reversed(range(len(values))):
        if t + 1 < len(values):
            following = np.where(ends[t], next_values[t], target[t + 1])
            beyond = np.where(ends[t], 0.0, target[t + 1] - values[t + 1])
        difference = rho[t] * (rewards[t] + discounts[t] * next_values[t] - values[t])
        target[t] = values[t] + difference + discounts[t] * c[t] * beyond
        advantage[t] = rewards[t] + discounts[t] * following - values[t]
    return rho, advantage, target


@given(
    st.integers(1, 40), st.integers(0, 99), st.sampled_from([(), (3,), (2, 2)]),
    st.floats(0.5, 3.0), st.floats(0.3, 1.5), st.floats(0.0, 1.0),
)  # fmt: skip
def test_vtrace_is_the_recursion(steps, seed, shape, rho_cap, c_cap, trace):
    caps = {"rho_cap": rho_cap, "c_cap": c_cap, "trace": trace}
    data = rollout(steps, seed, shape)
    got = vtrace(**data, **caps)
    rho, advantage, target = recursion(**data, **caps)
    np.testing.assert_allclose(got.weight, rho, rtol=1e-12)
    np.testing.assert_allclose(got.target, target, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(got.advantage, advantage, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(got.anchor, data["now"])


def test_vtrace_is_the_sum_of_the_paper():
    """Equation (1): V + sum over t of the discounts and c between, times the difference."""
    data = rollout(9, 5)
    data["ends"], data["discounts"] = np.zeros(9, bool), np.full(9, 0.9)
    data["next_values"] = np.append(data["values"][1:], 0.3)
    w = np.minimum(1.0, np.exp(data["now"] - data["then"]))
    difference = w * (data["rewards"] + 0.9 * data["next_values"] - data["values"])
    for s in range(9):
        terms = [0.9 ** (t - s) * np.prod(w[s:t]) * difference[t] for t in range(s, 9)]
        np.testing.assert_allclose(vtrace(**data).target[s], data["values"][s] + sum(terms))


@pytest.mark.parametrize(("rho_cap", "c_cap"), [(1.0, 1.0), (2.0, 0.7)])
def test_vtrace_is_that_of_torchrl(rho_cap, c_cap):
    """The numbers were recorded; see `origin` in the file."""
    data = {k: v if isinstance(v, dict) else np.array(v) for k, v in RECORDED["vtrace"].items()}
    names = ("then", "now", "rewards", "values", "next_values")
    got = vtrace(
        **{name: data[name] for name in names},
        discounts=data["gamma"] * ~data["terminated"],
        ends=data["done"],
        rho_cap=rho_cap,
        c_cap=c_cap,
    )
    want = data["results"][f"rho {rho_cap} c {c_cap}"]
    np.testing.assert_allclose(got.target, want["targets"], rtol=1e-13)
    np.testing.assert_allclose(got.weight * got.advantage, want["advantages"], rtol=1e-13)


def test_padding_does_not_count():
    """Padding before, after and between does not change any part, whatever its values."""
    data, nothing = rollout(20, 6, (2,)), {}
    mask = np.ones((20, 2), bool)
    mask[:3, 0] = mask[15:, 0] = mask[8:11, 1] = False
    for name, array in data.items():
        nothing[name] = np.where(mask, array, np.nan if array.dtype == float else True)
    got = vtrace(**nothing, mask=mask.astype(int))
    for rows, column in ((slice(3, 15), 0), (slice(8), 1), (slice(11, 20), 1)):
        alone = vtrace(**{name: array[rows, column] for name, array in data.items()})
        for part, want in zip(got, alone, strict=True):
            np.testing.assert_allclose(part[rows, column], want, rtol=1e-12)
    assert not any(part[~mask].any() for part in got)


def test_on_policy_targets_are_lambda_returns():
    data = rollout(30, 8)
    data["now"] = data["then"]
    got = vtrace(**data, trace=0.95)
    advantage = np.zeros(31)
    for t in reversed(range(30)):
        kept = 0.0 if data["ends"][t] else 0.95 * data["discounts"][t]
        one = data["rewards"][t] + data["discounts"][t] * data["next_values"][t]
        advantage[t] = one - data["values"][t] + kept * advantage[t + 1]
    np.testing.assert_allclose(got.target - data["values"], advantage[:-1], atol=1e-12)


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 2e-5), (np.float16, 5e-3)])
def test_types_stay_and_agree(dtype, digits):
    data = rollout(200, 2, (4,))
    given = {k: v if v.dtype == bool else v.astype(dtype) for k, v in data.items()}
    exact = vtrace(**{k: v if v.dtype == bool else v.astype(float) for k, v in given.items()})
    for part, whole in zip(vtrace(**given), exact, strict=True):
        assert part.dtype == dtype
        np.testing.assert_allclose(part, whole, rtol=digits, atol=digits)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"values": np.zeros(2)}, r"values must have the shape of then, \(5,\), got shape \(2,\)"),
        ({"rewards": np.full(5, np.nan)}, r"rewards must be finite, got rewards\[0\] = nan"),
        ({"discounts": np.full(5, 99.0)}, r"from 0 to 1, got discounts\[0\] = 99.0"),
        ({"discounts": np.full(5, -0.1)}, r"from 0 to 1, got discounts\[0\] = -0.1"),
        ({"rho_cap": -1.0}, "rho_cap must be a finite number above 0, got -1.0"),
        ({"trace": 1.5}, "trace must be a finite number at least 0 and at most 1, got 1.5"),
        ({"ends": np.full(5, 2.0)}, r"ends must hold True and False, .* got ends\[0\] = 2.0"),
        ({"mask": np.ones(4, bool)}, r"mask must have the shape of then, \(5,\), got shape \(4,\)"),
        ({"then": np.ones(5), "discrete": True}, r"then must hold log-prob.* then\[0\] = 1.0"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        vtrace(**{**rollout(5, 0), **arguments})


def test_time_is_the_first_axis():
    zero = np.zeros(())
    with pytest.raises(ValueError, match=r"time as its first axis, \(T, ...\), got shape \(\)"):
        vtrace(zero, zero, zero, zero, zero, next_values=zero)
