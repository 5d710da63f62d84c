"""Planning: the best policy for the predicted costs.

    1  when an episode begins and something has arrived since the last plan:
    2      c = predicted costs - bonus / sqrt(n), n observations
    3      play the best policy for c under the observed frequencies (or the true transitions)

Under bandit feedback the prediction is that of the cost part. Under full information it is an
average of the costs that came, and n counts the transitions, whose last step leads nowhere and has
no bonus. Planning alone is the quickest learner where nothing changes and has no guarantee where
something does: it is meant as a member of a `Blend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.tabular.parts.costs import CostsPart
from belated.tabular.parts.update import Arrival, Outlook, uniform
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters


@dataclass(frozen=True, slots=True)
class Planned:
    """The best policy for the predicted costs, less bonus / sqrt(n).

    Attributes:
        bonus: how much an uncertain cost is lowered.
        keep: what a new observation leaves of the weight of the older ones, 1 for a plain mean.
            None: what the cost part predicts best with; under full information, a plain mean.
    """

    slot: ClassVar[str] = "update"

    bonus: float = 0.3
    keep: float | None = None

    def __post_init__(self) -> None:
        checks.fix(self, "bonus", checks.real("bonus", self.bonus, 0.0))
        if self.keep is not None:
            checks.fix(self, "keep", checks.real("keep", self.keep, 0.0, 1.0))

    def start(self, problem: Problem, costs: CostsPart) -> Planning:
        """A fresh rule."""
        return Planning(problem, self, revealed=costs.information == "full")


class Planning:
    """The average of revealed costs, and the last plan."""

    def __init__(self, problem: Problem, part: Planned, *, revealed: bool) -> None:
        self._problem = problem
        self._part = part
        self._revealed = revealed
        self._mean: Floats = np.zeros((1, problem.states, problem.actions))
        self._weight = 0.0
        self._policy = uniform(problem)
        self._stale = False

    def policy(self, outlook: Outlook) -> Floats:
        """The best policy for what is predicted now."""
        if self._stale:
            self._policy = frozen(outlook.model.best(self._lowered(outlook)))
            self._stale = False
        return self._policy

    def learn(self, arrived: Arrival) -> None:
        """Average the costs if they are revealed; else the cost part has learned already."""
        if self._revealed:
            if len(arrived.costs) > len(self._mean):
                self._mean = np.repeat(self._mean, len(arrived.costs), axis=0)
            keep = 1.0 if self._part.keep is None else self._part.keep
            self._weight = self._weight * keep + 1.0
            self._mean += (arrived.costs - self._mean) / self._weight
        self._stale = True

    def restart(self, parameters: Parameters) -> None:
        """Observations are kept."""

    retune = restart

    def diagnostics(self) -> Mapping[str, float]:
        """Nothing to plot."""
        return {}

    def state(self) -> stored.State:
        """The average and the plan."""
        return {
            "mean": self._mean.copy(),
            "weight": self._weight,
            "policy": self._policy,
            "stale": self._stale,
        }

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        read = stored.exact(saved, "mean", "weight", "policy", "stale")
        H, S, A = self._problem.shape
        self._mean = stored.copied("mean", read["mean"], np.float64, (None, S, A))
        if len(self._mean) not in (1, H):
            raise ValueError(f"mean must have 1 or {H} steps, got {len(self._mean)}")
        checks.in_unit_interval("mean", self._mean)
        self._weight = checks.real("weight", read["weight"], 0.0, checks.MOST)
        self._policy = stored.policy("policy", read["policy"], (H, S, A))
        self._stale = checks.flag("stale", read["stale"])

    def _lowered(self, outlook: Outlook) -> Floats:
        counts = outlook.model.counts
        H = self._problem.horizon
        if self._revealed:
            if counts is None:
                return frozen(self._mean)
            costs = np.broadcast_to(self._mean, self._problem.shape).copy()
            n = np.maximum(counts.visits, 1)
            costs[: H - 1] -= (self._part.bonus / np.sqrt(n))[: H - 1]
            return frozen(costs)
        seen = outlook.costs.weight() if counts is None else counts.visits  # type: ignore[attr-defined]
        predicted: Floats = outlook.costs.prediction(self._part.keep)  # type: ignore[attr-defined]
        return frozen(predicted - self._part.bonus / np.sqrt(np.maximum(seen, 1.0)))
