"""Delayed FTRL on occupancy measures, for bandit feedback and known transitions.

van der Hoeven, Zierahn, Lancewicki, Rosenberg & Cesa-Bianchi (COLT 2023), "A unified analysis of
nonstochastic delayed feedback for combinatorial semi-bandits, linear bandits, and MDPs",
Algorithm 2.

    1  L = 0
    2  for every episode t:
    3      w_t = argmin over w of <L, w> + 1/eta sum w ln w - 1/gamma sum ln w
    4      play the policy of w_t: pi(a | h, s) = w(h, s, a) / sum over b of w(h, s, b)
    5      for every episode j whose feedback arrives now:
    6          L_h(s, a) += 1{(s, a) visited at h} cost_h / u_h(s, a),  u = occupancy of pi_j

    paper              here
    w_t                `_measure`                       (H, S, A)
    L                  `_total`                         (H, S, A)
    u                  `entry.memory`                   (H, S, A)
    eta                learning_rate
    gamma              learning_rate / barrier

The sums of line 3 are over (h, s, a, s'). `barrier.lead` solves eta times the line, and `barrier`
is the weight of the logarithms there.

Reading: the paper lets p vary by 1 / (T H S A) and keeps w above 1 / (T^3 H^2 S^4 A^2), only so
that ln w is defined where p is 0. Here p is exact, and the sums are over the (h, s, a, s') that a
policy can reach, where ln w is defined without either. Then w(h, s, a, s') = w(h, s, a) p(s'), so
the problem is one on (h, s, a), with the entropy of p and the number of successors as weights, and
u is the occupancy of the policy played, so that estimates are unbiased. The proof of Theorem 7
holds as far as for the printed set, with its terms ERROR, BIAS1 and BIAS2 equal to 0; see
docs/algorithms/ftrl.md, also for the printed step size, with which the proof misses its bound. Line
3 as printed sums its logarithms over all S next states: `impossible` does so too, as the limit of
the printed line as T grows, even where p has zeros.

Departures: that reading; u is computed from the policy, so that it is exact whatever the error of
the solver. `tuning.ftrl` has the paper's constants and rates for practice.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import Learner, Open
from belated.core.tree import Count, Entries, Rows
from belated.tabular.kernels import planning
from belated.tabular.oreps import barrier as kernels
from belated.tabular.oreps.projection import entropies_of, merge_repeats
from belated.tabular.parts.transitions import matching
from belated.tabular.problem import ByPair, Problem
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

LEAST_BARRIER = 1e-6
"""The weakest barrier; with a weaker one w may become too small for Newton steps."""
MOST_BARRIER = 1e100
SMALLEST_OCCUPANCY = 1e-100
"""The smallest occupancy that an estimate divides by, so that no sum of estimates overflows."""
NEWTON_STEPS = 200
"""The largest number of Newton steps of a solve."""


PRACTICE = 0.001
"""The barrier for practice: eta / gamma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FTRLSetting(Setting):
    """The tuning of FTRL: for practice, after Theorem 7 of its paper, or with printed constants.

    Example:
        >>> bl.tuning.FTRLSetting().proved
        False
    """

    proved: ClassVar[bool] = False  # the rates are for practice, the bound for other constants

    def weight(self, problem: Problem) -> float:
        """S A."""
        return float(problem.states * problem.actions)

    def rate(self, problem: Problem, N: float) -> float:
        """sqrt(ln(H N) / N)."""
        return math.sqrt(max(math.log(problem.horizon * N), 1.0) / N)

    def printed_at(
        self, problem: Problem, episodes: int, total_delay: float, max_delay: float
    ) -> Parameters:
        """The paper's constants for known K, D and largest delay."""
        K, D = self._totals(problem, episodes, total_delay)
        rows = self.weight(problem) * K
        return self.printed(problem, rows + D, rows, max_delay)

    def printed(self, problem: Problem, N: float, rows: float, max_delay: float) -> Parameters:
        """The paper's constants for N = S A K + D; rows is S A K."""
        stable = problem.horizon * (1.0 + checks.real("max_delay", max_delay, 0.0)) ** 2
        rate = 1.0 / math.sqrt(N * max(math.log(problem.horizon * rows), 1.0))
        rate = min(1.0 / (256.0 * stable), rate)
        return Parameters(rate, None, math.inf, rate * 4096.0 * stable)

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        return H * math.sqrt(S * A * episodes) + H * math.sqrt(total_delay)


def ftrl(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, max_delay: float | None = None
) -> dict[str, float]:
    """Delayed FTRL: eta and the barrier eta / gamma, as printed or for practice.

    With max_delay they are the paper's: gamma = 1 / (4096 H (1 + d_max)^2) and
    eta = min(1 / (256 H (1 + d_max)^2), 1 / sqrt((S A K + D) ln(H S A K))).
    Without it they are for practice: eta = sqrt(ln(H N) / N) with N = S A K + D, and the barrier is
    `PRACTICE`. This eta has the logarithm where the paper's bound needs it.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.ftrl(problem, episodes=1000, total_delay=5000))
        ['barrier', 'learning_rate']
    """
    row = FTRLSetting()
    tuned = (
        row.at(problem, episodes, total_delay)
        if max_delay is None
        else row.printed_at(problem, episodes, total_delay, max_delay)
    )
    barrier = PRACTICE if tuned.barrier is None else tuned.barrier
    return {"learning_rate": tuned.learning_rate, "barrier": barrier}


Occupancy = Annotated[Floats, Entries("policy", low=0.0, high=1.0 + 1e-9)]


class DelayedFTRL(Learner[Occupancy]):
    """Follow the regularised leader over occupancy measures.

    The module describes the algorithm.

    Args:
        problem: states, actions, horizon, start.
        transitions: the true `Transitions`.
        learning_rate: eta. `tuning.ftrl` suggests both numbers, and `Doubling` replaces this one.
        barrier: eta / gamma, the weight of the log barrier relative to the entropy; None: the
            value for practice, `tuning.PRACTICE`. `oreps.doubling.DoublingFTRL` replaces it.
        scale: factor on the step sizes of `Doubling`.
        impossible: whether transitions of probability 0 have a barrier too, as in line 3 of the
            paper.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedFTRL(
        ...     world.problem,
        ...     transitions=world.mdp.transitions,
        ...     **bl.tuning.ftrl(world.problem, 20, 40),
        ... )
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    _total: ByPair
    _dual: Floats  # (H + 1, S), the multipliers of the last solve; 0 before
    _policy: Rows  # (H, S, A)
    _stale: bool  # whether line 3 must be solved again
    _rate: Annotated[float, Entries(low=0.0)]
    _barrier: Annotated[float, Entries(low=LEAST_BARRIER, high=MOST_BARRIER)]
    _solves: Count
    _unconverged: Count

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions,
        learning_rate: float,
        barrier: float | None = None,
        scale: float = 1.0,
        impossible: bool = False,
    ) -> None:
        checks.instance("problem", problem, Problem)
        checks.instance("transitions", transitions, Transitions, ": DelayedFTRL must know them")
        self._transitions = matching(problem, transitions)
        rate = checks.real("learning_rate", learning_rate, 0.0, above=True)
        given = PRACTICE if barrier is None else barrier
        self._barrier = checks.real("barrier", given, LEAST_BARRIER, MOST_BARRIER)
        self._scale = checks.real("scale", scale, 0.0, above=True)
        super().__init__(
            problem,
            transitions=transitions,
            learning_rate=rate,
            barrier=self._barrier,
            scale=self._scale,
            impossible=checks.flag("impossible", impossible),
        )
        H, S, A = problem.shape
        self._start = problem.start_probabilities
        p = merge_repeats(transitions.rows)
        self._entropy: Floats = np.broadcast_to(entropies_of(p), (H, S, A))
        ways = np.sum(p > 0.0, axis=3, dtype=np.float64)
        self._ways: Floats = np.broadcast_to(S if impossible else ways, (H, S, A))
        reach = frozen(transitions.reachable(self._start, H))
        self._rows = (*transitions.rows, reach, self._start)
        self._dual = np.zeros((H + 1, S))
        self._policy = problem.uniform_policy()
        self._stale = True
        self._rate = rate
        self._measure: Floats | None = None  # of the policy, once it is needed

    def setting(self, paths: str) -> Setting:
        """The row of tuning for trajectories that arrive "late" or "at once"."""
        return FTRLSetting(paths=paths)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase without costs, with a new step size, and a new barrier if there is one.

        carry_over: whether feedback of open episodes will still be used.
        """
        barrier = self._arguments["barrier"] if parameters.barrier is None else parameters.barrier
        self._rate = self._scale * parameters.learning_rate
        self._barrier = max(barrier, LEAST_BARRIER)
        self._total[:] = 0.0
        self._dual[:] = 0.0
        self._policy, self._measure, self._stale = self.problem.uniform_policy(), None, True
        self._end_phase(carry_over)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger and the solver, the step size and the barrier."""
        return {
            **super().diagnostics(),
            "solves": self._solves,
            "unconverged": self._unconverged,
            "learning_rate": self._rate,
            "barrier": self._barrier,
        }

    def _next_policy(self) -> tuple[Floats, Floats]:
        if self._stale:
            self._lead()
        if self._measure is None:
            rows = self._transitions.rows
            reach = planning.state_occupancy(rows, self._policy, self._start)
            self._measure = frozen(reach[:, :, None] * self._policy)
        return self._policy, self._measure

    def _learn(self, entry: Open[Floats]) -> None:
        """Line 6 for an episode."""
        occupancy, path, costs = entry.memory, entry.path, entry.costs
        assert occupancy is not None
        at = (np.arange(self.problem.horizon), path.states[:-1], path.actions)
        self._total[at] += costs.values / np.maximum(occupancy[at], SMALLEST_OCCUPANCY)
        self._stale = True

    def _lead(self) -> None:
        """Lines 3 and 4, starting from the multipliers of the last solve, if any."""
        H, S, A = self.problem.shape
        weights = frozen(self._entropy - self._rate * self._total)
        barriers = frozen(self._barrier * self._ways)
        V, w = self._dual.copy(), np.zeros((H, S, A))
        left = kernels.lead(self._rows, weights, barriers, V, w, NEWTON_STEPS)
        if left > kernels.CLOSE and self._dual.any():
            V[:] = 0.0
            left = kernels.lead(self._rows, weights, barriers, V, w, NEWTON_STEPS)
        self._solves += 1
        self._unconverged += left > kernels.CLOSE
        self._dual = V
        mass = w.sum(axis=2, keepdims=True)
        policy = np.divide(w, mass, out=np.full((H, S, A), 1.0 / A), where=mass > 0.0)
        self._policy = frozen(policy / policy.sum(axis=2, keepdims=True))
        self._measure, self._stale = None, False
