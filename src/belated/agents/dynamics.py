"""Where Q comes from: known transitions, a confidence set, or an empirical model with a bonus.

Each part evaluates a policy in its own optimistic (or exact) way. `add_q` adds the Q-function of
a policy to a running total; `reach` says how likely the states of a path were, at most. `as_of`
gives the part as it was when only so many trajectories had arrived.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np

from belated import checks
from belated.arrays import Floats, Ints, frozen
from belated.feedback import Trajectory
from belated.kernels import optimism, planning
from belated.model import ConfidenceSet, Counts, EmpiricalModel, log_term
from belated.problem import Problem
from belated.transitions import Transitions


class Dynamics(Protocol):
    """What an agent believes about the transitions."""

    @property
    def counts(self) -> Counts | None:
        """The observed transitions; None where they are known and nothing is counted."""
        ...

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Take in trajectories; `begun` is the number of episodes begun so far."""
        ...

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add Q (H, S, A) of a policy for costs (1 or H, S, A) to the total."""
        ...


class Reaching(Dynamics, Protocol):
    """Dynamics that also say how likely a state was; bandit feedback needs them."""

    def as_of(self, arrived: int) -> Reaching:
        """The same when only so many trajectories had arrived."""
        ...

    def reach(self, policy: Floats, states: Ints) -> Floats:
        """Upper bound (H,) of the probability of states[h] at step h, exact where p is known."""
        ...


class Known:
    """The true transitions."""

    counts = None

    def __init__(self, problem: Problem, transitions: Transitions) -> None:
        self._transitions = transitions
        self._start = problem.start_probabilities

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """There is nothing to learn."""

    def as_of(self, arrived: int) -> Self:
        """Itself."""
        return self

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add the true Q of the policy."""
        t = self._transitions
        planning.evaluate(t.successors, t.probabilities, costs, policy, total)

    def reach(self, policy: Floats, states: Ints) -> Floats:
        """The true probability of states[h] at step h, (H,)."""
        t = self._transitions
        mass = planning.state_occupancy(t.successors, t.probabilities, policy, self._start)
        at_path: Floats = mass[np.arange(len(mass)), states[: len(mass)]]
        return at_path


class Confident:
    """The most favourable transitions of a confidence set."""

    def __init__(
        self,
        problem: Problem,
        *,
        episodes: int | None,
        delta: float,
        radius_scale: float,
        recall: bool,
    ) -> None:
        self._problem = problem
        self._episodes = episodes
        self._delta = delta
        term = log_term(problem, episodes, 0, delta)
        self.set = ConfidenceSet(Counts(problem, recall=recall), term, radius_scale)

    @property
    def counts(self) -> Counts:
        """The observed transitions."""
        return self.set.counts

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Count the trajectories."""
        for path in paths:
            self.set.add(path)
        self.set.retune(log_term(self._problem, self._episodes, begun, self._delta))

    def as_of(self, arrived: int) -> ConfidentThen:
        """The set as it was then, for use now."""
        return ConfidentThen(self._problem, self.set.as_of(arrived))

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add the least Q over the set as it is now."""
        ConfidentThen(self._problem, self.set).add_q(costs, policy, total)


class ConfidentThen:
    """A confidence set of some moment."""

    def __init__(self, problem: Problem, confidence: ConfidenceSet) -> None:
        self._problem = problem
        self._set = confidence

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add the least Q over the set."""
        zeros = np.zeros(self._problem.states)
        self._backward(costs, policy, total, zeros, self._problem.horizon)

    def reach(self, policy: Floats, states: Ints) -> Floats:
        """The largest probability, over the set, of states[h] at step h: (H,).

        For each h this is a backward pass from a reward of 1 in states[h]: no costs, and -1 as
        the last value, so that the least value is minus the largest probability.
        """
        no_costs = frozen(np.zeros((1, self._problem.states, self._problem.actions)))
        no_total = np.zeros((0, 0, 0))
        start = self._problem.start_probabilities
        largest = np.zeros(self._problem.horizon)
        for h in range(self._problem.horizon):
            last = np.zeros(self._problem.states)
            last[states[h]] = -1.0
            largest[h] = -(start @ self._backward(no_costs, policy, no_total, last, h))
        return np.minimum(largest, 1.0)

    def _backward(
        self, costs: Floats, policy: Floats, total: Floats, last: Floats, steps: int
    ) -> Floats:
        c = self._set
        values: Floats = optimism.confident(
            c.counts.successors,
            c.counts.known,
            c.lower,
            c.width,
            c.unseen,
            c.rest,
            costs,
            policy,
            total,
            last,
            steps,
        )
        return values


class WithBonus:
    """Observed frequencies, with every cost reduced by bonus_scale / sqrt(n)."""

    def __init__(self, problem: Problem, *, bonus_scale: float) -> None:
        self.model = EmpiricalModel(Counts(problem))
        self._scale = bonus_scale

    @property
    def counts(self) -> Counts:
        """The observed transitions."""
        return self.model.counts

    def learn(self, paths: list[Trajectory], begun: int) -> None:
        """Count the trajectories."""
        for path in paths:
            self.model.add(path)

    def add_q(self, costs: Floats, policy: Floats, total: Floats) -> None:
        """Add Q = costs - bonus + p V, clipped to [0, steps left], 0 where nothing was seen."""
        m = self.model
        optimism.with_bonus(
            m.counts.successors,
            m.probabilities,
            m.counts.visits,
            self._scale * m.deviation,
            costs,
            policy,
            total,
        )


def matching(problem: Problem, transitions: Transitions) -> Transitions:
    """The transitions, if they are some and fit the problem."""
    if not isinstance(transitions, Transitions):
        raise ValueError(f"transitions must be Transitions, got {checks.show(transitions)}")
    H, S, A = problem.shape
    shape = (transitions.steps, transitions.states, transitions.actions)
    if shape not in ((1, S, A), (H, S, A)):
        raise ValueError(
            f"transitions must be for (1 or {H}) steps, {S} states and {A} actions, got {shape}"
        )
    return transitions
