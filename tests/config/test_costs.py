"""Cost processes of the suites follow their formulas, and flights give recorded delays."""

import inspect

import numpy as np
import pytest
from benchmarks import scenes

import belated as bl
from belated.config.part import accepted
from belated.lab import scenes as kinds

WORLD = bl.environments.random_mdp(states=6, actions=3, horizon=4)


def process(kind, **parameters):
    return getattr(scenes, kind)(WORLD, **parameters)


def drawn(seed, count):
    rng = np.random.default_rng(seed)
    return [rng.random((1, 6, 3)) for _ in range(count)]


def test_switching_takes_turns():
    costs = process("random_switching", count=3, every=4, seed=5)
    functions = drawn(5, 3)
    for k in range(30):
        np.testing.assert_array_equal(costs.at(k), functions[k // 4 % 3])


def test_drifting_is_on_the_line_between_two():
    costs = process("random_drifting", count=2, every=10, seed=6)
    a, b = drawn(6, 2)
    np.testing.assert_allclose(costs.at(3), 0.7 * a + 0.3 * b)
    np.testing.assert_allclose(costs.at(18), 0.2 * b + 0.8 * a)


def test_the_worst_action_becomes_the_best_and_stays():
    costs = process("improving", at=7, share=0.5, best=0.05, seed=1)
    before, after = costs.at(6)[0], costs.at(7)[0]
    assert before.min() >= 0.4
    assert before.max() <= 0.9
    changed = np.argwhere(before != after)
    assert len(changed) == 3  # half of six states
    for s, a in changed:
        assert a == before[s].argmax()
        assert a == after[s].argmin()
        assert after[s, a] == 0.05
    np.testing.assert_array_equal(costs.at(10_000)[0], after)


def test_walking_begins_where_the_seed_says_and_moves_by_small_steps():
    costs = process("random_walking", step=0.02, seed=3).seeded(8)
    np.testing.assert_allclose(costs.at(0), drawn(3, 1)[0], atol=1e-12)
    path = np.array([costs.at(k) for k in range(600)])
    moves = np.abs(np.diff(path, axis=0))
    assert moves.mean() == pytest.approx(0.02 * np.sqrt(2 / np.pi), rel=0.05)
    assert path.min() >= 0
    assert path.max() <= 1


@pytest.mark.parametrize("kind", ["random_switching", "random_drifting", "random_walking"])
def test_noise_is_around_the_process(kind):
    exact = process(kind, seed=2).seeded(5)
    noisy = process(kind, seed=2, noise="bernoulli").seeded(4)
    draws = np.array([noisy.at(k) for k in range(200)])
    assert set(np.unique(draws)) == {0.0, 1.0}
    means = np.array([exact.at(k) for k in range(200)])
    assert np.abs(draws.mean(axis=0) - means.mean(axis=0)).max() < 4 * 0.5 / np.sqrt(200)


def test_flights_report_hours_later_and_some_never():
    delays = scenes.flights().draw(3200, np.random.default_rng(0))
    lost = delays == bl.NEVER
    assert 0.01 < lost.mean() < 0.03
    assert 7 <= np.median(delays[~lost]) <= 10
    np.testing.assert_array_equal(delays[:1500], delays[1500:3000])


def test_a_kind_and_a_function_of_the_same_name_have_the_same_arguments():
    """Besides the sizes of the world, which the lab hands over."""
    rooms = {bl.costs: kinds.COSTS, bl.delays: kinds.DELAYS, bl.environments: kinds.ENVIRONMENTS}
    for room, registry in rooms.items():
        for name, maker in registry.kinds.items():
            function = getattr(room, name, maker)
            own = set(inspect.signature(function).parameters)
            assert maker is function or set(accepted(maker)) == own - {"states", "actions"}, name
