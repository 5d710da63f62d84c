"""The parts of `DelayedOPPO`: transitions, costs, updates and exploration."""

from belated.tabular.parts.costs import (
    Averaged as Averaged,
    Revealed as Revealed,
    Weighted as Weighted,
)
from belated.tabular.parts.explore import FewVisits as FewVisits
from belated.tabular.parts.regret_matching import RegretMatching as RegretMatching
from belated.tabular.parts.transitions import Bonus as Bonus, Confidence as Confidence
from belated.tabular.parts.update import Softmax as Softmax
