"""The agents for practice: what `recommend` gives.

They learn from a few thousand episodes without being told K, D or a step size, under costs that
change, noise, and lost feedback. Under bandit feedback it is `DelayedPlanner`; under full
information a blend of regret matching+ and planners in the loop of Delayed OPPO. docs/practice.md
says what they were measured on and against what.
"""

from __future__ import annotations

from belated.core.contract import Information
from belated.tabular.oppo import DelayedOPPO
from belated.tabular.parts.blend import Blend
from belated.tabular.parts.costs import Revealed
from belated.tabular.parts.planned import Planned
from belated.tabular.parts.predicted import KEEP
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import Observed
from belated.tabular.planner import DelayedPlanner
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions


def practical(
    problem: Problem,
    information: Information,
    transitions: Transitions | None = None,
    *,
    changing: bool = True,
    seed: int = 0,
) -> DelayedOPPO | DelayedPlanner:
    """The agent for practice.

    Args:
        problem: states, actions, horizon, start.
        information: "full" or "bandit".
        transitions: the dynamics, if known.
        changing: whether costs may change; if not, nothing is spent on noticing it.
        seed: of the agent's own draws, if it draws.
    """
    if information == "bandit":
        return DelayedPlanner(problem, transitions=transitions, changing=changing, seed=seed)
    return DelayedOPPO(
        problem,
        transitions=Observed() if transitions is None else transitions,
        costs=Revealed(),
        update=Blend(RegretMatching(), *(Planned(keep=keep) for keep in KEEP)),
    )
