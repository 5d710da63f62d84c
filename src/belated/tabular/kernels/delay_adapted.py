"""Estimates and bonuses of DAPO for one episode whose feedback has arrived."""

import numpy as np

from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit


@njit(cache=True)
def learn(
    states: Ints,
    actions: Ints,
    suffered: Floats,
    played: Floats,
    newest: Floats,
    upper: Floats,
    lower: Floats,
    exploration: float,
    gap: float,
    total: Floats,
) -> Floats:
    """Add the estimate of Q to the total, and return the bonuses as negative costs.

    With pi = played, nu = newest, u and l the bounds of the occupancy and g the exploration:

        Q_h(s, a) = min(1, pi / nu) * cost to go / (u pi + g), on the path, and
        b_h(s)    = sum over a of min(pi, nu) * H * (3 g + gap (u - l) pi) / (u pi + g).

    states: (H + 1,), actions: (H,), suffered: (H,); played, newest, total: (H, S, A); upper,
    lower: (H, S). Returns -b as (H, S, A), the same for every action.
    """
    H, S, A = played.shape
    # stage 1: the estimate Q_h(s, a) on the path, with the cost to go summed from the end
    to_go = 0.0
    for h in range(H - 1, -1, -1):
        s, a = states[h], actions[h]
        to_go += suffered[h]
        was, now = played[h, s, a], newest[h, s, a]
        ratio = was / now if was < now else 1.0
        total[h, s, a] += ratio * to_go / (upper[h, s] * was + exploration)
    # stage 2: the bonus b_h(s) of every state; plain is 3 g H, wide is gap H (u - l)
    made = np.empty((H, S, A))
    plain = 3.0 * exploration * H
    for h in range(H):
        for s in range(S):
            reach = upper[h, s]
            wide = gap * H * (reach - lower[h, s])
            bonus = 0.0
            for a in range(A):
                was = played[h, s, a]
                both = min(was, newest[h, s, a])
                bonus += both * (plain + wide * was) / (reach * was + exploration)
            for a in range(A):
                made[h, s, a] = -bonus
    return made
