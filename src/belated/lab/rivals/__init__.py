"""What people would otherwise use, each fed late feedback the obvious way: when it arrives.

None of these methods knows of delays. They are here to be compared with; the functions below make
them for an experiment from what a learner of the run is told.
"""

from __future__ import annotations

from typing import Protocol

from belated.agents.contract import Agent
from belated.lab.rivals.actor_critic import ActorCritic
from belated.lab.rivals.exp3 import Exp3
from belated.lab.rivals.poold import Name, Poold
from belated.lab.rivals.posterior_sampling import PosteriorSampling
from belated.lab.rivals.q_learning import QLearning
from belated.lab.rivals.thompson_sampling import ThompsonSampling
from belated.lab.rivals.ucb1 import UCB1
from belated.problem import Problem

__all__ = [
    "UCB1",
    "ActorCritic",
    "Exp3",
    "Poold",
    "PosteriorSampling",
    "QLearning",
    "ThompsonSampling",
]


class Told(Protocol):
    """What a rival is told: the problem and nothing else."""

    @property
    def problem(self) -> Problem:
        """States, actions, steps and the start."""
        ...


def q_learning(
    told: Told, /, learning_rate: float = 0.3, epsilon: float = 0.1, optimistic: bool = False
) -> Agent:
    """Epsilon-greedy Q-learning."""
    return QLearning(
        told.problem, learning_rate=learning_rate, epsilon=epsilon, optimistic=optimistic
    )


def actor_critic(told: Told, /, learning_rate: float = 1.0, critic_rate: float = 0.3) -> Agent:
    """A tabular softmax actor-critic."""
    return ActorCritic(told.problem, learning_rate=learning_rate, critic_rate=critic_rate)


def posterior_sampling(
    told: Told, /, forget: float = 1.0, pooled: bool | None = None, seed: int = 0
) -> Agent:
    """Posterior sampling (PSRL); `forget` below 1 discounts old costs."""
    return PosteriorSampling(told.problem, forget=forget, pooled=pooled, seed=seed)


def ucb1(told: Told, /) -> Agent:
    """UCB1, for arms."""
    return UCB1(told.problem)


def thompson_sampling(told: Told, /, seed: int = 0) -> Agent:
    """Thompson sampling, for arms."""
    return ThompsonSampling(told.problem, seed=seed)


def exp3(told: Told, /, learning_rate: float | None = None) -> Agent:
    """EXP3, for arms."""
    return Exp3(told.problem, learning_rate=learning_rate)


def poold(told: Told, /, learner: Name = "dorm+") -> Agent:
    """A learner of the package `poold`, for arms under full information."""
    return Poold(told.problem, learner=learner)
