"""Counts of the transitions in the trajectories that have arrived, and models made from them.

Counts are sparse, (T, S, A, W): T is 1 where the problem is homogeneous (all steps are pooled)
and H otherwise, and W grows as new successors are seen. Only the rows of an arriving trajectory
change. `as_of` restores the counts of an earlier time by subtracting the trajectories that have
arrived since, so no copy is kept per open episode.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from typing import Annotated, Self, TypeVar

import numpy as np
import numpy.typing as npt

from belated.core import checks
from belated.core.arrays import Floats, Indices, Ints, frozen
from belated.core.tree import Count, Entries, Learned
from belated.tabular.kernels import counting, optimism, planning
from belated.tabular.kernels.counting import Box, Tally
from belated.tabular.kernels.planning import Rows
from belated.tabular.problem import Problem
from belated.tabular.records import UNKNOWN, Trajectory
from belated.tabular.transitions import Transitions

Scalar = TypeVar("Scalar", bound=np.generic)
Path = Annotated[Ints, Entries("_")]
"""The rows, or the next states, of one trajectory."""
Sums = Annotated[Floats, Entries(low=0.0, high=checks.MOST)]
"""Sums of costs, or numbers of observations."""
ByRow = Annotated[Floats, Entries("T S A W")]
"""A number for every known successor."""


class Counts(Learned):
    """Observed transitions.

    Attributes:
        successors: (T, S, A, W) int32, the observed next states of a row.
        counts: (T, S, A, W), the number of times that each was observed.
        known: (T, S, A) int32, the number of slots in use.
        visits: (T, S, A), the sum of the counts.
        arrived: number of trajectories counted.

    Args:
        problem: gives the shapes.
        recall: whether `as_of` will be called for earlier times.
        steps: the number of transitions of a path that are counted, from the first; None: all H.
    """

    successors: Annotated[Indices, Entries("T S A W", low=0, below="S")]
    counts: Annotated[Ints, Entries("T S A W", low=0)]
    known: Annotated[Indices, Entries("T S A", low=0)]
    visits: Annotated[Ints, Entries("T S A", low=0)]
    arrived: Count
    _recent: deque[tuple[Path, Path]]  # rows and next states of the newest ones, if `recall`

    def __init__(self, problem: Problem, *, recall: bool = False, steps: int | None = None) -> None:
        self._problem, self._recall = problem, recall
        self._steps = problem.horizon if steps is None else steps
        self.set_first_values({**problem.axes, "W": 1})
        T_step = np.minimum(np.arange(problem.horizon), len(self.visits) - 1)
        self._row_of_step: Ints = T_step * problem.states * problem.actions

    @property
    def width(self) -> int:
        """W: slots per row."""
        return int(self.successors.shape[3])

    @property
    def tally(self) -> Tally:
        """The arrays as kernels take them."""
        return self.successors, self.counts, self.known, self.visits

    def add(self, path: Trajectory) -> Ints:
        """Count a trajectory. Returns the rows that changed, (steps,), flat over (T, S, A)."""
        every: Ints = self._row_of_step + path.states[:-1] * self._problem.actions + path.actions
        known = self._steps - (path.states[self._steps] == UNKNOWN)  # the last state may be missing
        rows = every[:known]
        following, done = np.array(path.states[1 : 1 + known]), 0
        while (done := int(counting.count(self.tally, rows, following, done, 1))) < known:
            slots = min(self._problem.states, self.width + max(1, self.width // 2))
            self.successors = with_slots(self.successors, slots)
            self.counts = with_slots(self.counts, slots)
        self.arrived += 1
        if self._recall:
            self._recent.append((rows, following))
        return rows

    def as_of(self, arrived: int) -> tuple[Counts, Ints]:
        """The counts after the first `arrived` trajectories, and the rows that differ."""
        newer = [self._recent[i] for i in range(arrived - self.arrived, 0)]
        past = copy.copy(self)
        past.counts, past.visits = self.counts.copy(), self.visits.copy()
        if not newer:
            return past, np.zeros(0, dtype=np.int64)
        rows = np.concatenate([path[0] for path in newer])
        counting.count(past.tally, rows, np.concatenate([path[1] for path in newer]), 0, -1)
        return past, rows

    def recall_from(self, arrived: int) -> None:
        """Drop the trajectories that `as_of` needs for times earlier than this."""
        while len(self._recent) > self.arrived - arrived:
            self._recent.popleft()

    def check_learned(self) -> None:
        """Check that the arrays are consistent and that recalled trajectories were counted."""
        width, most = self.width, min(checks.MOST, self.arrived * self._steps)
        if not 1 <= width <= self._problem.states:
            raise ValueError(f"successors must have at least one slot, got {width}")
        if self.known.max() > width or self.visits.max() > most:
            raise ValueError("known and visits must fit the trajectories that have arrived")
        used = np.arange(width) < self.known[..., None]
        if np.any(np.where(used, 0, self.counts)):
            raise ValueError("counts must be 0 in unused slots")
        listed = np.sort(np.where(used, self.successors, -1 - np.arange(width)), axis=3)
        if np.any(listed[..., 1:] == listed[..., :-1]):
            raise ValueError("successors must be listed once in a row")
        if not np.array_equal(self.counts.sum(axis=3), self.visits):
            raise ValueError("visits must be the sums of the counts")
        if len(self._recent) > (self.arrived if self._recall else 0):
            raise ValueError("recent must not hold more trajectories than have arrived")
        if self._recent:
            rows, following = (np.concatenate(part) for part in zip(*self._recent, strict=True))
            if len(rows) != len(following) or min(rows.min(), following.min()) < 0:
                raise ValueError("recent must be rows and their next states")
            self._check_recent(rows, following)

    def _check_recent(self, rows: Ints, following: Ints) -> None:
        """Check that these flat transitions can be subtracted; the kernel does not check it."""
        flat = (-1, self.width)
        used = np.arange(self.width) < self.known.ravel()[rows][:, None]
        found = (self.successors.reshape(flat)[rows] == following[:, None]) & used
        left = self.counts.reshape(flat).copy()
        np.subtract.at(left, (rows, found.argmax(axis=1)), 1)
        if not found.any(axis=1).all() or left.min() < 0:
            raise ValueError("recent must be trajectories that were counted")


def with_slots(array: npt.NDArray[Scalar], slots: int) -> npt.NDArray[Scalar]:
    """The same array with more slots on its last axis, filled with 0."""
    wide = np.zeros((*array.shape[:-1], slots), dtype=array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide


class ConfidenceSet(Learned):
    """For every row, a box around the observed frequencies: a confidence set of the transitions.

    The radius of a next state with frequency p after n visits is
    `radius_scale * (4 sqrt(p (1 - p) L / n) + 10 L / n)`; L is the `log_term`. Without `variance`
    it has p instead of p (1 - p).

    Attributes:
        counts: the counts that it is computed from.
        log_term: L.
        lower, width: (T, S, A, W) bounds of the known successors.
        unseen: (T, S, A) upper bound of every other state. rest: (T, S, A), 1 - sum of lower.
    """

    counts: Counts
    log_term: LogTerm
    lower: ByRow
    width: ByRow
    unseen: Floats
    rest: Floats

    def __init__(
        self, counts: Counts, log_term: float, radius_scale: float, *, variance: bool = True
    ) -> None:
        self.counts, self.log_term = counts, log_term
        self._scale, self._variance = radius_scale, variance
        self.lower, self.width = np.zeros((2, *counts.counts.shape))
        self.unseen, self.rest = np.ones((2, *counts.visits.shape))

    @property
    def box(self) -> Box:
        """The arrays as kernels take them."""
        c = self.counts
        return Box(c.successors, c.known, self.lower, self.width, self.unseen, self.rest)

    def add(self, path: Trajectory) -> None:
        """Count a trajectory; only its rows are computed anew."""
        self.refresh(self.counts.add(path))

    def retune(self, log_term: float) -> None:
        """Change L; every row is computed anew if it differs."""
        if log_term != self.log_term:
            self.log_term = log_term
            self.refresh(np.arange(self.counts.visits.size))

    def as_of(self, arrived: int, log_term: float | None = None) -> Self:
        """The set after the first `arrived` trajectories; log_term: L then, if different."""
        log_term = self.log_term if log_term is None else log_term
        if arrived == self.counts.arrived and log_term == self.log_term:
            return self
        past = copy.copy(self)
        past.counts, rows = self.counts.as_of(arrived)
        past.lower, past.width = self.lower.copy(), self.width.copy()
        past.unseen, past.rest = self.unseen.copy(), self.rest.copy()
        past.refresh(rows)
        past.retune(log_term)
        return past

    def refresh(self, rows: Ints) -> None:
        """Compute the box of some rows anew."""
        slots = self.counts.width
        if slots != self.lower.shape[3]:
            self.lower, self.width = with_slots(self.lower, slots), with_slots(self.width, slots)
        counting.box(self.counts.tally, rows, self.log_term, self._scale, self._variance, self.box)


SMALLEST_DELTA = 1e-200
"""The smallest probability of failure; a smaller one would underflow."""


LogTerm = Annotated[float, Entries(low=0.0, high=1e6)]
"""L of a saved set."""


def log_term(problem: Problem, episodes: int | None, begun: int, delta: float) -> float:
    """L = ln(H S A K / (4 delta)), at least ln 2, of the confidence radius."""
    K = episodes_in_union_bound(episodes, begun)
    rows = problem.horizon * problem.states * problem.actions
    return max(math.log(rows * K / max(4.0 * delta, SMALLEST_DELTA)), math.log(2.0))


def log_term_of_means(problem: Problem, episodes: int | None, begun: int, delta: float) -> float:
    """L = ln(2 H S A K / delta), so that no mean is too low by more than range * sqrt(L / (2 n)).

    With probability 1 - delta this holds for the mean costs and the mean next values of all rows
    and all numbers n of visits. Hoeffding's inequality for one mean is exp(-L), and there are
    H S A K means of either sort; with pooled transitions, H times as many of the second.
    """
    K = episodes_in_union_bound(episodes, begun)
    means = problem.horizon * problem.states * problem.actions * K
    if problem.homogeneous:
        means *= problem.horizon
    return math.log(2.0 * means / max(delta, SMALLEST_DELTA))


def episodes_in_union_bound(episodes: int | None, begun: int) -> int:
    """K of the log terms, given the number of episodes begun.

    Where K is not known it is replaced by N squared, N the smallest power of two above begun + 1:
    a union bound over time that changes only when N doubles. A run that becomes longer than a
    given K uses 4 K up to 2 K episodes, 16 K up to 4 K, and so on: the total probability of
    failure over all these stages is at most 3/2 delta.
    """
    if episodes is None:
        return int(max(2, 1 << (begun + 1).bit_length()) ** 2)
    beyond = max(0, begun - 1) // episodes  # how many times K is used up
    return int(episodes * 4 ** beyond.bit_length())


class Model(Learned):
    """The agent's model of the transitions; by default the true ones, with nothing to learn.

    Your own model needs only what its agent uses: `reach` for bandit feedback, `counts` for
    explicit exploration, and annotations of what it learns for saving.

    Attributes:
        delta: the probability that the model is wrong.
        counts: the observed transitions; None if the transitions are known.
    """

    delta = 0.1
    counts: Counts | None = None

    def __init__(self, problem: Problem, transitions: Transitions | None = None) -> None:
        self._problem = problem
        self._known = None if transitions is None else transitions.rows

    @property
    def arrived(self) -> int:
        """The number of trajectories counted; 0 if the transitions are known."""
        return 0 if self.counts is None else self.counts.arrived

    def diagnostics(
        self, policy: Floats | None = None, costs: Floats | None = None
    ) -> dict[str, float]:
        """The share of rows that were visited, and the value of a policy, if both are known."""
        told = {} if self.counts is None else {"visited": float(np.mean(self.counts.visits > 0))}
        if policy is not None and costs is not None:
            told["cost"] = self.value(frozen(costs), frozen(policy))
        return told

    @property
    def rows(self) -> Rows:
        """The transitions, or an estimate of them, that values and probabilities follow from."""
        assert self._known is not None
        return self._known

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Count trajectories; `begun` is the number of episodes begun so far."""

    def as_of(self, arrived: int) -> Model:
        """The model after the first `arrived` trajectories."""
        return self

    def keep_from(self, arrived: int) -> None:
        """Drop what `as_of` needs for times earlier than this."""

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add Q (H, S, A) of a policy for costs (1 or H, S, A) to the total."""
        planning.evaluate(self.rows, costs, policy, total)

    def value(self, costs: Floats, policy: Floats) -> float:
        """Expected cost of an episode of a policy."""
        start = self._problem.start_probabilities
        return float(planning.start_value(self.rows, costs, policy, start))

    def reach(self, policy: Floats, states: Ints) -> Floats:
        """The probability (H,) of states[h] at step h, or an upper bound on it."""
        mass = planning.state_occupancy(self.rows, policy, self._problem.start_probabilities)
        return mass[np.arange(len(mass)), states[: len(mass)]]

    def cost_width(self, begun: int) -> float:
        """The factor w of the width w / sqrt(n) of the mean of n observed costs."""
        return math.sqrt(log_term_of_means(self._problem, None, begun, Model.delta) / 2.0)


class FrequencyModel(Model):
    """Observed frequencies, with costs reduced by a bonus; the newest ones for every episode.

    free: whether an unvisited row costs nothing. If not, it counts as visited once and the episode
    ends there, and the last step has no bonus.

    Attributes:
        probabilities: (T, S, A, W), 0 in a row without visits.
        deviation: (T, S, A), scale / sqrt(max(n, 1)).
    """

    counts: Counts
    probabilities: ByRow
    deviation: Floats

    def __init__(
        self, problem: Problem, scale: float, *, free: bool = True, delta: float = 0.1
    ) -> None:
        super().__init__(problem)
        self.delta, self._scale, self._free = delta, scale, free
        self.counts = Counts(problem)
        self.probabilities = np.zeros(self.counts.counts.shape)
        self.deviation = np.full(self.counts.visits.shape, scale)

    @property
    def rows(self) -> Rows:
        """The observed frequencies."""
        return Rows(self.counts.successors, self.probabilities)

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Count the trajectories; only their rows are computed anew."""
        for path in paths:
            rows = self.counts.add(path)
            if self.counts.width != self.probabilities.shape[3]:
                self.probabilities = with_slots(self.probabilities, self.counts.width)
            tally = self.counts.tally
            counting.frequencies(tally, rows, self._scale, self.probabilities, self.deviation)

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add Q = costs - bonus + p V."""
        optimism.with_bonus(
            self.rows, self.counts.visits, self.deviation, self._free, costs, policy, total
        )

    def cost_width(self, begun: int) -> float:
        """The scale of the bonus."""
        return self._scale
