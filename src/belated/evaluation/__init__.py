"""What policies and lines are worth, from logs of decisions whose outcomes arrive late.

`value` estimates what another policy would have earned. A `Contest` compares lines at every look,
and `follow` feeds it from a growing log. Learners of decisions answer with `agent.verdict()`.
"""

from belated.evaluation.sequences import Contest as Contest, Interval as Interval
from belated.evaluation.values import (
    Value as Value,
    follow as follow,
    shares as shares,
    value as value,
)
from belated.linear.logs import DecisionLog as DecisionLog
