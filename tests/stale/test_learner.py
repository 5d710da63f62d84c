"""The learner of the sweeps: what its corrections have in common, and when rollouts arrive."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long
jax = pytest.importorskip("jax", reason="needs JAX: pip install jax")
jnp = jax.numpy


@pytest.fixture(scope="module")
def learner():
    """The module, which imports its neighbours by their names."""
    place = str(Path(__file__).parents[2] / "benchmarks" / "stale")
    sys.path.insert(0, place)
    try:
        yield importlib.import_module("learner")
    finally:
        sys.path.remove(place)
        for name in ("learner", "runs", "tasks"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def returns(learner):
    """Returns and drift of four rounds of Docking, (runs, rounds): every method, three delays."""
    METHODS, Setting, many = learner.METHODS, learner.Setting, learner.many
    TASKS = importlib.import_module("tasks").TASKS
    runs = [(name, delay) for delay in (0, 1, 3) for name in METHODS]
    settings = Setting(
        jnp.array([METHODS.index(name) for name, _ in runs]),
        jnp.zeros(len(runs), jnp.int32),
        jnp.array([delay for _, delay in runs]),
        jnp.full(len(runs), 0.2),
        jnp.stack([jax.random.key(0)] * len(runs)),
    )
    total, ended, _, drift = map(np.asarray, many(TASKS["Docking"], 4, settings))
    assert ended[:, 1].all()  # episodes of 100 steps end in the second round of 64
    return {run: (total[i], drift[i]) for i, run in enumerate(runs)}


OWN = ("vtrace", "values alone")  # they have advantages of their own


def test_without_delay_all_corrections_are_one(returns):
    names = {name for name, _ in returns} - set(OWN)
    for name in names:
        np.testing.assert_allclose(returns[name, 0][0], returns["behaviour", 0][0], rtol=1e-3)
    np.testing.assert_allclose(returns["vtrace", 0][0], returns["values alone", 0][0], rtol=1e-3)
    apart = np.abs(returns["vtrace", 0][0] - returns["behaviour", 0][0])
    assert apart.max() > 1e-3 * np.abs(returns["behaviour", 0][0]).max()


def test_nothing_arrives_before_its_delay_is_over(returns):
    for (_, delay), (_, drift) in returns.items():
        np.testing.assert_array_equal(np.isnan(drift), np.arange(4) < delay)
    # The first arrival is not stale, since the policy has not moved; later ones are.
    for name in {name for name, _ in returns}:
        assert abs(returns[name, 1][1][1]) < 1e-6
    assert abs(returns["current", 1][1][2]) > 1e-6
    assert all(abs(returns["waiting", 0][1][k]) < 1e-6 for k in range(4))


def test_a_delay_of_three_rounds_changes_nothing_in_three_rounds(returns):
    """Until something arrives all runs of a key are the same, whatever their correction."""
    first = returns["behaviour", 3][0][:3]
    for (_, delay), (total, _) in returns.items():
        if delay == 3:
            np.testing.assert_array_equal(total[:3], first)


@pytest.mark.parametrize("shape", [(4, 32), (32, 32), (32, 2)])
def test_first_weights_are_those_of_jax(learner, shape):
    key = jax.random.key(3)
    want = jax.nn.initializers.orthogonal(1.0)(key, shape)
    np.testing.assert_allclose(learner.orthogonal(key, *shape), want, atol=1e-6)
