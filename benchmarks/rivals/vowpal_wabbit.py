"""Vowpal Wabbit's contextual bandits, epsilon-greedy and SquareCB, with late outcomes.

Vowpal Wabbit leaves the join of decisions and outcomes to its user. Two ways are usual: to learn
when an outcome arrives, or after a fixed window, where silence is an outcome. Costs are negated
outcomes. A visitor's features are crossed with the action (-q UA).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import numpy as np
from benchmarks.rivals.decisions import DecisionRival, Join, PendingDecision

from belated.core import checks
from belated.core.arrays import Floats
from belated.linear.choice import Choice

RULES = ("epsilon", "squarecb")


class VowpalWabbit(DecisionRival):
    """Vowpal Wabbit (`pip install 'belated[vw]'`).

    Args:
        problem: the choice.
        rule: "epsilon": greedy, with probability `epsilon` uniform; "squarecb": inverse gap
            weighting with `gamma_scale`.
        epsilon: the parameter of "epsilon".
        gamma_scale: the parameter of "squarecb".
        learning_rate: the learning rate of its regression.
        silence, seed: see `DecisionRival`.
        join: "arrival" or "window"; it cannot correct what it has learned.
        window: the length of the window for "window", in decisions.
    """

    def __init__(
        self,
        problem: Choice,
        *,
        rule: Literal["epsilon", "squarecb"] = "epsilon",
        epsilon: float = 0.05,
        gamma_scale: float = 10.0,
        learning_rate: float = 0.5,
        silence: float | None = 0.0,
        join: Join = "arrival",
        window: int | None = None,
        seed: int = 0,
    ) -> None:
        checks.choice("join", join, ("arrival", "window"))
        checks.choice("rule", rule, RULES)
        own = {"rule": rule, "epsilon": epsilon, "gamma_scale": gamma_scale}
        own["learning_rate"] = learning_rate
        super().__init__(problem, silence=silence, join=join, window=window, seed=seed, **own)
        rate = checks.real("learning_rate", learning_rate, 0.0, above=True)
        epsilon = checks.real("epsilon", epsilon, 0.0, 1.0)
        gamma = checks.real("gamma_scale", gamma_scale, 0.0, above=True)
        try:
            vowpal: Any = import_module("vowpalwabbit")
        except ImportError:
            raise ImportError("VowpalWabbit needs it: pip install 'belated[vw]'") from None
        how = f"--epsilon {epsilon}"
        if rule == "squarecb":
            how = f"--squarecb --gamma_scale {gamma}"
        crossed = "" if problem.shared else "-q UA"
        self._vw = vowpal.Workspace(
            f"--cb_explore_adf {how} {crossed} --learning_rate {rate} --quiet --random_seed {seed}"
        )

    def _lines(self, rows: Floats) -> list[str]:
        """An example as text: the visitor, then a line per action."""
        if self.problem.shared:
            return [f"|A {_named(row)}" for row in rows]
        return [f"shared |U {_named(rows[0])}", *(f"|A a{i}" for i in range(len(rows)))]

    def _probabilities(self, rows: Floats) -> Floats:
        found = np.array(self._vw.predict(self._lines(rows)), dtype=float)
        shares: Floats = found / found.sum()
        return shares

    def _learn_from(self, entry: PendingDecision, outcome: float, weight: float) -> None:
        lines = self._lines(entry.rows)
        at = entry.action + (0 if self.problem.shared else 1)
        lines[at] = f"0:{-outcome:.6g}:{entry.probability:.6g} {lines[at]}"
        self._vw.learn(lines)

    def _learn(self, features: Floats, action: int, outcome: float, weight: float) -> None:
        raise TypeError("Vowpal Wabbit learns from whole decisions")


def _named(row: Floats) -> str:
    return " ".join(f"{i}:{value:.6g}" for i, value in enumerate(row.tolist()) if value)
