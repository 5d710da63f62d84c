"""The algorithms: agents that any program can drive with two calls."""

from belated.agents.advice import Advice, advise, recommend
from belated.agents.contract import Agent, Information
from belated.agents.doubling import Doubling
from belated.agents.oppo import DelayedOPPO
from belated.agents.parallel import Bold, Parallel
from belated.agents.pipeline import Pipeline
from belated.agents.skipping import Skipping
from belated.agents.ucbvi import DelayedUCBVI

__all__ = [
    "Advice",
    "Agent",
    "Bold",
    "DelayedOPPO",
    "DelayedUCBVI",
    "Doubling",
    "Information",
    "Parallel",
    "Pipeline",
    "Skipping",
    "advise",
    "recommend",
]
