"""The paper's parameters for a setting, as keywords for the agent.

agent = DelayedOPPO(problem, **tuning.oppo_full(problem, episodes=500, total_delay=5000))
"""

import math

from belated import checks
from belated.problem import Problem


def oppo_full(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, log_actions: bool = False
) -> dict[str, float]:
    """Delayed OPPO, full information: eta = 1 / (H sqrt(K + D)).

    log_actions: the minimiser of the bound H ln(A) / eta + eta H^3 (K + D), which has a factor
    sqrt(ln A) more.
    """
    K, D = _horizon(episodes, total_delay)
    factor = math.sqrt(math.log(problem.actions)) if log_actions else 1.0
    return {"learning_rate": factor / (problem.horizon * math.sqrt(K + D))}


def oppo_bandit(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed OPPO, bandit feedback: eta = N^{-2/3} / H, gamma = N^{-1/3}, N = A^{3/2} K + D."""
    K, D = _horizon(episodes, total_delay)
    N = problem.actions**1.5 * K + D
    return {"learning_rate": N ** (-2 / 3) / problem.horizon, "exploration": N ** (-1 / 3)}


def _horizon(episodes: object, total_delay: object) -> tuple[int, float]:
    return checks.integer("episodes", episodes, 1), checks.real("total_delay", total_delay, 0.0)
