"""Costs under bandit feedback: a prediction, corrected along the path.

    1  M = the prediction from earlier feedback
    2  c-hat = M everywhere, plus (c - M) / (u pi + gamma) at the H cells of the path
    3  update every memory with the H costs, and weight the memories by their errors

Here u is the probability of the state under the policy that was played and pi that of the action.
For gamma = 0 and known transitions c-hat is unbiased whatever M is, like importance weighting; its
noise is that of c - M instead of c, and gamma shrinks it towards the prediction instead of 0.

The memories are running means with several discounts, pooled over the steps or not. So the part
learns whether costs depend on the step and how fast they change. The weight of a memory is
exp(-RATE x squared error), bounded below so that it can recover. The part keeps 2 len(KEEP) arrays
of the size of a policy, however many episodes there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information
from belated.core.stored import Array, Learned
from belated.tabular.kernels import memories
from belated.tabular.parts.costs import SMALLEST_CHANCE, Observation
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import Parameters

KEEP = (1.0, 0.98, 0.9)
"""The factor by which an observation discounts the older ones of its cell, memory by memory."""
RATE = 4.0
"""The learning rate of the weights of the memories."""
LEAST_WEIGHT = 0.01
"""The smallest weight of a memory, relative to the best one."""


class Lesson(NamedTuple):
    """The prediction before the agent learned from an episode, and its error on the path."""

    prediction: Floats  # (H, S, A)
    error: Floats  # (H,)


@dataclass(frozen=True, slots=True)
class Predicted:
    """Bandit feedback, any costs: a prediction, corrected along the path.

    Attributes:
        exploration: gamma, added to the probability by which a correction is divided.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(
        ...     world.problem, costs=bl.parts.Predicted(), update=bl.parts.Softmax(0.3)
        ... )
        >>> agent.information
        'bandit'
    """

    slot: ClassVar[str] = "costs"
    gives: ClassVar[tuple[str, ...]] = ("predicts",)
    speeds: ClassVar[tuple[float, ...]] = KEEP

    exploration: float = 0.1

    information: ClassVar[Information] = "bandit"
    weighted: ClassVar[bool] = False
    averaged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.fix(self, "exploration", checks.real("exploration", self.exploration, 0.0))

    def start(self, problem: Problem) -> Learned:
        """The memories, pooled over the steps or not, and their log weights (the largest is 0).

        Means and weights are (M, 1 or H, S, A), M memories each.
        """
        H, S, A = problem.shape
        pooled, stepped = (len(KEEP), 1, S, A), (len(KEEP) if H > 1 else 0, H, S, A)
        count = pooled[0] + stepped[0]
        return Learned(
            {
                "scores": Array((count,), low=math.log(LEAST_WEIGHT), high=0.0),
                "pooled_means": Array(pooled, low=0.0, high=1.0),
                "pooled_weights": Array(pooled, low=0.0, high=checks.MOST),
                "stepped_means": Array(stepped, low=0.0, high=1.0),
                "stepped_weights": Array(stepped, low=0.0, high=checks.MOST),
            },
            shape=(H, S, A),
            speeds=np.array([*KEEP, *KEEP[: stepped[0]]]),
            prediction=None,  # (H, S, A), computed when needed
        )

    def prediction(self, learned: Learned, keep: float | None = None) -> Floats:
        """The predicted costs (H, S, A); keep: only from the memories with this discount."""
        if keep is not None:
            return self._blended(learned, keep)
        if learned.prediction is None:
            learned.prediction = self._blended(learned, None)
        found: Floats = learned.prediction
        return found

    believed = prediction

    def weight(self, learned: Learned) -> Floats:
        """The number of observations of every cell, (1, S, A), over all steps."""
        weight: Floats = learned.pooled_weights[KEEP.index(1.0)]
        return weight

    def learn(self, learned: Learned, path: Trajectory | None, values: Floats) -> Lesson:
        """Learn from the costs (H,) of a path; returns the earlier prediction."""
        assert path is not None
        prediction = self.prediction(learned)
        states, actions = path.states[:-1], path.actions
        error: Floats = values - prediction[np.arange(len(values)), states, actions]
        squares = np.empty(len(learned.scores))
        pooled, stepped = _memories(learned)
        memories.errors(pooled, stepped, path.states, actions, values, squares)
        learned.scores -= RATE * squares
        learned.scores -= learned.scores.max()
        np.maximum(learned.scores, math.log(LEAST_WEIGHT), out=learned.scores)
        for each in (pooled, stepped):
            memories.learn(each, path.states, actions, values)
        learned.prediction = None
        return Lesson(prediction, error)

    def estimate(self, learned: Learned, seen: Observation) -> Floats:
        """The earlier prediction, corrected on the path."""
        assert seen.path is not None
        assert isinstance(seen.lesson, Lesson)
        played = seen.played()
        cells = (np.arange(len(seen.values)), seen.path.states[:-1], seen.path.actions)
        chance = seen.model.reach(played, seen.path.states) * played[cells] + self.exploration
        costs = seen.lesson.prediction.copy()
        costs[cells] += seen.lesson.error / np.maximum(chance, SMALLEST_CHANCE)
        return frozen(costs)

    def restart(self, learned: Learned, parameters: Parameters) -> None:
        """Observations are kept."""

    def _blended(self, learned: Learned, keep: float | None) -> Floats:
        shares = np.exp(learned.scores)
        if keep is not None:
            shares = np.where(learned.speeds == keep, shares, 0.0)
        prediction = np.empty(learned.shape)
        memories.blend(*_memories(learned), shares / shares.sum(), prediction)
        return frozen(prediction)


def _memories(learned: Learned) -> tuple[memories.Memories, memories.Memories]:
    """The pooled memories and those by step, as kernels take them."""
    M = len(learned.pooled_means)
    return (
        memories.Memories(learned.pooled_means, learned.pooled_weights, learned.speeds[:M]),
        memories.Memories(learned.stepped_means, learned.stepped_weights, learned.speeds[M:]),
    )
