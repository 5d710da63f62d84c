"""Cost processes by kind, which may replace those of the environment.

Each function takes the environment's world first and returns a cost process for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from belated import checks, costs
from belated.environments import goal_costs
from belated.lab.kinds.registry import Registry
from belated.world import World


def moving_goal(
    world: World,
    /,
    size: int | Sequence[int],
    goals: Sequence[Sequence[int]],
    every: int,
    drift: bool = False,
) -> costs.CostProcess:
    """Goals of a grid that take turns, each for `every` episodes, or drift from one to the next.

    size: of the grid. goals: (row, column) pairs; the cost is 0 in the goal and 1 elsewhere.
    """
    shape = _pair("size", size) if isinstance(size, Sequence) else size
    if not isinstance(goals, tuple | list) or not goals:
        raise ValueError(f"goals must be pairs of row and column, got {checks.show(goals)}")
    functions = [goal_costs(shape, _pair(f"goals[{i}]", goal)) for i, goal in enumerate(goals)]
    turning = costs.drifting if checks.flag("drift", drift) else costs.switching
    return turning(functions, every)


def _pair(name: str, value: object) -> tuple[int, int]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{name} must be a pair of row and column, got {checks.show(value)}")
    first, second = (checks.integer(name, number, 0) for number in value)
    return first, second


def blocks(world: World, /, length: int) -> costs.CostProcess:
    """Costs 0 or 1, drawn anew for each action every `length` episodes."""
    return costs.blocks(world.problem.states, world.problem.actions, length)


def random(world: World, /, seed: int = 0, noise: str = "bernoulli") -> costs.CostProcess:
    """Independent costs around means that the seed draws uniformly from [0, 1]."""
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    means = rng.random((1, world.problem.states, world.problem.actions))
    return costs.stochastic(means, noise=noise)


COSTS = Registry({"blocks": blocks, "moving_goal": moving_goal, "random": random})
