"""Cost processes: what the episodes of a world cost."""

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
