"""Every agent, by name, made for a world. The contract and the leakage test run on all."""

import sys
from collections.abc import Callable
from pathlib import Path

import belated as bl
from belated.parts import (
    Averaged,
    Bonus,
    Confidence,
    FewVisits,
    RegretMatching,
    Softmax,
    Weighted,
)
from belated.tabular.oreps.doubling import DoublingFTRL

sys.path.append(str(Path(__file__).parents[1]))  # for the rivals, where pytest has not added it
from benchmarks.rivals import UCB1, ActorCritic, DilatedBonus, Exp3, QLearning


def known(world: bl.World) -> dict:
    return {"transitions": world.mdp.transitions}


BANDIT = {"costs": Weighted(0.1), "update": Softmax(0.1)}
RATES = {"learning_rate": 0.1, "exploration": 0.05}
NARROW, NARROWER = Confidence(radius_scale=0.1), Confidence(radius_scale=0.05)

AGENTS: dict[str, Callable[[bl.World], bl.Agent]] = {
    "oppo known full anytime": lambda w: bl.DelayedOPPO(w.problem, **known(w)),
    "oppo known full constant": lambda w: bl.DelayedOPPO(
        w.problem, update=Softmax(0.3), **known(w)
    ),
    "oppo known bandit": lambda w: bl.DelayedOPPO(w.problem, **BANDIT, **known(w)),
    "oppo confidence full": lambda w: bl.DelayedOPPO(
        w.problem, transitions=NARROWER, update=Softmax(0.3)
    ),
    "oppo confidence full exploring": lambda w: bl.DelayedOPPO(
        w.problem, transitions=NARROW, explore=FewVisits(3)
    ),
    "oppo confidence bandit": lambda w: bl.DelayedOPPO(w.problem, transitions=NARROWER, **BANDIT),
    "oppo confidence bandit exploring": lambda w: bl.DelayedOPPO(
        w.problem, explore=FewVisits(3), **BANDIT
    ),
    "oppo bonus full": lambda w: bl.DelayedOPPO(
        w.problem, transitions=Bonus(), update=Softmax(0.3)
    ),
    "oppo bonus full exploring": lambda w: bl.DelayedOPPO(
        w.problem, transitions=Bonus(), update=Softmax(0.3), explore=FewVisits(2)
    ),
    "oppo stochastic known": lambda w: bl.DelayedOPPO(
        w.problem, costs=Averaged(scale=0.1), **known(w)
    ),
    "oppo stochastic confidence": lambda w: bl.DelayedOPPO(
        w.problem, transitions=NARROW, costs=Averaged(), update=Softmax(0.3)
    ),
    "oppo stochastic bonus exploring": lambda w: bl.DelayedOPPO(
        w.problem,
        transitions=Bonus(),
        costs=Averaged(pooled=True),
        update=Softmax(0.3),
        explore=FewVisits(2),
    ),
    "matching known full": lambda w: bl.DelayedOPPO(
        w.problem, update=RegretMatching(hints=False), **known(w)
    ),
    "matching known weighted": lambda w: bl.DelayedOPPO(
        w.problem, costs=Weighted(0.1), update=RegretMatching(), **known(w)
    ),
    "matching confidence weighted": lambda w: bl.DelayedOPPO(
        w.problem, transitions=NARROWER, costs=Weighted(0.1), update=RegretMatching()
    ),
    "matching bonus averaged exploring": lambda w: bl.DelayedOPPO(
        w.problem,
        transitions=Bonus(),
        costs=Averaged(),
        update=RegretMatching(),
        explore=FewVisits(2),
    ),
    "practice full": lambda w: bl.recommend(w.problem, information="full"),
    "practice full known": lambda w: bl.recommend(w.problem, information="full", **known(w)),
    "practice bandit": lambda w: bl.recommend(w.problem, information="bandit"),
    "practice bandit known": lambda w: bl.recommend(w.problem, information="bandit", **known(w)),
    "skipping practice bandit": lambda w: bl.wrappers.Skipping(
        bl.recommend(w.problem, information="bandit"), 4
    ),
    "doubling matching weighted": lambda w: bl.wrappers.Doubling(
        bl.DelayedOPPO(w.problem, costs=Weighted(1), update=RegretMatching(), **known(w))
    ),
    "parallel practice full": lambda w: bl.wrappers.Parallel(
        lambda: bl.recommend(w.problem, information="full"), 3
    ),
    "bold practice bandit": lambda w: bl.wrappers.Bold(
        lambda: bl.recommend(w.problem, information="bandit")
    ),
    "pipeline practice full": lambda w: bl.wrappers.Pipeline(
        bl.recommend(w.problem, information="full"), 3
    ),
    "inbox practice bandit": lambda w: bl.Inbox(bl.recommend(w.problem, information="bandit")),
    "inbox deadline": lambda w: bl.Inbox(
        bl.DelayedOPPO(w.problem, transitions=NARROW), deadline=4, default=0.5, remember=3
    ),
    "inbox grace": lambda w: bl.Inbox(
        bl.recommend(w.problem, information="bandit"), deadline=2, grace=6
    ),
    "inbox around skipping": lambda w: bl.Inbox(
        bl.wrappers.Skipping(bl.DelayedOPPO(w.problem, **BANDIT, **known(w)), 3), deadline=5
    ),
    "oreps known": lambda w: bl.DelayedOREPS(w.problem, learning_rate=0.3, **known(w)),
    "oreps unknown": lambda w: bl.DelayedOREPS(w.problem, learning_rate=0.3, transitions=NARROWER),
    "doubling oreps": lambda w: bl.wrappers.Doubling(
        bl.DelayedOREPS(w.problem, learning_rate=1, **known(w))
    ),
    "skipping oreps unknown": lambda w: bl.wrappers.Skipping(
        bl.DelayedOREPS(w.problem, learning_rate=0.3, transitions=NARROW, project="on arrival"),
        3,
    ),
    "ftrl": lambda w: bl.DelayedFTRL(w.problem, learning_rate=0.1, barrier=0.01, **known(w)),
    "doubling ftrl": lambda w: bl.wrappers.Doubling(
        bl.DelayedFTRL(w.problem, learning_rate=1, barrier=1, **known(w))
    ),
    "doubling ftrl largest": lambda w: DoublingFTRL(
        bl.DelayedFTRL(w.problem, learning_rate=1, barrier=1, **known(w))
    ),
    "uob reps": lambda w: bl.UOBREPS(w.problem, episodes=40, radius_scale=0.1, **RATES),
    "dapo known": lambda w: bl.DAPO(w.problem, **RATES, **known(w)),
    "doubling dapo known": lambda w: bl.wrappers.Doubling(
        bl.DAPO(w.problem, **RATES, **known(w)), literal=True
    ),
    "skipping dapo unknown": lambda w: bl.wrappers.Skipping(
        bl.DAPO(w.problem, episodes=40, **RATES), 3
    ),
    "lazy ucbvi": lambda w: bl.wrappers.Lazy(bl.DelayedUCBVI(w.problem, transitions=NARROW), 2),
    "ucbvi": lambda w: bl.DelayedUCBVI(w.problem, transitions=NARROW),
    "ucbvi known": lambda w: bl.DelayedUCBVI(w.problem, costs=Averaged(scale=0.1), **known(w)),
    "ucbvi bonus": lambda w: bl.DelayedUCBVI(w.problem, transitions=Bonus(0.3)),
    "ucbvi exploring": lambda w: bl.DelayedUCBVI(
        w.problem, transitions=NARROW, costs=Averaged(pooled=True), explore=FewVisits(2)
    ),
    "skipping known full": lambda w: bl.wrappers.Skipping(
        bl.DelayedOPPO(w.problem, update=Softmax(0.3), **known(w)), 3
    ),
    "skipping confidence bandit": lambda w: bl.wrappers.Skipping(
        bl.DelayedOPPO(w.problem, transitions=NARROWER, **BANDIT), 3.5
    ),
    "doubling known full": lambda w: bl.wrappers.Doubling(bl.DelayedOPPO(w.problem, **known(w))),
    "doubling known bandit": lambda w: bl.wrappers.Doubling(
        bl.DelayedOPPO(w.problem, costs=Weighted(1), update=Softmax(1), **known(w)), literal=True
    ),
    "doubling confidence full exploring": lambda w: bl.wrappers.Doubling(
        bl.DelayedOPPO(w.problem, transitions=NARROWER, explore=FewVisits(1)),
    ),
    "doubling confidence bandit": lambda w: bl.wrappers.Doubling(
        bl.DelayedOPPO(w.problem, costs=Weighted(1), update=Softmax(1)), paths="at once"
    ),
    "doubling stochastic": lambda w: bl.wrappers.Doubling(
        bl.DelayedOPPO(w.problem, transitions=NARROW, costs=Averaged())
    ),
    "parallel known full": lambda w: bl.wrappers.Parallel(
        lambda: bl.DelayedOPPO(w.problem, update=Softmax(0.3), **known(w)), 6
    ),
    "parallel bonus full": lambda w: bl.wrappers.Parallel(
        lambda: bl.DelayedOPPO(w.problem, transitions=Bonus(), update=Softmax(0.3)),
        2,
    ),
    "bold known full": lambda w: bl.wrappers.Bold(lambda: bl.DelayedOPPO(w.problem, **known(w))),
    "bold confidence bandit": lambda w: bl.wrappers.Bold(
        lambda: bl.DelayedOPPO(w.problem, transitions=NARROWER, **BANDIT)
    ),
    "pipeline known full": lambda w: bl.wrappers.Pipeline(
        bl.DelayedOPPO(w.problem, update=Softmax(0.3), **known(w)), 6
    ),
    "pipeline bonus full": lambda w: bl.wrappers.Pipeline(
        bl.DelayedOPPO(w.problem, transitions=Bonus(), update=Softmax(0.3)), 3, paths="at once"
    ),
    "pipeline around doubling": lambda w: bl.wrappers.Pipeline(
        bl.wrappers.Doubling(bl.DelayedOPPO(w.problem, **known(w))), 2
    ),
    "locked skipping": lambda w: bl.wrappers.Locked(
        bl.wrappers.Skipping(bl.DelayedOPPO(w.problem, update=Softmax(0.3), **known(w)), 3)
    ),
    "q learning": lambda w: QLearning(w.problem),
    "actor critic": lambda w: ActorCritic(w.problem),
    "posterior sampling": lambda w: bl.PosteriorSampling(w.problem, forget=0.9, seed=3),
    "skipping posterior sampling": lambda w: bl.wrappers.Skipping(
        bl.PosteriorSampling(w.problem, pooled=True), 4
    ),
    "inbox q learning": lambda w: bl.Inbox(QLearning(w.problem, optimistic=True)),
    "dilated bonus": lambda w: DilatedBonus(w.problem, episodes=40, **RATES),
    "bold dilated bonus": lambda w: bl.wrappers.Bold(
        lambda: DilatedBonus(w.problem, **RATES, **known(w))
    ),
}

ARMS: dict[str, Callable[[bl.World], bl.Agent]] = {
    "zimmert seldin": lambda w: bl.ZimmertSeldin(w.problem),
    "zimmert seldin simple": lambda w: bl.ZimmertSeldin(w.problem, "simple", scale=3.0),
    "thompson sampling": lambda w: bl.ThompsonSampling(w.problem, seed=7),
    "inbox thompson sampling": lambda w: bl.Inbox(bl.ThompsonSampling(w.problem)),
    "ucb1": lambda w: UCB1(w.problem),
    "exp3": lambda w: Exp3(w.problem),
    "exp3 constant": lambda w: Exp3(w.problem, learning_rate=0.3),
}
"""Agents for one state and one step."""
