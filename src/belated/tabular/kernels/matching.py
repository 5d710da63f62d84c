"""Regret matching+ in every (step, state): no step size and no exponentials."""

from belated.core.arrays import Floats
from belated.core.compiled import njit


@njit(cache=True)
def learn(q: Floats, policy: Floats, regrets: Floats, hints: Floats, newest: float) -> None:
    """Add the regrets of one episode, truncated at 0, and move the hints towards them.

    With r(a) = sum over b of policy(b) q(b) - q(a): regrets = max(regrets + r, 0) and
    hints += newest (r - hints). All arrays: (H, S, A).
    """
    H, S, A = q.shape
    for h in range(H):
        for s in range(S):
            value = 0.0
            for a in range(A):
                value += policy[h, s, a] * q[h, s, a]
            for a in range(A):
                r = value - q[h, s, a]
                regrets[h, s, a] = max(regrets[h, s, a] + r, 0.0)
                hints[h, s, a] += newest * (r - hints[h, s, a])


@njit(cache=True)
def match(regrets: Floats, hints: Floats, coming: float, policy: Floats) -> None:
    """Write the policy proportional to max(regrets + coming * hints, 0); uniform if all are 0.

    All arrays: (H, S, A).
    """
    H, S, A = regrets.shape
    for h in range(H):
        for s in range(S):
            total = 0.0
            for a in range(A):
                z = max(regrets[h, s, a] + coming * hints[h, s, a], 0.0)
                policy[h, s, a] = z
                total += z
            if total > 0.0:
                for a in range(A):
                    policy[h, s, a] /= total
            else:
                for a in range(A):
                    policy[h, s, a] = 1.0 / A
