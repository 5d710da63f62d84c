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
    "oreps known": lambda w: bl.DelayedOREPS(w.problem, learning_rate=0.3, **known(w)),
    "oreps unknown": lambda w: bl.DelayedOREPS(w.problem, learning_rate=0.3, radius_scale=0.05),
    "doubling oreps": lambda w: bl.Doubling(
        bl.DelayedOREPS(w.problem, learning_rate=1, **known(w))
    ),
    "skipping oreps unknown": lambda w: bl.Skipping(
        bl.DelayedOREPS(w.problem, learning_rate=0.3, radius_scale=0.1), 3
    ),
    "ucbvi": lambda w: bl.DelayedUCBVI(w.problem, bonus_scale=0.1),
    "ucbvi exploring": lambda w: bl.DelayedUCBVI(
        w.problem,
        homogeneous_costs=True,
        explicit_exploration=True,
        exploration_threshold=2,
        bonus_scale=0.1,
    ),
    "skipping known full": lambda w: bl.Skipping(
        bl.DelayedOPPO(w.problem, learning_rate=0.3, **known(w)), 3
    ),
    "skipping confidence bandit": lambda w: bl.Skipping(
        bl.DelayedOPPO(
            w.problem, information="bandit", learning_rate=0.1, exploration=0.1, radius_scale=0.05
        ),
        3.5,
    ),
    "doubling known full": lambda w: bl.Doubling(bl.DelayedOPPO(w.problem, **known(w))),
    "doubling known bandit": lambda w: bl.Doubling(
        bl.DelayedOPPO(w.problem, information="bandit", learning_rate=1, exploration=1, **known(w)),
        literal=True,
    ),
    "doubling confidence full exploring": lambda w: bl.Doubling(
        bl.DelayedOPPO(
            w.problem, radius_scale=0.05, explicit_exploration=True, exploration_threshold=1
        ),
    ),
    "doubling confidence bandit": lambda w: bl.Doubling(
        bl.DelayedOPPO(w.problem, information="bandit", learning_rate=1, exploration=1),
        trajectory="immediate",
    ),
    "doubling stochastic": lambda w: bl.Doubling(
        bl.DelayedOPPO(w.problem, information="bandit", costs="stochastic", radius_scale=0.1)
    ),
    "parallel known full": lambda w: bl.Parallel(
        lambda: bl.DelayedOPPO(w.problem, learning_rate=0.3, **known(w)), 6
    ),
    "parallel bonus full": lambda w: bl.Parallel(
        lambda: bl.DelayedOPPO(w.problem, learning_rate=0.3, optimism="bonus"), 2
    ),
    "bold known full": lambda w: bl.Bold(lambda: bl.DelayedOPPO(w.problem, **known(w))),
    "bold confidence bandit": lambda w: bl.Bold(
        lambda: bl.DelayedOPPO(
            w.problem, information="bandit", learning_rate=0.1, exploration=0.1, radius_scale=0.05
        )
    ),
    "pipeline known full": lambda w: bl.Pipeline(
        bl.DelayedOPPO(w.problem, learning_rate=0.3, **known(w)), 6
    ),
    "pipeline bonus full": lambda w: bl.Pipeline(
        bl.DelayedOPPO(w.problem, learning_rate=0.3, optimism="bonus"), 3, trajectory="immediate"
    ),
    "pipeline around doubling": lambda w: bl.Pipeline(
        bl.Doubling(bl.DelayedOPPO(w.problem, **known(w))), 2
    ),
}
