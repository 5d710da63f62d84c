"""Gymnasium environments in the feedback loop, and with late rewards.

`loop` plays environments whose probabilities are unknown, and `wrapper` delays the rewards for
learners of other libraries.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belated.gymnasium.loop import GymRun as GymRun
    from belated.gymnasium.loop import gym_loop as gym_loop
    from belated.gymnasium.wrapper import LateRewards as LateRewards


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    homes = {"GymRun": "loop", "gym_loop": "loop", "LateRewards": "wrapper"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"belated.gymnasium.{homes[name]}"), name)
