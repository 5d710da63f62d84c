"""Functions that make worlds."""

from belated.linear.world import DecisionWorld as DecisionWorld, Visits as Visits
from belated.linear.worlds import (
    conversions as conversions,
    items as items,
    mailer as mailer,
    outcomes as outcomes,
)
from belated.tabular.environments import *  # noqa: F403 - worlds with states
