"""Functions that make ready worlds."""

from belated.linear.world import DecisionWorld, Visits
from belated.linear.worlds import conversions, items, labelled, landings, mailer, outcomes
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
    "DecisionWorld",
    "Rewards",
    "Visits",
    "bandit",
    "bandit_lower_bound",
    "chain",
    "conversions",
    "deep_sea",
    "delay_lower_bound",
    "dynamics_lower_bound",
    "from_gymnasium",
    "goal_costs",
    "gridworld",
    "gym_problem",
    "items",
    "labelled",
    "landings",
    "lock",
    "mailer",
    "outcomes",
    "paper_grid",
    "paper_walled_grid",
    "random_mdp",
    "table_rewards",
]
