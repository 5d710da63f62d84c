"""Delayed regret matching+ with hints: an update without a step size.

    1  R = m = 0 in every (h, s)
    2  when an episode begins:
    3      n = 1 + the number of reports on the way
    4      z = max(R + n m, 0)
    5      play in proportion to z, uniformly where z = 0
    6  when the Q of an episode that played pi arrives:
    7      r(a) = sum over b of pi(b) Q(b) - Q(a)
    8      R = max(R + r, 0)
    9      m = (1 - w) m + w r, with w = 1/4

Without hints n is 0. For one step from one state that is DORM+ of Flaspohler, Orabona, Cohen,
Mouatadid, Oprescu, Orenstein & Mackey (ICML 2021); inside policy optimization it seems to be new.
What is still to come is guessed to be like what came lately. The number on the way counts what can
still arrive, not what was lost: the mean delay of what has arrived (Little's law), and at most the
episodes that are missing.

Bounds for known transitions and full information, for every K, costs and delays. Of the K episodes
let K' report, with total delay D', cut off at the end of the run, and let N be the sum of their n:

    without hints   R_K <= H (H + 1) / 2 * sqrt((A - 1) (K' + 2 D')) + H (K - K')
    with hints      R_K <= H (H + 1) / 2 * sqrt((A - 1) (K' + 2 D' + 2 N)) + H (K - K')

If all episodes report, or are imagined to do so at the end, then N <= K + D, and the second one is
at most H (H + 1) / 2 * sqrt((A - 1) (3 K + 4 D)). docs/algorithms/regret_matching.md has the proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.tabular.kernels import matching
from belated.tabular.parts.costs import CostsPart
from belated.tabular.parts.update import Arrival, Outlook, uniform
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters

NEWEST = 0.25
"""Weight of the newest regrets in the hints."""


@dataclass(frozen=True, slots=True)
class RegretMatching:
    """Play in proportion to positive regrets; nothing to tune.

    Attributes:
        hints: whether the policy leans ahead by what is still on the way.
    """

    slot: ClassVar[str] = "update"

    hints: bool = True

    def __post_init__(self) -> None:
        checks.fix(self, "hints", checks.flag("hints", self.hints))

    def start(self, problem: Problem, costs: CostsPart) -> Matching:
        """A fresh rule."""
        return Matching(problem, self)


class Matching:
    """The regrets and the hints of every (h, s, a)."""

    def __init__(self, problem: Problem, part: RegretMatching) -> None:
        self._problem = problem
        self._hinted = part.hints
        self._regrets: Floats = np.zeros(problem.shape)
        self._hints: Floats = np.zeros(problem.shape)
        self._policy = uniform(problem)
        self._coming = 0.0
        self._stale = False  # whether anything was learned since the policy was made
        self._moved = False  # whether anything ever was

    def policy(self, outlook: Outlook) -> Floats:
        """In proportion to the positive regrets."""
        coming = 1.0 + outlook.coming if self._hinted else 0.0
        if self._stale or (self._moved and coming != self._coming):
            policy = np.empty(self._problem.shape)
            matching.match(self._regrets, self._hints, coming, policy)
            self._policy = frozen(policy)
            self._stale = False
        self._coming = coming
        return self._policy

    def learn(self, arrived: Arrival) -> None:
        """Add the regrets of an episode."""
        matching.learn(arrived.q(), arrived.policy, self._regrets, self._hints, NEWEST)
        self._stale = self._moved = True

    def restart(self, parameters: Parameters) -> None:
        """Forget the regrets; there is no step size to set."""
        self._regrets[:] = 0.0
        self._hints[:] = 0.0
        self._policy = uniform(self._problem)
        self._stale = self._moved = False

    def retune(self, parameters: Parameters) -> None:
        """Regrets are kept, and there is no step size to set."""

    def diagnostics(self) -> Mapping[str, float]:
        """How far ahead the policy leans."""
        return {"coming": self._coming}

    def state(self) -> stored.State:
        """The regrets, the hints and the policy."""
        return {
            "regrets": self._regrets.copy(),
            "hints": self._hints.copy(),
            "policy": self._policy,
            "coming": self._coming,
            "stale": self._stale,
            "moved": self._moved,
        }

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        read = stored.exact(saved, "regrets", "hints", "policy", "coming", "stale", "moved")
        shape = self._problem.shape
        for name in ("regrets", "hints"):
            array = stored.copied(name, read[name], np.float64, shape)
            stored.finite(name, array)
            setattr(self, f"_{name}", array)
        self._policy = stored.policy("policy", read["policy"], shape)
        self._coming = checks.real("coming", read["coming"], 0.0, checks.MOST)
        self._stale = checks.flag("stale", read["stale"])
        self._moved = checks.flag("moved", read["moved"])
