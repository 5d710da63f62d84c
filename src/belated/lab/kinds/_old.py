from dataclasses import dataclass

import belated.agents as A
from belated import tuning
from belated.agents.oreps import DelayedOREPS as O
from belated.transitions import Transitions


@dataclass(frozen=True)
class Confidence:
    radius_scale: float = 1.0
    delta: float = 0.1
    episodes: int | None = None


@dataclass(frozen=True)
class Bonus:
    scale: float = 1.0


@dataclass(frozen=True)
class Revealed:
    pass


@dataclass(frozen=True)
class Weighted:
    exploration: float | None = None


@dataclass(frozen=True)
class Averaged:
    pooled: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class Softmax:
    learning_rate: float | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class FewVisits:
    threshold: float | None = None
    max_delay: float | None = None


def old(paths):
    return {"late": "delayed", "at once": "immediate"}[paths]


def trans(t):
    if isinstance(t, Transitions):
        return dict(transitions=t)
    if isinstance(t, Bonus):
        return dict(optimism="bonus", bonus_scale=t.scale)
    return dict(radius_scale=t.radius_scale, delta=t.delta, episodes=t.episodes)


class DelayedOPPO(A.DelayedOPPO):
    def __init__(
        self, problem, *, transitions=Confidence(), costs=Revealed(), update=Softmax(), explore=None
    ):
        kw = trans(transitions)
        if isinstance(costs, Weighted):
            kw |= dict(information="bandit", exploration=costs.exploration)
        if isinstance(costs, Averaged):
            kw |= dict(information="bandit", costs="stochastic", homogeneous_costs=costs.pooled)
        if explore:
            kw |= dict(
                explicit_exploration=True,
                exploration_threshold=explore.threshold,
                max_delay=explore.max_delay,
            )
        super().__init__(problem, learning_rate=update.learning_rate, rate_scale=update.scale, **kw)

    def setting(self, paths):
        return super().setting({"late": "delayed", "at once": "immediate"}.get(paths, paths))


def DelayedOREPS(problem, *, transitions, learning_rate, scale=1.0):
    return O(problem, learning_rate=learning_rate, rate_scale=scale, **trans(transitions))


def DelayedUCBVI(problem, *, transitions, costs, explore=None):
    kw = (
        dict(
            explicit_exploration=True,
            exploration_threshold=explore.threshold,
            max_delay=explore.max_delay,
        )
        if explore
        else {}
    )
    return A.DelayedUCBVI(
        problem,
        homogeneous_costs=costs.pooled,
        bonus_scale=transitions.radius_scale,
        delta=transitions.delta,
        **kw,
    )


def Pipeline(a, m, paths):
    return A.Pipeline(a, m, trajectory=old(paths))


def Doubling(a, paths):
    return A.Doubling(a, trajectory=old(paths))


def at(setting, *a):
    return tuning.parameters(setting, *a)
