"""Learning when feedback comes late."""

from importlib import import_module
from typing import TYPE_CHECKING

from belated import costs, delays, environments, tuning
from belated.agents import (
    Advice,
    Agent,
    Bold,
    DelayedOPPO,
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
from belated.problem import Problem
from belated.simulate import Run, simulate
from belated.transitions import Transitions
from belated.world import MDP, World, best_policy, occupancy, policy_values

if TYPE_CHECKING:
    from belated.agents.oreps import DelayedOREPS
    from belated.gym import GymRun, gym_loop
    from belated.gym_wrapper import LateRewards as LateRewards
    from belated.measures import occupancy_from, policy_from, transitions_from
    from belated.saving import SavedFileError, load, save, saved_configuration

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


_LATER = {
    "DelayedOREPS": "belated.agents.oreps",
    "GymRun": "belated.gym",
    "LateRewards": "belated.gym_wrapper",
    "SavedFileError": "belated.saving",
    "gym_loop": "belated.gym",
    "load": "belated.saving",
    "occupancy_from": "belated.measures",
    "policy_from": "belated.measures",
    "save": "belated.saving",
    "saved_configuration": "belated.saving",
    "transitions_from": "belated.measures",
}
"""Names that are imported when they are first asked for, to keep the import of the rest short."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'belated' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_LATER[name]), name)
    except ImportError:
        if name != "LateRewards":
            raise
        raise ImportError(
            "belated.LateRewards needs Gymnasium: pip install 'belated[gymnasium]'"
        ) from None
    globals()[name] = value
    return value
