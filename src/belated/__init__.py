"""Learning when feedback comes late."""

from typing import TYPE_CHECKING

from belated import costs, delays, environments, tuning
from belated.agents import (
    Advice,
    Agent,
    Bold,
    DelayedOPPO,
    DelayedOREPS,
    DelayedUCBVI,
    Doubling,
    Parallel,
    Pipeline,
    Skipping,
    advise,
    recommend,
)
from belated.delays import NEVER, DelayLine
from belated.feedback import Costs, Episode, FeedbackError, Record, Trajectory
from belated.gym import GymRun, gym_loop
from belated.measures import occupancy_from, policy_from, transitions_from
from belated.problem import Problem
from belated.saving import SavedFileError, load, save, saved_configuration
from belated.simulate import Run, simulate
from belated.transitions import Transitions
from belated.world import MDP, World, best_policy, occupancy, policy_values

if TYPE_CHECKING:
    from belated.gym_wrapper import LateRewards as LateRewards

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "NEVER",
    "Advice",
    "Agent",
    "Bold",
    "Costs",
    "DelayLine",
    "DelayedOPPO",
    "DelayedOREPS",
    "DelayedUCBVI",
    "Doubling",
    "Episode",
    "FeedbackError",
    "GymRun",
    "Parallel",
    "Pipeline",
    "Problem",
    "Record",
    "Run",
    "SavedFileError",
    "Skipping",
    "Trajectory",
    "Transitions",
    "World",
    "advise",
    "best_policy",
    "costs",
    "delays",
    "environments",
    "gym_loop",
    "load",
    "occupancy",
    "occupancy_from",
    "policy_from",
    "policy_values",
    "recommend",
    "save",
    "saved_configuration",
    "simulate",
    "transitions_from",
    "tuning",
]


def __getattr__(name: str) -> object:
    """`LateRewards` is a Gymnasium wrapper: it is imported when it is asked for."""
    if name == "LateRewards":
        try:
            from belated.gym_wrapper import LateRewards  # noqa: PLC0415
        except ImportError:
            raise ImportError(
                "belated.LateRewards needs Gymnasium: pip install 'belated[gymnasium]'"
            ) from None
        return LateRewards
    raise AttributeError(f"module 'belated' has no attribute {name!r}")
