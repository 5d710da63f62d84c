"""The pictures of the documentation.

Two kinds: diagrams, drawn whenever the documentation is built, and pictures of agents that learn,
which take a minute and are kept in docs/algorithms:

    python docs/pictures.py docs/_static docs/algorithms
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import belated as bl

BLUE, VERMILION, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "0.45"
STYLES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (PURPLE, ":"))
DELAYS = np.array([0, 3, 1, bl.NEVER, 2, 2, 0, 4, 1, 0])


def timeline(path: Path) -> None:
    """Every episode as a bar from its play to the arrival of its record; below, M^k."""
    figure, (top, below) = plt.subplots(
        2, 1, figsize=(7.5, 5.2), height_ratios=(3, 1), sharex=True, layout="constrained"
    )
    K = len(DELAYS)
    for k, d in enumerate(DELAYS):
        top.plot([k, k + 1], [k, k], color=BLUE, linewidth=7, solid_capstyle="butt")
        if d == bl.NEVER:
            top.plot([k + 1, K + 0.6], [k, k], color=GREY, linewidth=1, linestyle=":")
            top.text(K + 0.7, k, "never", va="center", color=GREY)
        else:
            top.plot([k + 1, k + d + 1], [k, k], color=VERMILION, linewidth=1.5)
            top.plot([k + d + 1], [k], color=VERMILION, marker=">", markersize=7)
    top.set(ylabel="episode", yticks=range(K), ylim=(K - 0.5, -0.5))
    top.plot([], [], color=BLUE, linewidth=7, label="played")
    top.plot([], [], color=VERMILION, marker=">", label="record on its way, released")
    top.legend(frameon=False, loc="lower left")
    missing = bl.delays.missing_feedback(DELAYS)
    below.step(np.arange(K) + 1, missing, where="post", color=GREEN)
    below.set(ylabel="missing", xlabel="time in episodes", xlim=(0, K + 2), ylim=(0, None))
    below.set_xticks(range(K + 1))
    save(figure, path)


def facts(path: Path) -> None:
    """When the path and the costs of an episode come, in the two models."""
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.0), layout="constrained", sharey=True)
    titles = ('paths="late"', 'paths="at once"')
    for on, title, path_late in zip(axes, titles, (True, False), strict=True):
        on.plot([0, 1], [0.5, 0.5], color=BLUE, linewidth=7, solid_capstyle="butt")
        for height, name, late in ((1, "path", path_late), (0, "costs", True)):
            end = 4 if late else 1
            on.annotate(
                "", (end, height), (1, 0.5), arrowprops={"arrowstyle": "->", "color": VERMILION}
            )
            on.text(end + 0.1, height, name, va="center")
        on.text(0.5, 0.7, "episode k", ha="center", color=BLUE)
        on.set(xlim=(-0.2, 5), ylim=(-0.3, 1.4), yticks=[], xticks=[1, 4])
        on.set_xticklabels(["end of k", "end of k + d"])
        on.set_title(title, fontsize=10, family="monospace")
    save(figure, path)


MakeAgent = Callable[[bl.Problem, bl.Transitions, np.ndarray], bl.Agent]
"""An agent for a problem, its transitions and the delays of the run; it takes what it may know."""


def known(update: object) -> MakeAgent:
    """Delayed OPPO with known transitions."""
    return lambda problem, p, d: bl.DelayedOPPO(problem, transitions=p, update=update)


def tuned_dapo(scale: float = 1.0, dynamics: str = "known") -> MakeAgent:
    """DAPO with the theory's rates times a factor; the radius of unknown transitions knows K."""

    def make(problem: bl.Problem, p: bl.Transitions, d: np.ndarray) -> bl.DAPO:
        given = {"transitions": p} if dynamics == "known" else {"episodes": len(d)}
        rates = bl.tuning.dapo(problem, len(d), bl.delays.total_delay(d), dynamics=dynamics)
        return bl.DAPO(problem, **given, **{name: scale * rate for name, rate in rates.items()})

    return make


def learning(
    path: Path,
    world: bl.World,
    delays: object,
    episodes: int,
    agents: Mapping[str, MakeAgent],
    *,
    regret: bool = False,
    seeds: int = 3,
    smooth: int = 1,
) -> None:
    """Mean over seeds of the expected cost per episode, or of the regret; one curve per agent.

    smooth: makes the blocks of episodes over which a curve is averaged longer.
    """
    figure, on = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
    block = smooth * max(1, episodes // 150)
    ends = np.arange(block, episodes + 1, block)
    best = 0.0
    for (name, make), (color, dashes) in zip(agents.items(), STYLES, strict=False):
        curves = []
        for seed in range(seeds):
            drawn = delays.draw(episodes, np.random.default_rng(seed))
            agent = make(world.problem, world.mdp.transitions, drawn)
            run = bl.simulate(world, agent, delays=drawn, episodes=episodes, seed=seed)
            values = run.values[: ends[-1]].reshape(-1, block).mean(axis=1)
            curves.append(run.regret[ends - 1] if regret else values)
            best = run.optimum / episodes
        on.plot(ends, np.mean(curves, axis=0), color=color, linestyle=dashes, label=name)
    if regret:
        on.set(ylabel="regret", ylim=(0, None))
    else:
        on.axhline(best, color=GREY, linewidth=1, linestyle=":", label="best fixed policy")
        on.set(ylabel="expected cost per episode")
    on.set(xlabel="episode", xlim=(0, episodes))
    figure.legend(*on.get_legend_handles_labels(), frameon=False, loc="outside right upper")
    save(figure, path)


def oppo(path: Path) -> None:
    """The paper's grid with three ways to treat the transitions."""
    update = bl.parts.Softmax(learning_rate=0.1)

    def unknown(part: object) -> MakeAgent:
        return lambda problem, p, d: bl.DelayedOPPO(problem, transitions=part, update=update)

    agents = {
        "known transitions": known(update),
        "Bonus()": unknown(bl.parts.Bonus()),
        "Confidence(\n  radius_scale=0.01)": unknown(bl.parts.Confidence(radius_scale=0.01)),
        "Confidence()": unknown(bl.parts.Confidence()),
    }
    learning(path, bl.environments.paper_grid(), bl.delays.geometric(10), 500, agents)


def oreps(path: Path) -> None:
    """O-REPS and OPPO, each with the step size of its theory."""

    def tuned(problem: bl.Problem, d: np.ndarray, *, oreps: bool) -> float:
        setting = (
            bl.tuning.OREPSSetting(dynamics="known")
            if oreps
            else bl.tuning.FullInformation(dynamics="known")
        )
        return setting.at(problem, len(d), bl.delays.total_delay(d)).learning_rate

    agents = {
        "Delayed O-REPS": lambda problem, p, d: bl.DelayedOREPS(
            problem, transitions=p, learning_rate=tuned(problem, d, oreps=True)
        ),
        "Delayed OPPO": lambda problem, p, d: bl.DelayedOPPO(
            problem, transitions=p, update=bl.parts.Softmax(tuned(problem, d, oreps=False))
        ),
        "Delayed OPPO,\nanytime": lambda problem, p, d: bl.DelayedOPPO(problem, transitions=p),
    }
    world = bl.environments.gridworld(size=5, horizon=15)
    learning(path, world, bl.delays.geometric(5), 1000, agents)


def ucbvi(path: Path) -> None:
    """The bonus of the theory and a tenth of it, costs pooled over the steps or not."""

    def scaled(scale: float, pooled: bool) -> MakeAgent:
        return lambda problem, p, d: bl.DelayedUCBVI(
            problem,
            transitions=bl.parts.Confidence(radius_scale=scale),
            costs=bl.parts.Averaged(pooled=pooled),
        )

    chain = bl.environments.chain(states=6, horizon=8)
    world = bl.World(chain.mdp, bl.costs.stochastic(chain.costs.at(0)))
    agents = {
        "radius_scale=1": scaled(1.0, False),
        "radius_scale=1,\npooled costs": scaled(1.0, True),
        "radius_scale=0.1": scaled(0.1, False),
        "radius_scale=0.1,\npooled costs": scaled(0.1, True),
    }
    learning(path, world, bl.delays.fixed(20), 1500, agents, regret=True)


def skipping(path: Path) -> None:
    """Heavy-tailed delays and three thresholds."""
    inside = known(bl.parts.Softmax(learning_rate=0.05))
    agents: dict[str, MakeAgent] = {"nothing skipped": inside}
    for threshold in (30, 5, 2):
        agents[f"threshold {threshold}"] = lambda problem, p, d, threshold=threshold: (
            bl.wrappers.Skipping(inside(problem, p, d), threshold)
        )
    world = bl.environments.gridworld(size=4, horizon=8)
    learning(path, world, bl.delays.heavy_tailed(1.0, 5), 600, agents, regret=True)


def doubling(path: Path) -> None:
    """Phases with and without restarts against the anytime rule, all step sizes times 20."""
    inside = known(bl.parts.Softmax(scale=20))
    agents = {
        "anytime rule": inside,
        "Doubling": lambda problem, p, d: bl.wrappers.Doubling(inside(problem, p, d)),
        "Doubling, literal": lambda problem, p, d: bl.wrappers.Doubling(
            inside(problem, p, d), literal=True
        ),
    }
    world = bl.environments.gridworld(size=4, horizon=8)
    learning(path, world, bl.delays.geometric(5), 1000, agents, seeds=1)


def parallel(path: Path) -> None:
    """Copies that take turns against one learner."""
    inside = known(bl.parts.Softmax(learning_rate=0.5))
    agents = {
        "Delayed OPPO": inside,
        "BOLD": lambda problem, p, d: bl.wrappers.Bold(lambda: inside(problem, p, d)),
        "Parallel": lambda problem, p, d: bl.wrappers.Parallel(
            lambda: inside(problem, p, d), int(d.max())
        ),
    }
    world = bl.environments.gridworld(size=4, horizon=8)
    learning(path, world, bl.delays.geometric(3), 600, agents, regret=True)


def pipeline(path: Path) -> None:
    """Every delay made the largest one."""
    inside = known(bl.parts.Softmax(learning_rate=0.1))
    agents = {
        "Delayed OPPO": inside,
        "Pipeline": lambda problem, p, d: bl.wrappers.Pipeline(inside(problem, p, d), int(d.max())),
    }
    world = bl.environments.gridworld(size=4, horizon=10)
    learning(path, world, bl.delays.geometric(5), 300, agents)


def regret_matching(path: Path) -> None:
    """A goal that moves, with and without hints, and two softmax updates."""
    agents = {
        "RegretMatching()": known(bl.parts.RegretMatching()),
        "RegretMatching(\n  hints=False)": known(bl.parts.RegretMatching(hints=False)),
        "Softmax(5 / H)": known(bl.parts.Softmax(5 / 30)),
        "Softmax(), anytime": known(bl.parts.Softmax()),
    }
    mdp = bl.environments.gridworld(size=8, horizon=30).mdp
    goals = [bl.environments.goal_costs(8, cell) for cell in ((7, 7), (0, 7), (7, 0))]
    world = bl.World(mdp, bl.costs.switching(goals, every=250))
    learning(path, world, bl.delays.geometric(50), 1000, agents)


def changing(episodes: int, every: int, seed: int) -> bl.World:
    """A random MDP with Bernoulli costs whose means change at intervals."""
    world = bl.environments.random_mdp(states=6, actions=3, horizon=5, seed=seed)
    rng = np.random.default_rng(seed)
    means = rng.random((1 + (episodes - 1) // every, 1, 6, 3))[np.arange(episodes) // every]
    return bl.World(world.mdp, bl.costs.sequence((rng.random(means.shape) < means).astype(float)))


def dapo(path: Path) -> None:
    """DAPO and OPPO under bandit feedback, with the theory's rates and with ten times them."""

    def opponent(problem: bl.Problem, p: bl.Transitions, d: np.ndarray) -> bl.DelayedOPPO:
        rates = bl.tuning.oppo_bandit(problem, len(d), bl.delays.total_delay(d))
        costs, update = (
            bl.parts.Weighted(rates["exploration"]),
            bl.parts.Softmax(rates["learning_rate"]),
        )
        return bl.DelayedOPPO(problem, transitions=p, costs=costs, update=update)

    agents = {
        "DAPO, tuned": tuned_dapo(),
        "DAPO, both rates\ntimes 10": tuned_dapo(10.0),
        "Delayed OPPO, tuned": opponent,
    }
    world = changing(6000, 6000, 3)
    learning(path, world, bl.delays.geometric(10), 6000, agents, smooth=3)


def ftrl(path: Path) -> None:
    """FTRL with both of its tunings, and DAPO, under bandit feedback with known transitions."""

    def tuned(printed: bool) -> MakeAgent:
        def make(problem: bl.Problem, p: bl.Transitions, d: np.ndarray) -> bl.DelayedFTRL:
            K, D = len(d), bl.delays.total_delay(d)
            largest = float(d.max()) if printed else None
            rates = bl.tuning.ftrl(problem, K, D, max_delay=largest)
            return bl.DelayedFTRL(problem, transitions=p, **rates)

        return make

    agents = {
        "FTRL, for practice": tuned(False),
        "FTRL, as printed": tuned(True),
        "DAPO, both rates\ntimes 10": tuned_dapo(10.0),
    }
    world = changing(6000, 6000, 3)
    learning(path, world, bl.delays.geometric(10), 6000, agents, smooth=3)


def uob_reps(path: Path) -> None:
    """UOB-REPS with the theory's radius and with a smaller one, and DAPO; unknown transitions."""

    def scaled(scale: float, radius: float) -> MakeAgent:
        def make(problem: bl.Problem, p: bl.Transitions, d: np.ndarray) -> bl.UOBREPS:
            rates = bl.tuning.uob_reps(problem, len(d), bl.delays.total_delay(d))
            rates = {name: scale * rate for name, rate in rates.items()}
            return bl.UOBREPS(problem, episodes=len(d), radius_scale=radius, **rates)

        return make

    agents = {
        "UOB-REPS, tuned": scaled(1.0, 1.0),
        "UOB-REPS, tuned,\nradius times 0.05": scaled(1.0, 0.05),
        "DAPO, tuned": tuned_dapo(dynamics="unknown"),
    }
    world = changing(3000, 3000, 3)
    learning(path, world, bl.delays.geometric(10), 3000, agents, smooth=3)


def zimmert_seldin(path: Path) -> None:
    """Arms, where a tenth of the feedback is lost."""
    agents = {
        "ZimmertSeldin,\nadvanced": lambda problem, p, d: bl.ZimmertSeldin(problem),
        "ZimmertSeldin,\nsimple": lambda problem, p, d: bl.ZimmertSeldin(problem, "simple"),
        "delayed EXP3,\nanytime": lambda problem, p, d: bl.DelayedOPPO(
            problem, transitions=p, costs=bl.parts.Weighted()
        ),
    }
    world = bl.environments.bandit([0.3, 0.5, 0.5, 0.5, 0.5])
    delays = bl.delays.lost(0.1, bl.delays.geometric(30))
    learning(path, world, delays, 3000, agents, regret=True, seeds=5)


def lazy(path: Path) -> None:
    """Active updating and three degrees of laziness."""

    def active(problem: bl.Problem, p: bl.Transitions, d: np.ndarray) -> bl.DelayedUCBVI:
        costs = bl.parts.Averaged(pooled=True)
        return bl.DelayedUCBVI(
            problem, transitions=bl.parts.Confidence(radius_scale=0.1), costs=costs
        )

    agents: dict[str, MakeAgent] = {"active": active}
    for alpha in (10, 2, 1):
        agents[f"lazy, alpha = {alpha}"] = lambda problem, p, d, alpha=alpha: bl.wrappers.Lazy(
            active(problem, p, d), alpha
        )
    chain = bl.environments.chain(states=6, horizon=8)
    world = bl.World(chain.mdp, bl.costs.stochastic(chain.costs.at(0)))
    learning(path, world, bl.delays.fixed(20), 1000, agents, regret=True)


def save(figure: plt.Figure, path: Path) -> None:
    """Write an SVG without the date, so that drawing again changes nothing."""
    for on in figure.axes:
        on.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw(folder: Path, pictures: tuple[Callable[[Path], None], ...]) -> None:
    """Draw pictures into a folder, each under its name."""
    with plt.rc_context({"svg.hashsalt": "belated", "svg.fonttype": "none"}):
        for picture in pictures:
            picture(folder / f"{picture.__name__}.svg")


def main(folder: Path) -> None:
    """Draw the diagrams."""
    draw(folder, (timeline, facts))


LEARNING = (
    oppo, regret_matching, oreps, ucbvi, skipping, doubling, parallel, pipeline,
    dapo, ftrl, uob_reps, zimmert_seldin, lazy,
)  # fmt: skip

if __name__ == "__main__":
    main(Path(sys.argv[1]))
    draw(Path(sys.argv[2]), LEARNING)
