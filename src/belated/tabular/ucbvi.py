"""Delayed UCBVI: optimistic value iteration on the observations so far.

Lancewicki, Rosenberg & Mansour (AAAI 2022), paragraph "Stochastic MDP with delayed feedback":
any optimistic algorithm, with explicit exploration, for costs from fixed distributions and bandit
feedback. The optimistic algorithm here is UCBVI with Hoeffding bonuses: Azar, Osband & Munos
(2017). For S = H = 1 it is UCB with explicit exploration.

    1  for every episode k:
    2      if anything has arrived since the last plan, for h = H, ..., 1 and all (s, a):
    3          c = max(mean cost - w / sqrt(n), 0), n observed costs
    4          Q_h = c - (H - h) w / sqrt(m) + p V_{h+1}, m observed transitions with frequencies p
    5          Q_h is clipped to [0, H - h + 1], and 0 in unvisited rows
    6          V_h = min over a of Q_h
    7      play greedily in Q, ties at random; uniformly in states to be explored

The factor w is radius_scale * sqrt(L / 2) for `Confidence`, with L = ln(2 H S A K / delta), and the
scale of `Bonus`. With radius_scale = 1 no Q is above the true optimal one, with probability
1 - delta. Known transitions have no second term. `Averaged.scale` multiplies the first. The papers
leave ties open, and their bounds hold for every rule.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open
from belated.core.tree import Learned, Rows
from belated.tabular.counts import FrequencyModel, Model
from belated.tabular.kernels import optimism, planning
from belated.tabular.parts.composition import check_parts
from belated.tabular.parts.costs import Averaged
from belated.tabular.parts.transitions import (
    CONFIDENCE,
    Bonus,
    Confidence,
    matching,
)
from belated.tabular.policies import greedy, one_hot
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Stochastic, rare_rows

AVERAGED = Averaged()


class UCBVISetting(Stochastic):
    """The tuning of Delayed UCBVI: its regret grows with the largest delay, not with D.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> bl.tuning.UCBVISetting().proved
        True
    """

    __slots__ = ()

    proved: ClassVar[bool] = True  # the paper's bound for optimistic algorithms applies

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        late = rare_rows(problem, self.explores) * self.threshold(problem, total_delay)
        return H * H * (S * math.sqrt(A * episodes) + late)


class DelayedUCBVI(Learner[bool]):
    """Optimistic planning for stochastic costs and delayed bandit feedback.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`, or the width of the bonus for unknown ones:
            `Confidence()` for Hoeffding's, `Bonus(scale)` for scale / sqrt(n).
        costs: `Averaged()`.
        explore: `FewVisits(...)` for explicit exploration, or None.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedUCBVI(world.problem, transitions=bl.parts.Bonus(0.3))
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    _model: Model
    _costs: Any
    _explore: Any
    _policy: Rows  # (H, S, A), the last plan
    _stale: bool  # whether anything has arrived since

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | Confidence | Bonus = CONFIDENCE,
        costs: Averaged = AVERAGED,
        explore: Any = None,
    ) -> None:
        checks.instance("problem", problem, Problem)
        checks.instance("costs", costs, Averaged)
        if not isinstance(transitions, Transitions | Confidence | Bonus):
            raise ValueError(
                "transitions must be Transitions, Confidence() or Bonus(), got "
                f"{checks.show(transitions)}"
            )
        check_parts(problem, {"transitions": transitions, "costs": costs, "explore": explore})
        if isinstance(transitions, Confidence) and transitions.sets != "newest":
            raise ValueError(
                f'transitions=Confidence(sets="{transitions.sets}") has no effect here: the agent '
                "plans with bonuses, on the newest counts"
            )
        super().__init__(problem, transitions=transitions, costs=costs, explore=explore)
        self._part = transitions
        self._model = (
            Model(problem, matching(problem, transitions))
            if isinstance(transitions, Transitions)
            else FrequencyModel(problem, 1.0, delta=getattr(transitions, "delta", 0.1))
        )
        self._cost_part, self._explore_part = costs, explore
        self._costs = costs.start(problem)
        self._explore = Learned() if explore is None else explore.start(problem, self._model)
        self._policy, self._stale = problem.uniform_policy(), True

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the share of rows visited, and the estimated cost."""
        known = self._ledger.newest_costs is not None
        costs = self._cost_part.means(self._costs) if known else None
        return {**super().diagnostics(), **self._model.diagnostics(self._ledger.policy, costs)}

    def _next_policy(self) -> tuple[Floats, bool]:
        if self._stale:
            self._policy = self._plan()
            self._stale = False
        part = self._explore_part
        played = (
            self._policy if part is None else part.mixed(self._policy, part.mask(self._explore))
        )
        return played, True

    def _prepare(self, paths: list[Trajectory], entries: list[Open[bool]]) -> None:
        """Count the paths."""
        self._model.learn(paths, self.begun)
        self._stale = self._stale or bool(paths or entries)

    def _learn(self, entry: Open[bool]) -> None:
        self._cost_part.learn(self._costs, entry.path, entry.costs.values)

    def _plan(self) -> Floats:
        H, S, A = self.problem.shape
        if isinstance(self._part, Transitions):
            width = self._model.cost_width(self.begun)
            costs = self._cost_part.lower_bounds(self._costs, width)
            actions, _ = planning.best(self._part.rows, costs, H)
            Q = np.zeros((H, S, A))
            planning.evaluate(self._part.rows, costs, one_hot(actions, A), Q)
        else:
            assert isinstance(self._model, FrequencyModel)
            part = self._part
            known = max(self.begun, self._model.arrived)
            width = part.scale if isinstance(part, Bonus) else part.hoeffding(self.problem, known)
            Q = optimism.plan(
                self._model.rows,
                self._model.counts.visits,
                width * self._model.deviation,
                self._cost_part.lower_bounds(self._costs, width),
                self._costs.visits,
                H,
            )
        return greedy(Q)
