"""Tabular DAPO and the delay-adapted anchor have the same ratio and take the same step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from belated.core.arrays import frozen
from belated.stale import correct
from belated.tabular.kernels import delay_adapted


def policies(rng, shape):
    drawn = rng.dirichlet(np.ones(shape[-1]), size=(2, *shape[:-1]))
    return frozen(drawn[0]), frozen(drawn[1])


@given(st.integers(0, 999))
def test_the_kernel_of_dapo_uses_the_delay_adapted_ratio(seed):
    """With exploration g and occupancy u the kernel adds ratio * cost to go / (u pi_b + g)."""
    rng = np.random.default_rng(seed)
    H, S, A = 3, 4, 3
    then, now = policies(rng, (H, S, A))
    states, actions = rng.integers(0, S, H + 1), rng.integers(0, A, H)
    costs, reach = rng.random(H), rng.random((H, S))
    total = np.zeros((H, S, A))
    delay_adapted.learn(
        frozen(states), frozen(actions), frozen(costs), then, now,
        frozen(reach), frozen(reach), 0.1, 2.0, total,
    )  # fmt: skip
    at = (np.arange(H), states[:-1], actions)
    logs = np.log(then[at]), np.log(now[at])
    ratio = np.exp(logs[0] - correct(*logs).anchor)
    np.testing.assert_allclose(ratio, then[at] / np.maximum(then[at], now[at]), rtol=1e-13)
    to_go = np.cumsum(costs[::-1])[::-1]
    expected = ratio * to_go / (reach[at[:2]] * then[at] + 0.1)
    np.testing.assert_allclose(total[at], expected, rtol=1e-12)


@given(st.integers(0, 999))
def test_the_natural_gradient_of_a_softmax_table_is_the_step_of_dapo(seed):
    """It is r(s, a) Q(s, a) up to a constant of each state, r = pi_b / max(pi_b, pi_k).

    Expected unclipped objective of a state at logits z: sum over a of
    pi_b(a) pi(a) / max(pi_b, pi_k)(a) Q(a) = sum over a of pi(a) r(a) Q(a). Its gradient with
    respect to z is F (r Q), where F = diag(pi) - pi pi^T is the Fisher matrix.
    """
    rng = np.random.default_rng(seed)
    A = 5
    then, now = policies(rng, (A,))
    Q = rng.normal(size=A)
    anchor = correct(np.log(then), np.log(now)).anchor

    def objective(logits):
        pi = np.exp(logits) / np.exp(logits).sum()
        return (then * np.exp(np.log(pi) - anchor) * Q).sum()

    logits, step = np.log(now), 1e-5
    gradient = np.array(
        [
            (objective(logits + step * e) - objective(logits - step * e)) / (2 * step)
            for e in np.eye(A)
        ]
    )
    fisher = np.diag(now) - np.outer(now, now)
    exact = fisher @ (then / np.maximum(then, now) * Q)
    np.testing.assert_allclose(gradient, exact, atol=1e-9)
    natural = np.linalg.pinv(fisher, rcond=1e-12) @ exact
    apart = natural - np.exp(np.log(then) - anchor) * Q
    np.testing.assert_allclose(apart, apart[0], atol=1e-8)
