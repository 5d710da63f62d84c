"""The corrections of stale rollouts: closed forms, gradients, and what is refused."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import belated as bl
from belated.stale import KINDS, correct

RECORDED = json.loads((Path(__file__).parent / "torchrl.json").read_text(encoding="utf-8"))
CLIP = 0.2
logs = st.floats(-6.0, 2.0)
pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[hnp.arrays(np.float64, n, elements=logs)] * 3)
)


def clipped(ratio, advantage):
    """P(r, A) of PPO."""
    return np.minimum(ratio * advantage, np.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)


def objective(kind, logp, then, now, advantage, cap=2.0, limit=0.03):
    """The objectives as the papers write them, in probabilities."""
    pi, pi_b, pi_k = np.exp(logp), np.exp(then), np.exp(now)
    if kind == "guarded":
        kind = "truncated" if (then - now).mean() <= limit else "delay-adapted"
    if kind == "behaviour":
        return clipped(pi / pi_b, advantage)
    if kind == "current":
        return clipped(pi / pi_k, advantage)
    if kind == "delay-adapted":
        return clipped(pi / np.maximum(pi_b, pi_k), advantage)
    if kind == "decoupled":
        return pi_k / pi_b * clipped(pi / pi_k, advantage)
    return np.minimum(pi_k / pi_b, cap) * clipped(pi / pi_k, advantage)


@given(pairs, st.sampled_from(KINDS), st.floats(0.5, 4.0), st.floats(0.0, 0.5))
def test_ppo_with_anchor_and_weight_is_the_objective_of_the_paper(given_logs, kind, cap, limit):
    then, now, logp = given_logs
    advantage = np.sin(np.arange(len(then)) * 2.0)
    fix = correct(then, now, kind, cap=cap, limit=limit)
    ours = clipped(np.exp(logp - fix.anchor), fix.weight * advantage)
    expected = objective(kind, logp, then, now, advantage, cap, limit)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-12)


def first_gradient(kind, then, now, advantage):
    """The derivative with respect to log pi at pi = pi_k, by a central difference."""
    fix, step = correct(then, now, kind), 1e-7
    at = [
        clipped(np.exp(now + side - fix.anchor), fix.weight * advantage) for side in (step, -step)
    ]
    return (at[0] - at[1]) / (2 * step)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("w", [0.3, 0.7, 0.9, 1.1, 1.3, 3.0])
def test_first_gradients_have_their_closed_form(w, sign):
    advantage = np.array([1.7 * sign])
    then, now = np.log([0.25]), np.log([0.25 * w])
    away = w > 1 + CLIP if sign > 0 else w < 1 - CLIP
    expected = {
        "behaviour": 0.0 if away else w,
        "current": 1.0,
        "delay-adapted": 0.0 if sign < 0 and w < 1 - CLIP else min(1.0, w),
        "decoupled": w,
        "truncated": min(2.0, w),
    }
    for kind, slope in expected.items():
        # Current, decoupled and truncated have ratio 1 there, and delay-adapted where w > 1:
        # inside the clip, so the derivative exists.
        got = first_gradient(kind, then, now, advantage)
        np.testing.assert_allclose(got, slope * advantage, rtol=1e-6, atol=1e-9, err_msg=kind)


@given(pairs)
def test_the_delay_adapted_ratio_is_the_smaller_of_two(given_logs):
    then, now, logp = given_logs
    ratio = np.exp(logp - correct(then, now).anchor)
    smaller = np.minimum(np.exp(logp - then), np.exp(logp - now))
    np.testing.assert_allclose(ratio, smaller, rtol=1e-12)
    inside = np.exp(logp - now) * np.minimum(1.0, np.exp(now - then))  # V-trace's weight, inside
    np.testing.assert_allclose(ratio, inside, rtol=1e-12)


@given(hnp.arrays(np.float64, 5, elements=logs), st.sampled_from(KINDS))
def test_nothing_changes_where_the_policy_has_not_moved(then, kind):
    fix = correct(then, then.copy(), kind)
    np.testing.assert_array_equal(fix.anchor, then)
    np.testing.assert_array_equal(fix.weight, 1.0)


def test_the_guard_changes_at_its_limit():
    then = np.log([0.5, 0.4])
    for shift, kind in ((0.029, "truncated"), (0.031, "delay-adapted")):
        got, want = correct(then, then - shift, "guarded"), correct(then, then - shift, kind)
        np.testing.assert_array_equal(got.anchor, want.anchor)
        np.testing.assert_array_equal(got.weight, want.weight)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_and_shapes_stay(kind, dtype):
    rng = np.random.default_rng(3)
    then, now = -rng.exponential(size=(2, 4, 3, 2)).astype(dtype)
    fix = correct(then, now, kind)
    whole = correct(then.astype(np.float64), now.astype(np.float64), kind)
    for part, exact in zip(fix, whole, strict=True):
        assert part.dtype == dtype
        assert part.shape == (4, 3, 2)
        np.testing.assert_allclose(part, exact, rtol=1e-6 if dtype == np.float32 else 0)


def test_large_differences_stay_finite_where_weights_are_capped():
    then, now = np.full(2, -500.0, np.float32), np.array([-1.0, -900.0], np.float32)
    assert correct(then, now, "truncated").weight.tolist() == [2.0, 0.0]
    assert correct(then, now, "guarded", limit=1e3).weight.tolist() == [2.0, 0.0]
    with pytest.raises(ValueError, match="overflows float32, got a difference of 499"):
        correct(then, now, "decoupled")
    half = correct(then.astype(np.float16), now.astype(np.float16), "truncated", cap=1e9)
    assert half.weight.tolist() == [32752.0, 0.0]  # half of the largest float16


@pytest.mark.parametrize("kind", KINDS)
def test_masked_entries_do_not_count(kind):
    then, now = np.log([0.5, 0.2, 0.4]), np.log([0.25, 0.4, 0.1])
    mask = np.array([True, True, True, False])
    fix = correct(np.append(then, np.nan), np.append(now, 99.0), kind, mask=mask)
    alone = correct(then, now, kind)
    np.testing.assert_array_equal(fix.anchor, np.append(alone.anchor, 0.0))
    np.testing.assert_array_equal(fix.weight, np.append(alone.weight, 0.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
def test_padded_sequences_have_the_loss_of_their_tokens(kind, dtype):
    """(batch, tokens) with a mask, as language models have them, against tokens in one row."""
    rng = np.random.default_rng(7)
    then = -rng.exponential(size=(5, 9))
    now, logp = then + rng.normal(0.0, 0.3, (2, 5, 9))
    advantage = rng.normal(size=(5, 1)) * np.ones((5, 9))
    mask = np.arange(9) < np.array([9, 1, 4, 0, 7])[:, None]
    then[~mask], now[~mask] = -np.inf, np.nan
    fix = correct(then, now, kind, mask=mask.astype(dtype))
    ours = clipped(np.exp(logp - fix.anchor), fix.weight * advantage)
    rows = (x[mask] for x in (logp, then, now, advantage))
    np.testing.assert_allclose(ours[mask], objective(kind, *rows), rtol=1e-12)
    assert not ours[~mask].any()


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_costs_half_precision_only(kind):
    """600 numbers: in float16 the square of a sum of 257 ones is already infinite."""
    rng = np.random.default_rng(8)
    then = -rng.exponential(size=600).astype(np.float16)
    now = (then + rng.normal(0.0, 0.3, 600)).astype(np.float16)
    exact = correct(then.astype(np.float64), now.astype(np.float64), kind, cap=10.0)
    for part, whole in zip(correct(then, now, kind, cap=10.0), exact, strict=True):
        assert part.dtype == np.float16
        np.testing.assert_allclose(part, whole, rtol=2.0**-11)
    wide = correct(then, now.astype(np.float32), kind, cap=10.0)
    for part, whole in zip(wide, exact, strict=True):
        assert part.dtype == np.float32
        np.testing.assert_allclose(part, whole, rtol=1e-6)


def test_decoupled_is_the_loss_of_torchrl():
    """A softmax table, its loss and its gradient were recorded; see `origin` in the file."""
    data = {k: np.array(v) for k, v in RECORDED["decoupled"].items()}
    at = (data["states"], data["actions"])

    def log_softmax(table):
        return table - np.log(np.exp(table).sum(-1, keepdims=True))

    def loss(table):
        logp = log_softmax(table)[at]
        return -clipped(np.exp(logp - fix.anchor), fix.weight * data["advantage"]).mean()

    then, now = (log_softmax(data[name])[at] for name in ("then_logits", "now_logits"))
    fix = correct(then, now, "decoupled")
    np.testing.assert_allclose(loss(data["logits"]), data["loss"], rtol=1e-14)
    step, slopes = 1e-6, np.empty_like(data["logits"])
    for i in np.ndindex(slopes.shape):
        moved = np.zeros_like(slopes)
        moved[i] = step
        slopes[i] = (loss(data["logits"] + moved) - loss(data["logits"] - moved)) / (2 * step)
    np.testing.assert_allclose(slopes, data["gradient"], atol=1e-9)


GOOD = np.log([0.5, 0.2])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "dapo"}, "kind must be one of 'behaviour', .*, got 'dapo'"),
        ({"kind": "delay_adapted"}, r"did you mean 'delay-adapted'\?"),
        ({"kind": "vtrace"}, "use belated.stale.vtrace"),
        ({"kind": "V-trace"}, "use belated.stale.vtrace"),
        ({"kind": None}, "kind must be one of .*, got None"),
        ({"now": np.zeros(3)}, r"now must have the shape of then, \(2,\), got shape \(3,\)"),
        ({"now": np.array([0.1, np.nan])}, r"now must be finite, got now\[1\] = nan"),
        ({"then": np.array([-np.inf, 0.1])}, r"then must be finite, got then\[0\] = -inf"),
        ({"then": np.array([1, 2])}, "then must hold floats, got dtype int64"),
        ({"then": [[1.0], [1.0, 2.0]]}, "then must hold numbers, got"),
        ({"then": ["1.0", "2.0"]}, "then must hold numbers, got"),
        ({"then": [None, -1.0]}, "then must hold numbers, got"),
        ({"then": [True, False]}, "then must hold numbers, got"),
        ({"then": GOOD + 0j}, "then must hold floats, got dtype complex128"),
        ({"then": "ab"}, "then must be an array of NumPy, JAX or PyTorch, or numbers, got 'ab'"),
        ({"then": True}, "then must be an array of NumPy, .* got True"),
        ({"now": GOOD + 1.0, "discrete": True}, r"now must hold log-prob.* got now\[0\] = 0.30"),
        ({"discrete": 1}, "discrete must be True or False, got 1"),
        ({"cap": 0.0}, "cap must be a finite number above 0, got 0.0"),
        ({"cap": math.nan}, "cap must be a finite number above 0, got nan"),
        ({"limit": -0.1}, "limit must be a finite number at least 0, got -0.1"),
        ({"mask": np.array([1.0, 0.5])}, r"hold True and False, or 0 and 1, got mask\[1\] = 0.5"),
        ({"mask": np.array(["a", "b"])}, "hold True and False, or 0 and 1, got dtype <U1"),
        ({"mask": GOOD + 0j}, "hold True and False, or 0 and 1, got dtype complex128"),
        ({"mask": [[True], [True, False]]}, "mask must hold numbers, got"),
        ({"mask": True}, "mask must be an array of NumPy, .* got True"),
        ({"then": np.ma.masked_less(GOOD, -1.0)}, "then must be a plain array, got a masked one"),
        ({"kind": GOOD}, "kind must be one of .*, got array"),
        ({"mask": np.ones(3, bool)}, r"mask must have the shape of then, \(2,\), got shape \(3,\)"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        correct(**{"then": GOOD, "now": GOOD, **arguments})
    assert "\n" not in str(caught.value)


def test_lists_and_densities_above_one_are_taken():
    assert correct([1.0, 2.0], [3.0, 1.0]).anchor.tolist() == [3.0, 2.0]
    assert float(correct(-1.0, -2.0).anchor) == -1.0
    assert correct(np.array(-1.0), np.float32(-2.0), "decoupled").weight == np.exp(-1.0)
    assert correct(np.zeros((0, 3)), np.zeros((0, 3)), "guarded").weight.shape == (0, 3)
    assert bl.stale.correct is correct


def test_the_package_imports_numpy_alone():
    heavy = "{'numba', 'scipy', 'torch', 'jax', 'stable_baselines3'}"
    code = f"import sys, belated.stale; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
