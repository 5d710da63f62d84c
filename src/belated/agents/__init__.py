"""The algorithms: agents that any program can drive with two calls."""

from belated.agents.contract import Agent, Information
from belated.agents.oppo import DelayedOPPO

__all__ = ["Agent", "DelayedOPPO", "Information"]
