"""Agents on occupancy measures: O-REPS, UOB-REPS and FTRL, and Newton's methods for them."""

from belated.agents.oreps.agent import DelayedOREPS
from belated.agents.oreps.ftrl import DelayedFTRL
from belated.agents.oreps.uob import UOBREPS

__all__ = ["UOBREPS", "DelayedFTRL", "DelayedOREPS"]
