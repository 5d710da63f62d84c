"""Delayed OPPO: policy optimization with optimism, on whatever feedback has arrived.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, section "Delayed
OPPO" and Appendix A. Base algorithm: Cai et al. (2020), Efroni et al. (2020).

    paper             here
    pi^k              policy            (H, S, A)
    Q^j               added to _total   (H, S, A)
    eta, gamma        learning_rate, exploration
    c-hat^j           costs             (1 or H, S, A)
    n^k, P^k          dynamics.counts, dynamics
    u^j               reach             (H,) at the states of the path
    K_exp             episodes that met their mask

The loop is the paper's: remember the policy as played, evaluate that policy on what arrived, add
Q, play softmax(-eta * sum of Q). Parts chosen by keywords make its settings: where Q comes from
(`dynamics`), where costs come from (`estimates`), the step size (`rates`), and which states are
played uniformly (`masks`).

Departures:
- The sum of Q is kept and the policy is its softmax; for a constant step size that is the
  multiplicative update, without its underflow.
- Under full information the confidence set is the newest one, the batch that just arrived
  included. Under bandit feedback it is that of the start of the episode, as the proof needs.
- Without a learning rate, under full information, the anytime rule of `rates.Anytime`.
- `radius_scale` and `exploration_threshold` replace constants that are unusable at realistic K.
- optimism="bonus" is the variant of the paper's experiments: Q is clipped to [0, steps left], and
  0 where nothing was seen.
- costs="stochastic" (bandit feedback): observed mean costs, less a deviation of
  radius_scale * sqrt(L / (2 n)) or, with optimism="bonus", bonus_scale / sqrt(n).
- Explicit exploration under bandit feedback, which the paper's proof does not use: importance
  weights are those of the policy that was really played.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from belated import checks
from belated.agents import masks
from belated.agents.contract import Information
from belated.agents.dynamics import Confident, Known, WithBonus, matching
from belated.agents.estimates import EmpiricalMeans, importance_weighted
from belated.agents.ledger import Ledger, Open
from belated.agents.rates import Anytime, AnytimeBandit, Constant, Rates
from belated.arrays import Bools, Floats, frozen
from belated.feedback import Costs, Episode, Record, Trajectory
from belated.kernels.weights import softmax
from belated.model import log_term
from belated.problem import Problem
from belated.transitions import Transitions
from belated.tuning import Parameters
from belated.tuning import exploration_threshold as exploration_threshold_of


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What is remembered of an episode: its policy, its mask, and the age of the model."""

    policy: Floats
    mask: Bools | None
    arrived: int


class DelayedOPPO:
    """Policy optimization for delayed feedback; see the module for the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        information: "full" (whole cost functions come back) or "bandit" (only suffered costs).
        transitions: the true dynamics, if they are known.
        learning_rate: eta. None: the anytime rule, under full information or for a bandit
            (horizon 1 and one start state).
        rate_scale: factor on the step sizes of the anytime rule and of `Doubling`; 1 is the theory,
            which is small for long horizons.
        exploration: gamma, under bandit feedback with adversarial costs.
        costs: "adversarial", or "stochastic": drawn from fixed laws, so that under bandit
            feedback averages replace importance weights.
        homogeneous_costs: with stochastic costs: their means are the same at every step, so that
            observations are pooled.
        optimism: how unknown transitions are treated: "confidence", the least Q over a confidence
            set, or "bonus", observed frequencies and costs reduced by a bonus.
        episodes: K, in the confidence radius. None: an anytime radius.
        delta: probability that the confidence set may fail.
        radius_scale: factor on the confidence radius; 1 is the paper's.
        bonus_scale: the bonus is bonus_scale / sqrt(visits).
        explicit_exploration: play uniformly where too few visits have been observed.
        max_delay: the largest delay, from which the threshold of visits follows.
        exploration_threshold: the threshold itself, instead of one that follows max_delay.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        information: Information = "full",
        transitions: Transitions | None = None,
        learning_rate: float | None = None,
        rate_scale: float = 1.0,
        exploration: float | None = None,
        costs: str = "adversarial",
        homogeneous_costs: bool = False,
        optimism: str = "confidence",
        episodes: int | None = None,
        delta: float = 0.1,
        radius_scale: float = 1.0,
        bonus_scale: float = 1.0,
        explicit_exploration: bool = False,
        max_delay: float | None = None,
        exploration_threshold: float | None = None,
    ) -> None:
        checks.instance("problem", problem, Problem)
        checks.choice("information", information, ("full", "bandit"))
        checks.choice("costs", costs, ("adversarial", "stochastic"))
        checks.choice("optimism", optimism, ("confidence", "bonus"))
        checks.flag("homogeneous_costs", homogeneous_costs)
        delta = checks.real("delta", delta, 0.0, 1.0, above=True)
        radius_scale = checks.real("radius_scale", radius_scale, 0.0)
        bonus_scale = checks.real("bonus_scale", bonus_scale, 0.0)
        if episodes is not None:
            episodes = checks.integer("episodes", episodes, 1)
        averages = information == "bandit" and costs == "stochastic"
        weighs = information == "bandit" and not averages
        if optimism == "bonus" and weighs and transitions is None:
            raise ValueError(
                'optimism="bonus" must go with information="full" or costs="stochastic"; '
                'adversarial costs under bandit feedback need optimism="confidence"'
            )
        self.problem = problem
        self.information: Information = information
        self.parameters: dict[str, float | str | bool | None] = {
            "information": information,
            "transitions": "unknown" if transitions is None else "known",
            "learning_rate": learning_rate,
            "rate_scale": rate_scale,
            "exploration": exploration,
            "costs": costs,
            "homogeneous_costs": homogeneous_costs,
            "optimism": optimism,
            "episodes": episodes,
            "delta": delta,
            "radius_scale": radius_scale,
            "bonus_scale": bonus_scale,
            "explicit_exploration": explicit_exploration,
            "max_delay": max_delay,
            "exploration_threshold": exploration_threshold,
        }
        self._exploration = _exploration(problem, exploration, learning_rate, weighs)
        self._rate_scale = checks.real("rate_scale", rate_scale, 0.0, above=True)
        self._rates: Rates
        if learning_rate is not None:
            self._rates = Constant(checks.real("learning_rate", learning_rate, 0.0))
        elif weighs:
            self._rates = AnytimeBandit(problem, self._rate_scale)
        else:
            self._rates = Anytime(problem, self._rate_scale)

        self._dynamics: Known | Confident | WithBonus
        if transitions is not None:
            self._dynamics = Known(problem, matching(problem, transitions))
        elif optimism == "bonus":
            self._dynamics = WithBonus(problem, bonus_scale=bonus_scale)
        else:
            self._dynamics = Confident(
                problem, episodes=episodes, delta=delta, radius_scale=radius_scale, recall=weighs
            )
        self._means: EmpiricalMeans | None = None
        if averages:
            self._means = EmpiricalMeans(problem, homogeneous=homogeneous_costs)
        self._deviation = Deviation(problem, optimism, episodes, delta, radius_scale, bonus_scale)
        counts = self._dynamics.counts
        self._few_visits = masks.few_visits(
            counts,
            problem,
            wanted=explicit_exploration,
            max_delay=max_delay,
            given=exploration_threshold,
            delta=delta,
        )
        self.uses_paths = counts is not None or information == "bandit"
        self._ledger: Ledger[Played] = Ledger(problem, information, uses_paths=self.uses_paths)
        self._waits_for_paths = information == "bandit" or self._few_visits is not None
        self._explored = 0
        self._total = np.zeros(problem.shape)
        self._policy = frozen(np.full(problem.shape, 1.0 / problem.actions))
        self._played_rates = frozen(np.zeros(1))
        self._stale = False  # whether the total has changed since the policy was made
        self._moved = False  # whether it ever has
        self._weighs = weighs
        self._delta = delta

    def begin_episode(self) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        rates = self._rates.rates(self._ledger.unsettled)
        if self._stale or (self._moved and rates is not self._played_rates):
            policy = np.empty(self.problem.shape)
            softmax(self._total, rates, policy)
            self._policy = frozen(policy)
            self._stale = False
        self._played_rates = rates
        mask = None if self._few_visits is None else self._few_visits.mask()
        counts = self._dynamics.counts
        arrived = 0 if counts is None else counts.arrived
        number = self._ledger.begin(Played(self._policy, mask, arrived))
        return Episode(number, masks.explored(self._policy, mask))

    def observe(self, records: Iterable[Record]) -> None:
        """Take a batch of records: count the paths, then update the policy by the costs."""
        paths, entries = self._ledger.take(records)
        if paths:
            self._dynamics.learn(paths, self._ledger.begun)
        ready = [
            (entry, entry.path, entry.costs)
            for entry in entries
            if entry.costs is not None and not (self._waits_for_paths and entry.path is None)
        ]
        if self._means is not None:
            for _, path, costs in ready:
                self._means.learn(_present(path), costs.values)
        for entry, path, costs in ready:
            self._update(entry, path, costs)
            self._ledger.settle(entry)
        self._let_go()

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used, and its memory is free."""
        self._ledger.forget(episode)
        self._let_go()

    def setting(self, trajectory: str) -> str:
        """The row of `tuning.SETTINGS` that applies when paths come "delayed" or "immediate"."""
        if self._means is not None:
            return "stochastic"
        if self._weighs and is_bandit(self.problem):
            return "arms"
        if self._dynamics.counts is None:
            return f"{self.information}, known"
        when = "at once" if trajectory == "immediate" else "delayed"
        return f"{self.information}, unknown, paths {when}"

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase: a uniform policy and new parameters, but never new counts.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        self._rates = Constant(self._rate_scale * parameters.learning_rate)
        self._exploration = parameters.exploration or 0.0
        few = self._few_visits
        if few is not None and few.of_delay and math.isfinite(parameters.max_delay):
            few.limit = exploration_threshold_of(self.problem, parameters.max_delay, self._delta)
        self._total[:] = 0.0
        self._policy = frozen(np.full(self.problem.shape, 1.0 / self.problem.actions))
        self._stale = self._moved = False
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None
            self._let_go()

    def diagnostics(self) -> Mapping[str, float]:
        """Episodes begun and open, those kept out of the update, and the step size played."""
        return {
            "begun": self._ledger.begun,
            "open": len(self._ledger),
            "unused": self._ledger.unsettled,
            "explored": self._explored,
            "learning_rate": float(self._played_rates[0]),
        }

    def _update(self, entry: Open[Played], path: Trajectory | None, costs: Costs) -> None:
        """Add the Q of an episode, unless it met its mask."""
        played = entry.memory
        if played is None:
            return
        if path is not None and masks.met(played.mask, path):
            self._explored += 1
            return
        if self.information == "full":
            self._dynamics.add_q(costs.values, played.policy, self._total)
        elif self._means is not None:
            scale = self._deviation.at(self._ledger.begun)
            self._dynamics.add_q(self._means.optimistic(scale), played.policy, self._total)
        else:
            self._weigh(played, _present(path), costs.values)
        self._moved = self._stale = True

    def _weigh(self, played: Played, path: Trajectory, suffered: Floats) -> None:
        assert not isinstance(self._dynamics, WithBonus)
        dynamics = self._dynamics.as_of(played.arrived)
        really = played.policy
        if played.mask is not None:
            really = frozen(masks.explored(played.policy, played.mask))
        reach = dynamics.reach(really, path.states)
        costs = importance_weighted(suffered, path, really, reach, self._exploration)
        dynamics.add_q(costs, played.policy, self._total)

    def _let_go(self) -> None:
        """Drop the trajectories that no open episode needs subtracted."""
        counts = self._dynamics.counts
        if counts is not None and self._weighs:
            oldest = next((e.memory.arrived for e in self._ledger if e.memory), counts.arrived)
            counts.recall_from(oldest)


def _present(path: Trajectory | None) -> Trajectory:
    assert path is not None
    return path


def is_bandit(problem: Problem) -> bool:
    """One step from one state."""
    return problem.horizon == 1 and not isinstance(problem.start, tuple)


def _exploration(
    problem: Problem, exploration: float | None, learning_rate: float | None, weighs: bool
) -> float:
    if not weighs:
        if exploration is not None:
            raise ValueError(
                "exploration must be None unless feedback is bandit and costs are adversarial, "
                f"got {checks.show(exploration)}"
            )
        return 0.0
    if not is_bandit(problem) and (exploration is None or learning_rate is None):
        missing = "exploration" if exploration is None else "learning_rate"
        raise ValueError(
            f"{missing} must be given under bandit feedback with horizon {problem.horizon} (no "
            "anytime rule is proved there); belated.tuning.oppo_bandit(problem, episodes, "
            "total_delay) gives learning_rate and exploration, got None"
        )
    return 0.0 if exploration is None else checks.real("exploration", exploration, 0.0)


@dataclass(frozen=True, slots=True)
class Deviation:
    """Factor of 1 / sqrt(n) that mean costs are lowered by."""

    problem: Problem
    optimism: str
    episodes: int | None
    delta: float
    radius_scale: float
    bonus_scale: float

    def at(self, begun: int) -> float:
        """The factor when so many episodes have begun."""
        if self.optimism == "bonus":
            return self.bonus_scale
        term = log_term(self.problem, self.episodes, begun, self.delta)
        return self.radius_scale * math.sqrt(term / 2.0)
