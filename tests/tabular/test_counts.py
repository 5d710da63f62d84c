"""Counts and radii, now and at an earlier time."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core.tree import learned_names
from belated.tabular.counts import (
    ConfidenceSet,
    Counts,
    log_term,
    log_term_of_means,
)
from belated.tabular.parts.transitions import FrequencyModel


def paths(world, n, seed):
    rng = np.random.default_rng(seed)
    uniform = np.full(world.problem.shape, 1 / world.problem.actions)
    return [world.mdp.play(uniform, rng, k) for k in range(n)]


def dense_counts(problem, trajectories):
    T = 1 if problem.homogeneous else problem.horizon
    counts = np.zeros((T, problem.states, problem.actions, problem.states), dtype=int)
    for path in trajectories:
        for h in range(problem.horizon):
            row = (min(h, T - 1), path.states[h], path.actions[h], path.states[h + 1])
            counts[row] += 1
    return counts


def as_dense(counts):
    T, S, A = counts.visits.shape
    dense = np.zeros((T, S, A, S), dtype=int)
    for row in np.ndindex(T, S, A):
        for i in range(counts.known[row]):
            dense[row][counts.successors[row][i]] += counts.counts[row][i]
    return dense


@given(st.booleans(), st.integers(0, 25), st.integers(0, 25), st.integers(0, 10_000))
def test_counts_now_and_as_they_were(homogeneous, before, after, seed):
    world = bl.environments.random_mdp(4, 2, 5, 4, homogeneous, seed % 7)
    trajectories = paths(world, before + after, seed)
    counts = Counts(world.problem, recall=True)
    for path in trajectories:
        counts.add(path)
    everything = dense_counts(world.problem, trajectories)
    assert np.array_equal(as_dense(counts), everything)
    assert np.array_equal(counts.visits, everything.sum(-1))
    assert counts.width <= 4
    counts.recall_from(before)
    past, rows = counts.as_of(before)
    assert len(rows) == after * 5
    assert np.array_equal(as_dense(past), dense_counts(world.problem, trajectories[:before]))
    assert np.array_equal(as_dense(counts), everything)  # the present is untouched
    assert len(counts._recent) == after  # and older paths are dropped


def radius(p, n, L, scale):
    return scale * (4 * math.sqrt(p * (1 - p) * L / n) + 10 * L / n)


@given(
    st.booleans(), st.floats(0, 1), st.integers(0, 12), st.integers(0, 12), st.integers(0, 10_000)
)
def test_the_box_is_the_bernstein_box(homogeneous, scale, before, after, seed):
    world = bl.environments.random_mdp(4, 2, 3, 4, homogeneous, seed % 7)
    trajectories = paths(world, before + after, seed)
    L = log_term(world.problem, 100, 0, 0.1)
    box = ConfidenceSet(Counts(world.problem, recall=True), L, scale)
    for path in trajectories:
        box.add(path)
    for moment, these in ((box.as_of(before), trajectories[:before]), (box, trajectories)):
        dense = dense_counts(world.problem, these)
        for row in np.ndindex(box.unseen.shape):
            n = dense[row].sum()
            unseen = 1.0 if n == 0 else min(1.0, radius(0.0, n, L, scale))
            assert moment.unseen[row] == pytest.approx(unseen, abs=1e-15)
            known = box.counts.known[row]
            for i in range(known):
                p = dense[row][box.counts.successors[row][i]] / max(n, 1)
                eps = 1.0 if n == 0 else radius(p, n, L, scale)
                low, high = max(0.0, p - eps), min(1.0, p + eps)
                assert moment.lower[row][i] == pytest.approx(low, abs=1e-14)
                assert moment.lower[row][i] + moment.width[row][i] == pytest.approx(high, abs=1e-14)
            rest = 1 - moment.lower[row][:known].sum()
            assert moment.rest[row] == pytest.approx(max(0.0, rest), abs=1e-14)


def test_the_box_without_the_variance_and_the_last_step():
    """The box of DAPO: p instead of p (1 - p), the first H - 1 steps, and an L for each time."""
    world = bl.environments.random_mdp(4, 2, 3, 4, True, 1)
    trajectories = paths(world, 30, 0)
    counts = Counts(world.problem, recall=True, steps=2)
    box = ConfidenceSet(counts, 0.5, 1.0, variance=False)
    for path in trajectories:
        box.add(path)
    past = box.as_of(20, 0.1)
    assert box.log_term == 0.5
    for moment, L, these in ((past, 0.1, trajectories[:20]), (box, 0.5, trajectories)):
        dense = np.zeros((4, 2, 4))
        for path in these:
            np.add.at(dense, (path.states[:2], path.actions[:2], path.states[1:3]), 1)
        for s, a in np.ndindex(4, 2):
            n = dense[s, a].sum()
            assert moment.counts.visits[0, s, a] == n
            for i in range(counts.known[0, s, a]):
                p = dense[s, a, counts.successors[0, s, a, i]] / max(n, 1)
                eps = 4 * math.sqrt(p * L / n) + 10 * L / n if n else 1.0
                low, high = max(0.0, p - eps), min(1.0, p + eps)
                assert moment.lower[0, s, a, i] == pytest.approx(low, abs=1e-14)
                assert moment.width[0, s, a, i] == pytest.approx(high - low, abs=1e-14)
    again = Counts(world.problem, recall=True, steps=2)
    oracles.refill(again, **{name: getattr(counts, name) for name in learned_names(Counts)})
    assert np.array_equal(again.as_of(20)[0].visits, past.counts.visits)


def test_log_term():
    problem = bl.Problem(5, 2, 3)
    assert log_term(problem, 100, 7, 0.1) == pytest.approx(math.log(30 * 100 / 0.4))
    assert log_term(bl.Problem(1, 1, 1), 1, 0, 1.0) == math.log(2)
    terms = [log_term(problem, None, k, 0.1) for k in range(1000)]
    assert all(terms[k] >= math.log(30 * (k + 1) ** 2 / 0.4) for k in range(1000))
    assert len(set(terms)) <= 11  # it changes only when the episodes double


def test_a_run_longer_than_its_episodes_has_a_larger_radius():
    """The log term has 4 K for the second K episodes, 16 K for the next 2 K, and so on."""
    problem, K = bl.Problem(5, 2, 3), 100
    factors = {0: 1, 1: 1, 100: 1, 101: 4, 200: 4, 201: 16, 400: 16, 401: 64, 800: 64, 801: 256}
    for begun, factor in factors.items():
        assert log_term(problem, K, begun, 0.1) == pytest.approx(math.log(30 * factor * K / 0.4))
    # the new visits of each stage, divided by the factor of its log term, sum to at most K / 2
    stages = [(2**m - 2 ** (m - 1)) * K / 4**m for m in range(1, 60)]
    assert sum(stages) <= K / 2
    agent = bl.DelayedOPPO(problem, transitions=bl.parts.Confidence(episodes=4))
    terms = []
    for k in range(9):
        agent.begin_episode()
        agent.observe([bl.Trajectory(k, [0] * 4, [0] * 3), bl.Costs(k, np.zeros((1, 5, 2)))])
        terms.append(agent._model.set.log_term)
    expected = [math.log(30 * 4 * factor / 0.4) for factor in (1,) * 4 + (4,) * 4 + (16,)]
    np.testing.assert_allclose(terms, expected)


def test_log_term_of_means():
    """2 H S A K means; pooled transitions have H values of the next state in each row."""
    problem, pooled = (bl.Problem(5, 2, 3, homogeneous=h) for h in (False, True))
    assert log_term_of_means(problem, 100, 7, 0.1) == pytest.approx(math.log(2 * 30 * 100 / 0.1))
    assert log_term_of_means(pooled, 100, 7, 0.1) == pytest.approx(math.log(2 * 90 * 100 / 0.1))
    assert log_term_of_means(problem, 100, 101, 0.1) == pytest.approx(math.log(2 * 30 * 400 / 0.1))
    assert log_term_of_means(problem, None, 1, 0.1) == pytest.approx(math.log(2 * 30 * 16 / 0.1))


def test_changing_the_log_term_recomputes_every_row():
    world = bl.environments.random_mdp(4, 2, 3)
    one, other = (ConfidenceSet(Counts(world.problem), L, 0.1) for L in (2.0, 3.0))
    for path in paths(world, 10, 0):
        one.add(path)
        other.add(path)
    one.retune(3.0)
    assert np.array_equal(one.lower, other.lower)
    assert np.array_equal(one.unseen, other.unseen)


def test_the_anytime_log_term_follows_the_clock():
    problem = bl.Problem(5, 2, 3)
    for begun, N in enumerate([2, 4, 4, 8, 8, 8, 8, 16]):
        assert log_term(problem, None, begun, 0.1) == pytest.approx(math.log(30 * N**2 / 0.4))


@pytest.mark.parametrize("transitions", [bl.parts.Confidence(), bl.parts.Bonus()], ids=repr)
def test_paths_are_kept_only_where_they_are_recalled(transitions):
    world = bl.environments.random_mdp(4, 2, 3)
    agent = bl.DelayedOPPO(world.problem, transitions=transitions)
    bl.simulate(world, agent, episodes=30)
    assert len(agent._model.counts._recent) == 0


@given(st.booleans(), st.integers(0, 12), st.integers(0, 10_000))
def test_observed_frequencies(homogeneous, episodes, seed):
    world = bl.environments.random_mdp(4, 2, 3, 4, homogeneous, seed % 7)
    trajectories = paths(world, episodes, seed)
    model = FrequencyModel(world.problem, 0.7)
    model.learn(trajectories, 0)
    dense = dense_counts(world.problem, trajectories)
    n = dense.sum(-1)
    np.testing.assert_allclose(model.deviation, 0.7 / np.sqrt(np.maximum(n, 1)), atol=1e-15)
    for row in np.ndindex(n.shape):
        frequencies = np.zeros(4)
        known = model.counts.known[row]
        frequencies[model.counts.successors[row][:known]] = model.probabilities[row][:known]
        np.testing.assert_allclose(frequencies, dense[row] / max(n[row], 1), atol=1e-15)
        assert np.all(model.probabilities[row][known:] == 0)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda counts: pickle.loads(pickle.dumps(counts))]
)
def test_a_copy_of_counts_counts_for_itself(copied):
    problem = bl.Problem(2, 2, 1)
    counts = Counts(problem)
    path = bl.Trajectory(0, [0, 1], [1])
    counts.add(path)
    twin = copied(counts)
    twin.add(path)
    assert (counts.visits.sum(), twin.visits.sum(), twin.counts.sum()) == (1, 2, 2)
