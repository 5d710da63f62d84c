"""The kinds that a file may name, in one registry per sort of part."""

from belated.config.agents import AGENTS, DECIDERS, PARTS
from belated.config.scenes import COSTS, DELAYS, ENVIRONMENTS

__all__ = ["AGENTS", "COSTS", "DECIDERS", "DELAYS", "ENVIRONMENTS", "PARTS", "SCENE"]

SCENE = {"environment": ENVIRONMENTS, "costs": COSTS, "delays": DELAYS}
"""The kinds of the parts that make a scene, by key."""
