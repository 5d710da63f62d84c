"""Ready worlds: functions that return a `World`."""

from belated.environments.gridworld import goal_costs, gridworld, paper_grid, paper_walled_grid
from belated.environments.tabular import bandit, chain, delay_lower_bound, random_mdp

__all__ = [
    "bandit",
    "chain",
    "delay_lower_bound",
    "goal_costs",
    "gridworld",
    "paper_grid",
    "paper_walled_grid",
    "random_mdp",
]
