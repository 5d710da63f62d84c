"""Update rules: how the policy follows from the feedback so far.

An update learns from every arrival, and returns a policy whenever an episode begins. `Softmax` is
the paper's rule.

A part is a frozen setting. What it learns is a plain object that `start` makes and that is passed
to every method: a `tree.Learned`, or any object if it is never saved. Your own rule needs `start`,
`policy` and `learn`; `restart` and `retune` only inside `Doubling`; and may have `diagnostics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.tree import Entries, Learned, Rows
from belated.tabular.kernels import weights
from belated.tabular.parts.costs import CostsPart
from belated.tabular.counts import Model
from belated.tabular.problem import ByPair, Problem
from belated.tabular.tuning import Parameters


class Arrival(NamedTuple):
    """One episode whose costs have arrived, for an update.

    Attributes:
        policy: (H, S, A) the policy that the update had returned for the episode.
        costs: (1 or H, S, A) its costs, revealed or estimated.
        model: the model of the transitions.
    """

    policy: Floats
    costs: Floats
    model: Model

    def q(self) -> Floats:
        """Q (H, S, A) of the policy for these costs, read-only."""
        total = np.zeros(self.policy.shape)
        self.add_q(total)
        return frozen(total)

    def add_q(self, total: Floats) -> None:
        """Add Q to an array (H, S, A)."""
        self.model.add_q(self.costs, self.policy, total)


class Outlook(NamedTuple):
    """What an update may use for its next policy.

    Attributes:
        missing: the number of earlier episodes whose costs have not arrived and are not overdue.
        coming: the number of reports on their way; at most `missing`.
    """

    missing: int
    coming: float


@dataclass(frozen=True, slots=True)
class Softmax:
    """Exponential weights: softmax(-eta * sum of Q), the paper's update.

    The sum of Q is kept and the policy is its softmax. For a constant step size this is the
    multiplicative update, without its underflow.

    The anytime rule: with P_k the sum over i <= k of 1 + the episodes missing when i began, step h
    of H plays softmax(-eta L_h) with eta = sqrt(ln A / 2) / ((H - h + 1) sqrt(P_k)), L the whole
    sum of Q. Then R_K <= H (H + 1) sqrt(2 ln A (K + D_K)) for known transitions and full
    information, for all K at once. A scale c on eta multiplies the bound by at most
    (c + 1 / c) / 2. With importance-weighted costs of one step from one state it is
    eta_k = sqrt(ln A / (2 sum_i (A + missing_i))), and E[R_K] <= 2 sqrt(2 ln A (A K + D_K)) without
    exploration, for all K at once.

    Attributes:
        learning_rate: eta. None: the anytime rule, which needs neither K nor the delays.
        scale: factor on the step sizes of the anytime rule and of `Doubling`; 1 is the theory,
            which is small for long horizons.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(
        ...     world.problem, update=bl.parts.Softmax(learning_rate=0.3)
        ... )
        >>> agent.information
        'full'
    """

    learning_rate: float | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            checks.fix(self, "learning_rate", checks.real("learning_rate", self.learning_rate, 0.0))
        checks.fix(self, "scale", checks.real("scale", self.scale, 0.0, above=True))

    def unset(self, problem: Problem, costs: CostsPart) -> list[str]:
        """With importance weights the step size is required, except for one step from one state."""
        anytime = self.learning_rate is None
        return ["learning_rate"] if anytime and costs.weighted and not problem.is_arms else []

    def start(self, problem: Problem, costs: CostsPart) -> SumOfQ:
        """The sum of Q, its softmax, and the state of the step size rule."""
        return SumOfQ(problem, self.learning_rate, weighted=costs.weighted)

    def policy(self, learned: SumOfQ, outlook: Outlook) -> Floats:
        """The policy (H, S, A) for the episode that begins now: the softmax of the sum."""
        rates = self._next_rates(learned, outlook.missing)
        if learned.stale or (learned.moved and not np.array_equal(rates, learned.rates)):
            policy = np.empty(learned.problem.shape)
            weights.softmax(learned.total, rates, policy)
            learned.policy = frozen(policy)
            learned.stale = False
        learned.rates = rates
        return learned.policy

    def _next_rates(self, learned: SumOfQ, missing: int) -> Floats:
        """Step sizes (1 or H,) for the episode that begins now."""
        H, _, A = learned.problem.shape
        if learned.constant is not None:
            same = len(learned.rates) == 1 and learned.rates[0] == learned.constant
            return learned.rates if same else frozen(np.array([learned.constant]))
        if learned.weighted:
            learned.pending += A + missing
            return frozen(np.array([self.scale * math.sqrt(math.log(A) / (2 * learned.pending))]))
        learned.pending += missing + 1
        left = H - np.arange(H)
        return frozen(self.scale * math.sqrt(math.log(A) / 2) / left / math.sqrt(learned.pending))

    def learn(self, learned: SumOfQ, arrived: Arrival) -> None:
        """Learn from one episode: add its Q to the sum."""
        arrived.add_q(learned.total)
        learned.moved = learned.stale = True

    def restart(self, learned: SumOfQ, parameters: Parameters) -> None:
        """Begin a new phase with a uniform policy and a new step size."""
        self.retune(learned, parameters)
        learned.total[:] = 0.0
        learned.policy = learned.problem.uniform_policy()
        learned.stale = learned.moved = False

    def retune(self, learned: SumOfQ, parameters: Parameters) -> None:
        """Begin a new phase with a new step size for the whole sum."""
        learned.constant = checks.real("learning_rate", self.scale * parameters.learning_rate, 0.0)
        learned.pending = 0

    def diagnostics(self, learned: SumOfQ) -> Mapping[str, float]:
        """The step size used last, at the first step."""
        return {"learning_rate": float(learned.rates[0])}


class SumOfQ(Learned):
    """What `Softmax` learns.

    Attributes:
        total: (H, S, A) the sum of Q.
        policy: (H, S, A) its softmax.
        rates: (1 or H,) the step sizes used last.
        constant: the step size of the setting or the phase; None: the anytime rule.
        pending: the sum of the anytime rule.
        stale: whether the total has changed since the policy was computed.
        moved: whether it ever has.
    """

    total: ByPair
    policy: Rows
    rates: Annotated[Floats, Entries("1|H", low=0.0)]
    constant: Annotated[float, Entries(low=0.0)] | None
    pending: Annotated[int, Entries(low=0)]
    stale: bool
    moved: bool

    def __init__(self, problem: Problem, rate: float | None, *, weighted: bool) -> None:
        self.problem, self.weighted = problem, weighted
        self.set_first_values(problem.axes)
        self.policy = problem.uniform_policy()
        self.rates = frozen(np.zeros(1))
        self.constant = rate


SOFTMAX = Softmax()
"""The default for `update`."""
