"""Functions that make worlds."""

from belated.linear.world import DecisionWorld, Visits
from belated.linear.worlds import conversions, items, mailer, outcomes
from belated.tabular import environments as _tabular
from belated.tabular.environments import *  # noqa: F403 - worlds with states

__all__ = [
    "DecisionWorld",
    "Visits",
    "conversions",
    "items",
    "mailer",
    "outcomes",
]
__all__ += _tabular.__all__
