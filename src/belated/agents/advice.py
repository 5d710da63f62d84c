"""Which agent should I use?

    what is seen and known                               agent
    full information, known transitions                  DelayedOPPO
    full information, unknown, paths at once             DelayedOPPO
    full information, unknown, paths delayed             DelayedOPPO with explicit exploration,
                                                         in Skipping (D known) or Doubling (not)
    bandit, one step from one state                      DelayedOPPO: delayed EXP3
    bandit, K and D known                                DelayedOPPO in Skipping
    bandit, K or D not known                             DelayedOPPO in Doubling
    bandit, costs from fixed laws                        DelayedUCBVI, with explicit exploration
                                                         where the largest delay is known and
                                                         there are many actions

Step sizes come from `tuning` where K and D are known; else from the anytime rule, or from phases.
These choices have guarantees, with constants that are far too careful for short runs. With
aim="practice", unknown dynamics are treated as in the paper's experiments instead: observed
frequencies, a bonus of 1 / sqrt(n) and a step size of 5 / H (0.1 at H = 50), no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from belated import checks, tuning
from belated.agents.contract import Agent, Information
from belated.agents.doubling import Doubling
from belated.agents.oppo import DelayedOPPO, is_bandit
from belated.agents.skipping import Skipping
from belated.agents.ucbvi import DelayedUCBVI
from belated.problem import Problem
from belated.transitions import Transitions


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """An agent by name, its parameters, why, and a function that makes it."""

    name: str
    parameters: dict[str, Any]
    reason: str
    make: Callable[[], Agent]


def recommend(problem: Problem, **known: Any) -> Agent:
    """A ready agent for what is seen and known; takes what `advise` takes."""
    return advise(problem, **known).make()


def advise(
    problem: Problem,
    *,
    information: Information = "full",
    transitions: Transitions | None = None,
    trajectory: str = "delayed",
    costs: str = "adversarial",
    episodes: int | None = None,
    total_delay: float | None = None,
    max_delay: float | None = None,
    aim: str = "guarantee",
) -> Advice:
    """Name the agent for a setting, with its parameters and the reason.

    Args:
        problem: states, actions, horizon, start.
        information: "full" or "bandit".
        transitions: the dynamics, if known.
        trajectory: whether paths come "delayed", with the costs, or "immediate".
        costs: "adversarial", or "stochastic": drawn from fixed laws.
        episodes: K, if known.
        total_delay: D, if known.
        max_delay: the largest delay, if known.
        aim: "guarantee", or "practice" for unknown dynamics in short runs.
    """
    checks.instance("problem", problem, Problem)
    if max_delay is not None:
        max_delay = checks.real("max_delay", max_delay, 0.0)
    checks.choice("information", information, ("full", "bandit"))
    checks.choice("trajectory", trajectory, ("delayed", "immediate"))
    checks.choice("costs", costs, ("adversarial", "stochastic"))
    checks.choice("aim", aim, ("guarantee", "practice"))
    common: dict[str, Any] = {"information": information, "episodes": episodes}
    if transitions is not None:
        common["transitions"] = transitions

    if information == "bandit" and costs == "stochastic" and transitions is not None:
        settings = {**common, "costs": "stochastic"}
        return _oppo(problem, settings, "mean costs on known transitions, at the anytime step size")
    if information == "bandit" and costs == "stochastic":
        return _stochastic(problem, episodes, max_delay, aim)
    if aim == "practice" and transitions is None and information == "full":
        settings = {**common, "optimism": "bonus", "learning_rate": 5.0 / problem.horizon}
        reason = "as in the paper's experiments: quick to learn, no guarantee"
        return _oppo(problem, settings, reason)
    if information == "bandit" and is_bandit(problem):
        reason = "delayed EXP3; its anytime step size needs neither K nor D"
        if episodes is not None and total_delay is not None:
            common |= tuning.exp3(problem, episodes, total_delay)
            reason = "delayed EXP3, tuned for K and D"
        return _oppo(problem, common, reason)
    if information == "bandit":
        return _bandit(problem, common, trajectory, episodes, total_delay)
    if transitions is None and trajectory == "delayed":
        return _late_paths(problem, common, episodes, total_delay, max_delay)
    reason = "the anytime step size needs neither K nor D, and the largest delay plays no role"
    if episodes is not None and total_delay is not None:
        common |= tuning.oppo_full(problem, episodes, total_delay, log_actions=True)
        reason = "tuned for K and D; the largest delay plays no role"
    return _oppo(problem, common, reason)


def _oppo(problem: Problem, settings: dict[str, Any], reason: str) -> Advice:
    return Advice("DelayedOPPO", settings, reason, lambda: DelayedOPPO(problem, **settings))


def _skipping(problem: Problem, settings: dict[str, Any], beta: float, reason: str) -> Advice:
    return Advice(
        "Skipping(DelayedOPPO)",
        {**settings, "skip_beyond": beta},
        reason,
        lambda: Skipping(DelayedOPPO(problem, **settings), beta),
    )


def _doubling(problem: Problem, settings: dict[str, Any], trajectory: str, reason: str) -> Advice:
    return Advice(
        "Doubling(DelayedOPPO)",
        {**settings, "trajectory": trajectory},
        reason,
        lambda: Doubling(DelayedOPPO(problem, **settings), trajectory=trajectory),
    )


def _bandit(
    problem: Problem,
    common: dict[str, Any],
    trajectory: str,
    episodes: int | None,
    total_delay: float | None,
) -> Advice:
    if episodes is None or total_delay is None:
        started = {**common, "learning_rate": 1.0, "exploration": 1.0}
        reason = "step size, exploration and skipping follow the phases; K and D are not needed"
        return _doubling(problem, started, trajectory, reason)
    paths = "known"
    if "transitions" not in common:
        paths = "unknown, paths " + ("at once" if trajectory == "immediate" else "delayed")
    tuned = tuning.parameters(f"bandit, {paths}", problem, episodes, total_delay)
    reason = "tuned for K and D; feedback beyond the threshold costs more than it gives"
    return _skipping(problem, {**common, **tuned.keywords()}, tuned.max_delay, reason)


def _late_paths(
    problem: Problem,
    common: dict[str, Any],
    episodes: int | None,
    total_delay: float | None,
    max_delay: float | None,
) -> Advice:
    exploring = {**common, "explicit_exploration": True}
    if episodes is None or total_delay is None:
        # the phases replace the threshold of explicit exploration from the start
        reason = "step size, skipping and explicit exploration follow the phases"
        return _doubling(problem, {**exploring, "max_delay": 1.0}, "delayed", reason)
    tuned = tuning.parameters("full, unknown, paths delayed", problem, episodes, total_delay)
    settings = {**exploring, **tuned.keywords()}
    if max_delay is not None and max_delay <= tuned.max_delay:
        reason = "tuned for K and D; explicit exploration follows the largest delay"
        return _oppo(problem, {**settings, "max_delay": max_delay}, reason)
    reason = "tuned for K and D; skipping makes its threshold the largest delay that counts"
    return _skipping(problem, {**settings, "max_delay": tuned.max_delay}, tuned.max_delay, reason)


def _stochastic(
    problem: Problem, episodes: int | None, max_delay: float | None, aim: str
) -> Advice:
    settings: dict[str, Any] = {"episodes": episodes}
    reason = "optimistic planning on what was observed; its regret does not grow with D"
    rows = problem.horizon * problem.states * problem.actions
    if aim == "practice":
        settings["bonus_scale"] = 0.1
    elif max_delay is not None and problem.actions > 2 * math.log(rows / 0.1):
        settings |= {"explicit_exploration": True, "max_delay": max_delay}
        reason += "; many actions, so explicit exploration wastes less of it"
    return Advice("DelayedUCBVI", settings, reason, lambda: DelayedUCBVI(problem, **settings))
