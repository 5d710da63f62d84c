"""The parameters for which the papers prove their bounds; each is defined beside its algorithm."""

from belated.core.contract import PATHS
from belated.tabular.dapo import DAPOSetting, dapo
from belated.tabular.oreps.agent import OREPSSetting, oreps
from belated.tabular.oreps.ftrl import PRACTICE, FTRLSetting, ftrl
from belated.tabular.oreps.uob import UOBSetting, layered, uob_reps
from belated.tabular.tuning import (
    Arms,
    BanditFeedback,
    FullInformation,
    Parameters,
    Setting,
    Stochastic,
    exp3,
    exploration_threshold,
    oppo_bandit,
    oppo_full,
)
from belated.tabular.ucbvi import UCBVISetting

__all__ = [
    "PATHS",
    "PRACTICE",
    "Arms",
    "BanditFeedback",
    "DAPOSetting",
    "FTRLSetting",
    "FullInformation",
    "OREPSSetting",
    "Parameters",
    "Setting",
    "Stochastic",
    "UCBVISetting",
    "UOBSetting",
    "dapo",
    "exp3",
    "exploration_threshold",
    "ftrl",
    "layered",
    "oppo_bandit",
    "oppo_full",
    "oreps",
    "uob_reps",
]
