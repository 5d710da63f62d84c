"""The best policies for a sequence of cost functions, known when all of them are."""

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
