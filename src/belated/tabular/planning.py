"""Exact planning: values, best policies, and occupancy measures with their inverses.

An occupancy measure gives the probability of every (step, state, action), (H, S, A), or of every
(step, state, action, next state), (H, S, A, S). Each step sums to 1, and the mass that flows into
a state at one step flows out of it at the next.
"""

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.tabular import policies
from belated.tabular.kernels import planning
from belated.tabular.transitions import Transitions
from belated.tabular.world import MDP

FLOW_TOLERANCE = 1e-8


def policy_values(mdp: MDP, policy: object, costs: object) -> tuple[Floats, Floats]:
    """Exact values of a policy (H, S, A) for costs (1 or H, S, A): V (H + 1, S) and Q (H, S, A).

    Example:
        >>> mdp = bl.environments.chain(states=3, horizon=4).mdp
        >>> uniform = mdp.problem.uniform_policy()
        >>> V, Q = bl.planning.policy_values(mdp, uniform, np.ones((3, mdp.problem.actions)))
        >>> V.shape, float(V[0, 0])
        ((5, 3), 4.0)
    """
    checks.instance("mdp", mdp, MDP)
    H, S, A = mdp.problem.shape
    checked = policies.checked("policy", policy, (H, S, A))
    cost = policies.cost_function("costs", costs, (H, S, A))
    Q = np.zeros((H, S, A))
    V = planning.evaluate(mdp.transitions.rows, cost, checked, Q)
    return V, Q


def best_policy(mdp: MDP, costs: object) -> tuple[Floats, float]:
    """A deterministic policy (H, S, A) with the smallest expected cost, and its value at the start.

    Example:
        >>> mdp = bl.environments.chain(states=3, horizon=4).mdp
        >>> policy, value = bl.planning.best_policy(mdp, np.zeros((3, mdp.problem.actions)))
        >>> value
        0.0
    """
    checks.instance("mdp", mdp, MDP)
    H, S, A = mdp.problem.shape
    cost = policies.cost_function("costs", costs, (H, S, A))
    actions, V = planning.best(mdp.transitions.rows, cost, H)
    return policies.one_hot(actions, A), float(mdp.problem.start_probabilities @ V[0])


def occupancy(mdp: MDP, policy: object) -> Floats:
    """Probability of every (step, state, action) under a policy: (H, S, A), each step sums to 1.

    Example:
        >>> mdp = bl.environments.chain(states=3, horizon=4).mdp
        >>> uniform = mdp.problem.uniform_policy()
        >>> measure = bl.planning.occupancy(mdp, uniform)
        >>> round(float(measure[0].sum()), 6)
        1.0
    """
    checks.instance("mdp", mdp, MDP)
    checked = policies.checked("policy", policy, mdp.problem.shape)
    start = mdp.problem.start_probabilities
    reach = planning.state_occupancy(mdp.transitions.rows, checked, start)
    return reach[:, :, None] * checked


def occupancy_from(policy: object, transitions: Transitions, start: object = 0) -> Floats:
    """The measure (H, S, A, S) of a policy (H, S, A) under transitions.

    Summed over its last axis it is `occupancy`.

    Args:
        policy: the policy (H, S, A).
        transitions: the transitions, with a leading axis of 1 or H.
        start: a state or a distribution (S,).

    Example:
        >>> mdp = bl.environments.chain(states=3, horizon=4).mdp
        >>> uniform = mdp.problem.uniform_policy()
        >>> bl.planning.occupancy_from(uniform, mdp.transitions).shape
        (4, 3, 2, 3)
    """
    checks.instance("transitions", transitions, Transitions)
    array = checks.floats("policy", policy, "(H, S, A)", (3,))
    mdp = MDP(transitions, len(array), start)  # type: ignore[arg-type]
    return occupancy(mdp, array)[..., None] * transitions.dense()


def policy_from(measure: object) -> Floats:
    """The policy (H, S, A) of a measure (H, S, A) or (H, S, A, S); uniform where it has no mass.

    Example:
        >>> mdp = bl.environments.chain(states=3, horizon=4).mdp
        >>> uniform = mdp.problem.uniform_policy()
        >>> measure = bl.planning.occupancy_from(uniform, mdp.transitions)
        >>> bl.planning.policy_from(measure).shape
        (4, 3, 2)
    """
    q = _check_measure(measure)
    pairs = q.sum(axis=3) if q.ndim == 4 else q
    mass = pairs.sum(axis=2, keepdims=True)
    uniform = np.full(pairs.shape, 1.0 / pairs.shape[2])
    return np.divide(pairs, mass, out=uniform, where=mass > 0.0)  # type: ignore[no-any-return]


def transitions_from(measure: object) -> Transitions:
    """The transitions of a measure (H, S, A, S); rows without mass are uniform.

    Example:
        >>> mdp = bl.environments.chain(states=3, horizon=4).mdp
        >>> uniform = mdp.problem.uniform_policy()
        >>> measure = bl.planning.occupancy_from(uniform, mdp.transitions)
        >>> bl.planning.transitions_from(measure).states
        3
    """
    q = _check_measure(measure)
    if q.ndim != 4:
        raise ValueError(f"measure must have shape (H, S, A, S), got shape {q.shape}")
    mass = q.sum(axis=3, keepdims=True)
    uniform = np.full(q.shape, 1.0 / q.shape[3])
    return Transitions.from_dense(np.divide(q, mass, out=uniform, where=mass > 0.0))


def _check_measure(measure: object) -> Floats:
    """Check the shape of a measure, its sums and its flow."""
    q = checks.floats("measure", measure, "(H, S, A) or (H, S, A, S)", (3, 4))
    if q.ndim == 4 and q.shape[1] != q.shape[3]:
        raise ValueError(f"measure must have shape (H, S, A, S), got shape {q.shape}")
    checks.in_unit_interval("measure", q)
    sums = q.reshape(len(q), -1).sum(axis=1)
    if np.any(np.abs(sums - 1.0) > FLOW_TOLERANCE):
        h = int(np.argmax(np.abs(sums - 1.0)))
        raise ValueError(f"measure must sum to 1 at every step; measure[{h}] sums to {sums[h]:.9g}")
    if q.ndim == 4:
        into, out = q[:-1].sum(axis=(1, 2)), q[1:].sum(axis=(2, 3))
        if np.any(np.abs(into - out) > FLOW_TOLERANCE):
            step, state = np.unravel_index(int(np.argmax(np.abs(into - out))), into.shape)
            raise ValueError(
                "measure must have equal flow into and out of every state; at step "
                f"{step + 1}, state {state} gets {into[step, state]:.9g} and passes on "
                f"{out[step, state]:.9g}"
            )
    return q
