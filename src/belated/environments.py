"""Functions that make ready worlds."""

from belated.tabular.environments import (
    Rewards,
    bandit,
    bandit_lower_bound,
    chain,
    deep_sea,
    delay_lower_bound,
    dynamics_lower_bound,
    from_gymnasium,
    goal_costs,
    gridworld,
    gym_problem,
    lock,
    paper_grid,
    paper_walled_grid,
    random_mdp,
    table_rewards,
)

__all__ = [
    "Rewards",
    "bandit",
    "bandit_lower_bound",
    "chain",
    "deep_sea",
    "delay_lower_bound",
    "dynamics_lower_bound",
    "from_gymnasium",
    "goal_costs",
    "gridworld",
    "gym_problem",
    "lock",
    "paper_grid",
    "paper_walled_grid",
    "random_mdp",
    "table_rewards",
]
