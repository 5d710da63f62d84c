"""Planning: the best policy for the predicted costs.

    1  when an episode begins and something has arrived since the last plan:
    2      c = predicted costs - bonus / sqrt(n), n observations
    3      play the best policy for c under the observed frequencies (or the true transitions)

Under bandit feedback the prediction is that of the cost part. Under full information it is an
average of the costs that have arrived, and n counts the transitions; the last step has no next
state and thus no bonus. Planning alone learns fastest where costs do not change and has no
guarantee where they do: it is meant as a member of a `Blend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.stored import Array, Distributions, Flag, Learned, Real
from belated.tabular.parts.costs import CostsPart
from belated.tabular.parts.update import Arrival, Outlook
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters


@dataclass(frozen=True, slots=True)
class Planned:
    """The best policy for the predicted costs minus bonus / sqrt(n).

    Attributes:
        bonus: the factor of the bonus by which uncertain costs are lowered.
        keep: the factor by which a new observation discounts the older ones, 1 for a plain mean.
            None: the best prediction of the cost part; under full information, a plain mean.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(
        ...     world.problem, transitions=bl.parts.Observed(), update=bl.parts.Planned()
        ... )
        >>> agent.information
        'full'
    """

    slot: ClassVar[str] = "update"
    tunable: ClassVar[bool] = False
    needs: ClassVar[Mapping[tuple[str, str], str]] = {
        ("transitions", "plans"): (
            "it plans on known transitions or on the frequencies of Observed()"
        ),
        ("costs", "predicts"): "it plans for the costs of Revealed() or Predicted()",
    }

    bonus: float = 0.3
    keep: float | None = None

    def __post_init__(self) -> None:
        checks.fix(self, "bonus", checks.real("bonus", self.bonus, 0.0))
        if self.keep is not None:
            checks.fix(self, "keep", checks.real("keep", self.keep, 0.0, 1.0))

    def start(self, problem: Problem, costs: CostsPart) -> Learned:
        """The mean (1 or H, S, A) of revealed costs with its weight, and the last plan."""
        speeds = getattr(costs, "speeds", None)
        if speeds is not None and self.keep is not None and self.keep not in speeds:
            raise ValueError(
                f"Planned(keep) must be one of {', '.join(map(str, speeds))} or None with "
                f"costs={type(costs).__name__}(), which has memories of these speeds, "
                f"got {self.keep}"
            )
        H, S, A = problem.shape
        return Learned(
            {
                "mean": Array(((1, H), S, A), low=0.0, high=1.0),
                "weight": Real(high=checks.MOST),
                "policy": Distributions(problem.shape),
                "stale": Flag(),
            },
            problem=problem,
            revealed=costs.information == "full",
        )

    def policy(self, learned: Learned, outlook: Outlook) -> Floats:
        """The best policy for the current predictions."""
        if learned.stale:
            learned.policy = frozen(outlook.model.best(self._lowered(learned, outlook)))
            learned.stale = False
        found: Floats = learned.policy
        return found

    def learn(self, learned: Learned, arrived: Arrival) -> None:
        """Average the costs if they are revealed; else the cost part has learned already."""
        if learned.revealed:
            if len(arrived.costs) > len(learned.mean):
                learned.mean = np.repeat(learned.mean, len(arrived.costs), axis=0)
            keep = 1.0 if self.keep is None else self.keep
            learned.weight = learned.weight * keep + 1.0
            learned.mean += (arrived.costs - learned.mean) / learned.weight
        learned.stale = True

    def restart(self, learned: Learned, parameters: Parameters) -> None:
        """Observations are kept."""

    retune = restart

    def diagnostics(self, learned: Learned) -> Mapping[str, float]:
        """Nothing to plot."""
        return {}

    def _lowered(self, learned: Learned, outlook: Outlook) -> Floats:
        """Line 2: the predicted costs minus the bonus."""
        counts, problem = outlook.model.counts, learned.problem
        if learned.revealed:
            if counts is None:
                return frozen(learned.mean)
            costs = np.broadcast_to(learned.mean, problem.shape).copy()
            n = np.maximum(counts.visits, 1)
            costs[: problem.horizon - 1] -= (self.bonus / np.sqrt(n))[: problem.horizon - 1]
            return frozen(costs)
        part, known = outlook.costs, outlook.learned_costs
        seen = part.weight(known) if counts is None else counts.visits  # type: ignore[attr-defined]
        predicted: Floats = part.prediction(known, self.keep)  # type: ignore[attr-defined]
        return frozen(predicted - self.bonus / np.sqrt(np.maximum(seen, 1.0)))
