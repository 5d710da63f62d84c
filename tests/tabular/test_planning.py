import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.tabular.kernels.planning import _pick

sizes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))


@given(sizes, st.booleans(), st.booleans(), st.integers(0, 10_000))
def test_values_and_occupancy_equal_dense_recursions(size, homogeneous, same_costs, seed):
    H, S, A = size
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(S))
    mdp = oracles.random_world(rng, H, S, A, homogeneous, tuple(start)).mdp
    p = oracles.dense(mdp)
    policy = rng.dirichlet(np.ones(A) * 0.3, (H, S))
    costs = rng.random((1 if same_costs else H, S, A))
    V, Q = bl.planning.policy_values(mdp, policy, costs)
    expected_V, expected_Q = oracles.values(p, oracles.per_step(costs, H), policy)
    np.testing.assert_allclose(V, expected_V, atol=1e-13)
    np.testing.assert_allclose(Q, expected_Q, atol=1e-13)
    q = bl.planning.occupancy(mdp, policy)
    np.testing.assert_allclose(q, oracles.occupancy(p, policy, start), atol=1e-13)
    np.testing.assert_allclose(q.sum((1, 2)), 1.0, atol=1e-12)
    np.testing.assert_allclose((q * costs).sum(), start @ V[0], atol=1e-12)


@pytest.mark.parametrize("successors", [1, 3, 4, 5, 6])
def test_any_number_of_successors(successors):
    """Rows of four successors are summed by code of their own."""
    rng = np.random.default_rng(successors)
    world = bl.environments.random_mdp(6, 2, 4, successors=successors, seed=successors)
    policy, costs = rng.dirichlet(np.ones(2), (4, 6)), rng.random((4, 6, 2))
    V, Q = bl.planning.policy_values(world.mdp, policy, costs)
    expected_V, expected_Q = oracles.values(oracles.dense(world.mdp), costs, policy)
    np.testing.assert_allclose(V, expected_V, atol=1e-13)
    np.testing.assert_allclose(Q, expected_Q, atol=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_best_policy_beats_every_deterministic_policy(seed):
    H, S, A = [(2, 2, 3), (3, 2, 2), (1, 3, 3), (2, 3, 2)][seed % 4]
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(S))
    mdp = oracles.random_world(rng, H, S, A, start=tuple(start)).mdp
    costs = rng.random((H, S, A))
    policy, value = bl.planning.best_policy(mdp, costs)
    p = oracles.dense(mdp)
    brute = min(
        start @ oracles.values(p, costs, candidate)[0][0]
        for candidate in oracles.deterministic_policies(H, S, A)
    )
    assert value == pytest.approx(brute, abs=1e-12)
    assert start @ bl.planning.policy_values(mdp, policy, costs)[0][0] == pytest.approx(
        value, abs=1e-12
    )


def test_sampled_paths_have_the_exact_occupancy():
    rng = np.random.default_rng(3)
    mdp = oracles.random_world(rng, 3, 3, 2, start=(0.2, 0.5, 0.3)).mdp
    policy = rng.dirichlet(np.ones(2), (3, 3))
    policy[0, 0] = [0.0, 1.0]  # never drawn
    n = 20_000
    seen = np.zeros((3, 3, 2))
    for _ in range(n):
        path = mdp.play(policy, rng)
        seen[np.arange(3), path.states[:-1], path.actions] += 1
    q = bl.planning.occupancy(mdp, policy)
    deviation = np.abs(seen / n - q)
    assert np.all(deviation <= 4.5 * np.sqrt(q * (1 - q) / n) + 1e-12)  # 18 cells, fixed seed


def test_transitions_survive_the_sparse_form():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5) * 0.2, (4, 5, 2))
    p[p < 0.2] = 0
    p /= p.sum(-1, keepdims=True)
    t = bl.Transitions.from_dense(p)
    np.testing.assert_array_equal(t.dense(), p)
    assert t.successors.shape[3] < 5
    assert not t.successors.flags.writeable
    assert bl.MDP(t, 4).problem == bl.Problem(5, 2, 4)
    homogeneous = bl.MDP(bl.Transitions.from_dense(p[0]), 7)
    assert homogeneous.problem == bl.Problem(5, 2, 7, homogeneous=True)


def test_ties_go_to_the_smallest_action():
    mdp = bl.environments.random_mdp(3, 3, 4).mdp
    policy, _ = bl.planning.best_policy(mdp, np.zeros((1, 3, 3)))
    assert np.array_equal(policy.argmax(-1), np.zeros((4, 3)))


def test_an_action_of_probability_0_is_never_drawn():
    weights = np.array([0.0] + [0.1] * 10 + [0.0])
    most = np.nextafter(1.0, 0.0)
    assert np.cumsum(weights)[-1] < 1.0
    assert _pick(weights, most) == 10
    assert _pick(weights, 0.0) == 1


def test_a_policy_with_a_negative_entry_is_refused():
    mdp = bl.environments.bandit([0.5, 0.5]).mdp
    with pytest.raises(ValueError, match="policy must be in"):
        bl.planning.policy_values(mdp, np.array([[[1.5, -0.5]]]), np.zeros((1, 1, 2)))
