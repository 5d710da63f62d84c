"""The experiments of the paper, and experiments for its other statements.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, appendix "Full
details of the empirical evaluation". The text leaves some details open; we choose them so that its
statements hold: one model for all steps, a bonus of 1 / sqrt(visits), slip over all four
directions, a goal that can be left, delays on 0, 1, 2, ..., and two offset walls of seven cells.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from belated.config.part import Part, part
from belated.lab.spec import Case, Experiment, Learner
from belated.tabular.environments.gridworld import PAPER_WALLS

STEP = part("softmax", learning_rate=0.1)
TUNED = part("softmax", learning_rate="tuned")
BONUS = part("oppo", transitions="bonus", update=STEP)
"""OPPO as in the paper's experiments."""
KNOWN = part("oppo", transitions="known")
KNOWN_TUNED = part("oppo", transitions="known", update=TUNED)

DELAYED = Learner("Delayed OPPO", BONUS)
PIPELINE = Learner("Pipeline-OPPO", part("pipeline", agent=BONUS, max_delay="realised"))
PARALLEL = Learner("Parallel-OPPO", part("parallel", agent=BONUS, max_delay="realised"))

PLAIN = part("gridworld")
WALLED = part("gridworld", walls=PAPER_WALLS)
MEAN_10 = part("geometric", mean=10)


def _paper(name: str, title: str, environment: Part, delays: Part, about: str) -> Experiment:
    return Experiment(
        name=name,
        title=title,
        about=about,
        environment=environment,
        delays=delays,
        agents=(DELAYED, PIPELINE, PARALLEL),
    )


def paper_grid() -> Experiment:
    """The paper's first experiment."""
    about = (
        "The paper's first experiment. Delayed OPPO learns at once, Pipeline-OPPO only after the "
        "largest delay, and Parallel-OPPO does not improve."
    )
    title = "Plain 10 x 10 grid, geometric delays of mean 10"
    return _paper("paper-grid", title, PLAIN, MEAN_10, about)


def demo() -> Experiment:
    """The paper's first experiment, and the recommended agent in it."""
    about = (
        "The paper's first experiment with one agent more: what belated recommends where whole "
        "cost functions are revealed. It is told nothing but the problem."
    )
    recommended = Learner("recommended", part("recommended"))
    whole = paper_grid()
    return dataclasses.replace(
        whole, name="demo", about=about, agents=(recommended, *whole.agents), seeds=2
    )


def paper_walls() -> Experiment:
    """The paper's second experiment."""
    about = "The paper's second experiment: everything takes longer, Delayed OPPO stays ahead."
    title = "10 x 10 grid with walls, geometric delays of mean 10"
    return _paper("paper-walls", title, WALLED, MEAN_10, about)


def paper_short_delays() -> Experiment:
    """The paper's third experiment."""
    about = (
        "The paper's third experiment, with short delays and long runs: Parallel-OPPO improves, "
        "Pipeline-OPPO does well, and Delayed OPPO is still ahead of it."
    )
    title = "10 x 10 grid with walls, geometric delays of mean 2"
    whole = _paper("paper-short-delays", title, WALLED, part("geometric", mean=2), about)
    return dataclasses.replace(whole, episodes=2000)


def lost_records() -> Experiment:
    """The paper's remark on packet loss."""
    about = (
        "The paper says that a few lost records make Pipeline-OPPO and Parallel-OPPO degenerate "
        "(their largest delay is infinite) and hardly affect Delayed OPPO. BOLD opens a copy "
        "where Parallel-OPPO would wait."
    )
    title = "Plain 10 x 10 grid, delays of mean 10, one record in a hundred lost"
    lossy = part("lost", probability=0.01, otherwise=MEAN_10)
    whole = _paper("lost-records", title, PLAIN, lossy, about)
    bold = Learner("BOLD", part("bold", agent=BONUS))
    return dataclasses.replace(whole, agents=(*whole.agents, bold))


def _table(scale: float) -> tuple[Learner, ...]:
    """The settings of the paper's table, with its step sizes and confidence radii times `scale`.

    Late paths under full information have explicit exploration and skipping, as in its theorem.
    """
    radius = part("confidence", radius_scale=scale, episodes="known")
    unknown = part("oppo", transitions=radius, update=TUNED)
    few = part("few_visits", max_delay="tuned")
    exploring = part("oppo", transitions=radius, update=TUNED, explore=few)
    means = part("oppo", transitions=radius, update=TUNED, costs="averaged")
    late = part("skipping", agent=unknown)
    return (
        Learner("full, known", KNOWN_TUNED),
        Learner("full, unknown, costs late", unknown, paths="at once"),
        Learner("full, unknown, paths late", part("skipping", agent=exploring)),
        Learner("bandit, known", part("skipping", agent=KNOWN_TUNED), information="bandit"),
        Learner("bandit, unknown, costs late", late, "bandit", "at once"),
        Learner("bandit, unknown, paths late", late, "bandit"),
        Learner("stochastic, OPPO", means, "bandit"),
        Learner("stochastic, UCBVI", part("ucbvi", transitions=radius), "bandit"),
    )


def _scaling(name: str, world: str, against: str, scale: float, **others: Any) -> Experiment:
    """All settings of the paper's table, with the regret of whole runs against D or K."""
    axis = against.replace("_", " ")
    title = f"Regret against {axis}, {world}"
    return Experiment(name=name, title=title, agents=_table(scale), against=against, **others)


def _lower_bound(name: str, against: str, cases: tuple[Case, ...]) -> Experiment:
    about = (
        "Costs are constant on blocks of d + 1 episodes and fair coins otherwise, so every "
        "learner has the same expected regret, growing like sqrt(K (d + 1)). The dotted line is "
        "the exact expectation. A learner below it would be reading the future."
    )
    return _scaling(
        name,
        "lower-bound world",
        against,
        0.1,
        about=about,
        environment=_coins(3),
        delays=part("fixed", delay=3),
        cases=cases,
        episodes=256,
        seeds=20,
    )


def _coins(delay: int) -> Part:
    return part("delay_lower_bound", delay=delay, states=2, actions=4, horizon=2)


def lower_bound_delay() -> Experiment:
    """Regret against D, in a world where every learner has the same expected regret."""
    cases = [
        Case(f"delay {d}", environment=_coins(d), delays=part("fixed", delay=d))
        for d in (0, 1, 3, 7, 15, 31)
    ]
    return _lower_bound("lower-bound-delay", "total_delay", tuple(cases))


def lower_bound_episodes() -> Experiment:
    """Regret against K, in a world where every learner has the same expected regret."""
    return _lower_bound("lower-bound-episodes", "episodes", _lengths(64, 128, 256, 512, 1024))


def _lengths(*episodes: int) -> tuple[Case, ...]:
    return tuple(Case(f"K = {K}", episodes=K) for K in episodes)


def _grid(name: str, against: str, cases: tuple[Case, ...]) -> Experiment:
    about = (
        "Every setting of the paper's table with the paper's step sizes (and confidence radii "
        "and bonuses scaled by 0.01, since the printed ones are trivial at this size). Under "
        "full information the regret grows like sqrt(K + D). Under bandit feedback the theory's "
        "steps are so small that it is still nearly linear in K here."
    )
    return _scaling(
        name,
        "2 x 2 grid",
        against,
        0.01,
        about=about,
        environment=part("gridworld", size=2, horizon=4),
        delays=part("geometric", mean=2),
        cases=cases,
        episodes=4000,
        seeds=3,
    )


def grid_delay() -> Experiment:
    """Regret against D on a grid, for each setting of the paper's table."""
    cases = [Case(f"mean {mean}", delays=part("geometric", mean=mean)) for mean in (0, 2, 8, 32)]
    return _grid("grid-delay", "total_delay", tuple(cases))


def grid_episodes() -> Experiment:
    """Regret against K on a grid, for each setting of the paper's table."""
    return _grid("grid-episodes", "episodes", _lengths(500, 1000, 2000, 4000, 8000))


def known_unknown() -> Experiment:
    """The value of knowing the transitions."""

    def radius(scale: float) -> Part:
        transitions = part("confidence", radius_scale=scale, episodes="known")
        return part("oppo", transitions=transitions, update=STEP)

    return Experiment(
        name="known-unknown",
        title="Known against unknown transitions, plain 10 x 10 grid",
        about="What knowing the transitions is worth, and what the printed confidence radius "
        "costs: at this size it is trivial, and scaled by 0.001 it is as good as the bonus.",
        environment=PLAIN,
        delays=MEAN_10,
        agents=(
            Learner("known", part("oppo", transitions="known", update=STEP)),
            Learner("unknown, bonus", BONUS),
            Learner("unknown, radius x 0.001", radius(0.001)),
            Learner("unknown, radius x 0.01", radius(0.01)),
            Learner("unknown, radius as printed", radius(1.0)),
        ),
        seeds=5,
    )


def explicit_exploration() -> Experiment:
    """With and without explicit exploration."""

    def exploring(**limit: object) -> Part:
        few = part("few_visits", **limit)
        return part("oppo", transitions="bonus", update=STEP, explore=few)

    return Experiment(
        name="explicit-exploration",
        title="Explicit exploration, 10 x 10 grid with walls",
        about="Playing uniformly where too few visits have been observed. The paper's threshold, "
        "2 d_max ln(H S A / delta) visits, is never reached in a run of this length; small "
        "thresholds show what the rule does.",
        environment=WALLED,
        delays=MEAN_10,
        agents=(
            Learner("without", BONUS),
            Learner("threshold 1", exploring(threshold=1)),
            Learner("threshold 20", exploring(threshold=20)),
            Learner("threshold of the paper", exploring(max_delay="realised")),
        ),
        seeds=5,
    )


def _moving_goal(name: str, title: str, about: str, agents: tuple[Learner, ...]) -> Experiment:
    return Experiment(
        name=name,
        title=f"{title}, 3 x 3 grid, moving goal",
        about=about,
        environment=part("gridworld", size=3, horizon=6),
        costs=part("moving_goal", size=3, goals=((2, 2), (2, 0)), every=100),
        delays=MEAN_10,
        agents=agents,
        episodes=4000,
    )


def no_tuning() -> Experiment:
    """The cost of not knowing K and D."""
    agents = (
        Learner("tuned", KNOWN_TUNED),
        Learner("doubling", part("doubling", agent=KNOWN)),
        Learner("anytime", KNOWN),
    )
    about = (
        "The tuned agent is told the number of episodes and the total delay; doubling takes "
        "smaller steps whenever its estimate of both has doubled; the anytime rule shrinks its "
        "steps by what is missing."
    )
    return _moving_goal("no-tuning", "Doubling and anytime against the tuned agent", about, agents)


def oreps_oppo() -> Experiment:
    """Mirror descent on occupancy measures against policy optimization."""
    oreps = part("oreps", transitions="known")
    agents = (
        Learner("O-REPS, tuned", part("oreps", transitions="known", learning_rate="tuned")),
        Learner("OPPO, tuned", KNOWN_TUNED),
        Learner("OPPO, anytime", KNOWN),
        Learner("O-REPS, doubling", part("doubling", agent=oreps)),
    )
    about = (
        "Both with the transitions known and with the step sizes of their bounds. O-REPS solves "
        "a convex problem for every batch of feedback, OPPO evaluates one policy; the bound of "
        "O-REPS is smaller by a factor of about H."
    )
    whole = _moving_goal("oreps-oppo", "O-REPS against OPPO", about, agents)
    return dataclasses.replace(whole, episodes=1000, seeds=5)


EXPERIMENTS = (
    paper_grid,
    demo,
    paper_walls,
    paper_short_delays,
    lost_records,
    lower_bound_delay,
    lower_bound_episodes,
    grid_delay,
    grid_episodes,
    known_unknown,
    explicit_exploration,
    no_tuning,
    oreps_oppo,
)
