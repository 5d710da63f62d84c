"""Late bandit feedback: algorithms of later papers, compared with ours and with those of others.

Each algorithm is run with the constants of its theory, and with a factor on them. The factors were
chosen on other worlds and seeds, one for all cases, by `bandit-feedback-tuning` and
`delayed-bandits-tuning`; docs/later.md has the results. The suite uses some of these agents.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.parts import arms, late, own, switches

from belated.config.part import Part, part
from belated.lab.spec import SCORE, Case, Experiment, Learner, Select

SELECTED: tuple[str, ...] = (
    "DAPO, known, scale = 100",
    "DAPO, unknown, scale = 100",
    "FTRL, known, scale = 3",
    "UOB-REPS, unknown, scale = 3, radius_scale = 0.01",
    "BOLD, known, scale = 3000",
    "OPPO, known, scale = 1000",
    "UCBVI, radius_scale = 0.03",
    "Lazy UCBVI, radius_scale = 0.03",
)
"""The settings that `belated run benchmarks.bandit_feedback:bandit_feedback_tuning` selected."""
SELECTED_ARMS: tuple[str, ...] = (
    "Zimmert-Seldin, scale = 100",
    "DAPO, scale = 100",
    "FTRL, scale = 10",
    "delayed EXP3, scale = 100",
)
"""The settings that `belated run benchmarks.bandit_feedback:delayed_bandits_tuning` selected."""

RIVALS = "benchmarks.rivals"
TUNING_SEED = 100
"""The first seed on which factors are tried; those reported begin at 0."""

OPPO = part("oppo", transitions="known", update=part("softmax", learning_rate="tuned"))
UCBVI = part(
    "ucbvi",
    transitions=part("confidence", episodes="known"),
    costs=part("averaged", pooled=True),
)
LAZY = part("lazy", agent=UCBVI, alpha=1.0)
DILATED = part(f"{RIVALS}:dilated_bonus", transitions=part("known"))
ANYTIME = part("oppo", transitions="known")
RECOMMENDED = Learner("recommended", part("recommended"))


def bandit_feedback() -> Experiment:
    """Late bandit feedback in MDPs, with selected factors."""
    return _bandit_feedback(
        "bandit-feedback",
        "Late bandit feedback in MDPs, with factors selected on other worlds",
        "The algorithms of the later papers with one factor each on the constants of their theory, "
        "the recommended agent and posterior sampling.",
        (
            RECOMMENDED,
            Learner("PSRL", part("posterior_sampling")),
            *_chosen(bandit_feedback_tuning(), SELECTED),
        ),
    )


def bandit_feedback_theory() -> Experiment:
    """Late bandit feedback in MDPs, with the constants of the theory."""
    return _bandit_feedback(
        "bandit-feedback-theory",
        "Late bandit feedback in MDPs, with the constants of the theory",
        "The same worlds, seeds and algorithms with the constants of their theory.",
        (
            Learner("DAPO, known", part("dapo", transitions="known")),
            Learner("DAPO, unknown", part("dapo")),
            Learner("FTRL, known", part("ftrl", max_delay="realised", impossible=True)),
            Learner("UOB-REPS, unknown", part("uob_reps")),
            Learner("BOLD, known", part("bold", agent=DILATED)),
            Learner("OPPO, known", OPPO),
            Learner("UCBVI", UCBVI),
            Learner("Lazy UCBVI", LAZY),
        ),
        without=("random MDP, no delay", "random MDP, cycle, no delay"),
        seeds=2,
    )


def _bandit_feedback(
    name: str,
    title: str,
    about: str,
    agents: tuple[Learner, ...],
    *,
    without: Iterable[str] = (),
    seeds: int = 4,
) -> Experiment:
    cycle = own("random_switching", count=3, every=8, seed=42)
    long, longer = part("fixed", delay=100), 4000
    grid = part("gridworld", size=3, horizon=7)
    goals = part("moving_goal", size=3, goals=((2, 2), (0, 2), (2, 0)), every=250)
    river = part("chain", states=6, horizon=12)
    cases = (
        Case("random MDP, no delay", delays=part("none")),
        Case("random MDP"),
        Case("random MDP, delay 100", delays=long),
        Case("random MDP, K = 4000", episodes=longer),
        Case("random MDP, cycle, no delay", costs=cycle, delays=part("none")),
        Case("random MDP, cycle", costs=cycle),
        Case("random MDP, cycle, delay 100", costs=cycle, delays=long),
        Case("random MDP, cycle, K = 4000", costs=cycle, episodes=longer),
        Case(
            "random MDP, switches",
            costs=own("random_switching", count=2, every=250, seed=43),
        ),
        Case("grid, goal", grid),
        Case("grid, moving goal", grid, goals),
        Case("RiverSwim", river),
        Case(
            "RiverSwim, cycle",
            river,
            own("random_switching", count=3, every=8, seed=44),
        ),
    )
    return Experiment(
        name=name,
        title=title,
        about=about,
        environment=part("random_mdp", states=6, actions=3, horizon=4, seed=411),
        delays=late(10),
        agents=agents,
        episodes=1000,
        seeds=seeds,
        information="bandit",
        cases=tuple(case for case in cases if case.name not in without),
        against=SCORE,
    )


def bandit_feedback_tuning() -> Experiment:
    """The factors that are tried for MDPs; rates of exploration stay those of the theory."""
    dilated = DILATED.replaced("exploration", "tuned")
    return Experiment(
        name="bandit-feedback-tuning",
        title="Factors on the constants of the theory, on worlds of their own",
        about="One factor for each algorithm is selected here and used in bandit-feedback.",
        environment=part("random_mdp", states=5, actions=2, horizon=5, seed=501),
        delays=late(15),
        agents=(
            Learner("DAPO, known", part("dapo", transitions="known", exploration="tuned")),
            Learner("DAPO, unknown", part("dapo", exploration="tuned")),
            Learner("FTRL, known", part("ftrl")),
            Learner("UOB-REPS, unknown", part("uob_reps")),
            Learner("BOLD, known", part("bold", agent=dilated)),
            Learner("OPPO, known", OPPO),
            Learner("UCBVI", UCBVI),
            Learner("Lazy UCBVI", LAZY),
        ),
        episodes=1000,
        seeds=3,
        first_seed=TUNING_SEED,
        information="bandit",
        cases=(
            Case("noise"),
            Case(
                "cycle",
                part("random_mdp", states=7, actions=3, horizon=3, seed=502),
                own("random_switching", count=4, every=5, seed=51),
                part("fixed", delay=10),
            ),
            Case("goal", part("gridworld", size=(2, 4), horizon=6), delays=late(5)),
            Case("river", part("chain", states=4, horizon=8), delays=late(20)),
        ),
        sweep=(
            ("agents.DAPO, known.scale", (1, 3, 10, 30, 100)),
            ("agents.DAPO, unknown.scale", (1, 3, 10, 30, 100)),
            ("agents.FTRL, known.scale", (0.3, 1, 3, 10)),
            ("agents.UOB-REPS, unknown.scale", (1, 3, 10)),
            ("agents.UOB-REPS, unknown.radius_scale", (1, 0.01)),
            ("agents.BOLD, known.agent.scale", (10, 100, 300, 1000, 3000)),
            ("agents.OPPO, known.update.scale", (10, 100, 300, 1000, 3000)),
            ("agents.UCBVI.transitions.radius_scale", (1, 0.1, 0.03, 0.01)),
            ("agents.Lazy UCBVI.agent.transitions.radius_scale", (1, 0.1, 0.03, 0.01)),
        ),
        select=Select(2, "together"),
    )


def delayed_bandits() -> Experiment:
    """Arms with late feedback."""
    theory = (
        Learner("Zimmert-Seldin", part("zimmert_seldin")),
        Learner("Zimmert-Seldin, simple", part("zimmert_seldin", tuning="simple")),
        Learner("DAPO", part("dapo", transitions="known")),
        Learner("FTRL", part("ftrl", max_delay="realised")),
        Learner("delayed EXP3", ANYTIME),
    )
    rivals = (
        Learner("Thompson sampling", part("thompson_sampling")),
        Learner("UCB1", part(f"{RIVALS}:ucb1")),
        Learner("EXP3", part(f"{RIVALS}:exp3")),
    )
    long = part("fixed", delay=200)
    lost = part("lost", probability=0.2, otherwise=late(20))
    return Experiment(
        name="delayed-bandits",
        title="Arms with late feedback",
        about="Algorithms for arms with the constants of their theory and with a factor on them "
        "that was selected on other arms, the recommended agent, and rivals.",
        environment=arms(5),
        costs=part("random", seed=61),
        delays=late(20),
        agents=(RECOMMENDED, *rivals, *theory, *_chosen(delayed_bandits_tuning(), SELECTED_ARMS)),
        episodes=1000,
        seeds=4,
        information="bandit",
        cases=(
            Case("5 arms, no delay", delays=part("none")),
            Case("5 arms"),
            Case("5 arms, delay 200", delays=long),
            Case("5 arms, K = 4000", episodes=4000),
            Case("5 arms, 20 % lost", delays=lost),
            Case("5 arms, heavy tails", delays=part("heavy_tailed", index=1.2, scale=10)),
            Case("cycle", costs=own("random_switching", count=3, every=8, seed=62)),
            Case(
                "cycle, delay 200",
                costs=own("random_switching", count=3, every=8, seed=62),
                delays=long,
            ),
            Case("switches", costs=switches(2, 250, 63)),
            Case(
                "hidden improvement",
                costs=own("improving", at=400, seed=64, noise="bernoulli"),
            ),
            Case("20 arms", arms(20), costs=part("random", seed=65)),
        ),
        against=SCORE,
    )


def delayed_bandits_tuning() -> Experiment:
    """The factors that are tried for arms."""
    return Experiment(
        name="delayed-bandits-tuning",
        title="Factors on the constants of the theory, on arms of their own",
        about="One factor for each algorithm is selected here and used in delayed-bandits.",
        environment=arms(7),
        costs=part("random", seed=71),
        delays=late(30),
        agents=(
            Learner("Zimmert-Seldin", part("zimmert_seldin")),
            Learner("DAPO", part("dapo", transitions="known", exploration="tuned")),
            Learner("FTRL", part("ftrl")),
            Learner("delayed EXP3", ANYTIME),
        ),
        episodes=1000,
        seeds=4,
        first_seed=TUNING_SEED,
        information="bandit",
        cases=(
            Case("7 arms"),
            Case(
                "12 arms", arms(12), costs=part("random", seed=72), delays=part("fixed", delay=50)
            ),
            Case("cycle", costs=own("random_switching", count=4, every=5, seed=73)),
            Case("switches", costs=switches(3, 300, 74)),
        ),
        sweep=(
            ("agents.Zimmert-Seldin.scale", (1, 3, 10, 30, 100)),
            ("agents.DAPO.scale", (1, 10, 30, 100)),
            ("agents.FTRL.scale", (1, 10, 30, 100)),
            ("agents.delayed EXP3.update.scale", (1, 10, 30, 100, 300)),
        ),
        select=Select(3, "together"),
    )


def chosen() -> dict[str, Part]:
    """The agents with the factors that were selected for MDPs, by name without the factor."""
    tuning = bandit_feedback_tuning()
    return {tuning.base(one.name): one.agent for one in _chosen(tuning, SELECTED)}


def zimmert_seldin() -> Part:
    """Zimmert and Seldin's agent with the factor that was selected for arms."""
    return delayed_bandits_tuning().learner(SELECTED_ARMS[0]).agent


def _chosen(tuning: Experiment, names: Iterable[str]) -> tuple[Learner, ...]:
    return tuple(tuning.learner(name) for name in names)
