"""A simple hand-written solution: a Beta posterior per action and cell, failures at once.

A decision counts as a failure when it is made, and as a success when one arrives. Features become
cells: the cell of a visitor is the pattern of signs. Amounts count as successes.
"""

from __future__ import annotations

import numpy as np
from benchmarks.rivals.decisions import DecisionRival

from belated.core.arrays import Floats
from belated.linear.choice import Choice

DRAWS = 64


class ThompsonByHand(DecisionRival):
    """Beta-Thompson sampling per action, and per sign pattern of the first features.

    Args:
        problem: a choice with listed actions.
        bits: the number of features that form cells.
        seed: the seed of the draws.
    """

    def __init__(self, problem: Choice, *, bits: int = 3, seed: int = 0) -> None:
        super().__init__(problem, join="at once", seed=seed, bits=bits)
        if problem.actions is None:
            raise ValueError(
                "problem must list its actions for ThompsonByHand, got one that varies"
            )
        self._bits = min(bits, problem.width)
        self._wins = np.ones((2**self._bits, problem.actions))
        self._plays = np.full((2**self._bits, problem.actions), 2.0)

    def _cell(self, features: Floats) -> int:
        return int(sum(2**i for i in range(self._bits) if features[i] > 0.0))

    def _probabilities(self, rows: Floats) -> Floats:
        cell = self._cell(rows[0])
        wins, plays = self._wins[cell], self._plays[cell]
        drawn = self._rng.beta(wins, plays - wins, size=(DRAWS, len(wins)))
        return np.bincount(drawn.argmax(axis=1), minlength=len(wins)) / DRAWS

    def _learn(self, features: Floats, action: int, outcome: float, weight: float) -> None:
        cell = self._cell(features)
        self._plays[cell, action] += weight
        if weight == 0.0 and outcome > 0.0:
            plays = self._plays[cell, action]
            self._wins[cell, action] = min(self._wins[cell, action] + 1.0, plays - 1.0)
