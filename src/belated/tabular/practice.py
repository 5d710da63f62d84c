"""The agents for practice: what `recommend` gives.

They learn from a few thousand episodes without being told K, D or a step size, under costs that
change, noise, and lost feedback. Under bandit feedback it is `DelayedPlanner`; under full
information `InformedPlanner`, which has regret matching+ beside its plan. docs/practice.md says
what they were measured on and against what.
"""

from __future__ import annotations

from belated.core.contract import Information
from belated.tabular.informed import InformedPlanner
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
) -> DelayedPlanner | InformedPlanner:
    """The agent for practice.

    Args:
        problem: states, actions, horizon, start.
        information: "full" or "bandit".
        transitions: the dynamics, if known.
        changing: whether costs may change; if not, nothing is spent on noticing it.
        seed: of the agent's own draws, if it draws.
    """
    if information == "full":
        return InformedPlanner(problem, transitions=transitions, changing=changing)
    return DelayedPlanner(problem, transitions=transitions, changing=changing, seed=seed)
