"""Delayed regret matching+ with hints: an update without a step size.

    1  R = m = 0 in every (h, s)
    2  when an episode begins:
    3      n = 1 + the number of reports on their way
    4      z = max(R + n m, 0)
    5      play in proportion to z, uniformly where z = 0
    6  when the Q of an episode that played pi arrives:
    7      r(a) = sum over b of pi(b) Q(b) - Q(a)
    8      R = max(R + r, 0)
    9      m = (1 - w) m + w r, with w = 1/4

Without hints n is 0. For one step from one state this is DORM+ of Flaspohler, Orabona, Cohen,
Mouatadid, Oprescu, Orenstein & Mackey (ICML 2021); inside policy optimization it seems to be new.
The hints predict that pending feedback resembles recent feedback. The number of reports on their
way excludes lost ones: it is the mean delay of feedback so far (Little's law), and at most the
number of missing episodes.

Bounds for known transitions and full information, for every K, costs and delays. Let K' of the K
episodes report, with total delay D' up to the end of the run, and let N be the sum of their n:

    without hints   R_K <= H (H + 1) / 2 * sqrt((A - 1) (K' + 2 D')) + H (K - K')
    with hints      R_K <= H (H + 1) / 2 * sqrt((A - 1) (K' + 2 D' + 2 N)) + H (K - K')

If all episodes report, or are assumed to do so at the end, then N <= K + D, and the second one is
at most H (H + 1) / 2 * sqrt((A - 1) (3 K + 4 D)). docs/algorithms/regret_matching.md has the proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.tree import Entries, Learned, Rows
from belated.tabular.kernels import matching
from belated.tabular.parts.costs import CostsPart
from belated.tabular.parts.update import Arrival, Outlook
from belated.tabular.problem import ByPair, Problem
from belated.tabular.tuning import Parameters

NEWEST = 0.25
"""The weight of the newest regrets in the hints."""


@dataclass(frozen=True, slots=True)
class RegretMatching:
    """Play in proportion to positive regrets; there is nothing to tune.

    Attributes:
        hints: whether the policy anticipates pending feedback.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(world.problem, update=bl.parts.RegretMatching())
        >>> agent.information
        'full'
    """

    tunable: ClassVar[bool] = False

    hints: bool = True

    def __post_init__(self) -> None:
        checks.fix(self, "hints", checks.flag("hints", self.hints))

    def start(self, problem: Problem, costs: CostsPart) -> Regrets:
        """The regrets and the hints of every (h, s, a), and the resulting policy."""
        return Regrets(problem)

    def policy(self, learned: Regrets, outlook: Outlook) -> Floats:
        """The policy proportional to the positive regrets."""
        coming = 1.0 + outlook.coming if self.hints else 0.0
        if learned.stale or (learned.moved and coming != learned.coming):
            policy = np.empty(learned.problem.shape)
            matching.match(learned.regrets, learned.hints, coming, policy)
            learned.policy = frozen(policy)
            learned.stale = False
        learned.coming = coming
        return learned.policy

    def learn(self, learned: Regrets, arrived: Arrival) -> None:
        """Add the regrets of an episode."""
        matching.learn(arrived.q(), arrived.policy, learned.regrets, learned.hints, NEWEST)
        learned.stale = learned.moved = True

    def restart(self, learned: Regrets, parameters: Parameters) -> None:
        """Forget the regrets; there is no step size to set."""
        learned.regrets[:] = 0.0
        learned.hints[:] = 0.0
        learned.policy = learned.problem.uniform_policy()
        learned.stale = learned.moved = False

    def retune(self, learned: Regrets, parameters: Parameters) -> None:
        """Regrets are kept, and there is no step size to set."""

    def diagnostics(self, learned: Regrets) -> Mapping[str, float]:
        """The factor of the hints."""
        return {"coming": learned.coming}


class Regrets(Learned):
    """What `RegretMatching` learns.

    Attributes:
        regrets, hints: (H, S, A).
        policy: (H, S, A), what follows from both.
        coming: the factor of the hints that was used last.
        stale: whether anything was learned since the policy was computed.
        moved: whether anything ever was.
    """

    regrets: ByPair
    hints: ByPair
    policy: Rows
    coming: Annotated[float, Entries(low=0.0)]
    stale: bool
    moved: bool

    def __init__(self, problem: Problem) -> None:
        self.set_first_values(problem.axes)
        self.problem, self.policy = problem, problem.uniform_policy()
