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
    u                  what the ledger remembers        (H, S, A)
    eta                learning_rate
    gamma              learning_rate / barrier

The sums of line 3 are over (h, s, a, s'). `barrier.lead` solves eta times the line, and `barrier`
is the weight of the logarithms there.

Reading: the paper lets p vary by 1 / (T H S A) and keeps w above 1 / (T^3 H^2 S^4 A^2), only to
give sense to ln w where p is 0. Here p is as it is, and the sums are over the (h, s, a, s') that a
policy can reach: there the line has sense without either. Then w(h, s, a, s') = w(h, s, a) p(s'),
so it is a problem on (h, s, a), with the entropy of p and the number of successors as weights, and
u is the occupancy of the policy that was played, so that estimates are unbiased. The proof of
Theorem 7 goes through, with two of its error terms equal to 0; see docs/algorithms/ftrl.md. With
`impossible` all S next states count as successors: this is the limit of the printed line as T
grows, also where p has zeros.

Departures: that reading; u is computed from the policy, so that it is exact whatever the solver
leaves. The paper's constants are in `tuning.ftrl`, beside rates for practice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.tabular.kernels import planning
from belated.tabular.oreps import barrier as kernels
from belated.tabular.oreps.projection import KnownDynamics, merged
from belated.tabular.parts.transitions import matching
from belated.tabular.parts.update import uniform
from belated.tabular.problem import Problem
from belated.tabular.records import Record
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

LEAST_BARRIER = 1e-6
"""A weaker barrier would let w become so small that the dual has no Newton steps."""
MOST_BARRIER = 1e100
SMALLEST = 1e-100
"""The least occupancy that an estimate divides by: no sum of estimates is infinite."""
STEPS = 200
"""Newton steps of a solve, at most."""


class DelayedFTRL(Ledgered):
    """Follow the regularised leader over occupancy measures; see the module for the algorithm.

    Args:
        problem: states, actions, horizon, start.
        transitions: the true `Transitions`.
        learning_rate: eta. `tuning.ftrl` suggests both numbers, and `Doubling` replaces this one.
        barrier: eta / gamma, the weight of the log barrier against the entropy;
            `Doubling(largest=True)` replaces it too.
        scale: factor on the step sizes of `Doubling`.
        impossible: whether transitions of probability 0 have a barrier too, as in the paper's set.
    """

    information: Information = "bandit"
    uses_paths = True

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions,
        learning_rate: float,
        barrier: float,
        scale: float = 1.0,
        impossible: bool = False,
    ) -> None:
        checks.instance("problem", problem, Problem)
        checks.instance("transitions", transitions, Transitions, ": DelayedFTRL must know them")
        self.problem = problem
        self._arguments: dict[str, Any] = {
            "transitions": matching(problem, transitions),
            "learning_rate": checks.real("learning_rate", learning_rate, 0.0, above=True),
            "barrier": checks.real("barrier", barrier, LEAST_BARRIER, MOST_BARRIER),
            "scale": checks.real("scale", scale, 0.0, above=True),
            "impossible": checks.flag("impossible", impossible),
        }
        H, S, A = problem.shape
        self._start = problem.start_probabilities
        dynamics = KnownDynamics(
            transitions.successors, transitions.probabilities, self._start, problem.horizon
        )
        p = merged(transitions.successors, transitions.probabilities)
        entropy = -np.sum(p * np.log(np.where(p > 0.0, p, 1.0)), axis=3)
        self._entropy: Floats = np.broadcast_to(entropy, (H, S, A))
        ways = np.sum(p > 0.0, axis=3, dtype=np.float64)
        self._ways: Floats = np.broadcast_to(S if impossible else ways, (H, S, A))
        self._rows = kernels.Rows(
            transitions.successors, transitions.probabilities, frozen(dynamics.reach), self._start
        )
        self._transitions = transitions
        self._ledger: Ledger[Floats] = Ledger(problem, "bandit", uses_paths=True)
        self._solves = self._unconverged = 0
        self._restart(self._arguments["learning_rate"], self._arguments["barrier"])

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        if self._stale:
            self._lead()
        return self._ledger.hand_out(self._measure, self._policy)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Add the estimated costs of the episodes whose path and costs have both come."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.path is not None and entry.costs is not None:
                self._learn(entry)
                self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self._ledger.forget(episode)

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        return Setting(information="bandit", dynamics="known", paths=paths, ftrl=True)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase without costs, with a new step size, and a new barrier if there is one.

        carry_over: whether feedback of open episodes will still be used.
        """
        barrier = self._arguments["barrier"] if parameters.barrier is None else parameters.barrier
        rate = self._arguments["scale"] * parameters.learning_rate
        self._restart(rate, max(barrier, LEAST_BARRIER))
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, how the solves went, the step size and the barrier."""
        return {
            **self._ledger.diagnostics(),
            "solves": self._solves,
            "unconverged": self._unconverged,
            "learning_rate": self._rate,
            "barrier": self._barrier,
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"problem": self.problem, **self._arguments}

    def state(self) -> stored.State:
        """The arguments, the estimated costs, and the last measure with its multipliers."""
        return {
            "configuration": self.configuration(),
            "ledger": self._ledger.state(lambda measure: measure),
            "total": self._total.copy(),
            "dual": None if self._dual is None else self._dual.copy(),
            "policy": self._policy,
            "stale": self._stale,
            "rate": self._rate,
            "barrier": self._barrier,
            "solves": self._solves,
            "unconverged": self._unconverged,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("ledger", "total", "dual", "policy", "stale", "rate", "barrier")
        read = stored.exact(state, "configuration", *names, "solves", "unconverged")
        given = ("problem", "transitions", "learning_rate", "barrier", "scale", "impossible")
        agent = cls(**stored.exact(read["configuration"], *given))
        H, S, _ = agent.problem.shape
        agent._restart(
            checks.real("rate", read["rate"], 0.0, above=True),
            checks.real("barrier", read["barrier"], LEAST_BARRIER, MOST_BARRIER),
        )
        agent._ledger.restore(read["ledger"], agent._read)
        agent._total = stored.copied("total", read["total"], np.float64, agent.problem.shape)
        stored.finite("total", agent._total)
        if read["dual"] is not None:
            agent._dual = stored.copied("dual", read["dual"], np.float64, (H + 1, S))
            stored.finite("dual", agent._dual)
        agent._play(stored.policy("policy", read["policy"], agent.problem.shape))
        agent._stale = checks.flag("stale", read["stale"])
        agent._solves = checks.integer("solves", read["solves"], 0)
        agent._unconverged = checks.integer("unconverged", read["unconverged"], 0)
        return agent

    def __repr__(self) -> str:
        return call(self, self.problem, **self._arguments)

    def _restart(self, learning_rate: float, barrier: float) -> None:
        self._rate, self._barrier = learning_rate, barrier
        self._barriers = frozen(barrier * self._ways)  # of the rows, summed over next states
        self._total: Floats = np.zeros(self.problem.shape)
        self._dual: Floats | None = None
        self._play(uniform(self.problem))
        self._stale = True  # whether line 3 is to be solved

    def _play(self, policy: Floats) -> None:
        """Line 4."""
        self._policy = policy
        reach = planning.state_occupancy(self._transitions.rows, policy, self._start)
        self._measure = frozen(reach[:, :, None] * policy)

    def _learn(self, entry: Open[Floats]) -> None:
        """Line 6 for an episode, unless it belongs to an earlier phase."""
        occupancy, path, costs = entry.memory, entry.path, entry.costs
        if occupancy is None or path is None or costs is None:
            return
        at = (np.arange(self.problem.horizon), path.states[:-1], path.actions)
        self._total[at] += costs.values / np.maximum(occupancy[at], SMALLEST)
        self._stale = True

    def _lead(self) -> None:
        """Line 3, from the multipliers of the last solve, or from none."""
        H, S, A = self.problem.shape
        weights = frozen(self._entropy - self._rate * self._total)
        leader = kernels.Leader(np.zeros((H + 1, S)), np.zeros((H, S, A)), np.zeros((H, S)))
        left = np.inf
        for V in (self._dual, 0.0):
            if V is not None and left > kernels.CLOSE:
                leader.V[:] = V
                *_, left = kernels.lead(self._rows, weights, self._barriers, leader, STEPS)
        self._solves += 1
        self._unconverged += left > kernels.CLOSE
        self._dual = leader.V
        mass = leader.w.sum(axis=2, keepdims=True)
        policy = np.divide(leader.w, mass, out=np.full((H, S, A), 1.0 / A), where=mass > 0.0)
        self._play(frozen(policy / policy.sum(axis=2, keepdims=True)))
        self._stale = False

    def _read(self, memory: object) -> Floats:
        measure = stored.array("measure", memory, np.float64, self.problem.shape)
        if not np.all((measure >= 0.0) & (measure <= 1.0 + 1e-9)):
            raise ValueError("measure must be between 0 and 1, got an entry that is not")
        return measure
