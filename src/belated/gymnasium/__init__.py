"""Gymnasium environments in the feedback loop, and with late rewards.

`loop` plays environments whose probabilities are unknown, and `wrapper` delays the rewards for
learners of other libraries. Importing this package imports Gymnasium, if it is installed, and
registers `belated/LateRewards-v0`. `import belated` registers it only if Gymnasium has been
imported already.
"""

import contextlib
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belated.gymnasium.loop import GymRun as GymRun
    from belated.gymnasium.loop import gym_loop as gym_loop
    from belated.gymnasium.wrapper import LateRewards as LateRewards

NAME = "belated/LateRewards-v0"
"""The id of `belated.gymnasium.LateRewards` in Gymnasium."""

with contextlib.suppress(ImportError):
    import gymnasium

    if NAME not in gymnasium.registry:
        gymnasium.register(NAME, entry_point="belated.gymnasium.wrapper:made")


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    homes = {"GymRun": "loop", "gym_loop": "loop", "LateRewards": "wrapper"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"belated.gymnasium.{homes[name]}"), name)
