"""The algorithms: agents that any program can drive with two calls, and their parts.

`DelayedOREPS` is imported when it is asked for: its kernels take their time.
"""

from belated.agents.advice import Advice, advise, recommend
from belated.agents.contract import Agent, Information, Restartable
from belated.agents.dapo import DAPO
from belated.agents.dilated import DilatedBonus
from belated.agents.doubling import Doubling
from belated.agents.lazy import Lazy
from belated.agents.ledger import Ledger
from belated.agents.locked import Locked
from belated.agents.mixture import Mixture
from belated.agents.oppo import DelayedOPPO
from belated.agents.parallel import Bold, Parallel
from belated.agents.parts.blend import Blend
from belated.agents.parts.costs import Averaged, Revealed, Weighted
from belated.agents.parts.explore import FewVisits, UniformShare
from belated.agents.parts.planned import Planned
from belated.agents.parts.predicted import Predicted
from belated.agents.parts.regret_matching import RegretMatching
from belated.agents.parts.transitions import Bonus, Confidence, Observed
from belated.agents.parts.update import Softmax
from belated.agents.pipeline import Pipeline
from belated.agents.skipping import Skipping
from belated.agents.ucbvi import DelayedUCBVI
from belated.agents.zimmert_seldin import ZimmertSeldin

__all__ = [
    "DAPO",
    "Advice",
    "Agent",
    "Averaged",
    "Blend",
    "Bold",
    "Bonus",
    "Confidence",
    "DelayedOPPO",
    "DelayedUCBVI",
    "DilatedBonus",
    "Doubling",
    "FewVisits",
    "Information",
    "Lazy",
    "Ledger",
    "Locked",
    "Mixture",
    "Observed",
    "Parallel",
    "Pipeline",
    "Planned",
    "Predicted",
    "RegretMatching",
    "Restartable",
    "Revealed",
    "Skipping",
    "Softmax",
    "UniformShare",
    "Weighted",
    "ZimmertSeldin",
    "advise",
    "recommend",
]
