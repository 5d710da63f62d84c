"""The kinds that an experiment may name, in one registry per sort of part."""

from belated.config.agents import AGENTS as AGENTS
from belated.config.costs import COSTS as COSTS
from belated.config.flights import flights
from belated.config.registry import Registry, of_problem
from belated.core import delays
from belated.linear.sampler import LinearSampler
from belated.tabular import environments

DECIDERS = Registry({"linear_sampler": of_problem(LinearSampler)})
"""Agents for decisions with features."""
ENVIRONMENTS = Registry(
    {
        "bandit": environments.bandit,
        "bandit_lower_bound": environments.bandit_lower_bound,
        "chain": environments.chain,
        "deep_sea": environments.deep_sea,
        "delay_lower_bound": environments.delay_lower_bound,
        "dynamics_lower_bound": environments.dynamics_lower_bound,
        "gridworld": environments.gridworld,
        "gymnasium": environments.from_gymnasium,
        "lock": environments.lock,
        "random_mdp": environments.random_mdp,
    }
)
DELAYS = Registry(
    {
        "bursts": delays.bursts,
        "by_action": delays.by_action,
        "by_outcome": delays.by_outcome,
        "fixed": delays.fixed,
        "flights": flights,
        "geometric": delays.geometric,
        "heavy_tailed": delays.heavy_tailed,
        "lost": delays.lost,
        "monotone": delays.monotone,
        "nightly": delays.nightly,
        "none": delays.none,
        "poisson": delays.poisson,
        "trace": delays.trace,
        "uniform": delays.uniform,
    },
    same=("model", "models", "otherwise", "within"),
)
