"""Environments, costs and delays by kind, which are the same for all agents of a case.

Costs may replace those of the environment: each of their functions takes the environment's world
first and returns a cost process for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from belated.config.part import Maker, Registry, by_name
from belated.core import checks, delays
from belated.linear import worlds
from belated.tabular import costs, environments
from belated.tabular.environments import goal_costs
from belated.tabular.world import World


def moving_goal(
    world: World,
    /,
    size: int | tuple[int, int],
    goals: Sequence[tuple[int, int]],
    every: int,
    drift: bool = False,
) -> costs.CostProcess:
    """Goals of a grid that alternate, each for `every` episodes, or drift from one to the next.

    size: of the grid. goals: (row, column) pairs; the cost is 0 in the goal and 1 elsewhere.
    """
    if not isinstance(goals, tuple | list) or not goals:
        raise ValueError(f"goals must be pairs of row and column, got {checks.show(goals)}")
    functions = [goal_costs(size, goal) for goal in goals]
    turning = costs.drifting if checks.flag("drift", drift) else costs.switching
    return turning(functions, every)


def blocks(world: World, /, length: int, seed: int | None = None) -> costs.CostProcess:
    """Costs 0 or 1, drawn anew for each action every `length` episodes."""
    return costs.blocks(world.problem.states, world.problem.actions, length, seed)


def random(
    world: World,
    /,
    seed: int = 0,
    noise: str = "bernoulli",
    low: float = 0.0,
    high: float = 1.0,
) -> costs.CostProcess:
    """Independent costs around means that the seed draws uniformly from [low, high]."""
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    means = rng.random((1, world.problem.states, world.problem.actions))
    return costs.stochastic(low + (high - low) * means, noise=noise)


def _named(module: ModuleType, names: str) -> dict[str, Maker]:
    """Functions of a module as kinds."""
    return {name: getattr(module, name) for name in names.split()}


def of_world() -> None:
    """The delays of the world itself, such as the arrivals of flights."""


DECISIONS = _named(worlds, "conversions mailer")
"""Environments of decisions with features."""
ENVIRONMENTS = Registry(
    _named(environments, "bandit bandit_lower_bound chain deep_sea delay_lower_bound")
    | _named(environments, "dynamics_lower_bound gridworld")
    | {"gymnasium": environments.from_gymnasium}
    | _named(environments, "lock random_mdp signals")
    | DECISIONS
)
COSTS = Registry(by_name(blocks, moving_goal, random))
DELAYS = Registry(
    _named(delays, "bursts by_action by_outcome fixed geometric heavy_tailed lost monotone")
    | _named(delays, "nightly none")
    | {"of_world": of_world}
    | _named(delays, "per_step poisson trace uniform")
)
DELAYS.others.update(dict.fromkeys(("model", "models", "otherwise", "within"), DELAYS))
