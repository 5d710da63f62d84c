"""A random world with states for the checks of `belated.testing`."""

from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Agent, Episode
from belated.tabular import costs
from belated.tabular.problem import Problem
from belated.tabular.records import Costs, Trajectory, suffered
from belated.tabular.transitions import Transitions
from belated.tabular.world import MDP, World

EPISODES = 40
"""The number of cost functions of a random world, which then repeat."""


def random_world(problem: Problem, seed: int = 0) -> World:
    """Dense random dynamics for a problem, and random costs that change in every episode."""
    rng = np.random.default_rng(seed)
    H, S, A = problem.shape
    T = 1 if problem.homogeneous else H
    p = rng.dirichlet(np.full(S, 0.5), (T, S, A))
    mdp = MDP(Transitions.from_dense(p if T > 1 else p[0]), H, problem.start)
    return World(mdp, costs.sequence(rng.random((EPISODES, H, S, A))))


def feedback(
    world: World, agent: Agent, number: int, policy: Floats, rng: np.random.Generator
) -> tuple[Trajectory, Costs]:
    """Play an episode and return its path and its costs."""
    path = world.mdp.play(policy, rng, number)
    function = world.costs.at(number % EPISODES)
    values = suffered(function, path) if agent.information == "bandit" else function
    return path, Costs(number, values)


def check_policy(problem: Problem, policy: Floats) -> None:
    """Check that a policy has shape (H, S, A), is writable, and its rows are distributions."""
    if not (isinstance(policy, np.ndarray) and policy.shape == problem.shape):
        raise AssertionError(
            f"policies must be arrays of shape {problem.shape}, got {checks.show(policy)}"
        )
    if not policy.flags.writeable:
        raise AssertionError("policies must be copies that the caller may overwrite")
    if not np.all(policy >= 0.0):
        raise AssertionError("policies must be at least 0 and not NaN")
    error = float(np.max(np.abs(policy.sum(axis=2) - 1.0)))
    if error >= 1e-12:
        raise AssertionError(f"rows of policies must sum to 1, one is off by {error:g}")


class Trial:
    """A world for agents with states, as `belated.testing` uses it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def play(self, agent: Agent, episode: Episode, rng: np.random.Generator) -> list[Any]:
        """Play an episode and return its path and its costs."""
        return [*feedback(self.world, agent, episode.number, episode.policy, rng)]

    def policy(self, agent: Agent, episode: Episode) -> Floats:
        """A copy of the policy, which must be an array (H, S, A) of distributions."""
        check_policy(agent.problem, episode.policy)
        return episode.policy.copy()  # type: ignore[no-any-return]

    def spoil(self, episode: Episode) -> None:
        """Overwrite the policy of an episode."""
        episode.policy[:] = np.nan

    def spoiled(self, records: list[Any]) -> list[Any]:
        """Equal records, made from arrays that are then overwritten."""
        path, paid = records
        states, actions, values = path.states.copy(), path.actions.copy(), paid.values.copy()
        made = [Trajectory(path.episode, states, actions), Costs(path.episode, values)]
        states[:], actions[:], values[:] = 0, 0, 0.5
        return made

    def bad_records(self, agent: Agent, records: list[Any]) -> dict[str, object]:
        """Invalid batches, made from valid records of an open episode, by name."""
        path, paid = records
        H, S, A = self.world.problem.shape
        n = path.episode
        states, actions, values = path.states.copy(), path.actions.copy(), paid.values
        bandit = agent.information == "bandit"
        beyond = states.copy()
        beyond[-1] = S
        bad: dict[str, object] = {
            "costs of an episode never begun": [Costs(n + 100, values)],
            "a path of an episode never begun": [Trajectory(n + 100, states, actions)],
            "costs twice": [paid, Costs(n, values)],
            "costs of a wrong shape": [Costs(n, np.zeros((H + 1,) if bandit else (H, S + 1, A)))],
            "costs of the other information": [Costs(n, np.zeros((H, S, A) if bandit else (H,)))],
            "a path that is too long": [
                Trajectory(n, np.append(states, states[-1]), np.append(actions, 0))
            ],
            "a state out of range": [Trajectory(n, beyond, actions)],
            "an action out of range": [Trajectory(n, states, np.full(H, A))],
            "no record": [None],
            "no list": 7,
            "a good record and a bad one": [path, paid, Costs(n + 100, values)],
        }
        never = np.flatnonzero(self.world.problem.start_probabilities == 0.0)
        if len(never):
            elsewhere = states.copy()
            elsewhere[0] = never[-1]
            bad["a start that is impossible"] = [Trajectory(n, elsewhere, actions)]
        return bad
