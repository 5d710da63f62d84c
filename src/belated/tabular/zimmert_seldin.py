"""Zimmert and Seldin's algorithm for bandits with delayed costs.

Zimmert & Seldin (AISTATS 2020), "An optimal algorithm for adversarial bandits with arbitrary
delays", Algorithms 1 and 2.

    1  for every round t = 1, 2, ...:
    2      D_t = D_{t-1} + number of rounds s < t that have not reported and are still counted
    3      1 / eta_t = sqrt(2 D_t / ln k) (simple) or sqrt(D_t / ln k) (advanced)
    4      advanced: a round s with t - s > 1 / eta_t is no longer counted from t + 1 on
    5      x_t = argmin over the simplex of <x, L> - 2 sqrt(t) sum sqrt(x_i)
                                            + (1 / eta_t) sum x_i ln x_i
    6      play an arm of x_t
    7      for every round s that reports now: L(arm of s) += cost / x_s(arm of s)

    paper        here
    k            problem.actions
    d_t, D_t     the episodes in `_counted`, `_total`
    L-hat^obs    `_losses`
    a_s^t        whether s is in `_counted`

Nothing needs to be known in advance. A round that reports after it was given up is still used.

Departures: a forgotten episode is no longer counted. A single arm is played without computation.
For practice, `scale` divides both terms of the regulariser of line 5; 1 is the paper's value.
"""

import math
from collections.abc import Mapping
from typing import Annotated


from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import Learner, Open
from belated.core.tree import Count, Entries
from belated.tabular.kernels import hybrid
from belated.tabular.problem import Problem, check_arms
from belated.tabular.waiting import pop_past

TUNINGS = ("advanced", "simple")
SCALES = (1e-6, 1e6)
SMALLEST_WEIGHT = 1e-100
"""The smallest probability that a cost is divided by, so that sums of estimates stay finite."""


Weights = Annotated[Floats, Entries("A", rows=True)]


class ZimmertSeldin(Learner[Weights]):
    """Zimmert and Seldin's bandit algorithm, with the best known bound; for one state and step.

    Args:
        problem: states = 1 and horizon = 1.
        tuning: "advanced" stops counting rounds that are very late; "simple" counts all of them.
        scale: factor on the learning rates: the regulariser is divided by it.

    Example:
        >>> world = bl.environments.bandit([0.2, 0.5, 0.7])
        >>> agent = bl.ZimmertSeldin(world.problem)
        >>> agent.begin_episode().policy.shape
        (1, 1, 3)
    """

    _losses: Annotated[Floats, Entries("A")]
    _counted: dict[int, None]  # the missing episodes that are counted, oldest first
    _total: Annotated[int, Entries(low=0)]
    _given_up: Count

    def __init__(self, problem: Problem, tuning: str = "advanced", *, scale: float = 1.0) -> None:
        check_arms("ZimmertSeldin", problem)
        self.tuning = checks.choice("tuning", tuning, TUNINGS)
        self.scale = checks.real("scale", scale, *SCALES)
        super().__init__(problem, tuning=self.tuning, scale=self.scale)

    def _next_policy(self) -> tuple[Floats, Floats]:
        """Lines 2 to 5: the weights of the arms, as a policy (1, 1, A)."""
        entropy = self._count()
        root = math.sqrt(self.begun + 1.0)
        weights = frozen(hybrid.weights(self._losses, root / self.scale, entropy / self.scale))
        self._counted[self.begun] = None
        return weights.reshape(1, 1, -1), weights

    def _count(self) -> float:
        """Lines 2 to 4 for the round that begins. Returns 1 / eta."""
        A, t = self.problem.actions, self.begun
        if A == 1:
            return 0.0
        self._total += len(self._counted)
        factor = 2.0 if self.tuning == "simple" else 1.0
        entropy = math.sqrt(factor * self._total / math.log(A))
        if self.tuning == "advanced":
            self._given_up += len(pop_past(self._counted, t, entropy))
        return entropy

    def _learn(self, entry: Open[Floats]) -> None:
        """Line 7 for one round."""
        weights, arm = entry.memory, entry.path.actions[0]
        assert weights is not None
        self._losses[arm] += entry.costs.values[0] / max(weights[arm], SMALLEST_WEIGHT)
        self._counted.pop(entry.number, None)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and it is no longer counted."""
        super().forget(episode)
        self._counted.pop(int(episode), None)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the episodes given up, and the sum of missing episodes."""
        return {
            **super().diagnostics(),
            "given_up": self._given_up,
            "outstanding": self._total,
        }

    def check_learned(self) -> None:
        """Check that the counted episodes have not reported."""
        missing = {entry.number for entry in self._ledger.open.values() if not entry.settled}
        if not missing.issuperset(self._counted):
            raise ValueError("counted must be open episodes")
