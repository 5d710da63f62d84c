"""Cost processes for a world, in place of its own costs; each function takes the world first."""

from collections.abc import Sequence

import numpy as np

from belated.core import checks
from belated.tabular import costs
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
