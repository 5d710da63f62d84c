"""The parts of `DelayedOPPO`: transitions, costs, updates and exploration."""

from belated.tabular.parts.blend import Blend
from belated.tabular.parts.costs import Averaged, Revealed, Weighted
from belated.tabular.parts.explore import FewVisits, UniformShare
from belated.tabular.parts.planned import Planned
from belated.tabular.parts.predicted import Predicted
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Bonus, Confidence, Observed
from belated.tabular.parts.update import Softmax

__all__ = [
    "Averaged",
    "Blend",
    "Bonus",
    "Confidence",
    "FewVisits",
    "Observed",
    "Planned",
    "Predicted",
    "RegretMatching",
    "Revealed",
    "Softmax",
    "UniformShare",
    "Weighted",
]
