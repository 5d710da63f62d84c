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
from belated.agents.parts.update import Softmax
from belated.problem import Problem
from belated.transitions import Transitions

STEP = 5.0
"""The step size of the softmax member is STEP / H."""


def practical(
    problem: Problem,
    information: Information,
    transitions: Transitions | None = None,
    *,
    changing: bool = True,
) -> DelayedOPPO:
    """A blend of regret matching+, softmax and planning.

    Args:
        problem: states, actions, horizon, start.
        information: "full" or "bandit".
        transitions: the dynamics, if known.
        changing: whether costs may change; if not, no share of uniform play is spent on noticing.
    """
    full = information == "full"
    members = (RegretMatching(), Softmax(STEP / problem.horizon))
    plans = tuple(Planned(keep=keep) for keep in KEEP) if full else (Planned(),)
    return DelayedOPPO(
        problem,
        transitions=Observed() if transitions is None else transitions,
        costs=Revealed() if full else Predicted(),
        update=Blend(*members, *plans),
        explore=None if full or not changing else UniformShare(),
    )
