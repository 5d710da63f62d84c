"""Q-learning: Watkins (1989), with a table for every step.

    on arrival, last step first:   Q_h(s, a) += learning_rate (c + min_b Q_{h+1}(s', b) - Q_h(s, a))
    policy:                        greedy in Q, with probability epsilon uniform

Learning backwards propagates the last cost of a path to its first step at once.
"""

from __future__ import annotations

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import Learner, Open
from belated.saving import register
from belated.tabular.policies import greedy
from belated.tabular.problem import Problem


@register
class QLearning(Learner[bool]):
    """Epsilon-greedy Q-learning with a constant learning rate.

    Args:
        problem: states, actions, horizon and start.
        learning_rate: weight of the newest observation, above 0 and at most 1.
        epsilon: probability of a uniform action in every step.
        optimistic: whether Q starts at 0, the smallest cost; otherwise it starts at half the
            number of steps left.
    """

    _q: Floats  # (H + 1, S, A); the last step stays 0

    def __init__(
        self,
        problem: Problem,
        *,
        learning_rate: float = 0.3,
        epsilon: float = 0.1,
        optimistic: bool = False,
    ) -> None:
        checks.instance("problem", problem, Problem)
        self._rate = checks.real("learning_rate", learning_rate, 0.0, 1.0, above=True)
        self._epsilon = checks.real("epsilon", epsilon, 0.0, 1.0)
        optimistic = checks.flag("optimistic", optimistic)
        super().__init__(
            problem, learning_rate=self._rate, epsilon=self._epsilon, optimistic=optimistic
        )
        H, S, A = problem.shape
        self._q = np.zeros((H + 1, S, A))
        if not optimistic:
            self._q += 0.5 * np.arange(H, -1, -1)[:, None, None]

    def _next_policy(self) -> tuple[Floats, bool]:
        even = self._epsilon / self.problem.actions
        return frozen((1.0 - self._epsilon) * greedy(self._q[:-1]) + even), True

    def _learn(self, entry: Open[bool]) -> None:
        q, states, actions = self._q, entry.path.states, entry.path.actions
        costs = entry.costs.values
        for h in range(self.problem.horizon - 1, -1, -1):
            target = costs[h] + q[h + 1, states[h + 1]].min()
            here = (h, states[h], actions[h])
            q[here] += self._rate * (target - q[here])
