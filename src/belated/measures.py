"""Occupancy measures, policies and transitions, and the ways between them.

A measure says how likely every (step, state, action) is, (H, S, A), or every (step, state,
action, next state), (H, S, A, S). Each step sums to 1, and what flows into a state flows out.
"""

from __future__ import annotations

import numpy as np

from belated import checks
from belated.arrays import Floats
from belated.transitions import Transitions
from belated.world import MDP, occupancy

FLOW_TOLERANCE = 1e-8


def occupancy_from(policy: object, transitions: Transitions, start: object = 0) -> Floats:
    """The measure (H, S, A, S) of a policy (H, S, A) under transitions.

    start: a state or a distribution (S,). Summed over its last axis it is `occupancy`.
    """
    if not isinstance(transitions, Transitions):
        raise ValueError(f"transitions must be Transitions, got {checks.show(transitions)}")
    array = checks.floats("policy", policy, "(H, S, A)", (3,))
    mdp = MDP(transitions, len(array), start)  # type: ignore[arg-type]
    p = transitions.dense()
    measure: Floats = occupancy(mdp, array)[..., None] * p
    return measure


def policy_from(measure: object) -> Floats:
    """The policy (H, S, A) of a measure (H, S, A) or (H, S, A, S); uniform where it has no mass."""
    q = _checked(measure)
    pairs = q.sum(axis=3) if q.ndim == 4 else q
    mass = pairs.sum(axis=2, keepdims=True)
    uniform = np.full(pairs.shape, 1.0 / pairs.shape[2])
    policy: Floats = np.divide(pairs, mass, out=uniform, where=mass > 0.0)
    return policy


def transitions_from(measure: object) -> Transitions:
    """The transitions of a measure (H, S, A, S); rows without mass are uniform."""
    q = _checked(measure)
    if q.ndim != 4:
        raise ValueError(f"measure must have shape (H, S, A, S), got shape {q.shape}")
    mass = q.sum(axis=3, keepdims=True)
    uniform = np.full(q.shape, 1.0 / q.shape[3])
    return Transitions.from_dense(np.divide(q, mass, out=uniform, where=mass > 0.0))


def _checked(measure: object) -> Floats:
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
                f"measure must let flow out what flows in; step {step + 1}, state {state} gets "
                f"{into[step, state]:.9g} and gives {out[step, state]:.9g}"
            )
    return q
