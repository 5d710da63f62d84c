"""The weights of Zimmert and Seldin's learner."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import wrightomega

from belated.tabular.kernels import hybrid

losses = st.lists(st.floats(0, 1e7), min_size=1, max_size=8).map(np.array)
rounds = st.integers(1, 10**6).map(math.sqrt)
entropies = st.one_of(st.just(0.0), st.floats(0.3, 1e4))


@given(losses, rounds, entropies)
@example(np.array([0.0, 1e6]), 1.0, 0.0)  # a weight of 1e-12
@example(np.array([0.0, 1e6 + 30.0]), 1.0, 1.0)
@example(np.array([0.0, 28.0, 29.0]), 1e-3, 1.0)  # the entropy dominates: weights of 1e-12
@example(np.array([0.0, 1e300]), 1.0, 0.5)
def test_weights_solve_their_optimality_conditions(L, r, c):
    x = hybrid.weights(L, r, c)
    assert np.all(x >= 0)
    assert abs(x.sum() - 1) < 1e-13
    seen = x > 1e-13
    slope = L - r / np.sqrt(np.where(seen, x, 1)) + c * np.log(np.where(seen, x, 1))
    gap = slope[seen] - slope[L.argmin()]  # no weight is at a bound, so all slopes are equal
    size = 1 + np.abs(L[seen]) + r / np.sqrt(x[seen])
    assert np.max(np.abs(gap) / size) < 1e-10


@given(st.floats(0, 1e8), rounds, st.floats(0.3, 1e4))
@example(1e-9, 1.0, 100.0)
def test_the_exponent_is_a_lambert_function(extra, r, c):
    y = r + extra
    u = hybrid.exponent(y, r, c)
    omega = wrightomega(math.log(r / (2 * c)) + y / (2 * c)).real  # W of an exponential
    assert r * math.exp(u) / (2 * c) == pytest.approx(omega, rel=1e-9, abs=1e-300)


def test_weights_minimise_their_objective():
    rng = np.random.default_rng(0)
    for c in (0.0, 0.7, 20.0):
        L, r = rng.random(4) * 10, 2.0

        def value(z, L=L, r=r, c=c):
            x = np.exp(z) / np.exp(z).sum()
            return x @ L - 2 * r * np.sqrt(x).sum() + c * x @ np.log(x)

        x = hybrid.weights(L, r, c)
        found = minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
        assert value(np.log(x)) <= found.fun + 1e-10
