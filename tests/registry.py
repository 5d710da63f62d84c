"""Every agent, by name, made for a world. The contract and the leakage test run over all."""

from collections.abc import Callable

import belated as bl


def known(world: bl.World) -> dict:
    return {"transitions": world.mdp.transitions}


AGENTS: dict[str, Callable[[bl.World], bl.Agent]] = {
    "oppo known full anytime": lambda w: bl.DelayedOPPO(w.problem, **known(w)),
    "oppo known full constant": lambda w: bl.DelayedOPPO(w.problem, learning_rate=0.3, **known(w)),
    "oppo known bandit": lambda w: bl.DelayedOPPO(
        w.problem, information="bandit", learning_rate=0.1, exploration=0.1, **known(w)
    ),
    "oppo confidence full": lambda w: bl.DelayedOPPO(
        w.problem, learning_rate=0.3, radius_scale=0.05
    ),
    "oppo confidence full exploring": lambda w: bl.DelayedOPPO(
        w.problem, explicit_exploration=True, exploration_threshold=3, radius_scale=0.1
    ),
    "oppo confidence bandit": lambda w: bl.DelayedOPPO(
        w.problem, information="bandit", learning_rate=0.1, exploration=0.1, radius_scale=0.05
    ),
    "oppo confidence bandit exploring": lambda w: bl.DelayedOPPO(
        w.problem,
        information="bandit",
        learning_rate=0.1,
        exploration=0.1,
        explicit_exploration=True,
        exploration_threshold=3,
    ),
    "oppo bonus full": lambda w: bl.DelayedOPPO(w.problem, learning_rate=0.3, optimism="bonus"),
    "oppo bonus full exploring": lambda w: bl.DelayedOPPO(
        w.problem,
        learning_rate=0.3,
        optimism="bonus",
        explicit_exploration=True,
        exploration_threshold=2,
    ),
    "oppo stochastic known": lambda w: bl.DelayedOPPO(
        w.problem, information="bandit", costs="stochastic", radius_scale=0.1, **known(w)
    ),
    "oppo stochastic confidence": lambda w: bl.DelayedOPPO(
        w.problem, information="bandit", costs="stochastic", learning_rate=0.3, radius_scale=0.1
    ),
    "oppo stochastic bonus exploring": lambda w: bl.DelayedOPPO(
        w.problem,
        information="bandit",
        costs="stochastic",
        homogeneous_costs=True,
        learning_rate=0.3,
        optimism="bonus",
        explicit_exploration=True,
        exploration_threshold=2,
    ),
}
