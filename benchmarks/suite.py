"""The suite: many worlds, cost processes and delays, and one score for each.

Sizes and seeds differ from those on which the recommended agent and the rivals' settings were
chosen. Lengths of phases are shares of K, so that the quick suite is a smaller copy of the suite.
"""

from __future__ import annotations

import dataclasses
import importlib.util

from benchmarks import bandit_feedback as later
from benchmarks.parts import arms, late, own, switches

from belated.config.part import Part, part
from belated.lab.spec import SCORE, Case, Experiment, Learner

RIVALS = later.RIVALS
EPISODES = 2000
QUICK = (
    "noise",
    "switches, noise, bursts",
    "drift, lost",
    "hidden improvement",
    "moving goal, flights",
    "20 arms, flights",
    "full: switches, heavy tails",
    "full: moving goal",
)
"""Cases of the quick suite."""
QUICK_LATER = ("noise", "20 arms, flights")
"""The cases of the quick suite in which algorithms of later papers are run."""

Q = part(f"{RIVALS}:q_learning", learning_rate=0.3, epsilon=0.05)
UCBVI = part("ucbvi", transitions=part("bonus", scale=0.3), costs=part("averaged", pooled=True))
HEDGE = part("oppo", transitions=part("bonus", scale=0.3), update=part("softmax"))
RECOMMENDED = Learner("recommended", part("recommended"))
PSRL = Learner("PSRL", part("posterior_sampling"), "bandit")
BANDIT = (
    PSRL,
    Learner("PSRL, forget 0.999", part("posterior_sampling", forget=0.999), "bandit"),
    Learner("PSRL, forget 0.99", part("posterior_sampling", forget=0.99), "bandit"),
    Learner("Q-learning", Q, "bandit"),
    Learner(
        "Q-learning, optimistic",
        part(f"{RIVALS}:q_learning", learning_rate=0.3, epsilon=0.05, optimistic=True),
        "bandit",
    ),
    Learner("actor-critic", part(f"{RIVALS}:actor_critic"), "bandit"),
    Learner("UCBVI, bonus 0.3", UCBVI, "bandit"),
    Learner("UCBVI of 20 lines", part("examples.ucbvi:ucbvi"), "bandit"),
)
"""Rivals in the cases with bandit feedback; they know nothing about costs and delays."""
FULL = (
    Learner("leader", part(f"{RIVALS}:follow_the_leader"), "full"),
    Learner("leader, forget 0.99", part(f"{RIVALS}:follow_the_leader", forget=0.99), "full"),
    Learner("leader, forget 0.9", part(f"{RIVALS}:follow_the_leader", forget=0.9), "full"),
    Learner("Hedge", HEDGE, "full"),
)
"""Rivals in the cases with full information, which see whole cost functions too.

Hedge is Delayed OPPO, the paper's algorithm, with its learning rate for the delays of the run.
"""
GUARANTEE = Learner("guarantee", part("recommended", aim="guarantee"))
SEEN = ("4 arms, rare late successes", "rare late successes")
"""Cases whose delays depend on the outcome, so that the total delay is not known in advance."""
LARGE = ("the paper's grid", "400 states")
"""Cases that are too large for agents with bounds or measures over all states and steps."""


def agents(cases: tuple[Case, ...]) -> tuple[Learner, ...]:
    """The agents that know nothing about the world, each where it sees what it can use."""
    full = tuple(case.name for case in cases if case.information == "full")
    bandit = tuple(case.name for case in cases if case.information != "full")
    rivals = [
        dataclasses.replace(learner, cases=seen)
        for group, seen in ((BANDIT, bandit), (FULL, full))
        for learner in group
        if seen
    ]
    return (RECOMMENDED, *rivals, GUARANTEE)


def later_agents(cases: tuple[Case, ...]) -> tuple[Learner, ...]:
    """The algorithms of later papers for some cases; some know K and D, or the transitions.

    Their factors are those that `bandit-feedback-tuning` and `delayed-bandits-tuning` selected.
    """
    factors = later.chosen()
    cases = tuple(case for case in cases if case.information != "full")
    every = tuple(case.name for case in cases)
    drawn = tuple(name for name in every if name not in SEEN)
    small = tuple(name for name in drawn if name not in LARGE)
    of_arms = tuple(c.name for c in cases if c.environment and c.environment.kind == "bandit")
    return (
        Learner("Lazy UCBVI", factors["Lazy UCBVI"], "bandit", cases=every),
        Learner("DAPO, unknown", factors["DAPO, unknown"], "bandit", cases=small),
        Learner("UOB-REPS, unknown", factors["UOB-REPS, unknown"], "bandit", cases=small),
        Learner("DAPO, known", factors["DAPO, known"], "bandit", cases=drawn),
        Learner("BOLD, known", factors["BOLD, known"], "bandit", cases=every),
        Learner("FTRL, known", factors["FTRL, known"], "bandit", cases=small),
        Learner("Zimmert-Seldin", later.zimmert_seldin(), "bandit", cases=of_arms),
    )


def suite() -> Experiment:
    """The benchmark."""
    return _suite(
        "suite",
        "The suite: late feedback in many worlds",
        "Worlds, cost processes and delays of many kinds, under bandit feedback and full "
        "information. Scores are in expectation over the noise of the costs. "
        "All agents of a case see the same: suffered costs, or whole cost functions in the "
        "cases with full information (named so). Only Hedge is told the delays.",
        EPISODES,
        3,
    )


def suite_quick() -> Experiment:
    """Some cases of the suite, short, for a first look."""
    whole = _suite(
        "suite-quick",
        "The quick suite: some cases, short",
        "Some cases of the suite with fewer episodes, for a first look.",
        600,
        2,
    )
    chosen = tuple(case for case in whole.cases if case.name in QUICK)
    later = later_agents(tuple(case for case in chosen if case.name in QUICK_LATER))
    return dataclasses.replace(whole, cases=chosen, agents=(*agents(chosen), *later))


def suite_tuning() -> Experiment:
    """The worlds and settings from which the rivals' settings in the suite were chosen."""
    forgets = (0.999, 0.99, 0.97)
    pairs = ((0.1, 0.1), (0.1, 0.05), (0.3, 0.1), (0.3, 0.05))
    rates = ((0.3, 0.1), (0.3, 0.3), (1.0, 0.1), (1.0, 0.3))
    agents = [
        PSRL,
        *(Learner(f"PSRL, forget {f}", part("posterior_sampling", forget=f)) for f in forgets),
        *(
            Learner(
                f"Q{', optimistic' if hopeful else ''}, {rate} {epsilon}",
                part(
                    f"{RIVALS}:q_learning", learning_rate=rate, epsilon=epsilon, optimistic=hopeful
                ),
            )
            for hopeful in (False, True)
            for rate, epsilon in pairs
        ),
        *(
            Learner(
                f"actor-critic, {a} {b}",
                part(f"{RIVALS}:actor_critic", learning_rate=a, critic_rate=b),
            )
            for a, b in rates
        ),
        *(
            Learner(
                f"UCBVI, {scale}{' pooled' if pooled else ''}",
                part(
                    "ucbvi",
                    transitions=part("bonus", scale=scale),
                    costs=part("averaged", pooled=pooled),
                ),
            )
            for pooled in (False, True)
            for scale in (1.0, 0.3)
        ),
    ]
    return Experiment(
        name="suite-tuning",
        title="The settings of the rivals, on worlds outside the suite",
        about="From the settings here those of the suite were chosen, by their mean score.",
        environment=_mdp(6, 3, 5, 101),
        delays=late(10),
        agents=tuple(agents),
        episodes=EPISODES,
        seeds=1,
        information="bandit",
        cases=(
            Case("noise"),
            Case(
                "switches",
                costs=own("random_switching", every=700, seed=103),
                delays=late(20),
            ),
            Case(
                "drift",
                costs=own("random_drifting", count=3, every=600, seed=105),
                delays=late(30),
            ),
            Case("fast cycle", costs=own("random_switching", every=7, seed=107)),
            Case("goal", environment=_grid(4, 10), delays=late(20)),
            Case(
                "moving goal",
                environment=_grid(4, 12),
                costs=_goals(4, ((3, 3), (0, 3), (3, 0)), 500),
            ),
            Case("8 arms", environment=arms(8), costs=switches(5, 500, 116), delays=late(20)),
            Case(
                "hidden improvement",
                environment=arms(8),
                costs=own("improving", at=1000, seed=113, noise="bernoulli"),
            ),
        ),
        against=SCORE,
    )


def paper_grid_bandit() -> Experiment:
    """The paper's grid, learned only from suffered costs."""
    oppo = part(
        "oppo",
        transitions="bonus",
        costs=part("averaged", pooled=True),
        update=part("softmax", learning_rate=0.1),
    )
    return Experiment(
        name="paper-grid-bandit",
        title="Plain 10 x 10 grid, bandit feedback, geometric delays of mean 10",
        about="The paper's grid when only the suffered costs come back. The recommended agent is "
        "told nothing; OPPO is told that costs come from fixed laws.",
        environment=part("gridworld"),
        delays=late(10),
        agents=(
            RECOMMENDED,
            PSRL,
            Learner("UCBVI, bonus 0.3", UCBVI),
            Learner("OPPO, averaged costs, bonus", oppo),
            Learner("Q-learning", Q),
        ),
        information="bandit",
        episodes=1200,
        seeds=5,
    )


def _suite(name: str, title: str, about: str, episodes: int, seeds: int) -> Experiment:
    cases = (*_bandit(episodes), *_full(episodes))
    return Experiment(
        name=name,
        title=title,
        about=about,
        environment=_mdp(9, 2, 6, 301),
        delays=late(5),
        agents=(*agents(cases), *later_agents(cases)),
        episodes=episodes,
        seeds=seeds,
        information="bandit",
        cases=cases,
        against=SCORE,
    )


def _bandit(K: int) -> tuple[Case, ...]:
    """The cases with bandit feedback."""
    cases = [
        Case("noise"),
        Case("noise, heavy tails", _mdp(15, 3, 8, 302), delays=_heavy(1.2)),
        Case(
            "noise, own dynamics at every step",
            part("random_mdp", states=4, actions=4, horizon=7, homogeneous=False, seed=303),
            delays=late(15),
        ),
        Case("noise, fixed delay of 150", _mdp(7, 5, 5, 304), delays=part("fixed", delay=150)),
        Case("noise, 30 % lost", _mdp(12, 3, 6, 305), delays=_lost(0.3, 20)),
        Case("switches", _mdp(9, 2, 6, 306), switches(2, int(0.3 * K), 11, None), late(10)),
        Case(
            "switches, noise, bursts",
            _mdp(5, 5, 5, 307),
            switches(3, K // 4, 12),
            part("bursts", size=30, within=late(5)),
        ),
        Case(
            "drift, fixed delay of 30",
            _mdp(11, 3, 7, 308),
            own("random_drifting", count=3, every=K // 4, seed=13),
            part("fixed", delay=30),
        ),
        Case(
            "drift, lost",
            _mdp(6, 2, 9, 309),
            own("random_drifting", count=2, every=int(0.4 * K), seed=14, noise="bernoulli"),
            _lost(0.2, 10),
        ),
        Case("fast cycle", _mdp(12, 3, 6, 310), switches(3, 8, 15, None), late(15)),
        Case(
            "random walk, heavy tails",
            _mdp(7, 5, 5, 311),
            own("random_walking", step=0.02, seed=16),
            _heavy(1.3),
        ),
        Case(
            "hidden improvement",
            _mdp(9, 3, 6, 312),
            own("improving", at=int(0.45 * K), share=0.5, seed=17, noise="bernoulli"),
            late(10),
        ),
        Case("goal", _grid((4, 5), 13), delays=late(25)),
        Case(
            "moving goal, flights",
            _grid((5, 6), 16),
            _goals((5, 6), ((4, 5), (0, 5), (4, 0)), K // 4),
            own("flights"),
        ),
        Case("the paper's grid", part("gridworld"), delays=late(10), episodes=int(0.6 * K)),
        Case("RiverSwim", part("chain", states=7, horizon=21), delays=late(10)),
        Case("8 arms, switches", arms(8), switches(4, K // 4, 18), late(20)),
        Case("8 arms, hidden improvement", arms(8), _better(K, 19), late(30)),
        Case("20 arms, flights", arms(20), part("random", seed=20), own("flights")),
        Case("50 arms", arms(50), part("random", seed=21), late(10)),
        Case(
            "8 arms, the lower bound's blocks",
            arms(8),
            part("blocks", length=40),
            part("fixed", delay=19),
        ),
        Case("4 arms, rare late successes", arms(4),
             part("random", seed=37, low=0.9, high=0.96), _rare(1, 200)),
        Case("rare late successes", _mdp(4, 4, 3, 317),
             part("random", seed=38, low=0.92, high=1.0), _rare(3, 150)),
        *_deep(K),
    ]  # fmt: skip
    if has_gymnasium():
        lake = part("gymnasium", env="FrozenLake-v1", horizon=25)
        cases.append(Case("FrozenLake", lake, delays=late(10)))
    return tuple(cases)


def _deep(K: int) -> tuple[Case, ...]:
    """Cases with deep exploration, small differences, or little time."""
    return (
        Case("deep sea", part("deep_sea", size=13, seed=31), delays=late(10)),
        Case("deep sea, fixed delay of 30", part("deep_sea", size=17, seed=32),
             delays=part("fixed", delay=30)),
        Case("lock", part("lock", states=11, actions=3, seed=33), delays=late(15)),
        Case("long RiverSwim", part("chain", states=13, horizon=39), delays=late(10)),
        Case("RiverSwim, cycle", part("chain", states=8, horizon=16), switches(3, 8, 34, None),
             late(10)),
        Case("faint differences", _mdp(10, 3, 6, 313),
             part("random", seed=35, low=0.45, high=0.55), late(10)),
        Case("400 states", _mdp(400, 3, 8, 314), delays=late(10), episodes=K // 2),
        Case("25 actions", _mdp(5, 25, 5, 315), delays=late(10)),
        Case("short", _mdp(7, 3, 5, 316), delays=late(5), episodes=K // 8),
        Case("60 arms, short", arms(60), part("random", seed=36), late(5), episodes=K // 8),
    )  # fmt: skip


def _full(K: int) -> tuple[Case, ...]:
    """The cases with full information."""
    cases = (
        Case("noise, long delays", _mdp(12, 2, 8, 323), delays=late(50)),
        Case(
            "switches, heavy tails", _mdp(9, 4, 6, 324), switches(3, K // 5, 22, None), _heavy(1.1)
        ),
        Case(
            "drift, lost",
            _mdp(11, 3, 7, 325),
            own("random_drifting", count=2, every=K // 3, seed=23),
            _lost(0.2, 20),
        ),
        Case("fast cycle", _mdp(6, 2, 9, 326), switches(2, 5, 24, None), late(20)),
        Case(
            "random walk",
            _mdp(15, 3, 8, 327),
            own("random_walking", step=0.01, seed=25),
            late(30),
        ),
        Case(
            "hidden improvement, flights",
            _mdp(12, 3, 6, 328),
            _better(K, 26),
            own("flights"),
        ),
        Case("goal, fixed delay of 40", _grid(7, 22), delays=part("fixed", delay=40)),
        Case(
            "moving goal",
            _grid((5, 6), 16),
            _goals((5, 6), ((4, 5), (4, 0), (2, 3)), int(0.15 * K)),
            late(10),
        ),
        Case(
            "20 arms, switches, bursts",
            arms(20),
            switches(5, int(0.15 * K), 27),
            part("bursts", size=50),
        ),
    )
    return tuple(
        dataclasses.replace(case, name=f"full: {case.name}", information="full") for case in cases
    )


def has_gymnasium() -> bool:
    """Whether the case with a Gymnasium table is in the suite."""
    return importlib.util.find_spec("gymnasium") is not None


def _mdp(states: int, actions: int, horizon: int, seed: int) -> Part:
    return part("random_mdp", states=states, actions=actions, horizon=horizon, seed=seed)


def _grid(size: int | tuple[int, int], horizon: int) -> Part:
    return part("gridworld", size=size, horizon=horizon)


def _rare(steps: int, deadline: int) -> Part:
    """Delays of rare successes: a success reports late, a failure at the deadline."""
    return part(
        "by_outcome",
        model=part("fixed", delay=deadline),
        otherwise=late(deadline / 4),
        threshold=steps - 0.5,
    )


def _heavy(index: float) -> Part:
    return part("heavy_tailed", index=index)


def _lost(probability: float, mean: float) -> Part:
    return part("lost", probability=probability, otherwise=late(mean))


def _better(K: int, seed: int) -> Part:
    return own("improving", at=K // 2, seed=seed, noise="bernoulli")


def _goals(size: int | tuple[int, int], goals: tuple[tuple[int, int], ...], every: int) -> Part:
    return part("moving_goal", size=size, goals=goals, every=every)
