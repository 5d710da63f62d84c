"""The truth that a learner does not see: dynamics, costs, and exact quantities of both."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from belated import checks
from belated.arrays import Floats
from belated.costs import CostProcess, fixed
from belated.feedback import Trajectory
from belated.kernels import planning
from belated.problem import Problem
from belated.transitions import Transitions


@dataclass(frozen=True, slots=True, eq=False)
class MDP:
    """True dynamics: transitions, number of steps, and a first state or a distribution of it."""

    transitions: Transitions
    horizon: int
    start: int | tuple[float, ...] = 0
    problem: Problem = field(init=False)
    """What a learner may be told; homogeneous if the transitions have a leading axis of 1."""

    def __post_init__(self) -> None:
        if not isinstance(self.transitions, Transitions):
            raise ValueError(
                "transitions must be Transitions (see Transitions.from_dense), got "
                f"{checks.show(self.transitions)}"
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
        object.__setattr__(self, "horizon", horizon)
        object.__setattr__(self, "start", problem.start)
        object.__setattr__(self, "problem", problem)

    def play(self, policy: Floats, rng: np.random.Generator, episode: int = 0) -> Trajectory:
        """Play one episode with a policy (H, S, A)."""
        checked = checks.policy("policy", policy, self.problem.shape)
        if not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng must be a numpy.random.Generator, got {checks.show(rng)}")
        states, actions = planning.sample(
            self.transitions.successors,
            self.transitions.probabilities,
            checked,
            self.problem.start_probabilities,
            rng.random(2 * self.horizon + 1),
        )
        return Trajectory(episode, states, actions)


def policy_values(mdp: MDP, policy: object, costs: object) -> tuple[Floats, Floats]:
    """Exact values of a policy (H, S, A) for costs (1 or H, S, A): V (H + 1, S) and Q (H, S, A)."""
    checks.instance("mdp", mdp, MDP)
    H, S, A = mdp.problem.shape
    checked = checks.policy("policy", policy, (H, S, A))
    cost = checks.costs("costs", costs, H, S, A, unit=False)
    Q = np.zeros((H, S, A))
    t = mdp.transitions
    V = planning.evaluate(t.successors, t.probabilities, cost, checked, Q)
    return V, Q


def best_policy(mdp: MDP, costs: object) -> tuple[Floats, float]:
    """A deterministic policy (H, S, A) of least expected cost, and its value at the start."""
    checks.instance("mdp", mdp, MDP)
    H, S, A = mdp.problem.shape
    cost = checks.costs("costs", costs, H, S, A, unit=False)
    t = mdp.transitions
    actions, V = planning.best(t.successors, t.probabilities, cost, H)
    policy: Floats = np.eye(A)[actions]
    return policy, float(mdp.problem.start_probabilities @ V[0])


def occupancy(mdp: MDP, policy: object) -> Floats:
    """Probability of every (step, state, action) under a policy: (H, S, A), each step sums to 1."""
    checks.instance("mdp", mdp, MDP)
    checked = checks.policy("policy", policy, mdp.problem.shape)
    t = mdp.transitions
    reach = planning.state_occupancy(
        t.successors, t.probabilities, checked, mdp.problem.start_probabilities
    )
    q: Floats = reach[:, :, None] * checked
    return q


@dataclass(frozen=True, slots=True, eq=False, init=False)
class World:
    """An MDP and a cost process: everything that is hidden from the learner.

    costs: a process from `belated.costs`, or an array for fixed costs.
    """

    mdp: MDP
    costs: CostProcess

    def __init__(self, mdp: MDP, costs: CostProcess | npt.ArrayLike) -> None:
        checks.instance("mdp", mdp, MDP)
        known = all(hasattr(costs, part) for part in ("at", "shape", "seeded"))
        process = costs if known else fixed(costs)
        object.__setattr__(self, "mdp", mdp)
        object.__setattr__(self, "costs", process)
        H, S, A = self.problem.shape
        if self.costs.shape not in ((1, S, A), (H, S, A)):
            raise ValueError(
                f"costs must have shape (1, {S}, {A}) or ({H}, {S}, {A}), got {self.costs.shape}"
            )

    @property
    def problem(self) -> Problem:
        """What a learner may be told."""
        return self.mdp.problem
