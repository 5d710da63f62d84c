"""Play an agent in a Gymnasium environment whose probabilities are unknown, with late feedback.

Observations and actions are discrete. An episode has the agent's horizon H. When the game ends
earlier, by termination or truncation, the remaining steps are spent in one additional state,
number S, where every step has reward 0. `environments.Rewards` maps rewards to costs. The regret
is unknown here; `environments.from_gymnasium` gives it if the environment has a transition table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.contract import PATHS, Agent, Episode, Scale, check_is_agent
from belated.core.delays import (
    DelayModel,
    OutcomeDependentDelay,
    PlayedEpisode,
    is_oblivious,
    missing_feedback,
    of_episodes,
)
from belated.simulation import Progress, drawn_delays, drive
from belated.tabular.environments.gymnasium import Rewards, make, sizes, table_rewards
from belated.tabular.records import Costs, Trajectory

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, slots=True, eq=False)
class GymRun:
    """The result of each episode: observed numbers, not expectations.

    Attributes:
        realised: (K,) cost that was suffered.
        returns: (K,) sum of the rewards as Gymnasium gave them.
        lengths: (K,) number of steps until the end of the game, at most H.
        delays: (K,) delays of the feedback, `NEVER` where it was lost.
        missing: (K,) number of episodes up to this one whose feedback has not arrived at its end.
        diagnostics: the agent's own numbers at the end of the run.
    """

    realised: Floats
    returns: Floats
    lengths: Ints
    delays: Ints
    missing: Ints
    diagnostics: Mapping[str, float] = field(default_factory=dict)


def gym_loop(
    env: str | gymnasium.Env[Any, Any],
    agent: Agent,
    delays: DelayModel | OutcomeDependentDelay | Ints | None = None,
    episodes: int = 500,
    *,
    rewards: tuple[float, float] | Rewards | None = None,
    seed: int = 0,
    paths: str = "late",
    progress: Progress | None = None,
) -> GymRun:
    """Play an agent in a Gymnasium environment with late feedback.

    Args:
        env: an environment with Discrete observations and actions, or its id.
        agent: a fresh agent for bandit feedback, made for `environments.gym_problem(env, horizon)`.
        delays: a model, or (K,) whole numbers, or (K, H), one for every step. By default there are
            no delays. A model that depends on what happened draws after every episode.
        episodes: K.
        rewards: the smallest and the largest reward of one step (the range is extended to contain
            0); by default those of the environment's transition table. A reward outside the range
            is an error.
        seed: the seed of environment, actions and delays; each has its own generator.
        paths: "late": the path arrives together with the costs; "at once": the path arrives at
            the end of its episode and only the costs are late.
        progress: wraps the range of episodes, e.g. `rich.progress.track`.

    Returns:
        A `GymRun` with realised costs.
    """
    check_is_agent("agent", agent)
    made, problem = make(env), agent.problem
    S, A = sizes(made)
    to_cost = _rewards(made, rewards)
    episodes = checks.integer("episodes", episodes, 1, checks.ROOM)
    checks.choice("paths", paths, PATHS)
    if (problem.states, problem.actions) != (S + 1, A):
        raise ValueError(
            f"agent must be made for {S + 1} states ({S} observations and the end of the game) and "
            f"{A} actions (see environments.gym_problem), got {problem.states} states and "
            f"{problem.actions} actions"
        )
    if agent.information != "bandit":
        raise ValueError(
            'agent must have information="bandit", because only the suffered costs are known, '
            f"got {agent.information!r}"
        )
    env_seed, *seeds = np.random.SeedSequence(checks.integer("seed", seed, 0)).spawn(3)
    rng, delay_rng = map(np.random.default_rng, seeds)
    drawn = drawn_delays(delays, episodes, delay_rng, problem.horizon)
    realised, returns, lengths = np.zeros((3, episodes))

    def source(episode: Episode) -> tuple[Trajectory, Costs]:
        k = episode.number
        states, actions, got = play(
            made, episode.policy, rng, seed=None if k else env_seed.generate_state(1).item()
        )
        # after the end of the game every step has reward 0
        costs = to_cost.costs(np.pad(got, (0, problem.horizon - len(got))))
        realised[k], returns[k], lengths[k] = costs.sum(), sum(got), len(got)
        if not is_oblivious(delays):
            drawn[k] = delays.after(PlayedEpisode(k, actions, costs, states), delay_rng)  # type: ignore[union-attr]
        return Trajectory(k, states, actions), Costs(k, costs)

    with contextlib.closing(made) if isinstance(env, str) else contextlib.nullcontext():
        drive(agent, source, drawn, paths=paths, progress=progress)
    known = of_episodes(drawn)
    return GymRun(
        realised,
        returns,
        lengths.astype(int),
        known,
        missing_feedback(known),
        dict(agent.diagnostics()),
    )


def play(
    env: Any,
    policy: Floats,
    rng: np.random.Generator,
    seed: int | None = None,
) -> tuple[Ints, Ints, list[float]]:
    """Play one episode in the real environment with a policy (H, S + 1, A).

    Returns:
        The states (H + 1,), the actions (H,), and the rewards up to the end of the game, at most
        H. After the end the state is S, and actions are still drawn from the policy.
    """
    H, states_and_end, _ = policy.shape
    first_state, first_action = int(env.observation_space.start), int(env.action_space.start)
    states = np.full(H + 1, states_and_end - 1, dtype=np.int64)
    actions = np.zeros(H, dtype=np.int64)
    rewards: list[float] = []
    observation, _ = env.reset(seed=seed)
    states[0] = int(observation) - first_state
    playing = True
    for h in range(H):
        below = np.cumsum(policy[h, states[h]])
        actions[h] = np.searchsorted(below, rng.random() * below[-1], side="right")
        if playing:
            observation, reward, terminated, truncated, _ = env.step(int(actions[h]) + first_action)
            rewards.append(float(reward))
            playing = not (terminated or truncated)
        if playing:
            states[h + 1] = int(observation) - first_state
    return states, actions, rewards


def _rewards(env: Any, rewards: tuple[float, float] | Rewards | None) -> Rewards:
    """The map between rewards and costs, from the argument or from the transition table."""
    if isinstance(rewards, Rewards):
        return rewards
    if rewards is not None:
        given = Scale.of("rewards", rewards)
        return Rewards(min(0.0, given.low), max(0.0, given.high))
    try:
        return table_rewards(env)
    except ValueError:
        raise ValueError(
            "rewards must be (low, high) if the environment has no transition table, got None"
        ) from None
