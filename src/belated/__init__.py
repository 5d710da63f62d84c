"""Learning when feedback comes late."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belated import costs, delays, environments, saving, testing, tuning
    from belated.agents import (
        DAPO,
        Advice,
        Agent,
        Averaged,
        Blend,
        Bold,
        Bonus,
        Confidence,
        DelayedOPPO,
        DelayedUCBVI,
        DilatedBonus,
        Doubling,
        FewVisits,
        Lazy,
        Ledger,
        Locked,
        Mixture,
        Observed,
        Parallel,
        Pipeline,
        Planned,
        Predicted,
        RegretMatching,
        Restartable,
        Revealed,
        Skipping,
        Softmax,
        UniformShare,
        Weighted,
        ZimmertSeldin,
        advise,
        recommend,
    )
    from belated.agents.oreps import UOBREPS, DelayedFTRL, DelayedOREPS
    from belated.delays import NEVER, DelayLine
    from belated.feedback import Costs, Episode, FeedbackError, Record, StepCost, Trajectory
    from belated.gymnasium.loop import GymRun, gym_loop
    from belated.gymnasium.wrapper import LateRewards as LateRewards
    from belated.inbox import Inbox, Outcome, Report
    from belated.planning import (
        best_policy,
        occupancy,
        occupancy_from,
        policy_from,
        policy_values,
        transitions_from,
    )
    from belated.problem import Problem
    from belated.saving import SavedFileError, load, save, saved_configuration
    from belated.simulation import Run, simulate
    from belated.transitions import Transitions
    from belated.watching import write_diagnostics
    from belated.world import MDP, World

__version__ = "0.2.0"

__all__ = [
    "DAPO",
    "MDP",
    "NEVER",
    "UOBREPS",
    "Advice",
    "Agent",
    "Averaged",
    "Blend",
    "Bold",
    "Bonus",
    "Confidence",
    "Costs",
    "DelayLine",
    "DelayedFTRL",
    "DelayedOPPO",
    "DelayedOREPS",
    "DelayedUCBVI",
    "DilatedBonus",
    "Doubling",
    "Episode",
    "FeedbackError",
    "FewVisits",
    "GymRun",
    "Inbox",
    "Lazy",
    "Ledger",
    "Locked",
    "Mixture",
    "Observed",
    "Outcome",
    "Parallel",
    "Pipeline",
    "Planned",
    "Predicted",
    "Problem",
    "Record",
    "RegretMatching",
    "Report",
    "Restartable",
    "Revealed",
    "Run",
    "SavedFileError",
    "Skipping",
    "Softmax",
    "StepCost",
    "Trajectory",
    "Transitions",
    "UniformShare",
    "Weighted",
    "World",
    "ZimmertSeldin",
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
    "saving",
    "simulate",
    "testing",
    "transitions_from",
    "tuning",
    "write_diagnostics",
]


_NAMES = {
    "agents": "Advice Agent Averaged Blend Bold Bonus Confidence DAPO DelayedOPPO DelayedUCBVI "
    "DilatedBonus Doubling FewVisits Lazy Ledger Locked Mixture Observed Parallel Pipeline Planned "
    "Predicted RegretMatching Restartable Revealed Skipping Softmax UniformShare Weighted "
    "ZimmertSeldin advise recommend",
    "agents.oreps": "DelayedFTRL DelayedOREPS UOBREPS",
    "delays": "NEVER DelayLine",
    "feedback": "Costs Episode FeedbackError Record StepCost Trajectory",
    "gymnasium.loop": "GymRun gym_loop",
    "gymnasium.wrapper": "LateRewards",
    "inbox": "Inbox Outcome Report",
    "planning": "best_policy occupancy occupancy_from policy_from policy_values transitions_from",
    "problem": "Problem",
    "saving": "SavedFileError load save saved_configuration",
    "simulation": "Run simulate",
    "transitions": "Transitions",
    "watching": "write_diagnostics",
    "world": "MDP World",
}
"""Where names live. They are imported when they are first asked for: numba takes its time."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def _register() -> None:
    """Make the environments known to Gymnasium, if it has been imported."""
    if sys.modules.get("gymnasium") is not None:
        import_module("belated.gymnasium")


_register()


def __getattr__(name: str) -> object:
    value: object
    _register()
    if name in _HOME:
        try:
            value = getattr(import_module(f"belated.{_HOME[name]}"), name)
        except ImportError:
            if name != "LateRewards":
                raise
            raise ImportError(
                "belated.LateRewards needs Gymnasium: pip install 'belated[gymnasium]'"
            ) from None
    else:
        try:
            value = import_module(f"belated.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"belated.{name}":
                raise
            raise AttributeError(f"module 'belated' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
