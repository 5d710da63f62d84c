"""Cost processes: the costs of the episodes of a world."""

from belated.tabular.costs import (
    CostProcess,
    blocks,
    changing,
    drifting,
    expected,
    fixed,
    noisy,
    sequence,
    stochastic,
    switching,
    walking,
)

__all__ = [
    "CostProcess",
    "blocks",
    "changing",
    "drifting",
    "expected",
    "fixed",
    "noisy",
    "sequence",
    "stochastic",
    "switching",
    "walking",
]
