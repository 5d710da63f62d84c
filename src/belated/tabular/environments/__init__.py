"""Functions that make worlds."""

from belated.tabular.environments.gridworld import (
    goal_costs,
    gridworld,
    paper_grid,
    paper_walled_grid,
)
from belated.tabular.environments.gymnasium import (
    Rewards,
    from_gymnasium,
    gym_problem,
    table_rewards,
)
from belated.tabular.environments.tabular import (
    bandit,
    bandit_lower_bound,
    chain,
    deep_sea,
    delay_lower_bound,
    dynamics_lower_bound,
    lock,
    random_mdp,
    signals,
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
    "signals",
    "table_rewards",
]
