"""Environments, costs and delays by kind, which are the same for all agents of a case.

Costs may replace those of the environment: each of their functions takes the environment's world
first and returns a cost process for it.
"""

from types import ModuleType

from belated.config.part import Maker, Registry
from belated.core import delays
from belated.linear import worlds
from belated.tabular import environments, world_costs


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
COSTS = Registry(_named(world_costs, "blocks moving_goal random"))
DELAYS = Registry(
    _named(delays, "bursts by_action by_outcome fixed geometric heavy_tailed lost monotone")
    | _named(delays, "nightly none")
    | {"of_world": of_world}
    | _named(delays, "per_step poisson trace uniform")
)
DELAYS.others.update(dict.fromkeys(("model", "models", "otherwise", "within"), DELAYS))
SCENE = {"environment": ENVIRONMENTS, "costs": COSTS, "delays": DELAYS}
"""The kinds of the parts that make a scene, by key."""
