"""The agents for practice, which `recommend` makes by default.

They learn from a few thousand episodes without knowing K, D or a step size, under changing costs,
noise, and lost feedback: `DelayedPlanner` under bandit feedback, and under full information
`InformedPlanner`, which mixes its plan with regret matching+. docs/practice.md has the measurements
and comparisons.
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
        changing: whether costs may change; if not, the agent spends nothing on detecting changes.
        seed: the seed of the agent's own draws, if it draws.
    """
    if information == "full":
        return InformedPlanner(problem, transitions=transitions, changing=changing, seed=seed)
    return DelayedPlanner(problem, transitions=transitions, changing=changing, seed=seed)
