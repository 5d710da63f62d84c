"""The agent for practice: what `recommend` gives.

It learns from a few thousand episodes without being told K, D or a step size, under costs that
change, noise, and lost feedback. docs/practice.md says what it was measured on and against what.
"""

from __future__ import annotations

from belated.core.contract import Information
from belated.tabular.oppo import DelayedOPPO
from belated.tabular.parts.blend import Blend
from belated.tabular.parts.costs import Revealed
from belated.tabular.parts.explore import UniformShare
from belated.tabular.parts.planned import Planned
from belated.tabular.parts.predicted import KEEP, Predicted
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Observed
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions


def uniform_share(horizon: int) -> float:
    """The share of uniform play under bandit feedback, from 4 % for arms to 1 % for ten steps.

    It is the price of noticing an improvement where nobody plays; every step pays it.
    """
    return min(0.04, max(0.01, 0.1 / horizon))


def practical(
    problem: Problem,
    information: Information,
    transitions: Transitions | None = None,
    *,
    changing: bool = True,
) -> DelayedOPPO:
    """A blend of regret matching+ and planning with memories of several lengths.

    Args:
        problem: states, actions, horizon, start.
        information: "full" or "bandit".
        transitions: the dynamics, if known.
        changing: whether costs may change; if not, no share of uniform play is spent on noticing.
    """
    full = information == "full"
    plans = tuple(Planned(keep=keep) for keep in KEEP) if full else (Planned(), Planned(keep=0.9))
    watched = not full and changing
    return DelayedOPPO(
        problem,
        transitions=Observed() if transitions is None else transitions,
        costs=Revealed() if full else Predicted(),
        update=Blend(RegretMatching(), *plans),
        explore=UniformShare(uniform_share(problem.horizon)) if watched else None,
    )
