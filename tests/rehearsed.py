"""What servers of tests are forked from: everything that they need is imported and compiled."""

from belated.service.config import from_table
from belated.service.learner import rehearse
from killing import LEARNERS

for one in from_table({"learners": LEARNERS}).learners:
    rehearse(one.fresh())
