"""Learning from delayed feedback."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from belated.names import MODULES, TOP

if TYPE_CHECKING:
    from belated import (
        costs as costs,
        delays as delays,
        environments as environments,
        evaluation as evaluation,
        lab as lab,
        parts as parts,
        planning as planning,
        saving as saving,
        stale as stale,
        testing as testing,
        tuning as tuning,
        wrappers as wrappers,
    )
    from belated.advice import advise as advise, recommend as recommend
    from belated.core.contract import (
        Agent as Agent,
        Decision as Decision,
        Episode as Episode,
        FeedbackError as FeedbackError,
    )
    from belated.core.delays import NEVER as NEVER, DelayLine as DelayLine
    from belated.core.inbox import Inbox as Inbox, Outcome as Outcome, Report as Report
    from belated.core.saving import SavedFileError as SavedFileError, load as load, save as save
    from belated.linear.choice import Choice as Choice
    from belated.linear.features import Features as Features
    from belated.linear.reward import Reward as Reward
    from belated.linear.sampler import LinearSampler as LinearSampler
    from belated.simulation import Run as Run, simulate as simulate
    from belated.tabular.dapo import DAPO as DAPO
    from belated.tabular.oppo import DelayedOPPO as DelayedOPPO
    from belated.tabular.oreps.agent import DelayedOREPS as DelayedOREPS
    from belated.tabular.oreps.ftrl import DelayedFTRL as DelayedFTRL
    from belated.tabular.oreps.uob import UOBREPS as UOBREPS
    from belated.tabular.problem import Problem as Problem
    from belated.tabular.records import (
        Costs as Costs,
        StepCost as StepCost,
        Trajectory as Trajectory,
    )
    from belated.tabular.rivals.posterior_sampling import PosteriorSampling as PosteriorSampling
    from belated.tabular.rivals.thompson_sampling import ThompsonSampling as ThompsonSampling
    from belated.tabular.transitions import Transitions as Transitions
    from belated.tabular.ucbvi import DelayedUCBVI as DelayedUCBVI
    from belated.tabular.world import MDP as MDP, World as World
    from belated.tabular.zimmert_seldin import ZimmertSeldin as ZimmertSeldin

__version__ = "0.3.0"

__all__ = sorted([*TOP, *MODULES.split()])  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in TOP and find_spec(f"belated.{name}") is None:
        raise AttributeError(f"module 'belated' has no attribute {name!r}")
    home = import_module(f"belated.{TOP.get(name, name)}")
    globals()[name] = getattr(home, name) if name in TOP else home
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
