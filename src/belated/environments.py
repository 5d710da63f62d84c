"""Functions that make worlds."""

from belated.linear.worlds import (
    DecisionWorld as DecisionWorld,
    Visits as Visits,
    conversions as conversions,
    mailer as mailer,
)
from belated.tabular.environments import *  # noqa: F403 - worlds with states
