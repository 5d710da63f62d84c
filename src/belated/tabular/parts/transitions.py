"""The model that Q is computed from: known transitions, a confidence set, or frequencies.

`Confidence` and `Bonus` are the settings of a part; `start` makes the model that an agent learns.
A model evaluates a policy in its own optimistic (or exact) way.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.tree import LARGEST_FLOAT, Count
from belated.tabular.counts import (
    ConfidenceSet,
    Counts,
    FrequencyModel,
    Model,
    log_term,
    log_term_of_means,
)
from belated.tabular.kernels import optimism
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.transitions import Transitions

if TYPE_CHECKING:
    from belated.tabular.parts.costs import CostsPart

NO_TOTAL = np.zeros((0, 0, 0))
"""Passed to a kernel if only values are needed."""


SETS = ("newest", "printed", "doubled")
"""The counts that confidence sets are computed from."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """Unknown transitions: the most favourable ones of a confidence set.

    Attributes:
        radius_scale: factor on the confidence radius; 1 is the paper's.
        delta: the probability that the confidence set fails.
        episodes: K, in the radius. None: a radius for any number of episodes. In a run that is
            longer than K the radius grows, and it may fail with probability 3/2 delta.
        sets: the counts that the set of an arrival is computed from. "newest": all current counts,
            with those that arrive in the same batch. "printed": the counts at the beginning of the
            episode at whose end the feedback arrives, as in the paper's pseudo-code; not with
            importance weights, which use the counts at the beginning of their own episode.
            "doubled": the counts of the last time when the visits of some row had doubled, so that
            sets are computed rarely.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(
        ...     world.problem, transitions=bl.parts.Confidence(radius_scale=0.1)
        ... )
        >>> agent.information
        'full'
    """

    gives: ClassVar[tuple[str, ...]] = ("upper bounds", "counts")

    radius_scale: float = 1.0
    delta: float = 0.1
    episodes: int | None = None
    sets: str = "newest"

    def __post_init__(self) -> None:
        checks.choice("sets", self.sets, SETS)
        checks.fix(self, "radius_scale", checks.real("radius_scale", self.radius_scale, 0.0))
        checks.fix(self, "delta", checks.real("delta", self.delta, 0.0, 1.0, above=True))
        checks.fix(self, "episodes", checks.episodes(self.episodes))

    def start(self, problem: Problem, costs: CostsPart) -> ConfidenceModel:
        """A fresh model."""
        printed, doubled = self.sets == "printed", self.sets == "doubled"
        if printed and costs.weighted:
            raise ValueError(
                'Confidence(sets="printed") has no effect on importance weights, whose sets are '
                "those of the beginning of their episode; leave it out"
            )
        counts = Counts(problem, recall=printed or (costs.weighted and not doubled))
        return (DoubledModel if doubled else ConfidenceModel)(problem, self, counts)

    def log_term(self, problem: Problem, begun: int) -> float:
        """L, the log term of the radius, given the number of episodes begun."""
        return log_term(problem, self.episodes, begun, self.delta)

    def hoeffding(self, problem: Problem, begun: int) -> float:
        """radius_scale * sqrt(L / 2); divided by sqrt(n) it is the width of a mean of n numbers.

        L is not that of the radius but ln(2 H S A K / delta), see `counts.log_term_of_means`. The
        result is finite, because 0 steps or a scale of 0 times infinity would not be a number.
        """
        L = log_term_of_means(problem, self.episodes, begun, self.delta)
        return min(self.radius_scale * math.sqrt(L / 2.0), LARGEST_FLOAT)


CONFIDENCE = Confidence()
"""The default for unknown transitions in the paper's agents."""


@dataclass(frozen=True, slots=True)
class Bonus:
    """Unknown transitions: observed frequencies, and costs reduced by scale / sqrt(visits).

    This is the variant of the paper's experiments. Q is clipped to [0, steps left], and 0 in
    unvisited rows. Visits and frequencies are those at the time when the costs arrive; the paper's
    text has n^j, the visits observed when episode j began. It has no guarantee.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(world.problem, transitions=bl.parts.Bonus(0.3))
        >>> agent.information
        'full'
    """

    gives: ClassVar[tuple[str, ...]] = ("counts",)

    scale: float = 1.0

    def __post_init__(self) -> None:
        checks.fix(self, "scale", checks.real("scale", self.scale, 0.0))

    def start(self, problem: Problem, costs: CostsPart) -> FrequencyModel:
        """A fresh model."""
        return FrequencyModel(problem, self.scale)


class ConfidenceModel(Model):
    """The most favourable transitions of a confidence set.

    The set in use is the newest one, or with `Confidence(sets="printed")` that of the paper's
    pseudo-code, which updates the counts to n^{k+1} at the end of episode k, then uses the set of
    n^k: without the arrivals at the end of this episode.
    """

    _newest: ConfidenceSet
    _begun: Count
    _before: Count  # trajectories that had arrived when the current episode began

    def __init__(self, problem: Problem, part: Confidence, counts: Counts) -> None:
        super().__init__(problem)
        self._part, self.delta = part, part.delta
        self._newest = ConfidenceSet(counts, part.log_term(problem, 0), part.radius_scale)
        self._begun = self._before = 0
        self.counts: Counts = counts  # all of them
        self.set = self._newest  # the set in use

    @property
    def _used(self) -> int:
        """The number of trajectories that the set in use is computed from."""
        return self._before if self._part.sets == "printed" else self.arrived

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Count the trajectories."""
        if begun != self._begun:
            self._begun, self._before = begun, self.arrived
        for path in paths:
            self._newest.add(path)
        if paths or self._part.sets == "printed":
            self.retune(begun)

    def retune(self, begun: int) -> None:
        """Set the radius for this many episodes begun."""
        self._newest.retune(self._part.log_term(self._problem, max(begun, self.arrived)))
        self.set = self._newest.as_of(self._used)

    def as_of(self, arrived: int) -> Self:
        """The model whose set is that of the time, with the current radius."""
        past = copy.copy(self)
        past.set = self._newest.as_of(arrived)
        return past

    def keep_from(self, arrived: int) -> None:
        """Drop the trajectories that need not be subtracted any more."""
        self.counts.recall_from(min(arrived, self._used))

    def check_learned(self) -> None:
        """Check that the set in use can be computed."""
        checks.integer("before", self._before, 0, self.arrived)
        self.set = self._newest.as_of(self._used)

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add the smallest Q over the set."""
        H, S, _ = self._problem.shape
        optimism.confident(self.set.box, costs, policy, total, np.zeros(S), H)

    def value(self, costs: Floats, policy: Floats) -> float:
        """The smallest value over the set."""
        H, S, _ = self._problem.shape
        first = optimism.confident(self.set.box, costs, policy, NO_TOTAL, np.zeros(S), H)
        return float(self._problem.start_probabilities @ first)

    def reach(self, policy: Floats, states: Ints) -> Floats:
        """The largest probability, over the set, of states[h] at step h: (H,)."""
        start = self._problem.start_probabilities
        largest: Floats = optimism.upper_occupancy(self.set.box, policy, start, states)
        return largest

    def cost_width(self, begun: int) -> float:
        """radius_scale * sqrt(L / 2)."""
        return self._part.hoeffding(self._problem, max(begun, self.arrived))


class DoubledModel(ConfidenceModel):
    """Sets that are computed anew when the visits of some row have doubled.

    This is the remark at the beginning of the paper's appendix B. There are at most
    H S A (1 + log2 K) sets, and an episode needs only the number of its set, not the trajectories
    that arrived after it began.
    """

    _epochs: dict[int, ConfidenceSet]  # by the number of trajectories at its start; oldest first

    def __init__(self, problem: Problem, part: Confidence, counts: Counts) -> None:
        super().__init__(problem, part, counts)
        self.set = copy.deepcopy(self._newest)
        self._epochs = {0: self.set}

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Count the trajectories; make a new set if the visits of some row have doubled."""
        for path in paths:
            self._newest.add(path)
        visits, before = self.counts.visits, self.set.counts.visits
        if paths and np.any((visits >= 2 * before) & (visits > before)):
            term = self._part.log_term(self._problem, max(begun, self.arrived))
            self.set = ConfidenceSet(copy.deepcopy(self.counts), term, self._part.radius_scale)
            self.set.refresh(np.arange(visits.size))
            self._epochs[self.arrived] = self.set

    def retune(self, begun: int) -> None:
        """Do nothing: a set keeps the radius of the time when it was made."""

    def as_of(self, arrived: int) -> Self:
        """The model whose set was in use after the first `arrived` trajectories."""
        past = copy.copy(self)
        past.set = self._epochs[self._start_of(arrived)]
        return past

    def keep_from(self, arrived: int) -> None:
        """Drop the sets that no open episode needs."""
        first = self._start_of(arrived)
        self._epochs = {start: made for start, made in self._epochs.items() if start >= first}

    def check_learned(self) -> None:
        """Check that there is a set, and use the newest one."""
        self.set = self._epochs[max(self._epochs, default=0)]

    def _start_of(self, arrived: int) -> int:
        """The start of the epoch that contains this number of trajectories."""
        return max((start for start in self._epochs if start <= arrived), default=min(self._epochs))


def model_of(problem: Problem, transitions: Any, costs: CostsPart) -> Model:
    """The model of `Transitions`, or the one that a part makes."""
    if isinstance(transitions, Transitions):
        return Model(problem, matching(problem, transitions))
    return transitions.start(problem, costs)  # type: ignore[no-any-return]


def matching(problem: Problem, transitions: Transitions) -> Transitions:
    """Check the shape of known transitions; return them."""
    H, S, A = problem.shape
    shape = (transitions.steps, transitions.states, transitions.actions)
    if shape not in ((1, S, A), (H, S, A)):
        raise ValueError(
            f"transitions must be for (1 or {H}) steps, {S} states and {A} actions, got {shape}"
        )
    return transitions
