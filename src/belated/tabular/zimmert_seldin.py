"""Zimmert and Seldin's learner for arms whose costs come late.

Zimmert & Seldin (AISTATS 2020), "An optimal algorithm for adversarial bandits with arbitrary
delays", Algorithms 1 and 2.

    1  for every round t = 1, 2, ...:
    2      D_t = D_{t-1} + number of rounds s < t that have not reported and are still counted
    3      1 / eta_t = sqrt(2 D_t / ln k) (simple) or sqrt(D_t / ln k) (advanced)
    4      advanced: a round s with t - s > 1 / eta_t is counted no more, from t + 1 on
    5      x_t = argmin over the simplex of <x, L> - 2 sqrt(t) sum sqrt(x_i)
                                            + (1 / eta_t) sum x_i ln x_i
    6      play an arm of x_t
    7      for every round s that reports now: L(arm of s) += cost / x_s(arm of s)

    paper        here
    k            problem.actions
    d_t, D_t     the episodes in `_counted`, `_total`
    L-hat^obs    `_losses`
    a_s^t        whether s is in `_counted`

Nothing needs to be known in advance. A round that reports after it was given up is still used.

Departures: an episode that is forgotten is counted no more. One arm is simply played. For practice,
`scale` divides both parts of the regulariser of line 5; 1 is the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered
from belated.core.records import Episode
from belated.tabular.kernels import hybrid
from belated.tabular.problem import Problem
from belated.tabular.records import Record

TUNINGS = ("advanced", "simple")
SCALES = (1e-6, 1e6)
SMALLEST = 1e-100
"""Floor of a probability that a cost is divided by, so that sums of estimates stay finite."""


class ZimmertSeldin(Ledgered):
    """The best known delayed bandit: for one state and one step.

    Args:
        problem: states = 1 and horizon = 1.
        tuning: "advanced" stops counting rounds that are very late; "simple" counts all of them.
        scale: factor on the learning rates: the regulariser is divided by it.
    """

    information: Information = "bandit"
    uses_paths = True

    def __init__(self, problem: Problem, tuning: str = "advanced", *, scale: float = 1.0) -> None:
        checks.instance("problem", problem, Problem)
        if problem.states != 1 or problem.horizon != 1:
            raise ValueError(
                "problem must have states = 1 and horizon = 1: ZimmertSeldin is for arms, got "
                f"states = {problem.states} and horizon = {problem.horizon}"
            )
        self.problem = problem
        self.tuning = checks.choice("tuning", tuning, TUNINGS)
        self.scale = checks.real("scale", scale, *SCALES)
        self._ledger: Ledger[Floats] = Ledger(problem, "bandit", uses_paths=True)
        self._losses: Floats = np.zeros(problem.actions)
        self._counted: dict[int, None] = {}  # oldest first
        self._total = 0
        self._given_up = 0

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and the weights of the arms, a policy (1, 1, A)."""
        entropy = self._count()
        root = math.sqrt(self.begun + 1.0)
        weights = frozen(hybrid.weights(self._losses, root / self.scale, entropy / self.scale))
        policy = weights.reshape(1, 1, -1)
        episode = self._ledger.hand_out(weights, policy)
        self._counted[episode.number] = None
        return episode

    def _count(self) -> float:
        """Lines 2 to 4 for the round that begins. Returns 1 / eta."""
        A, t = self.problem.actions, self.begun
        if A == 1:
            return 0.0
        self._total += len(self._counted)
        factor = 2.0 if self.tuning == "simple" else 1.0
        entropy = math.sqrt(factor * self._total / math.log(A))
        if self.tuning == "advanced":
            while self._counted and t - next(iter(self._counted)) > entropy:
                del self._counted[next(iter(self._counted))]
                self._given_up += 1
        return entropy

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Add the estimated costs of the episodes whose path and costs have both come."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.path is None or entry.costs is None or entry.memory is None:
                continue
            arm = entry.path.actions[0]
            self._losses[arm] += entry.costs.values[0] / max(entry.memory[arm], SMALLEST)
            self._counted.pop(entry.number, None)
            self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used, and it is counted no more."""
        entry = self._ledger.forget(episode)
        if entry is not None:
            self._counted.pop(entry.number, None)

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, episodes given up, and the sum of those that were missing."""
        return {
            **self._ledger.diagnostics(),
            "given_up": self._given_up,
            "outstanding": self._total,
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"problem": self.problem, "tuning": self.tuning, "scale": self.scale}

    def state(self) -> stored.State:
        """The arguments, the estimated costs and what is missing."""
        return {
            "configuration": self.configuration(),
            "ledger": self._ledger.state(lambda weights: weights),
            "losses": self._losses.copy(),
            "counted": list(self._counted),
            "total": self._total,
            "given_up": self._given_up,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("ledger", "losses", "counted", "total", "given_up")
        read = stored.exact(state, "configuration", *names)
        agent = cls(**stored.exact(read["configuration"], "problem", "tuning", "scale"))
        A = agent.problem.actions
        agent._ledger.restore(read["ledger"], lambda saved: _weights(saved, A))
        agent._losses = stored.copied("losses", read["losses"], np.float64, (A,))
        stored.finite("losses", agent._losses)
        agent._total = stored.count("total", read["total"], checks.MOST**2)
        agent._given_up = stored.count("given_up", read["given_up"])
        counted = [
            checks.integer("counted", k, 0, agent.begun - 1)
            for k in stored.items("counted", read["counted"])
        ]
        missing = {entry.number for entry in agent._ledger if not entry.settled}
        if counted != sorted(set(counted)) or not missing.issuperset(counted):
            raise ValueError("counted must be open episodes in their order, each once")
        agent._counted = dict.fromkeys(counted)
        return agent

    def __repr__(self) -> str:
        return call(self, self.problem, tuning=self.tuning, scale=self.scale)


def _weights(saved: object, actions: int) -> Floats:
    weights = stored.array("weights", saved, np.float64, (actions,))
    checks.distributions("weights", weights)
    return weights
