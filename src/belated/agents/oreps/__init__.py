"""Delayed O-REPS: the agent, the projection it solves, and Newton's method for it."""

from belated.agents.oreps.agent import DelayedOREPS

__all__ = ["DelayedOREPS"]
