"""Gymnasium environments in the feedback loop, and with late rewards.

`loop` plays environments whose probabilities are unknown, and `wrapper` delays the rewards for
learners of other libraries. This package imports Gymnasium; `import belated` does not.
"""

from belated.gymnasium.loop import GymRun, gym_loop
from belated.gymnasium.wrapper import LateRewards

__all__ = ["GymRun", "LateRewards", "gym_loop"]
