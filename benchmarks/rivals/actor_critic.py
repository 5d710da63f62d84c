"""Actor-critic: Sutton & Barto (2018), chapter 13, with tables and a softmax policy.

    policy:                        pi_h(a | s) proportional to exp(-theta_h(s, a))
    on arrival, last step first:   delta  = c + V_{h+1}(s') - V_h(s)
                                   V_h(s) += critic_rate delta
                                   theta_h(s, .) += learning_rate delta (1[. = a] - pi_h(. | s))

pi is the current policy, not the one that was played: the gradient is that of the current actor.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import Learner, Open
from belated.saving import register
from belated.tabular.problem import Problem


@register
class ActorCritic(Learner[bool]):
    """One-step actor-critic with constant rates.

    Args:
        problem: states, actions, horizon and start.
        learning_rate: step size of the actor.
        critic_rate: weight of the newest observation in V, above 0 and at most 1.
    """

    _theta: Floats  # (H, S, A)
    _v: Floats  # (H + 1, S); at first half of the largest possible cost

    def __init__(
        self, problem: Problem, *, learning_rate: float = 1.0, critic_rate: float = 0.3
    ) -> None:
        checks.instance("problem", problem, Problem)
        self._rate = checks.real("learning_rate", learning_rate, 0.0, 1e6, above=True)
        self._critic_rate = checks.real("critic_rate", critic_rate, 0.0, 1.0, above=True)
        super().__init__(problem, learning_rate=self._rate, critic_rate=self._critic_rate)
        H, S, A = problem.shape
        self._theta = np.zeros((H, S, A))
        self._v = np.zeros((H + 1, S)) + 0.5 * np.arange(H, -1, -1.0)[:, None]

    def _next_policy(self) -> tuple[Floats, bool]:
        return frozen(_softmin(self._theta)), True

    def _learn(self, entry: Open[bool]) -> None:
        v, theta, costs = self._v, self._theta, entry.costs.values
        states, actions = entry.path.states, entry.path.actions
        for h in range(self.problem.horizon - 1, -1, -1):
            s = states[h]
            delta = costs[h] + v[h + 1, states[h + 1]] - v[h, s]
            v[h, s] += self._critic_rate * delta
            direction = -_softmin(theta[h, s])
            direction[actions[h]] += 1.0
            theta[h, s] += self._rate * delta * direction


def _softmin(theta: Floats) -> Floats:
    weights = np.exp(theta.min(axis=-1, keepdims=True) - theta)
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares
