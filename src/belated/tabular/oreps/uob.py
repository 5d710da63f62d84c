"""UOB-REPS: mirror descent on occupancy measures with upper occupancy bounds, for bandit feedback.

Jin, Jin, Luo, Sra & Yu (ICML 2020), "Learning adversarial Markov decision processes with bandit
feedback and unknown transition", Algorithms 2 and 3. The delayed form is a reconstruction of that
of Jin, Lancewicki, Luo, Mansour & Rosenberg (NeurIPS 2022).

    1  q^1 = uniform in every step; P^1 = all transition functions
    2  for every episode k:
    3      play the policy pi^k of q^k;  u^k(h, s, a) = its largest occupancy over P^k
    4      for every episode j whose feedback arrives now:
    5          l_h(s, a) += 1{(s, a) visited at h} cost_h / (max(u^j, u^k)_h(s, a) + gamma)
    6      count the visits N and the transitions of the paths that have arrived
    7      if some N has doubled since its epoch began (0 becomes 1): a new epoch begins,
           P^{k+1} = the set of the current counts; otherwise P^{k+1} = P^k
    8      q^{k+1} = argmin over q in Delta(P^{k+1}) of eta <q, l> + KL(q || q^k)

The set: |p' - p| <= 2 sqrt(p L / m) + 14 L / (3 m), p the observed frequency after N visits,
m = max(1, N - 1), L = ln(K X A / delta), X = 2 + (H - 1) S.

    paper              here
    q^k                the last `Projection`
    P_i                `Epoch`
    u                  `kernels.optimism.upper_occupancy`, on the path alone
    eta, gamma         learning_rate, exploration
    T, L, |X|          K, H, X

Without delay j = k, and this is the paper's algorithm. With delays line 5 is our reading: the
estimate is used when it arrives, and divides by the larger of the bound at the time of the episode
and the current bound.

Readings:
- The paper's states are layered, with one first and one last state. A visit of the last step can
  begin an epoch, although there is no transition to learn there.
- A pair that has not been visited has the whole simplex.
- Line 5 uses the set of the epoch that ends, line 8 that of the new one.
- A path counts once it has arrived, even if its costs have not.

Departures: counts are pooled over the steps before the last where the problem is homogeneous; the
first state may be random; where K is not given, L is valid for any number of episodes.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.episodes import Learner, Open
from belated.core.tree import Count, Entries, Learned
from belated.core.versions import Policy
from belated.tabular.counts import SMALLEST_DELTA, Counts, LogTerm, episodes_in_union_bound
from belated.tabular.kernels import optimism
from belated.tabular.kernels.counting import Box
from belated.tabular.oreps.newton import BoxBounds
from belated.tabular.oreps.projection import (
    Dynamics,
    Projection,
    free_at_the_end,
    initial_reference,
    project,
)
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import LEAST_EXPLORATION, Parameters, Setting

TOLERANCE = 1e-12
FINE = 1e-10
"""The accuracy of a projection; errors would accumulate over the episodes."""


class Epoch(Learned):
    """A confidence set P_i, from the counts when its epoch began.

    Attributes:
        number: i, from 1 on.
        log_term: L.
        counts: the transitions, except those of the last step.
        last: (S, A), visits of the last step.
        radius_scale: factor on the radius.
        problem: states, actions, horizon, start.
    """

    number: Count
    log_term: LogTerm
    counts: Counts
    last: Annotated[Ints, Entries(low=0)]

    def __init__(
        self,
        number: int,
        log_term: float,
        radius_scale: float,
        counts: Counts,
        last: Ints,
        problem: Problem,
    ) -> None:
        self.number, self.log_term = number, log_term
        self.counts, self.last = counts, last
        self.radius_scale, self.problem = radius_scale, problem

    @cached_property
    def bounds(self) -> BoxBounds:
        """The bounds of every row."""
        counts, visits = self.counts, self.counts.visits[..., None]
        p, m = counts.counts / np.maximum(visits, 1), np.maximum(visits - 1, 1)
        L, scale = self.log_term, self.radius_scale
        wide = scale * 14.0 * L / (3.0 * m)
        radius = scale * 2.0 * np.sqrt(p * L / m) + wide
        seen = (visits > 0) & (np.arange(counts.width) < counts.known[..., None])
        lower = np.where(seen, np.maximum(p - radius, 0.0), 0.0)
        upper = np.where(seen, np.minimum(p + radius, 1.0), 0.0)
        unseen = np.where(visits > 0, np.minimum(wide, 1.0), 1.0)[..., 0]
        return BoxBounds(counts.successors, counts.known, lower, upper, unseen)

    @cached_property
    def box(self) -> Box:
        """The bounds, in the form for backward passes."""
        successors, known, lower, upper, unseen = self.bounds
        rest = np.maximum(1.0 - lower.sum(axis=3), 0.0)
        return Box(successors, known, lower, upper - lower, unseen, rest)

    @cached_property
    def dynamics(self) -> Dynamics:
        """The bounds of every step, in the form for the projection."""
        H = self.problem.horizon
        return Dynamics(free_at_the_end(self.bounds, H), self.problem.start_probabilities, H)


DELTA = 0.1
"""The failure probability in the step size of `UOBSetting`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UOBSetting(Setting):
    """The tuning of UOB-REPS: Theorem 3 of its paper, eta = sqrt(H l / (X A K)) without delays.

    The weight of D is ours: it balances the bound of the delayed form that Lancewicki, Rosenberg &
    Sotnikov (ICML 2023) quote.

    Example:
        >>> bl.tuning.UOBSetting().proved
        False
    """

    proved: ClassVar[bool] = False  # the form for delays is a reconstruction, its bound quoted

    def weight(self, problem: Problem) -> float:
        """sqrt(X A) / H."""
        return math.sqrt(layered(problem) * problem.actions) / problem.horizon

    def rate(self, problem: Problem, N: float) -> float:
        """sqrt(l / (sqrt(X A) N))."""
        rows = layered(problem) * problem.actions
        return math.sqrt(math.log(problem.horizon * rows / DELTA) / (math.sqrt(rows) * N))

    def exploration(self, problem: Problem, N: float) -> float:
        """The same as the rate."""
        return self.rate(problem, N)

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        K, D = episodes, total_delay
        return H * H * S * math.sqrt(A * K) + math.pow(H * S * A, 0.25) * H * math.sqrt(D)


def uob_reps(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, delta: float = 0.1
) -> dict[str, float]:
    """UOB-REPS: eta = gamma = sqrt(l / (X A K / H + sqrt(X A) D)), l = ln(H X A / delta).

    X = 2 + (H - 1) S. Without delays this is the paper's; the weight of D is ours.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.uob_reps(problem, episodes=1000, total_delay=5000))
        ['exploration', 'learning_rate']
    """
    tuned = UOBSetting().at(problem, episodes, total_delay).learning_rate
    delta = checks.real("delta", delta, 0.0, 1.0, above=True)
    rows = problem.horizon * layered(problem) * problem.actions
    rate = tuned * math.sqrt(math.log(rows / delta) / math.log(rows / DELTA))
    return {"learning_rate": rate, "exploration": rate}


def layered(problem: Problem) -> int:
    """X = 2 + (H - 1) S: a first state, the states of every later step, and an end.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> bl.tuning.layered(problem)
        11
    """
    return 2 + (problem.horizon - 1) * problem.states


PolicyAndEpoch = tuple[Policy, Count]
"""What is remembered of an episode: its policy (H, S, A), and the number of its epoch."""


class UOBREPS(Learner[PolicyAndEpoch]):
    """Mirror descent with upper occupancy bounds.

    The module describes the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        learning_rate: eta. `tuning.uob_reps` suggests both rates, and `Doubling` replaces them.
        exploration: gamma; None: eta.
        episodes: K, in the radius; None: a radius for any number.
        delta: the delta of the radius; the sets fail with probability at most 4 delta (Lemma 2),
            the bound with at most 9 delta (Theorem 3).
        radius_scale: factor on the radius; 1 is the paper's.
        scale: factor on the rates of `Doubling`.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.UOBREPS(world.problem, **bl.tuning.uob_reps(world.problem, 20, 40))
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    _counts: Counts
    _last_visits: Annotated[Ints, Entries("S A", low=0)]  # of the last step
    _epochs: dict[int, Epoch]  # the current one, and those that open episodes need
    _played: PolicyAndEpoch | None  # what the newest episode played
    _measure: Projection | None  # None: the first one is still to be computed
    # the estimates that have not moved the measure
    _batch: Annotated[Floats, Entries("policy", changes=True)] | None
    _rate: Annotated[float, Entries(low=0.0)]
    _exploration: Annotated[float, Entries(low=LEAST_EXPLORATION)]
    _solves: Count
    _unconverged: Count

    def __init__(
        self,
        problem: Problem,
        *,
        learning_rate: float,
        exploration: float | None = None,
        episodes: int | None = None,
        delta: float = 0.1,
        radius_scale: float = 1.0,
        scale: float = 1.0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        rate = checks.real("learning_rate", learning_rate, 0.0, above=True)
        gamma = rate if exploration is None else exploration
        exploration = checks.real("exploration", gamma, LEAST_EXPLORATION)
        self._episodes = checks.episodes(episodes)
        self._delta = checks.real("delta", delta, 0.0, 1.0, above=True)
        self._radius_scale = checks.real("radius_scale", radius_scale, 0.0, 1e100, above=True)
        self._scale = checks.real("scale", scale, 0.0, above=True)
        super().__init__(
            problem,
            learning_rate=rate,
            exploration=exploration,
            episodes=self._episodes,
            delta=self._delta,
            radius_scale=self._radius_scale,
            scale=self._scale,
        )
        self._counts = Counts(problem, steps=problem.horizon - 1)
        self._rate, self._exploration = rate, exploration
        self._begin_epoch(1)

    @property
    def axes(self) -> dict[str, Any]:
        """The shape of a measure."""
        return {"measure": (*self.problem.shape, self.problem.states)}

    @property
    def _epoch(self) -> Epoch:
        return self._epochs[max(self._epochs)]

    def setting(self, paths: str) -> Setting:
        """The row of tuning for trajectories that arrive "late" or "at once"."""
        return UOBSetting(paths=paths)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase at the first measure, with new rates and the same counts.

        carry_over: whether feedback of open episodes will still move the measure.
        """
        self._rate = self._scale * parameters.learning_rate
        exploration = self._scale * (parameters.exploration or 0.0)
        self._exploration = max(exploration, LEAST_EXPLORATION)
        self._measure = self._batch = self._played = None
        self._end_phase(carry_over)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger and the solver, the epoch, and the rates."""
        return {
            **super().diagnostics(),
            "epoch": self._epoch.number,
            "solves": self._solves,
            "unconverged": self._unconverged,
            "gap": 0.0 if self._measure is None else self._measure.gap,
            "learning_rate": self._rate,
            "exploration": self._exploration,
        }

    def check_learned(self) -> None:
        """Check that every set that an episode needs is there."""
        for _, epoch in self._memories():
            if epoch not in self._epochs:
                raise ValueError(f"epochs must have the one of every episode, got {epoch}")

    def _memories(self) -> list[PolicyAndEpoch]:
        """What the open episodes and the newest one have played."""
        memories = [entry.memory for entry in self._ledger.open.values()] + [self._played]
        return [memory for memory in memories if memory is not None]

    def _next_policy(self) -> tuple[Floats, PolicyAndEpoch]:
        if self._measure is None:  # line 1, or in a later phase the nearest measure to it
            self._measure = self._project(initial_reference(self._epoch.dynamics))
        fresh = self._has_doubled()
        if fresh:
            self._begin_epoch(self._epoch.number + 1)
        if fresh or self._batch is not None:  # line 8
            cost = None if self._batch is None else self._rate * self._batch
            self._measure = self._project(self._measure.log_measure, cost, self._measure)
            self._batch = None
        policy, number, played = self._measure.policy, self._epoch.number, self._played
        if played is None or played[0] is not policy or played[1] != number:
            self._played = played = (policy, number)
        return policy, played

    def _upper(self, played: PolicyAndEpoch, states: Ints, actions: Ints) -> Floats:
        """Line 3 on a path: u (H,) of its states (H + 1,) and actions (H,)."""
        policy, epoch = played
        box, start = self._epochs[epoch].box, self.problem.start_probabilities
        reach = optimism.upper_occupancy(box, policy, start, states)
        bound: Floats = reach * policy[np.arange(len(actions)), states[:-1], actions]
        return bound

    def _prepare(self, paths: list[Trajectory], entries: list[Open[PolicyAndEpoch]]) -> None:
        """Line 6, which changes no set before the next epoch."""
        for path in paths:
            self._counts.add(path)
            self._last_visits[path.states[-2], path.actions[-1]] += 1

    def _learn(self, entry: Open[PolicyAndEpoch]) -> None:
        """Line 5 for an episode."""
        played, path, costs = entry.memory, entry.path, entry.costs
        assert played is not None
        bound = self._upper(played, path.states, path.actions)
        if self._played is not None and self._played is not played:
            bound = np.maximum(bound, self._upper(self._played, path.states, path.actions))
        if self._batch is None:
            self._batch = np.zeros(self.problem.shape)
        at = (np.arange(self.problem.horizon), path.states[:-1], path.actions)
        self._batch[at] += costs.values / (bound + self._exploration)

    def _has_doubled(self) -> bool:
        """Line 7: whether the visits of some pair have doubled in this epoch."""
        epoch = self._epoch
        pairs = ((self._counts.visits, epoch.counts.visits), (self._last_visits, epoch.last))
        return any(bool(np.any(now >= np.maximum(1, 2 * then))) for now, then in pairs)

    def _begin_epoch(self, number: int) -> None:
        """Begin an epoch, and drop those that no episode needs any more."""
        needed = {epoch for _, epoch in self._memories()}
        self._epochs = {k: epoch for k, epoch in self._epochs.items() if k in needed}
        counts, last = copy.deepcopy(self._counts), self._last_visits.copy()
        self._epochs[number] = Epoch(
            number, self._log_term(), self._radius_scale, counts, last, self.problem
        )

    def _log_term(self) -> float:
        """L = ln(K X A / delta)."""
        K = episodes_in_union_bound(self._episodes, self.begun)
        delta = max(self._delta, SMALLEST_DELTA)
        return math.log(K * layered(self.problem) * self.problem.actions / delta)

    def _project(
        self, reference: Floats, cost: Floats | None = None, last: Projection | None = None
    ) -> Projection:
        """The measure of the current set that is nearest to the reference, after costs."""
        solved = project(
            self._epoch.dynamics, reference, cost, warm=last, tolerance=TOLERANCE, fine=FINE
        )
        self._solves += 1
        self._unconverged += not solved.converged
        return solved
