"""The parameters that the papers prove their bounds with."""

from belated.tabular.tuning import (
    Parameters,
    Setting,
    dapo,
    exp3,
    exploration_threshold,
    ftrl,
    layered,
    oppo_bandit,
    oppo_full,
    oreps,
    uob_reps,
)

__all__ = [
    "Parameters",
    "Setting",
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
