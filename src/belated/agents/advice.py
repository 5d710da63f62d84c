"""Which agent should I use?

    what is seen and known                               agent
    full information, known transitions                  DelayedOPPO
    full information, unknown, paths at once             DelayedOPPO
    full information, unknown, paths late                DelayedOPPO with explicit exploration,
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
from belated.agents.oppo import CONFIDENCE, DelayedOPPO, is_bandit
from belated.agents.parts.costs import Averaged, Weighted
from belated.agents.parts.explore import FewVisits
from belated.agents.parts.transitions import Bonus, Confidence
from belated.agents.parts.update import Softmax
from belated.agents.skipping import Skipping
from belated.agents.ucbvi import DelayedUCBVI
from belated.problem import Problem
from belated.transitions import Transitions


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """An agent, why, and a function that makes it.

    Attributes:
        name: the classes of the agent.
        call: the call that makes it.
        reason: why this one.
        make: makes a fresh one.
    """

    name: str
    call: str
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
    paths: str = "late",
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
        paths: whether trajectories come "late", with the costs, or "at once".
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
    checks.choice("paths", paths, tuning.PATHS)
    checks.choice("costs", costs, ("adversarial", "stochastic"))
    checks.choice("aim", aim, ("guarantee", "practice"))
    known = transitions is not None
    dynamics: Any = Confidence(episodes=episodes) if transitions is None else transitions
    common: dict[str, Any] = {"transitions": dynamics}

    if information == "bandit" and costs == "stochastic" and known:
        settings = {**common, "costs": Averaged()}
        return _oppo(problem, settings, "mean costs on known transitions, at the anytime step size")
    if information == "bandit" and costs == "stochastic":
        return _stochastic(problem, episodes, max_delay, aim)
    if aim == "practice" and not known and information == "full":
        settings = {"transitions": Bonus(), "update": Softmax(5.0 / problem.horizon)}
        reason = "as in the paper's experiments: quick to learn, no guarantee"
        return _oppo(problem, settings, reason)
    if information == "bandit" and is_bandit(problem):
        settings = {**common, "costs": Weighted()}
        reason = "delayed EXP3; its anytime step size needs neither K nor D"
        if episodes is not None and total_delay is not None:
            rate = tuning.exp3(problem, episodes, total_delay)["learning_rate"]
            settings["update"] = Softmax(rate)
            reason = "delayed EXP3, tuned for K and D"
        return _oppo(problem, settings, reason)
    if information == "bandit":
        return _bandit(problem, common, known, paths, episodes, total_delay)
    if not known and paths == "late":
        return _late_paths(problem, common, episodes, total_delay, max_delay)
    reason = "the anytime step size needs neither K nor D, and the largest delay plays no role"
    if episodes is not None and total_delay is not None:
        tuned = tuning.oppo_full(problem, episodes, total_delay, log_actions=True)
        common["update"] = Softmax(**tuned)
        reason = "tuned for K and D; the largest delay plays no role"
    return _oppo(problem, common, reason)


def _advice(name: str, make: Callable[[], Agent], reason: str) -> Advice:
    return Advice(name, repr(make()), reason, make)


def _oppo(problem: Problem, settings: dict[str, Any], reason: str) -> Advice:
    return _advice("DelayedOPPO", lambda: DelayedOPPO(problem, **settings), reason)


def _skipping(problem: Problem, settings: dict[str, Any], beta: float, reason: str) -> Advice:
    return _advice(
        "Skipping(DelayedOPPO)",
        lambda: Skipping(DelayedOPPO(problem, **settings), beta),
        reason,
    )


def _doubling(problem: Problem, settings: dict[str, Any], paths: str, reason: str) -> Advice:
    return _advice(
        "Doubling(DelayedOPPO)",
        lambda: Doubling(DelayedOPPO(problem, **settings), paths=paths),
        reason,
    )


def _bandit(
    problem: Problem,
    common: dict[str, Any],
    known: bool,
    paths: str,
    episodes: int | None,
    total_delay: float | None,
) -> Advice:
    if episodes is None or total_delay is None:
        started = {**common, "costs": Weighted(1.0), "update": Softmax(1.0)}
        reason = "step size, exploration and skipping follow the phases; K and D are not needed"
        return _doubling(problem, started, paths, reason)
    setting = tuning.Setting(
        information="bandit", dynamics="known" if known else "unknown", paths=paths
    )
    tuned = setting.at(problem, episodes, total_delay)
    settings = {
        **common,
        "costs": Weighted(tuned.exploration),
        "update": Softmax(tuned.learning_rate),
    }
    reason = "tuned for K and D; feedback beyond the threshold costs more than it gives"
    return _skipping(problem, settings, tuned.threshold, reason)


def _late_paths(
    problem: Problem,
    common: dict[str, Any],
    episodes: int | None,
    total_delay: float | None,
    max_delay: float | None,
) -> Advice:
    if episodes is None or total_delay is None:
        # the phases replace the threshold of explicit exploration from the start
        reason = "step size, skipping and explicit exploration follow the phases"
        return _doubling(problem, {**common, "explore": FewVisits(max_delay=1.0)}, "late", reason)
    tuned = tuning.Setting().at(problem, episodes, total_delay)
    settings = {**common, "update": Softmax(tuned.learning_rate)}
    if max_delay is not None and max_delay <= tuned.threshold:
        reason = "tuned for K and D; explicit exploration follows the largest delay"
        return _oppo(problem, {**settings, "explore": FewVisits(max_delay=max_delay)}, reason)
    reason = "tuned for K and D; skipping makes its threshold the largest delay that counts"
    settings["explore"] = FewVisits(max_delay=tuned.threshold)
    return _skipping(problem, settings, tuned.threshold, reason)


def _stochastic(
    problem: Problem, episodes: int | None, max_delay: float | None, aim: str
) -> Advice:
    reason = "optimistic planning on what was observed; its regret does not grow with D"
    rows = problem.horizon * problem.states * problem.actions
    settings: dict[str, Any] = {"transitions": Confidence(episodes=episodes)}
    if aim == "practice":
        settings["transitions"] = Confidence(radius_scale=0.1, episodes=episodes)
    elif max_delay is not None and problem.actions > 2 * math.log(rows / CONFIDENCE.delta):
        settings["explore"] = FewVisits(max_delay=max_delay)
        reason += "; many actions, so explicit exploration wastes less of it"
    return _advice("DelayedUCBVI", lambda: DelayedUCBVI(problem, **settings), reason)
