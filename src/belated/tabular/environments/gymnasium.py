"""Gymnasium environments with a transition table, as worlds with exact regret.

FrozenLake, CliffWalking and Taxi keep their probabilities in `env.unwrapped.P`. This module turns
the table into a `World`:

- Rewards become costs by one affine map, cost = (high - reward) / (high - low). Here low and high
  are the smallest and the largest number among the rewards of the table and 0 (see `Rewards`). The
  cost of a state and an action is the cost of its expected reward, so expected totals are exact.
- Termination leads to one additional state, number S, that is never left. Every step in it has
  reward 0 and the cost of that reward.
- The start distribution stays the same. The horizon replaces Gymnasium's own limit of steps.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Scale
from belated.tabular.problem import Problem, start_distribution
from belated.tabular.transitions import Transitions
from belated.tabular.world import MDP, World

if TYPE_CHECKING:
    import gymnasium

TRANSPARENT = {"OrderEnforcing", "PassiveEnvChecker", "TimeLimit", "RecordEpisodeStatistics"}
"""Wrappers that change neither rewards nor dynamics, except for the limit of steps."""


@dataclass(frozen=True, slots=True)
class Rewards:
    """The map between the rewards of one step in [low, high] and costs in [0, 1].

    The interval contains 0, the reward of every step after the end of the game.

    Attributes:
        low: the smallest reward, at most 0.
        high: the largest reward, at least 0.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.fix(self, "low", checks.real("low", self.low, -np.finfo(float).max, 0.0))
        checks.fix(self, "high", checks.real("high", self.high, 0.0))

    def costs(self, rewards: Any) -> Floats:
        """The costs in [0, 1] of rewards; a reward outside [low, high] is an error."""
        return Scale(self.low, self.high).costs("reward", rewards)

    def cost(self, reward: float) -> float:
        """The cost in [0, 1] of one reward."""
        return float(self.costs(reward))

    def total(self, cost: float, horizon: int) -> float:
        """The sum of the rewards of an episode of `horizon` steps with this total cost."""
        return Scale(self.low, self.high).total(cost, horizon)


def from_gymnasium(
    env: str | gymnasium.Env[Any, Any],
    horizon: int,
    *,
    start: object = None,
    **options: Any,
) -> World:
    """A `World` with the dynamics, rewards and start of a Gymnasium environment.

    Args:
        env: an environment with a table `env.unwrapped.P`, or its id, e.g. "FrozenLake-v1".
        horizon: the number of steps of an episode.
        start: the first state, or a distribution over the environment's S states; by default the
            environment's own `initial_state_distrib`.
        options: keywords of `gymnasium.make`, only with an id.

    Returns:
        A `World` with S + 1 states; state S is the end of the game. `table_rewards(env)` is the
        map between its costs and the rewards.

    Example:
        >>> bl.environments.from_gymnasium('FrozenLake-v1', horizon=10).problem.states
        17
    """
    made = make(env, **options)
    table = _table(made)
    rewards = table_rewards(made)
    actions = int(made.action_space.n)  # type: ignore[attr-defined]
    S = len(table)
    width = max(len(outcomes) for row in table.values() for outcomes in row.values())
    successors = np.full((1, S + 1, actions, width), S, dtype=np.int32)
    probabilities = np.zeros(successors.shape)
    probabilities[0, S, :, 0] = 1.0
    costs = np.full((1, S + 1, actions), rewards.cost(0.0))
    for s, row in table.items():
        for a, outcomes in row.items():
            expected = 0.0
            for i, (probability, following, reward, over) in enumerate(outcomes):
                successors[0, s, a, i] = S if over else following
                probabilities[0, s, a, i] = probability
                expected += probability * reward
            costs[0, s, a] = rewards.cost(min(max(expected, rewards.low), rewards.high))
    mdp = MDP(Transitions(successors, probabilities), horizon, _start(made, S, start))
    return World(mdp, costs)


def table_rewards(env: str | gymnasium.Env[Any, Any], **options: Any) -> Rewards:
    """The map from rewards to costs that `from_gymnasium` uses for this environment.

    Example:
        >>> bl.environments.table_rewards('FrozenLake-v1').high
        1.0
    """
    table = _table(make(env, **options))
    found = [
        float(reward)
        for row in table.values()
        for outcomes in row.values()
        for _, _, reward, _ in outcomes
    ]
    return Rewards(min(0.0, *found), max(0.0, *found))


def gym_problem(
    env: str | gymnasium.Env[Any, Any], horizon: int, *, start: object = None, **options: Any
) -> Problem:
    """The problem of an environment with discrete observations and actions.

    Args:
        env: an environment or its id. It needs no transition table.
        horizon: the number of steps of an episode.
        start: the first observation (counted from 0) or a distribution over all S; by default the
            environment's own `initial_state_distrib`, if it has one.
        options: keywords of `gymnasium.make`, only with an id.

    Returns:
        A homogeneous `Problem` with S + 1 states; state S is the end of the game.

    Example:
        >>> bl.environments.gym_problem('FrozenLake-v1', horizon=10).actions
        4
    """
    made = make(env, **options)
    S, A = sizes(made)
    return Problem(S + 1, A, horizon, _start(made, S, start), homogeneous=True)


def make(env: str | gymnasium.Env[Any, Any], **options: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment from its id; return an environment unchanged."""
    if isinstance(env, str):
        try:
            module = importlib.import_module("gymnasium")
        except ImportError:
            raise ImportError(
                f"env {env!r} needs Gymnasium: pip install 'belated[gymnasium]'"
            ) from None
        return module.make(env, **options)  # type: ignore[no-any-return]
    if options:
        raise ValueError(
            f"options are only for environments given by id, got {', '.join(sorted(options))}"
        )
    if not (hasattr(env, "step") and hasattr(env, "reset") and hasattr(env, "unwrapped")):
        raise ValueError(f"env must be a Gymnasium environment or its id, got {checks.show(env)}")
    return env


def sizes(env: gymnasium.Env[Any, Any]) -> tuple[int, int]:
    """The numbers of observations and actions; both spaces must be discrete."""
    found = []
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)
        if type(space).__name__ != "Discrete":
            raise ValueError(f"env must have a Discrete {name}, got {checks.show(space)}")
        found.append(int(space.n))
    return found[0], found[1]


def _table(env: gymnasium.Env[Any, Any]) -> dict[int, dict[int, list[tuple[Any, ...]]]]:
    """The transition table: a list of (p, next, reward, over) for every state and action."""
    S, A = sizes(env)
    inner: Any = env
    while hasattr(inner, "env"):
        if type(inner).__name__ not in TRANSPARENT:
            raise ValueError(
                f"env must not be wrapped in {type(inner).__name__}, which may change rewards "
                "or dynamics, so that its transition table is wrong; use gym_loop"
            )
        inner = inner.env
    table: Any = getattr(inner, "P", None)
    whole = isinstance(table, dict) and set(table) == set(range(S))
    if not (whole and all(set(row) == set(range(A)) for row in table.values())):
        raise ValueError(
            f"env must have a transition table unwrapped.P for all {S} states and {A} actions, "
            f"as FrozenLake, CliffWalking and Taxi do; got {checks.show(env)}; use gym_loop"
        )
    if getattr(inner, "fickle_passenger", False):
        raise ValueError(
            "env must follow its transition table, got fickle_passenger=True; use gym_loop"
        )
    return table  # type: ignore[no-any-return]


def _start(env: gymnasium.Env[Any, Any], states: int, start: object) -> int | tuple[float, ...]:
    """Check a start among S states and extend it to S + 1 states."""
    if start is None:
        start = getattr(env.unwrapped, "initial_state_distrib", None)
        if start is None:
            raise ValueError(
                "start must be a state or a distribution where the environment has no "
                "initial_state_distrib, got None"
            )
    checked = start_distribution(start, states)
    return checked if isinstance(checked, int) else (*checked, 0.0)
