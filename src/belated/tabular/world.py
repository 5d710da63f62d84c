"""Worlds: the true dynamics and costs, which a learner does not see."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.contract import Episode, Information, altered, unchecked
from belated.tabular import policies
from belated.tabular.costs import CostProcess, fixed
from belated.tabular.kernels import planning
from belated.tabular.problem import Problem
from belated.tabular.records import Costs, Trajectory, suffered
from belated.tabular.transitions import Transitions


@dataclass(frozen=True, slots=True, eq=False)
class MDP:
    """True dynamics.

    Attributes:
        transitions: the probabilities, with a leading axis of 1 (the same at every step) or H.
        horizon: H, the number of steps of an episode.
        start: the first state, or a distribution over the S states.
        problem: what a learner may know. It is homogeneous if the leading axis is 1.

    Example:
        >>> p = np.full((2, 1, 2), 0.5)
        >>> mdp = bl.MDP(bl.Transitions.from_dense(p), horizon=3)
        >>> mdp.problem.shape
        (3, 2, 1)
    """

    transitions: Transitions
    horizon: int
    start: int | tuple[float, ...] = 0
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        checks.instance(
            "transitions", self.transitions, Transitions, " (see Transitions.from_dense)"
        )
        horizon = checks.integer("horizon", self.horizon, 1)
        steps = self.transitions.steps
        if steps not in (1, horizon):
            raise ValueError(
                f"transitions must have a leading axis of 1 or of horizon = {horizon}, got {steps}"
            )
        problem = Problem(
            self.transitions.states, self.transitions.actions, horizon, self.start, steps == 1
        )
        for name, value in (("horizon", horizon), ("start", problem.start), ("problem", problem)):
            checks.fix(self, name, value)

    def play(self, policy: Floats, rng: np.random.Generator, episode: int = 0) -> Trajectory:
        """Play one episode with a policy (H, S, A)."""
        checked = policies.checked("policy", policy, self.problem.shape)
        checks.generator("rng", rng)
        return self.sample(checked, rng, checks.integer("episode", episode, 0))

    def sample(self, policy: Floats, rng: np.random.Generator, episode: int) -> Trajectory:
        """Play one episode; nothing is checked."""
        uniforms = rng.random(2 * self.horizon + 1)
        start = self.problem.start_probabilities
        states, actions = planning.sample(self.transitions.rows, policy, start, uniforms)
        states.setflags(write=False)
        actions.setflags(write=False)
        return unchecked(Trajectory, episode, states, actions, None, None)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class World:
    """An MDP and a cost process: everything that is hidden from the learner.

    Args:
        mdp: the dynamics.
        costs: a process from `belated.tabular.costs`, or an array for fixed costs.

    Example:
        >>> mdp = bl.MDP(bl.Transitions.from_dense(np.full((2, 1, 2), 0.5)), horizon=3)
        >>> bl.World(mdp, np.array([[0.2], [0.9]])).problem.horizon
        3
    """

    mdp: MDP
    costs: CostProcess

    def __init__(self, mdp: MDP, costs: CostProcess | npt.ArrayLike) -> None:
        checks.instance("mdp", mdp, MDP)
        known = all(hasattr(costs, part) for part in ("at", "shape", "seeded"))
        checks.fix(self, "mdp", mdp)
        checks.fix(self, "costs", costs if known else fixed(costs))
        H, S, A = self.problem.shape
        if self.costs.shape not in ((1, S, A), (H, S, A)):
            raise ValueError(
                f"costs must have shape (1, {S}, {A}) or ({H}, {S}, {A}), got {self.costs.shape}"
            )

    @property
    def problem(self) -> Problem:
        """What a learner may know."""
        return self.mdp.problem


def walker(
    mdp: MDP,
    costs_at: Callable[[int], Floats],
    means_at: Callable[[int], Floats] | None,
    information: Information,
    values: Floats,
    rng: np.random.Generator,
) -> Callable[[Episode], tuple[Trajectory, Costs, Floats]]:
    """A function that plays episodes: their path, the costs that an agent sees, and those (H,) met.

    It enters the expected costs of the policies in `values` (2, K): for the costs, and for their
    means if they are given.
    """
    start = mdp.problem.start_probabilities
    policy, value = np.zeros(0), 0.0  # those of the last episode
    cost: Floats | None = None
    shown: Costs  # the whole cost function, if the agent sees it

    def walk(episode: Episode) -> tuple[Trajectory, Costs, Floats]:
        nonlocal policy, value, cost, shown
        k = episode.number
        same = episode.plays(policy)
        if not same:
            policy = policies.checked("policy", episode.played, mdp.problem.shape)
        path = mdp.sample(policy, rng, k)
        before, cost = cost, costs_at(k)
        if not (same and cost is before):
            value = planning.start_value(mdp.transitions.rows, cost, policy, start)
        values[0, k] = value
        if means_at is not None:
            mean = frozen(means_at(k))
            values[1, k] = planning.start_value(mdp.transitions.rows, mean, policy, start)
        met = suffered(cost, path)
        if information != "full":
            return path, Costs(k, met), met
        if cost is not before:
            shown = Costs(k, cost)
        return path, altered(shown, episode=k), met

    return walk
