"""The kinds that an experiment may name, in one registry per sort of part."""

from belated.config.agents import AGENTS as AGENTS
from belated.config.agents import DECIDERS as DECIDERS
from belated.config.costs import COSTS as COSTS
from belated.config.flights import flights
from belated.config.registry import Registry, by_name
from belated.core import delays
from belated.linear import worlds
from belated.tabular import environments


def of_world() -> None:
    """When outcomes report by the world itself, such as flights that land."""


ENVIRONMENTS = Registry(
    by_name(
        environments.bandit,
        environments.bandit_lower_bound,
        environments.chain,
        environments.deep_sea,
        environments.delay_lower_bound,
        environments.dynamics_lower_bound,
        environments.gridworld,
    )
    | {"gymnasium": environments.from_gymnasium}
    | by_name(environments.lock, environments.random_mdp)
    | by_name(
        worlds.conversions,
        worlds.items,
        worlds.labelled,
        worlds.landings,
        worlds.mailer,
        worlds.outcomes,
    )
)
DELAYS = Registry(
    by_name(
        delays.bursts,
        delays.by_action,
        delays.by_outcome,
        delays.fixed,
        flights,
        delays.geometric,
        delays.heavy_tailed,
        delays.lost,
        delays.monotone,
        delays.nightly,
        delays.none,
        of_world,
        delays.per_step,
        delays.poisson,
        delays.trace,
        delays.uniform,
    ),
    same=("model", "models", "otherwise", "within"),
)
