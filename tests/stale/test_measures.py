"""How stale a rollout is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from belated.stale import correct, staleness

logs = hnp.arrays(np.float64, 7, elements=st.floats(-5.0, 2.0))


def without_gradient(then, now, advantage, clip):
    """Samples whose objective is flat at pi = pi_k, by a small step to either side."""
    anchor, step = correct(then, now, "behaviour").anchor, 1e-6

    def value(logp):
        r = np.exp(logp - anchor)
        return np.minimum(r * advantage, np.clip(r, 1 - clip, 1 + clip) * advantage)

    return (np.abs(value(now + step) - value(now - step)) < 1e-15).mean()


@given(logs, logs, st.floats(0.05, 0.5))
def test_every_measure_is_its_formula(then, now, clip):
    w = np.exp(now - then)
    advantage = np.array([1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.0])
    got = staleness(then, now, advantage=advantage, clip=clip)
    np.testing.assert_allclose(got.effective_sample_size, w.sum() ** 2 / (7 * (w**2).sum()))
    np.testing.assert_allclose(got.drift, (then - now).mean(), atol=1e-12)
    np.testing.assert_allclose(got.largest_weight, w.max())
    edges = np.abs(w[:, None] - [1 - clip, 1 + clip]).min()
    if edges > 1e-4:
        assert got.without_gradient == without_gradient(then, now, advantage, clip)
    both = staleness(then, now, clip=clip).without_gradient
    np.testing.assert_allclose(both, ((w > 1 + clip) | (w < 1 - clip)).mean())


def test_far_apart_policies_do_not_overflow():
    got = staleness(np.array([-900.0, -900.0, -1.0]), np.array([-100.0, -100.0, -1.0]))
    np.testing.assert_allclose(got.effective_sample_size, 2 / 3)
    assert staleness(np.array([-900.0]), np.array([-1.0])).largest_weight > 1e307


def test_half_precision_does_not_overflow():
    rng = np.random.default_rng(0)
    then = -rng.exponential(size=5000).astype(np.float16)
    now = (then + rng.normal(0.0, 0.3, 5000)).astype(np.float16)
    want = staleness(then.astype(np.float64), now.astype(np.float64))
    np.testing.assert_allclose(staleness(then, now), want, rtol=1e-5)


def test_the_mask_leaves_entries_out():
    rng = np.random.default_rng(1)
    then, now, advantage = rng.normal(size=(3, 6))
    mask = np.arange(6) < 4
    padded = np.where(mask, advantage, np.nan)
    got = staleness(then, now, advantage=padded, mask=mask.astype(int))
    want = staleness(then[:4], now[:4], advantage=advantage[:4])
    np.testing.assert_allclose(got, want, rtol=1e-12)
    nothing = staleness(then, now, mask=np.zeros(6, bool))
    assert [float(x) for x in nothing] == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"clip": 0.0}, "clip must be a finite number above 0 and at most 1, got 0.0"),
        ({"advantage": np.zeros(3)}, r"advantage must have the shape of then, \(2,\)"),
        ({"advantage": np.full(2, np.nan)}, r"advantage must be finite, got advantage\[0\] = nan"),
        ({"then": np.zeros(0), "now": np.zeros(0)}, r"at least one number, got shape \(0,\)"),
        ({"now": np.array([0.0, np.inf])}, r"now\[1\] = inf"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        staleness(**{"then": np.zeros(2), "now": np.zeros(2), **arguments})
