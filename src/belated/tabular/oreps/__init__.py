"""Agents on occupancy measures: O-REPS, UOB-REPS and FTRL, and Newton's methods for them."""

from belated.tabular.oreps.agent import DelayedOREPS
from belated.tabular.oreps.ftrl import DelayedFTRL
from belated.tabular.oreps.uob import UOBREPS

__all__ = ["UOBREPS", "DelayedFTRL", "DelayedOREPS"]
