"""Rivals by kind: what people would otherwise use. They are told the problem and nothing else."""

from __future__ import annotations

from belated.config.briefing import Told
from belated.config.registry import Maker
from belated.core.contract import Agent
from belated.tabular.rivals import (
    UCB1,
    ActorCritic,
    Exp3,
    PosteriorSampling,
    QLearning,
    ThompsonSampling,
)


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


RIVALS: dict[str, Maker] = {
    "actor_critic": actor_critic,
    "exp3": exp3,
    "posterior_sampling": posterior_sampling,
    "q_learning": q_learning,
    "thompson_sampling": thompson_sampling,
    "ucb1": ucb1,
}
