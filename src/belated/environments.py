"""Functions that make worlds."""

from belated.linear.world import DecisionWorld as DecisionWorld, Visits as Visits
from belated.linear.worlds import conversions as conversions, mailer as mailer
from belated.tabular.environments import *  # noqa: F403 - worlds with states
