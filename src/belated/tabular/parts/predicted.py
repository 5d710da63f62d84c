"""Costs under bandit feedback: a prediction, corrected where the path went.

    1  M = the prediction made from what arrived before
    2  c-hat = M everywhere, plus (c - M) / (u pi + gamma) at the H cells of the path
    3  let every memory learn the H costs, and weight the memories by how well they predicted them

Here u is the probability of the state under the policy that was played and pi that of the action.
For gamma = 0 and known transitions c-hat is unbiased whatever M is, like importance weighting; its
noise is that of c - M instead of c, and gamma shrinks it towards the prediction and not towards 0.

The memories are running means that forget at several speeds, pooled over the steps or not. Whether
costs are the same at every step and how fast they change is thereby learned, not assumed. A memory
is weighted by exp(-RATE x squared error), bounded below so that it can come back. The part keeps
2 len(KEEP) arrays of the size of a policy, however many episodes there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information
from belated.tabular.kernels import memories
from belated.tabular.parts.costs import SMALLEST, Observation
from belated.tabular.parts.transitions import Model
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import Parameters

KEEP = (1.0, 0.98, 0.9)
"""What an observation leaves of the weight of the older ones in its cell, memory by memory."""
RATE = 4.0
"""How fast a memory that predicts badly loses weight."""
LEAST = 0.01
"""The least weight of a memory, relative to the best one."""


class Lesson(NamedTuple):
    """What was predicted before an episode was learned: the whole, and the error on its path."""

    prediction: Floats  # (H, S, A)
    error: Floats  # (H,)


@dataclass(frozen=True, slots=True)
class Predicted:
    """Bandit feedback, any costs: a prediction, corrected where the path went.

    Attributes:
        exploration: gamma, added to the probability by which a correction is divided.
    """

    slot: ClassVar[str] = "costs"

    exploration: float = 0.1

    information: ClassVar[Information] = "bandit"
    weighted: ClassVar[bool] = False
    averaged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.fix(self, "exploration", checks.real("exploration", self.exploration, 0.0))

    def start(self, problem: Problem) -> Predicting:
        """A fresh part."""
        return Predicting(problem, self)


class Predicting:
    """The memories, their weights, and the prediction that follows."""

    def __init__(self, problem: Problem, part: Predicted) -> None:
        H, S, A = problem.shape
        self._exploration = part.exploration
        self._pooled = _memories(1, S, A)
        self._stepped = _memories(H, S, A, len(KEEP) if H > 1 else 0)
        count = len(KEEP) + len(self._stepped.keep)
        self._scores: Floats = np.zeros(count)  # log weights, the largest is 0
        self._prediction: Floats | None = frozen(np.zeros((H, S, A)))
        self._shape = (H, S, A)

    def model(self, newest: Model, arrived: int) -> Model:
        """The newest."""
        return newest

    def prediction(self, keep: float | None = None) -> Floats:
        """The predicted costs (H, S, A); keep: by the memories of one speed alone."""
        if keep is not None:
            return self._blended(keep)
        if self._prediction is None:
            self._prediction = self._blended(None)
        return self._prediction

    def believed(self) -> Floats:
        """The prediction."""
        return self.prediction()

    def weight(self) -> Floats:
        """How much was observed in every cell, (1, S, A): costs of all steps together."""
        weight: Floats = self._pooled.weights[KEEP.index(1.0)]
        return weight

    def learn(self, path: Trajectory | None, values: Floats) -> Lesson:
        """Take in the costs (H,) of a path; say what was predicted before."""
        assert path is not None
        prediction = self.prediction()
        states, actions = path.states[:-1], path.actions
        error: Floats = values - prediction[np.arange(len(values)), states, actions]
        squares = np.empty(len(self._scores))
        memories.errors(self._pooled, self._stepped, path.states, actions, values, squares)
        self._scores -= RATE * squares
        self._scores -= self._scores.max()
        np.maximum(self._scores, math.log(LEAST), out=self._scores)
        for each in (self._pooled, self._stepped):
            memories.learn(each, path.states, actions, values)
        self._prediction = None
        return Lesson(prediction, error)

    def estimate(self, seen: Observation) -> Floats:
        """The prediction of before, corrected on the path."""
        assert seen.path is not None
        assert isinstance(seen.lesson, Lesson)
        played = seen.played()
        cells = (np.arange(len(seen.values)), seen.path.states[:-1], seen.path.actions)
        chance = seen.model.reach(played, seen.path.states) * played[cells] + self._exploration
        costs = seen.lesson.prediction.copy()
        costs[cells] += seen.lesson.error / np.maximum(chance, SMALLEST)
        return frozen(costs)

    def restart(self, parameters: Parameters) -> None:
        """Observations are kept."""

    def state(self) -> stored.State:
        """The memories and their scores."""
        return {
            "scores": self._scores.copy(),
            "pooled_means": self._pooled.means.copy(),
            "pooled_weights": self._pooled.weights.copy(),
            "stepped_means": self._stepped.means.copy(),
            "stepped_weights": self._stepped.weights.copy(),
        }

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        names = ("pooled_means", "pooled_weights", "stepped_means", "stepped_weights")
        read = stored.exact(saved, "scores", *names)
        self._scores = stored.copied("scores", read["scores"], np.float64, self._scores.shape)
        stored.between("scores", self._scores, math.log(LEAST), 0.0)
        for name in ("pooled", "stepped"):
            old: memories.Memories = getattr(self, f"_{name}")
            means, weights = (
                stored.copied(f"{name}_{what}", read[f"{name}_{what}"], np.float64, old.means.shape)
                for what in ("means", "weights")
            )
            checks.in_unit_interval(f"{name}_means", means)
            stored.between(f"{name}_weights", weights, 0.0, checks.MOST)
            setattr(self, f"_{name}", memories.Memories(means, weights, old.keep))
        self._prediction = None

    def _blended(self, keep: float | None) -> Floats:
        speeds = np.concatenate([self._pooled.keep, self._stepped.keep])
        shares = np.exp(self._scores)
        if keep is not None:
            shares = np.where(speeds == keep, shares, 0.0)
        prediction = np.empty(self._shape)
        memories.blend(self._pooled, self._stepped, shares / shares.sum(), prediction)
        return frozen(prediction)


def _memories(steps: int, states: int, actions: int, count: int = len(KEEP)) -> memories.Memories:
    shape = (count, steps, states, actions)
    return memories.Memories(np.zeros(shape), np.zeros(shape), np.array(KEEP[:count]))
