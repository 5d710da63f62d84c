"""The base of the rivals: they learn from the path and the costs of an episode."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open
from belated.core.tree import LARGEST_FLOAT, Entries
from belated.tabular.problem import Problem, check_arms
from belated.tabular.records import Trajectory

Sums = Annotated[Floats, Entries(low=0.0, high=checks.MOST)]
"""Sums of costs, or numbers of observations."""


class Rival(Learner[bool]):
    """An agent under bandit feedback that learns from an episode once all of it has arrived."""

    def __init__(self, problem: Problem, **arguments: Any) -> None:
        checks.instance("problem", problem, Problem)
        super().__init__(problem, **arguments)

    def _learn(self, entry: Open[bool]) -> None:
        assert entry.path is not None
        assert entry.costs is not None
        self._learn_from(entry.path, entry.costs.values)

    @abstractmethod
    def _learn_from(self, path: Trajectory, costs: Floats) -> None:
        """Learn from a path and the costs (H,) suffered on it."""


class ArmsRival(Rival):
    """A rival for arms: one state, one step."""

    _sums: Sums  # (A,) total observed cost of every arm
    _visits: Sums  # (A,) number of observed plays

    def __init__(self, problem: Problem, **arguments: Any) -> None:
        check_arms(type(self).__name__, problem)
        super().__init__(problem, **arguments)
        self._sums, self._visits = np.zeros(problem.actions), np.zeros(problem.actions)

    def check_learned(self) -> None:
        """Check that no cost is above 1."""
        if np.any(self._sums > self._visits):
            raise ValueError("sums must be at most visits")

    def _learn_from(self, path: Trajectory, costs: Floats) -> None:
        self._sums[path.actions[0]] += costs[0]
        self._visits[path.actions[0]] += 1.0


SEEDS = 2**63 - 1
"""The largest seed."""
LARGEST_SUM = LARGEST_FLOAT / 1e6
"""The largest sum of estimates; its products with step sizes stay finite."""
