"""Cost processes: the costs of the episodes of a world."""

from belated.tabular.costs import (
    CostProcess as CostProcess,
    blocks as blocks,
    changing as changing,
    drifting as drifting,
    expected as expected,
    fixed as fixed,
    noisy as noisy,
    sequence as sequence,
    stochastic as stochastic,
    switching as switching,
    walking as walking,
)
