"""Grid worlds: walk from one corner to the opposite one.

The start is top left and the goal is bottom right. Every state except the goal costs 1. The learner
moves up, down, right or left; with probability `slip` the direction is drawn uniformly from all
four instead. A move against a wall or the border has no effect. The 10 x 10 grids with 50 steps are
those of the experiments of Lancewicki, Rosenberg & Mansour (2022). Their walls are not published,
so the walls here are two rows of seven cells that leave gaps on opposite sides.
"""

from collections.abc import Iterable

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.tabular.transitions import Transitions
from belated.tabular.world import MDP, World

MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1))  # up, down, right, left

PAPER_WALLS = (*((3, column) for column in range(7)), *((6, column) for column in range(3, 10)))


def gridworld(
    size: int | tuple[int, int] = 10,
    walls: Iterable[tuple[int, int]] = (),
    slip: float = 0.1,
    horizon: int = 50,
    absorbing_goal: bool = False,
) -> World:
    """A grid world.

    Args:
        size: n for n x n, or (rows, columns). States are numbered row by row.
        walls: (row, column) pairs of cells that cannot be entered.
        slip: the probability that the direction is drawn uniformly from all four.
        horizon: the number of steps.
        absorbing_goal: whether the goal, once reached, is never left.

    Example:
        >>> bl.environments.gridworld(size=3, horizon=4).problem.shape
        (4, 9, 4)
    """
    rows, columns = _size(size)
    slip = checks.real("slip", slip, 0.0, 1.0)
    blocked = np.zeros((rows, columns), dtype=bool)
    if not isinstance(walls, Iterable):
        raise ValueError(f"walls must be (row, column) pairs, got {checks.show(walls)}")
    for cell in walls:
        blocked[_cell("walls", cell, rows, columns)] = True
    for name, cell in (("the start", (0, 0)), ("the goal", (rows - 1, columns - 1))):
        if blocked[cell]:
            raise ValueError(f"walls must leave {name} free, got {cell}")

    row, column = np.divmod(np.arange(rows * columns), columns)
    landing = np.zeros((rows * columns, 4), dtype=np.int32)  # where each move leads
    for move, (down, right) in enumerate(MOVES):
        to_row = np.clip(row + down, 0, rows - 1)
        to_column = np.clip(column + right, 0, columns - 1)
        free = ~blocked[to_row, to_column] & ~blocked[row, column]
        landing[:, move] = np.where(free, to_row * columns + to_column, row * columns + column)
    if checks.flag("absorbing_goal", absorbing_goal):
        landing[-1] = rows * columns - 1

    successors = np.broadcast_to(landing[None, :, None, :], (1, rows * columns, 4, 4))
    probabilities = np.zeros((1, rows * columns, 4, 4)) + slip / 4
    probabilities[:, :, np.arange(4), np.arange(4)] += 1 - slip
    transitions = Transitions(successors, probabilities)
    goal = goal_costs((rows, columns), (rows - 1, columns - 1))
    return World(MDP(transitions, horizon), goal)


def goal_costs(size: int | tuple[int, int], goal: tuple[int, int]) -> Floats:
    """Costs (1, S, 4): 0 in the goal cell (row, column), 1 elsewhere.

    Example:
        >>> bl.environments.goal_costs(3, goal=(2, 2)).shape
        (1, 9, 4)
    """
    rows, columns = _size(size)
    costs = np.ones((1, rows, columns, 4))
    costs[(0, *_cell("goal", goal, rows, columns))] = 0.0
    return costs.reshape(1, rows * columns, 4)


def paper_grid() -> World:
    """The plain 10 x 10 grid of the paper: 50 steps, slip 0.1, optimal value 21.34.

    Example:
        >>> bl.environments.paper_grid().problem.states
        100
    """
    return gridworld()


def paper_walled_grid() -> World:
    """The 10 x 10 grid of the paper with two walls of seven cells.

    Example:
        >>> bl.environments.paper_walled_grid().problem.states
        100
    """
    return gridworld(walls=PAPER_WALLS)


def _size(size: object) -> tuple[int, int]:
    if isinstance(size, tuple | list) and len(size) == 2:
        rows, columns = (checks.integer(f"size[{i}]", n, 1) for i, n in enumerate(size))
    else:
        rows = columns = checks.integer("size", size, 1)
    checks.room(rows * columns * 16, size=size)
    return rows, columns


def _cell(name: str, cell: object, rows: int, columns: int) -> tuple[int, int]:
    if not (isinstance(cell, tuple | list) and len(cell) == 2):
        raise ValueError(f"{name} must be (row, column) pairs, got {checks.show(cell)}")
    return (
        checks.integer(f"row of {name}", cell[0], 0, rows - 1),
        checks.integer(f"column of {name}", cell[1], 0, columns - 1),
    )
