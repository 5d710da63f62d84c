"""The best policies for a sequence of cost functions, known when all of them are, and scores.

A score is a cost on a scale from the best fixed policy (0) to uniform play (1). An agent with a
score below 0 follows changes that no fixed policy can follow. Where uniform play costs no more than
the best fixed policy there is nothing to learn, and the score is NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belated.core.arrays import Floats
from belated.tabular.planning import best_policy, occupancy
from belated.tabular.world import MDP

CostsOf = Callable[[int], Floats]
"""A function that gives the cost function of an episode."""
NOTHING = 0.95
"""A score of at least this in the last quarter of a run counts as uniform play."""
IMPROVED = 0.01
"""An improvement of the score by less than this counts as none."""
GOOD = 0.1
"""A run with a score up to this in its last quarter is good, even if uniform play is as good."""
HALF = 0.5
"""A run with a score up to this has learned, however good its first episodes were."""
SHORTEST = 20
"""Runs with fewer episodes get no verdict."""


def _for_each(at: CostsOf, episodes: int, value: Callable[[Floats], Any]) -> Floats:
    """The values of the costs of every episode, computed only where the costs change."""
    found: list[Any] = []
    last = np.zeros(0)
    for k in range(episodes):
        costs = at(k)
        found.append(found[-1] if np.array_equal(costs, last) else value(costs))
        last = costs
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Best:
    """The costs of the best policies for a sequence of cost functions, computed when needed.

    Attributes:
        mdp: the dynamics.
        costs: the cost function of an episode.
        episodes: K.
    """

    mdp: MDP
    costs: CostsOf
    episodes: int

    @cached_property
    def each(self) -> Floats:
        """(K,) the smallest expected cost of every single episode."""
        return _for_each(self.costs, self.episodes, lambda costs: best_policy(self.mdp, costs)[1])

    @cached_property
    def so_far(self) -> Floats:
        """(K,) the smallest total cost of the first k episodes under one fixed policy."""
        found = np.zeros(self.episodes)
        total, same = np.zeros_like(self.costs(0)), True
        for k in range(self.episodes):
            costs = self.costs(k)
            total += costs
            same = same and np.array_equal(costs, self.costs(0))
            found[k] = (k + 1) * self.each[0] if same else best_policy(self.mdp, total)[1]
        return found


def compared(mdp: MDP, at: CostsOf, episodes: int) -> tuple[Floats, Floats, Floats]:
    """The best fixed policy for a sequence of costs; its costs and those of uniform play, (K,)."""
    total = np.array(at(0))
    for k in range(1, episodes):
        total += at(k)
    best, _ = best_policy(mdp, total)
    measures = [occupancy(mdp, one) for one in (best, np.full(best.shape, 1.0 / best.shape[2]))]
    if len(total) == 1:  # the costs do not depend on the step
        measures = [measure.sum(axis=0, keepdims=True) for measure in measures]
    fixed = _for_each(at, episodes, lambda costs: [float(np.vdot(m, costs)) for m in measures])
    return best, fixed[:, 0], fixed[:, 1]


def score(values: Floats, comparator: Floats, uniform: Floats) -> float:
    """(cost - best fixed policy) / (uniform play - best fixed policy), all arrays (K,).

    NaN if uniform play costs no more than the best fixed policy.
    """
    scale = float(np.sum(uniform - comparator))
    if scale <= 1e-9 * max(float(np.sum(uniform)), 1.0):
        return float("nan")
    return float(np.sum(values - comparator)) / scale


def verdict(values: Floats, comparator: Floats, uniform: Floats) -> str:
    """What is wrong with a learning curve, in a few words; empty if it has learned.

    The first tenth of the run is compared with its last quarter.
    """
    K = len(values)
    scale = float(np.sum(uniform - comparator))
    if K < SHORTEST or scale <= 1e-9 * max(float(np.sum(uniform)), 1.0):
        return ""
    first, last = slice(0, max(1, K // 10)), slice(K - K // 4, K)
    # one scale for both windows: under changing costs, that of a single window may be almost 0
    early, late = (
        float(np.mean(values[part] - comparator[part])) * K / scale for part in (first, last)
    )
    at_random = float(np.mean(uniform[last] - comparator[last])) * K / scale
    if late >= NOTHING * at_random and late > GOOD:
        return "no better than uniform play in its last quarter"
    if late > early - IMPROVED and score(values, comparator, uniform) > HALF:
        return "no better in its last quarter than in its first episodes"
    return ""
