"""Delayed UCBVI: optimistic value iteration on whatever has been observed.

Lancewicki, Rosenberg & Mansour (AAAI 2022), paragraph "Stochastic MDP with delayed feedback":
any optimistic algorithm, with explicit exploration, for costs drawn from fixed laws under bandit
feedback. The optimistic algorithm here is UCBVI with Hoeffding bonuses: Azar, Osband & Munos
(2017). For S = H = 1 it is UCB with explicit exploration.

    here
    means       mean of the observed costs of a row, n of them
    b^c         bonus_scale * sqrt(L / (2 n))                        of the costs
    b^p         bonus_scale * (steps after h) * sqrt(L / (2 m))      of m observed transitions
    Q_h         means - b^c - b^p + p V_{h+1}, clipped to [0, steps left], 0 where nothing was seen
    policy      greedy in Q, uniform in states with at most 2 d_max ln(H S A / delta) visits

The mean less b^c is clipped to 0 on its own first. L is the log term of the confidence radius,
ln(H S A K / (4 delta)). Planning happens when an episode begins and something has come since the
last time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from belated import checks
from belated.agents import masks
from belated.agents.contract import Information
from belated.agents.estimates import EmpiricalMeans
from belated.agents.ledger import Ledger
from belated.arrays import frozen
from belated.feedback import Episode, Record
from belated.kernels import optimism
from belated.model import Counts, EmpiricalModel, log_term
from belated.problem import Problem


class DelayedUCBVI:
    """Optimistic planning for stochastic costs and delayed bandit feedback.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        homogeneous_costs: the mean costs are the same at every step, so observations are pooled.
        episodes: K, in the bonus. None: an anytime bonus.
        delta: probability that the bonus may be too small.
        bonus_scale: factor on the bonus.
        explicit_exploration: play uniformly where too few visits have been observed.
        max_delay: the largest delay, from which the threshold of visits follows.
        exploration_threshold: the threshold itself, instead of max_delay.
    """

    information: Information = "bandit"
    uses_paths = True

    def __init__(
        self,
        problem: Problem,
        *,
        homogeneous_costs: bool = False,
        episodes: int | None = None,
        delta: float = 0.1,
        bonus_scale: float = 1.0,
        explicit_exploration: bool = False,
        max_delay: float | None = None,
        exploration_threshold: float | None = None,
    ) -> None:
        checks.instance("problem", problem, Problem)
        self.problem = problem
        self._episodes = None if episodes is None else checks.integer("episodes", episodes, 1)
        self._delta = checks.real("delta", delta, 0.0, 1.0, above=True)
        self._scale = checks.real("bonus_scale", bonus_scale, 0.0)
        homogeneous_costs = checks.flag("homogeneous_costs", homogeneous_costs)
        self.parameters: dict[str, float | bool | None] = {
            "homogeneous_costs": homogeneous_costs,
            "episodes": episodes,
            "delta": delta,
            "bonus_scale": bonus_scale,
            "explicit_exploration": explicit_exploration,
            "max_delay": max_delay,
            "exploration_threshold": exploration_threshold,
        }
        self._model = EmpiricalModel(Counts(problem))
        self._means = EmpiricalMeans(problem, homogeneous=homogeneous_costs)
        self._few_visits = masks.few_visits(
            self._model.counts,
            problem,
            wanted=explicit_exploration,
            max_delay=max_delay,
            given=exploration_threshold,
            delta=self._delta,
        )
        self._ledger: Ledger[bool] = Ledger(problem, "bandit", uses_paths=True)
        self._policy = self._planned()
        self._stale = False

    def begin_episode(self) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        if self._stale:
            self._policy = self._planned()
            self._stale = False
        mask = None if self._few_visits is None else self._few_visits.mask()
        return Episode(self._ledger.begin(True), masks.explored(self._policy, mask))

    def observe(self, records: Iterable[Record]) -> None:
        """Count the paths, and average the costs whose path is known."""
        paths, entries = self._ledger.take(records)
        for path in paths:
            self._model.add(path)
        for entry in entries:
            if entry.path is not None and entry.costs is not None:
                self._means.learn(entry.path, entry.costs.values)
                self._ledger.settle(entry)
        self._stale = self._stale or bool(paths) or bool(entries)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self._ledger.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Episodes begun, open and not used."""
        return {
            "begun": self._ledger.begun,
            "open": len(self._ledger),
            "unused": self._ledger.unsettled,
        }

    def _planned(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        term = log_term(self.problem, self._episodes, self._ledger.begun, self._delta)
        width = self._scale * math.sqrt(term / 2.0)
        model, means = self._model, self._means
        actions, _ = optimism.plan(
            model.counts.successors,
            model.probabilities,
            model.counts.visits,
            width * model.deviation,
            means.optimistic(width),
            means.visits,
            self.problem.horizon,
        )
        return frozen(np.eye(self.problem.actions)[actions])
