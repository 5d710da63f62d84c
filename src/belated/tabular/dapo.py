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
    8      pi^{k+1} in proportion to pi^k exp(-eta * sum over j of (Q - B))

With unknown transitions q^j in lines 5 and 6 is the upper bound, upper and lower in line 6 are
those of (s, a), and line 7 takes the largest over P^j. With known ones upper = lower.

    paper                 here
    pi^k, pi^j            `_policy`, `Played.policy`             (H, S, A)
    sum of Q - B          `_total`                               (H, S, A)
    q^j, upper, lower     `Played.bounds`                        (H, S)
    P^j                   `ConfidenceSet.as_of`
    eta, gamma            learning_rate, exploration

Readings, where the text leaves a choice:
- The feedback of an episode, its path included, counts once it has arrived whole, also if the path
  came before the costs. P^j is made of what had arrived when episode j began.
- The transitions of the last step are not counted. Counts are pooled where the problem is
  homogeneous.
- r = 1 where both policies are 0 to the last digit.
- ties="together" is the printed update: everything that arrives at the end of episode k is
  compared with pi^k. ties="in turn" takes the episodes of a batch by number, and each is compared
  with the policy that the one before left behind. Lemma E.6 of the paper fails for the first (see
  docs/notes.md); for the second no whole proof is written down.

Departures: the sum of Q - B is kept and the policy is its softmax, which is the multiplicative
update without its underflow. Where K is not given, the radius is one for any number of episodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.tabular.counts import (
    ConfidenceSet,
    Counts,
    checked_log_term,
    log_term,
    paths_of_others,
)
from belated.tabular.kernels import delay_adapted, optimism, planning
from belated.tabular.kernels.weights import softmax
from belated.tabular.parts.transitions import NO_TOTAL, matching
from belated.tabular.parts.update import uniform
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

TIES = ("together", "in turn")
LEAST = 1e-100
"""Least exploration: no sum of estimates is infinite."""


@dataclass(slots=True, eq=False)
class Played:
    """What is remembered of an episode; episodes with the same policy and the same set share it.

    Attributes:
        policy: pi^j (H, S, A).
        set: how many trajectories had been counted when it began, and the log term then; its
            confidence set follows from both.
        bounds: upper and lower occupancy (H, S), once they have been needed.
    """

    policy: Floats
    set: tuple[int, float]
    bounds: tuple[Floats, Floats] | None = None


class DAPO(Ledgered):
    """Delay-adapted policy optimization for bandit feedback; see the module for the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`; None if they are unknown.
        learning_rate: eta. `tuning.dapo` suggests both rates, and `Doubling` replaces them.
        exploration: gamma.
        episodes: K, in the radius of unknown transitions; None: a radius for any number.
        delta: probability that the confidence set of unknown transitions may fail.
        ties: how feedback that arrives together is used: "together" or "in turn".
        scale: factor on the learning rates of `Doubling`.
    """

    information: Information = "bandit"
    uses_paths = True
    _gap = 2.0  # the factor of H (upper - lower) in the bonus

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        learning_rate: float,
        exploration: float,
        episodes: int | None = None,
        delta: float = 0.1,
        ties: str = "together",
        scale: float = 1.0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        self.problem = problem
        if transitions is not None:
            checks.instance(
                "transitions", transitions, Transitions, ", or None if they are unknown"
            )
            matching(problem, transitions)
        self._arguments: dict[str, Any] = {
            "transitions": transitions,
            "learning_rate": checks.real("learning_rate", learning_rate, 0.0, above=True),
            "exploration": checks.real("exploration", exploration, LEAST),
            "episodes": checks.episodes(episodes),
            "delta": checks.real("delta", delta, 0.0, 1.0, above=True),
            "ties": checks.choice("ties", ties, TIES),
            "scale": checks.real("scale", scale, 0.0, above=True),
        }
        self._transitions = transitions
        self._start = problem.start_probabilities
        self._set: ConfidenceSet | None = None
        if transitions is None:
            counts = Counts(problem, recall=True, steps=problem.horizon - 1)
            self._set = ConfidenceSet(counts, self._log_term(), 1.0, variance=False)
        self._ledger: Ledger[Played] = Ledger(problem, "bandit", uses_paths=True)
        self._threshold = math.inf  # of the phase: what is later does not move the policy
        self._last: Played | None = None
        self._restart(self._arguments["learning_rate"], self._arguments["exploration"])

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        if self._stale:
            self._update()
        arrived, term = 0, 0.0
        if self._set is not None:
            arrived, term = self._set.counts.arrived, self._log_term()
        last = self._last
        if last is None or last.policy is not self._policy or last.set != (arrived, term):
            self._last = last = Played(self._policy, (arrived, term))
        return self._ledger.hand_out(last, self._policy)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the episodes that are complete now, and move the policy by them."""
        _, entries = self._ledger.take(records)
        ready = [e for e in entries if e.path is not None and e.costs is not None]
        if self._set is not None and ready:
            for entry in ready:
                assert entry.path is not None
                self._set.add(entry.path)
            self._set.retune(self._log_term())
        for entry in ready:
            self._learn(entry)
            self._ledger.settle(entry)
        self._let_go()

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used, and its memory is free."""
        self._ledger.forget(episode)
        self._let_go()

    def count(self, paths: Iterable[Trajectory]) -> None:
        """Count trajectories of episodes that others played; their costs are not used."""
        counts = None if self._set is None else self._set.counts
        for path in paths_of_others(self.problem, counts, paths):
            assert self._set is not None
            self._set.add(path)
        self._let_go()

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        dynamics = "unknown" if self._transitions is None else "known"
        return Setting(information="bandit", dynamics=dynamics, paths=paths, dapo=True)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase: a uniform policy and new rates, but never new counts.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        rate = self._arguments["scale"] * parameters.learning_rate
        self._restart(rate, parameters.exploration or LEAST)
        self._threshold = parameters.threshold
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None
            self._let_go()

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, and the rates."""
        return {
            **self._ledger.diagnostics(),
            "learning_rate": self._rate,
            "exploration": self._exploration,
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"problem": self.problem, **self._arguments}

    def state(self) -> stored.State:
        """The arguments, the sum, the policy, the rates and the counts."""
        return {
            "configuration": self.configuration(),
            "counts": None if self._set is None else self._set.counts.state(),
            "ledger": self._ledger.state(_write),
            "total": self._total.copy(),
            "policy": self._policy,
            "stale": self._stale,
            "rate": self._rate,
            "exploration": self._exploration,
            "threshold": self._threshold,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("counts", "ledger", "total", "policy", "stale", "rate", "exploration", "threshold")
        read = stored.exact(state, "configuration", *names)
        agent = cls(**read["configuration"])
        agent._restart(
            checks.real("rate", read["rate"], 0.0, above=True),
            checks.real("exploration", read["exploration"], LEAST),
        )
        if agent._set is not None:
            agent._set.counts.restore(read["counts"])
        agent._ledger.restore(read["ledger"], agent._read)
        if agent._set is not None:
            agent._set.log_term = agent._log_term()
            agent._set.refresh(np.arange(agent._set.counts.visits.size))
        agent._total = stored.copied("total", read["total"], np.float64, agent.problem.shape)
        stored.finite("total", agent._total)
        agent._policy = stored.policy("policy", read["policy"], agent.problem.shape)
        agent._stale = checks.flag("stale", read["stale"])
        agent._threshold = checks.threshold("threshold", read["threshold"])
        return agent

    def __repr__(self) -> str:
        arguments = self.configuration()
        return call(self, arguments.pop("problem"), **arguments)

    def _restart(self, learning_rate: float, exploration: float) -> None:
        self._rate, self._exploration = learning_rate, exploration
        self._total: Floats = np.zeros(self.problem.shape)
        self._policy = uniform(self.problem)
        self._stale = False  # whether the total has changed since the policy was made
        self._last = None

    def _update(self) -> None:
        """Line 8: the policy of the sum."""
        policy = np.empty(self.problem.shape)
        softmax(self._total, frozen(np.array([self._rate])), policy)
        self._policy = frozen(policy)
        self._stale = False

    def _learn(self, entry: Open[Played]) -> None:
        """Lines 4 to 7 for an episode, unless it is too late or of an earlier phase."""
        played, path, costs = entry.memory, entry.path, entry.costs
        too_late = self.begun - 1 - entry.number > self._threshold
        if played is None or path is None or costs is None or too_late:
            return
        chosen = None if self._set is None else self._set.as_of(*played.set)
        if played.bounds is None:
            played.bounds = self._bounds(played.policy, chosen)
        upper, lower = played.bounds
        bonus = delay_adapted.learn(
            path.states,
            path.actions,
            costs.values,
            played.policy,
            self._policy,
            upper,
            lower,
            self._exploration,
            self._gap,
            self._total,
        )
        self._subtract(bonus, played.policy, chosen, self._total)
        self._stale = True
        if self._arguments["ties"] == "in turn":
            self._update()

    def _subtract(
        self, bonus: Floats, policy: Floats, chosen: ConfidenceSet | None, total: Floats
    ) -> None:
        """Line 7: subtract B from the total; the bonus comes as negative costs (H, S, A)."""
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
        _, S, A = self.problem.shape
        no_costs = frozen(np.zeros((1, S, A)))
        upper, lower = optimism.occupancy_bounds(
            chosen.box, no_costs, NO_TOTAL, policy, self._start
        )
        return upper, lower

    def _log_term(self) -> float:
        """ln(10 H S A K / delta)."""
        begun = 0 if self._set is None else self._ledger.begun
        delta, episodes = self._arguments["delta"], self._arguments["episodes"]
        return log_term(self.problem, episodes, begun, delta / 40.0)

    def _let_go(self) -> None:
        """Drop the trajectories that no open episode needs to subtract."""
        if self._set is not None:
            counts = self._set.counts
            kept = (e.memory.set[0] for e in self._ledger if e.memory is not None)
            counts.recall_from(min(kept, default=counts.arrived))

    def _read(self, memory: object) -> Played:
        read = stored.exact(memory, "policy", "arrived", "log_term")
        counts = None if self._set is None else self._set.counts
        earliest, newest = (0, 0) if counts is None else (counts.earliest, counts.arrived)
        policy = stored.policy("policy", read["policy"], self.problem.shape)
        counted = checks.integer("arrived", read["arrived"], earliest, newest)
        return Played(policy, (counted, checked_log_term(read["log_term"])))


def _write(played: Played) -> stored.State:
    arrived, log_term = played.set
    return {"policy": played.policy, "arrived": arrived, "log_term": log_term}
