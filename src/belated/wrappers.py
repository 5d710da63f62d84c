"""Wrappers: agents that contain other agents."""

from belated.core.wrappers.locked import Locked
from belated.core.wrappers.parallel import Bold, Parallel
from belated.core.wrappers.pipeline import Pipeline
from belated.core.wrappers.skipping import Skipping
from belated.tabular.doubling import Doubling
from belated.tabular.lazy import Lazy

__all__ = ["Bold", "Doubling", "Lazy", "Locked", "Parallel", "Pipeline", "Skipping"]
