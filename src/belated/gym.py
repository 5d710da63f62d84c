"""Drive a Gymnasium environment, whose probabilities nobody knows, through the delay line.

Observations and actions are discrete. An episode has the agent's horizon H: when the game ends
earlier, by termination or truncation, the rest is spent in one more state, number S, where every
step has reward 0. Rewards become costs by the map of `environments.Rewards`. Regret is not known
here; where the environment has a transition table, `environments.from_gymnasium` gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import checks
from belated.agents.contract import Agent
from belated.arrays import Floats, Ints
from belated.delays import DelayLine, DelayModel
from belated.environments.gymnasium import Rewards, make, sizes, table_rewards
from belated.feedback import Costs, Record, Trajectory
from belated.simulation import drawn_delays, missing_feedback

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, slots=True, eq=False)
class GymRun:
    """What happened, episode by episode, as it was suffered: nothing here is an expectation.

    Attributes:
        realised: (K,) cost that was suffered.
        returns: (K,) sum of the rewards as Gymnasium gave them.
        lengths: (K,) steps until the game was over, at most H.
        delays: (K,) delays of the feedback, `NEVER` where it was lost.
        missing: (K,) episodes up to this one whose feedback had not come by the end of it.
        diagnostics: what the agent said of itself at the end.
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
    delays: DelayModel | Ints | None = None,
    episodes: int = 500,
    *,
    rewards: tuple[float, float] | Rewards | None = None,
    seed: int = 0,
    trajectory: str = "delayed",
    progress: Callable[[range], Iterable[int]] | None = None,
) -> GymRun:
    """Play an agent in a Gymnasium environment with late feedback.

    Args:
        env: an environment with Discrete observations and actions, or its id.
        agent: any agent for bandit feedback, made for `environments.gym_problem(env, horizon)`.
        delays: a model, or (K,) whole numbers; default: no delay.
        episodes: K.
        rewards: the least and the largest reward of one step (0 is added if it is not between);
            by default those of the environment's transition table. A reward outside is an error.
        seed: decides environment, actions and delays, each by its own generator.
        trajectory: "delayed": the path comes together with the costs; "immediate": the path comes
            at the end of its episode and only the costs are late.
        progress: wraps the range of episodes, e.g. `rich.progress.track`.

    Returns:
        A `GymRun` with realised costs.
    """
    made = make(env)
    S, A = sizes(made)
    H = agent.problem.horizon
    episodes = checks.integer("episodes", episodes, 1)
    checks.choice("trajectory", trajectory, ("delayed", "immediate"))
    if (agent.problem.states, agent.problem.actions) != (S + 1, A):
        raise ValueError(
            f"agent must be made for {S} observations and the end of the game, {S + 1} states, and "
            f"{A} actions (see environments.gym_problem), got {agent.problem.states} and "
            f"{agent.problem.actions}"
        )
    if agent.information != "bandit":
        raise ValueError(
            'agent must have information="bandit", as only suffered costs are known here, '
            f"got {agent.information!r}"
        )
    to_cost = _rewards(made, rewards)
    env_seed, action_seed, delay_seed = np.random.SeedSequence(
        checks.integer("seed", seed, 0)
    ).spawn(3)
    drawn = drawn_delays(delays, episodes, np.random.default_rng(delay_seed))
    rng = np.random.default_rng(action_seed)
    first_seed: int | None = int(env_seed.generate_state(1)[0])

    realised = np.zeros(episodes)
    returns = np.zeros(episodes)
    lengths = np.zeros(episodes, dtype=np.int64)
    line = DelayLine()
    steps: Iterable[int] = range(episodes)
    if progress is not None:
        steps = progress(range(episodes))
    for k in steps:
        episode = agent.begin_episode()
        states, actions, got = play(made, episode.policy, rng, seed=first_seed)
        first_seed = None
        costs = np.full(H, to_cost.cost(0.0))
        for h, reward in enumerate(got):
            costs[h] = to_cost.cost(reward)
        realised[k] = costs.sum()
        returns[k] = sum(got)
        lengths[k] = len(got)
        path: Record = Trajectory(episode.number, states, actions)
        record: Record = Costs(episode.number, costs)
        now = [path] if trajectory == "immediate" else []
        line.push([record] if trajectory == "immediate" else [path, record], int(drawn[k]))
        agent.observe(now + line.release(episode.number))
    if isinstance(env, str):
        made.close()
    return GymRun(
        realised, returns, lengths, drawn, missing_feedback(drawn), dict(agent.diagnostics())
    )


def play(
    env: gymnasium.Env[Any, Any],
    policy: Floats,
    rng: np.random.Generator,
    seed: int | None = None,
) -> tuple[Ints, Ints, list[float]]:
    """Play one episode in the real environment with a policy (H, S + 1, A).

    Returns:
        States (H + 1,), actions (H,), and the rewards up to the end of the game, at most H. After
        the end the state is S and the actions are drawn from the policy like all others.
    """
    H, over, _ = policy.shape
    over -= 1
    first_state = int(env.observation_space.start)  # type: ignore[attr-defined]
    first_action = int(env.action_space.start)  # type: ignore[attr-defined]
    states = np.full(H + 1, over, dtype=np.int64)
    actions = np.zeros(H, dtype=np.int64)
    uniforms = rng.random((H,))
    rewards: list[float] = []
    observation, _ = env.reset(seed=seed)
    playing = True
    for h in range(H):
        if playing:
            states[h] = int(observation) - first_state
        actions[h] = _pick(policy[h, states[h]], uniforms[h])
        if playing:
            observation, reward, terminated, truncated, _ = env.step(int(actions[h]) + first_action)
            rewards.append(float(reward))
            playing = not (terminated or truncated)
    if playing:
        states[H] = int(observation) - first_state
    return states, actions, rewards


def _pick(weights: Floats, uniform: float) -> int:
    """Index drawn from a distribution by inversion; never one of probability 0."""
    below = np.cumsum(weights)
    return int(np.searchsorted(below, uniform * below[-1], side="right"))


def _rewards(
    env: gymnasium.Env[Any, Any], rewards: tuple[float, float] | Rewards | None
) -> Rewards:
    if isinstance(rewards, Rewards):
        return rewards
    if rewards is not None:
        if not (isinstance(rewards, tuple | list) and len(rewards) == 2):
            raise ValueError(f"rewards must be (low, high), got {checks.show(rewards)}")
        low = checks.real("rewards[0]", rewards[0], -np.finfo(float).max)
        high = checks.real("rewards[1]", rewards[1], low)
        return Rewards(min(0.0, low), max(0.0, high))
    try:
        return table_rewards(env)
    except ValueError:
        raise ValueError(
            "rewards must be (low, high) where the environment has no transition table, got None"
        ) from None
