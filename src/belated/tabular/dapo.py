"""DAPO: policy optimization whose estimates are adapted to the delay, for bandit feedback.

Lancewicki, Rosenberg & Sotnikov (ICML 2023), "Delay-adapted policy optimization and improved
regret for adversarial MDP with delayed bandit feedback", Algorithms 3 (known transitions) and 4
(unknown transitions).

    1  for every episode k:
    2      play pi^k; q^k = its occupancy, or upper and lower bounds of it over the set P^k
    3      for every episode j whose feedback arrives now:
    4          r = pi^j / max(pi^j, pi^k);  L_h = costs suffered from step h on
    5          Q_h(s, a) = r 1{(s, a) visited at h} L_h / (q^j_h(s) pi^j + gamma)
    6          b_h(s) = sum over a of
                        r pi^k (3 gamma H + 2 H (upper - lower)) / (q^j_h(s) pi^j + gamma)
    7          B_h(s, a) = b_h(s) + sum over s', a' of p(s' | s, a) pi^j(a' | s') B_{h+1}(s', a')
    8      pi^{k+1} proportional to pi^k exp(-eta * sum over j of (Q - B))

With unknown transitions q^j in lines 5 and 6 is the upper bound, upper and lower in line 6 are
those of (s, a), and line 7 takes the largest over P^j. With known ones upper = lower.

    paper                 here
    pi^k, pi^j            `_policy`, `PolicyAndSet.policy`           (H, S, A)
    sum of Q - B          `_total`                               (H, S, A)
    q^j, upper, lower     `PolicyAndSet.bounds`                       (H, S)
    P^j                   `ConfidenceSet.as_of`
    eta, gamma            learning_rate, exploration

Readings, where the text leaves a choice:
- The feedback of an episode, its path included, counts once all of it has arrived, even if the path
  arrived before the costs. P^j is computed from the feedback that had arrived when j began.
- The transitions of the last step are not counted. Counts are pooled where the problem is
  homogeneous.
- r = 1 where both policies are exactly 0.
- Everything that arrives at the end of episode k is compared with pi^k, as printed. Lemma E.6 of
  the paper fails where several episodes arrive together (see docs/notes.md).

Departures: the sum of Q - B is kept and the policy is its softmax, which is the multiplicative
update without its underflow. Where K is not given, the radius is valid for any number of episodes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import Learner, Open, is_past
from belated.core.tree import Count, Entries, Rows
from belated.core.versions import Kept, whole
from belated.tabular.counts import ConfidenceSet, Counts, LogTerm, log_term
from belated.tabular.kernels import delay_adapted, optimism, planning, weights
from belated.tabular.parts.transitions import matching
from belated.tabular.problem import ByPair, Problem
from belated.tabular.records import Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import LEAST_EXPLORATION, Parameters, Setting, both


@dataclass(slots=True, eq=False)
class PolicyAndSet:
    """What is remembered of an episode; episodes with the same policy and the same set share it.

    Attributes:
        policy: pi^j (H, S, A), as `versions` stores it.
        arrived: the number of trajectories counted when it began.
        log_term: L at that time; both together determine the confidence set of the episode.
        bounds: upper and lower occupancy (H, S), computed when they are first needed.
    """

    policy: Kept
    arrived: Count
    log_term: LogTerm
    bounds: tuple[Floats, Floats] | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DAPOSetting(Setting):
    """How DAPO is tuned: Theorems B.1 and C.1 and Remark C.2 of its paper.

    The eta is (H^2 S A K + H^4 (K + D))^(-1/2), times H if transitions are unknown.

    Attributes:
        dynamics: whether the transitions are "known" or "unknown".

    Example:
        >>> bl.tuning.DAPOSetting().proved
        False
    """

    dynamics: str = "unknown"
    proved: ClassVar[bool] = False  # Lemma E.6 fails where several episodes report together

    def weight(self, problem: Problem) -> float:
        """1 + S A / H^2."""
        return 1.0 + problem.states * problem.actions / problem.horizon**2

    def rate(self, problem: Problem, N: float) -> float:
        """1 / (H^2 sqrt N), or 1 / (H sqrt N) for unknown transitions."""
        H = problem.horizon
        return 1.0 / ((H * H if self.dynamics == "known" else H) * math.sqrt(N))

    def exploration(self, problem: Problem, N: float) -> float:
        """2 eta H."""
        return 2.0 * self.rate(problem, N) * problem.horizon

    def threshold(self, problem: Problem, D: float) -> float:
        """sqrt(D) / H, or sqrt(D / A) / (H S) for unknown transitions."""
        H, S, A = problem.shape
        return math.sqrt(D) / (H if self.dynamics == "known" else H * S * math.sqrt(A))

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        K, D = episodes, total_delay
        if self.dynamics == "known":
            return H * H * math.sqrt(S * A * K) + math.pow(H, 3) * math.sqrt(K + D)
        return math.pow(H, 3) * S * math.sqrt(A * (K + D))


def dapo(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, dynamics: str = "known"
) -> dict[str, float]:
    """DAPO: eta = (H^2 S A K + H^4 (K + D))^(-1/2), gamma = 2 eta H.

    dynamics: "known", or "unknown", where eta is H times as large.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.dapo(problem, episodes=1000, total_delay=5000))
        ['exploration', 'learning_rate']
    """
    return both(DAPOSetting(dynamics=dynamics).at(problem, episodes, total_delay))


class DAPO(Learner[PolicyAndSet]):
    """Delay-adapted policy optimization for bandit feedback.

    The module describes the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`; None if they are unknown.
        learning_rate: eta. `tuning.dapo` suggests both rates, and `Doubling` replaces them.
        exploration: gamma; None: 2 eta H.
        episodes: K, in the radius of unknown transitions; None: a radius for any number.
        delta: the probability that the confidence set of unknown transitions fails.
        scale: factor on the learning rates of `Doubling`.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> rates = bl.tuning.dapo(world.problem, 20, 40, dynamics='unknown')
        >>> agent = bl.DAPO(world.problem, **rates)
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    _gap = 2.0  # the factor of H (upper - lower) in the bonus
    _set: ConfidenceSet | None
    _total: ByPair
    _policy: Rows  # (H, S, A)
    _stale: bool  # whether the total has changed since the policy was computed
    _rate: Annotated[float, Entries(low=0.0)]
    _exploration: Annotated[float, Entries(low=LEAST_EXPLORATION)]
    _threshold: Annotated[
        float, Entries(low=0.0, high=math.inf)
    ]  # of the phase: feedback with a longer delay does not move the policy

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        learning_rate: float,
        exploration: float | None = None,
        episodes: int | None = None,
        delta: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        if transitions is not None:
            checks.instance(
                "transitions", transitions, Transitions, ", or None if they are unknown"
            )
            matching(problem, transitions)
        rate = checks.real("learning_rate", learning_rate, 0.0, above=True)
        gamma = 2.0 * rate * problem.horizon if exploration is None else exploration
        exploration = checks.real("exploration", gamma, LEAST_EXPLORATION)
        self._episodes = checks.episodes(episodes)
        self._delta = checks.real("delta", delta, 0.0, 1.0, above=True)
        self._scale = checks.real("scale", scale, 0.0, above=True)
        super().__init__(
            problem,
            transitions=transitions,
            learning_rate=rate,
            exploration=exploration,
            episodes=self._episodes,
            delta=self._delta,
            scale=self._scale,
        )
        self._transitions, self._start = transitions, problem.start_probabilities
        if transitions is None:
            counts = Counts(problem, recall=True, steps=problem.horizon - 1)
            self._set = ConfidenceSet(counts, self._log_term(), 1.0, variance=False)
        self._last: PolicyAndSet | None = None
        self._policy = problem.uniform_policy()
        self._rate, self._exploration, self._threshold = rate, exploration, math.inf

    def setting(self, paths: str) -> Setting:
        """The row of tuning for trajectories that arrive "late" or "at once"."""
        dynamics = "unknown" if self._transitions is None else "known"
        return DAPOSetting(dynamics=dynamics, paths=paths)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase: a uniform policy and new rates, but never new counts.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        self._rate = self._scale * parameters.learning_rate
        self._exploration = parameters.exploration or LEAST_EXPLORATION
        self._threshold = parameters.threshold
        self._total = np.zeros(self.problem.shape)
        self._policy = self.problem.uniform_policy()
        self._stale, self._last = False, None
        self._end_phase(carry_over)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, and the rates."""
        return {
            **super().diagnostics(),
            "learning_rate": self._rate,
            "exploration": self._exploration,
        }

    def _next_policy(self) -> tuple[Floats, PolicyAndSet]:
        """Line 8: the policy of the sum."""
        if self._stale:
            policy = np.empty(self.problem.shape)
            weights.softmax(self._total, frozen(np.array([self._rate])), policy)
            self._policy = frozen(policy)
            self._stale = False
        arrived, term = 0, 0.0
        if self._set is not None:
            arrived, term = self._set.counts.arrived, self._log_term()
        last, kept = self._last, self._versions.keep(self._policy)
        if (
            last is None
            or last.policy is not kept
            or (last.arrived, last.log_term) != (arrived, term)
        ):
            self._last = last = PolicyAndSet(kept, arrived, term)
        return self._policy, last

    def _prepare(self, paths: list[Trajectory], entries: list[Open[PolicyAndSet]]) -> None:
        """Count the episodes that are complete now."""
        if self._set is not None:
            for entry in filter(self._is_ready, entries):
                self._set.add(entry.path)
            self._set.retune(self._log_term())

    def _learn(self, entry: Open[PolicyAndSet]) -> None:
        """Lines 4 to 7 for an episode, unless it is too late."""
        played, path = entry.memory, entry.path
        if played is None or is_past(entry.number, self.begun - 1, self._threshold):
            return
        policy = whole(played.policy)
        chosen = None if self._set is None else self._set.as_of(played.arrived, played.log_term)
        if played.bounds is None:
            played.bounds = self._bounds(policy, chosen)
        upper, lower = played.bounds
        bonus = delay_adapted.learn(
            path.states,
            path.actions,
            entry.costs.values,
            frozen(policy),
            frozen(self._policy),
            frozen(upper),
            frozen(lower),
            self._exploration,
            self._gap,
            self._total,
        )
        self._subtract(bonus, policy, chosen, self._total)
        self._stale = True

    def _subtract(
        self, bonus: Floats, policy: Floats, chosen: ConfidenceSet | None, total: Floats
    ) -> None:
        """Line 7: subtract B from the total; the bonuses are given as negative costs (H, S, A)."""
        if self._transitions is not None:
            planning.evaluate(self._transitions.rows, frozen(bonus), policy, total)
        elif chosen is not None:
            H, S, _ = self.problem.shape
            optimism.confident(chosen.box, frozen(bonus), policy, total, np.zeros(S), H)

    def _bounds(self, policy: Floats, chosen: ConfidenceSet | None) -> tuple[Floats, Floats]:
        """The upper and the lower occupancy (H, S) of a policy."""
        if self._transitions is not None:
            reach = planning.state_occupancy(self._transitions.rows, policy, self._start)
            return reach, reach
        assert chosen is not None
        return optimism.occupancy_bounds(chosen.box, policy, self._start)

    def _log_term(self) -> float:
        """ln(10 H S A K / delta)."""
        return log_term(self.problem, self._episodes, self.begun, self._delta / 40.0)

    def _let_go(self) -> None:
        """Drop the trajectories that no open episode needs any more."""
        if self._set is not None:
            counts = self._set.counts
            kept = (e.memory.arrived for e in self._ledger.open.values() if e.memory is not None)
            counts.recall_from(min(kept, default=counts.arrived))
