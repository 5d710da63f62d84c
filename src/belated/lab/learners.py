"""Agents as an experiment describes them, made from what a learner of the run is told.

What only the simulator can know is asked for by a word, and the report says who asked:
`transitions = "known"`, `max_delay = "realised"` (the largest delay drawn, cut off at the end of
the run), `learning_rate = "tuned"` and a skipping threshold of "tuned" (the paper's, from the
number of episodes and the total delay).

Agents inside a wrapper are functions of what they are told: the copies of `parallel` are told of
their share of the episodes and of no delays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from belated import checks, tuning
from belated.agents import (
    Agent,
    Bold,
    DelayedOPPO,
    DelayedUCBVI,
    Doubling,
    Parallel,
    Pipeline,
    Skipping,
)
from belated.agents.contract import Information
from belated.agents.doubling import Restartable
from belated.agents.oreps import DelayedOREPS
from belated.arrays import Ints
from belated.problem import Problem
from belated.transitions import Transitions

Make = Callable[["Told"], Agent]


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What an agent of a run may be told, if it asks.

    Attributes:
        problem: the problem; every agent gets it.
        information: "full" or "bandit".
        trajectory: "delayed" or "immediate".
        transitions: the true ones.
        delays: (K,) as drawn.
    """

    problem: Problem
    information: Information
    trajectory: str
    transitions: Transitions
    delays: Ints

    @property
    def episodes(self) -> int:
        """K."""
        return len(self.delays)

    @property
    def total_delay(self) -> int:
        """Sum of the delays, each cut off at the end of the run."""
        return int(self._within().sum())

    @property
    def largest_delay(self) -> int:
        """The largest delay, cut off at K - 1: later is never, within the run."""
        return int(min(self.delays.max(), self.episodes - 1))

    def undelayed(self, episodes: int) -> Told:
        """The same for a learner of that many episodes without delays."""
        return replace(self, delays=np.zeros(episodes, dtype=np.int64))

    def _within(self) -> Ints:
        cut: Ints = np.minimum(self.delays, self.episodes - 1 - np.arange(self.episodes))
        return cut


def oppo(
    told: Told,
    /,
    transitions: Literal["unknown", "known"] = "unknown",
    learning_rate: float | Literal["anytime", "tuned"] = "anytime",
    rate_scale: float = 1.0,
    exploration: float | None = None,
    costs: str = "adversarial",
    homogeneous_costs: bool = False,
    optimism: str = "confidence",
    delta: float = 0.1,
    radius_scale: float = 1.0,
    bonus_scale: float = 1.0,
    explicit_exploration: bool = False,
    max_delay: float | Literal["realised"] | None = None,
    exploration_threshold: float | None = None,
) -> Agent:
    """`belated.DelayedOPPO`; "tuned" sets the exploration of bandit feedback as well."""
    checks.choice("transitions", transitions, ("unknown", "known"))
    rates: dict[str, Any] = {"exploration": exploration}
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if no number)", learning_rate, ("anytime", "tuned"))
    else:
        rates["learning_rate"] = learning_rate
    if learning_rate == "tuned":
        setting = _setting(told, known=transitions == "known", stochastic=costs == "stochastic")
        rates |= _tuned(told, setting).keywords()
    return DelayedOPPO(
        told.problem,
        information=told.information,
        transitions=told.transitions if transitions == "known" else None,
        rate_scale=rate_scale,
        costs=costs,
        homogeneous_costs=homogeneous_costs,
        optimism=optimism,
        delta=delta,
        radius_scale=radius_scale,
        bonus_scale=bonus_scale,
        explicit_exploration=explicit_exploration,
        max_delay=_largest(told, max_delay),
        exploration_threshold=exploration_threshold,
        **rates,
    )


def oreps(
    told: Told,
    /,
    transitions: Literal["unknown", "known"] = "unknown",
    learning_rate: float | Literal["tuned"] = "tuned",
    rate_scale: float = 1.0,
    delta: float = 0.1,
    radius_scale: float = 1.0,
) -> Agent:
    """`belated.DelayedOREPS`, for full information."""
    checks.choice("transitions", transitions, ("unknown", "known"))
    if told.information != "full":
        raise ValueError(f'information must be "full" for "oreps", got {told.information!r}')
    if isinstance(learning_rate, str):
        checks.choice("learning_rate (if no number)", learning_rate, ("tuned",))
        learning_rate = _tuned(told, "o-reps").learning_rate
    return DelayedOREPS(
        told.problem,
        transitions=told.transitions if transitions == "known" else None,
        learning_rate=learning_rate,
        rate_scale=rate_scale,
        delta=delta,
        radius_scale=radius_scale,
    )


def ucbvi(
    told: Told,
    /,
    homogeneous_costs: bool = False,
    delta: float = 0.1,
    bonus_scale: float = 1.0,
    explicit_exploration: bool = False,
    max_delay: float | Literal["realised"] | None = None,
    exploration_threshold: float | None = None,
) -> Agent:
    """`belated.DelayedUCBVI`, for costs drawn from fixed laws under bandit feedback."""
    if told.information != "bandit":
        raise ValueError(f'information must be "bandit" for "ucbvi", got {told.information!r}')
    return DelayedUCBVI(
        told.problem,
        homogeneous_costs=homogeneous_costs,
        delta=delta,
        bonus_scale=bonus_scale,
        explicit_exploration=explicit_exploration,
        max_delay=_largest(told, max_delay),
        exploration_threshold=exploration_threshold,
    )


def parallel(
    told: Told, /, agent: Make, max_delay: int | Literal["realised"] = "realised"
) -> Agent:
    """`belated.Parallel`: copies that take turns."""
    largest = _largest(told, max_delay)
    copies = 1 + checks.integer("max_delay", largest, 0)
    share = told.undelayed(math.ceil(told.episodes / copies))
    return Parallel(lambda: agent(share), copies - 1)


def bold(told: Told, /, agent: Make) -> Agent:
    """`belated.Bold`: copies opened when needed, each told the whole number of episodes."""
    return Bold(lambda: agent(told.undelayed(told.episodes)))


def pipeline(
    told: Told, /, agent: Make, max_delay: int | Literal["realised"] = "realised"
) -> Agent:
    """`belated.Pipeline`: every delay made the largest."""
    largest = checks.integer("max_delay", _largest(told, max_delay), 0)
    equal = replace(told, delays=np.full(told.episodes, largest, dtype=np.int64))
    return Pipeline(agent(equal), largest, trajectory=told.trajectory)


def skipping(told: Told, /, agent: Make, max_delay: float | Literal["tuned"] = "tuned") -> Agent:
    """`belated.Skipping`: what comes later than max_delay is not used."""
    inside = agent(told)
    if isinstance(max_delay, str):
        checks.choice("max_delay (if no number)", max_delay, ("tuned",))
        if not isinstance(inside, DelayedOPPO):
            raise ValueError('agent must be of kind "oppo" where max_delay is "tuned"')
        setting = inside.setting(told.trajectory)
        max_delay = _tuned(told, setting).max_delay
    return Skipping(inside, max_delay)


def doubling(told: Told, /, agent: Make) -> Agent:
    """`belated.Doubling`: restarted whenever the estimate of K and D has doubled."""
    return Doubling(cast(Restartable, agent(told)), trajectory=told.trajectory)


def _tuned(told: Told, setting: str) -> tuning.Parameters:
    return tuning.parameters(setting, told.problem, told.episodes, told.total_delay)


def _setting(told: Told, *, known: bool, stochastic: bool) -> str:
    """The row of `tuning.SETTINGS` that applies to Delayed OPPO."""
    # one place knows the rows: a throw-away agent with any step size
    agent = DelayedOPPO(
        told.problem,
        information=told.information,
        transitions=told.transitions if known else None,
        costs="stochastic" if stochastic else "adversarial",
        learning_rate=1.0,
        exploration=1.0 if told.information == "bandit" and not stochastic else None,
    )
    return agent.setting(told.trajectory)


def _largest(told: Told, max_delay: float | str | None) -> float | None:
    if isinstance(max_delay, str):
        checks.choice("max_delay (if no number)", max_delay, ("realised",))
        return told.largest_delay
    return max_delay
