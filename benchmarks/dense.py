"""Plain dense NumPy versions of the passes, to compare with: P of shape (S, A, S)."""

import numpy as np


class DensePasses:
    """The same passes on dense arrays.

    p: (S, A, S); lower, upper: (S, A, S) bounds; visits: (S, A); costs: (S, A);
    policy, total: (H, S, A).
    """

    def __init__(self, p, lower, upper, visits, costs, policy):
        self.p, self.lower, self.width = p, lower, upper - lower
        self.rest = 1.0 - lower.sum(-1, keepdims=True)
        self.unseen = visits == 0
        self.bonus = 1.0 / np.sqrt(np.maximum(visits, 1))
        self.costs, self.policy = costs, policy
        self.total = np.zeros(policy.shape)

    def backward(self, step):
        """Add Q of every step; `step` makes it of the next values and the number of steps left."""
        H, S, _ = self.policy.shape
        V = np.zeros(S)
        for h in range(H - 1, -1, -1):
            Q = step(V, H - h)
            self.total[h] += Q
            V = (self.policy[h] * Q).sum(-1)

    def known(self):
        """Policy evaluation."""
        self.backward(lambda V, left: self.costs + self.p @ V)

    def bonus_pass(self):
        """Policy evaluation on empirical transitions with a bonus."""

        def step(V, left):
            Q = np.clip(self.costs - self.bonus + self.p @ V, 0.0, left)
            Q[self.unseen] = 0.0
            return Q

        self.backward(step)

    def confidence(self):
        """Optimistic evaluation: sort, cumulative sum, clip, for every row."""

        def step(V, left):
            order = np.argsort(V)
            width = self.width[:, :, order]
            extra = np.clip(self.rest - (np.cumsum(width, -1) - width), 0.0, width)
            return self.costs + (self.lower[:, :, order] + extra) @ V[order]

        self.backward(step)

    def softmax(self, rate=0.1):
        """The new policy."""
        weights = np.exp(-rate * (self.total - self.total.min(-1, keepdims=True)))
        return weights / weights.sum(-1, keepdims=True)
