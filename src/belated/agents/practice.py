"""The agent for practice: what `recommend` gives.

It learns from a few thousand episodes without being told K, D or a step size, under costs that
change, noise, and lost feedback. docs/practice.md says what it was measured on and against what.
"""

from __future__ import annotations

from belated.agents.contract import Information
from belated.agents.oppo import DelayedOPPO
from belated.agents.parts.blend import Blend
from belated.agents.parts.costs import Revealed
from belated.agents.parts.explore import UniformShare
from belated.agents.parts.planned import Planned
from belated.agents.parts.predicted import KEEP, Predicted
from belated.agents.parts.regret_matching import RegretMatching
from belated.agents.parts.transitions import Observed
from belated.problem import Problem
from belated.transitions import Transitions


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
