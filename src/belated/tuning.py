"""The parameters for which the papers prove their bounds; each is defined beside its algorithm."""

from belated.core.contract import PATHS as PATHS
from belated.tabular.dapo import DAPOSetting as DAPOSetting, dapo as dapo
from belated.tabular.oreps.agent import OREPSSetting as OREPSSetting, oreps as oreps
from belated.tabular.oreps.ftrl import (
    PRACTICE as PRACTICE,
    FTRLSetting as FTRLSetting,
    ftrl as ftrl,
)
from belated.tabular.oreps.uob import (
    UOBSetting as UOBSetting,
    layered as layered,
    uob_reps as uob_reps,
)
from belated.tabular.tuning import (
    Arms as Arms,
    BanditFeedback as BanditFeedback,
    FullInformation as FullInformation,
    Parameters as Parameters,
    Setting as Setting,
    Stochastic as Stochastic,
    exp3 as exp3,
    exploration_threshold as exploration_threshold,
    oppo_bandit as oppo_bandit,
    oppo_full as oppo_full,
)
from belated.tabular.ucbvi import UCBVISetting as UCBVISetting
