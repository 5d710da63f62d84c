"""Wrappers: agents that contain other agents."""

from belated.core.wrappers import (
    Bold as Bold,
    Locked as Locked,
    Parallel as Parallel,
    Pipeline as Pipeline,
    Skipping as Skipping,
)
from belated.tabular.doubling import Doubling as Doubling
from belated.tabular.lazy import Lazy as Lazy
