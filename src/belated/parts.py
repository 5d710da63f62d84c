"""The parts of `DelayedOPPO`: transitions, costs, updates and exploration."""

from belated.tabular.parts.costs import Averaged, Revealed, Weighted
from belated.tabular.parts.explore import FewVisits
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Bonus, Confidence
from belated.tabular.parts.update import Softmax

__all__ = [
    "Averaged",
    "Bonus",
    "Confidence",
    "FewVisits",
    "RegretMatching",
    "Revealed",
    "Softmax",
    "Weighted",
]
