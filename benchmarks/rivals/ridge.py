"""Ridge regression with a simple policy: epsilon-greedy, LinUCB or linear Thompson sampling.

LinUCB: Li, Chu, Langford & Schapire (2010). Thompson sampling with linear payoffs: Agrawal & Goyal
(2013). Epsilon-greedy is the simplest use of a regression.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from benchmarks.rivals.decisions import DecisionRival, Join, greedy

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.linear.choice import Choice

Rule = Literal["epsilon", "ucb", "thompson"]
RULES = ("epsilon", "ucb", "thompson")
DRAWS = 64
"""The number of draws of Thompson sampling; a probability is the share of draws that it wins."""


class Regression:
    """One ridge regression per model; `inverse` is that of lam I + sum x x'."""

    def __init__(self, models: int, d: int, lam: float) -> None:
        self.inverse = np.tile(np.eye(d) / lam, (models, 1, 1))
        self.moments = np.zeros((models, d))

    def add(self, model: int, x: Floats, outcome: float, weight: float) -> None:
        """Add an observation by the formula of Sherman and Morrison."""
        if weight > 0.0:
            a = self.inverse[model]
            ax = a @ x
            a -= np.outer(ax, ax) * (weight / (1.0 + weight * float(x @ ax)))
        self.moments[model] += outcome * x

    def predict(self, models: Ints, rows: Floats) -> tuple[Floats, Floats]:
        """Means and widths |x|_A^-1, (n,), of rows (n, d) under their models (n,)."""
        inverse = self.inverse[models]
        theta = np.einsum("nij,nj->ni", inverse, self.moments[models])
        widths = np.einsum("ni,nij,nj->n", rows, inverse, rows)
        return np.einsum("ni,ni->n", rows, theta), np.sqrt(np.maximum(widths, 0.0))


class RidgeRival(DecisionRival):
    """Ridge regression and a policy.

    Args:
        problem: the choice.
        rule: "epsilon": greedy, with probability `scale` uniform; "ucb": the largest mean plus
            `scale` times the standard deviation of the outcomes times the width; "thompson": draws
            around the mean with that spread.
        scale: see rule.
        lam: the ridge.
        silence, join, window, seed: see `DecisionRival`.
    """

    def __init__(
        self,
        problem: Choice,
        *,
        rule: Rule = "epsilon",
        scale: float = 0.05,
        lam: float = 1.0,
        silence: float | None = 0.0,
        join: Join = "arrival",
        window: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            problem,
            silence=silence,
            join=join,
            window=window,
            seed=seed,
            rule=rule,
            scale=scale,
            lam=lam,
        )
        self._rule = checks.choice("rule", rule, RULES)
        self._scale = checks.real("scale", scale, 0.0, 1.0 if rule == "epsilon" else np.inf)
        d = problem.width + (0 if problem.shared else 1)
        self._models = 1 if problem.shared else int(problem.actions or 1)
        self._fit = Regression(self._models, d, checks.real("lam", lam, 0.0, above=True))
        self._sums = np.zeros(3)  # number, sum and sum of squares of the outcomes learned from

    def _probabilities(self, rows: Floats) -> Floats:
        n = len(rows)
        models = np.zeros(n, dtype=int) if self._models == 1 else np.arange(n)
        means, widths = self._fit.predict(models, rows)
        if self._rule == "epsilon":
            return (1.0 - self._scale) * greedy(means) + self._scale / n
        spread = self._scale * self._deviation()
        if self._rule == "ucb":
            return greedy(means + spread * widths)
        drawn = means + spread * widths * self._rng.normal(size=(DRAWS, n))
        return np.bincount(drawn.argmax(axis=1), minlength=n) / DRAWS

    def _deviation(self) -> float:
        count, total, squares = self._sums
        if count < 2:
            return 1.0
        return float(np.sqrt(max(squares / count - (total / count) ** 2, 1e-12)))

    def _learn(self, features: Floats, action: int, outcome: float, weight: float) -> None:
        model = 0 if self._models == 1 else action
        self._fit.add(model, features, outcome, weight)
        self._sums += (weight, outcome, outcome**2)
