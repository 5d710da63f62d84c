"""Delayed OPPO learns the paper's grid world from late feedback; the figure shows its cost."""

from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import belated as bl

matplotlib.use("Agg")
from matplotlib import pyplot as plt

EPISODES = 500
FIGURE = Path("out") / "first_run.png"
COLOURS = {"transitions learned": "#D55E00", "transitions known": "#0072B2"}


def main() -> None:
    world = bl.environments.paper_grid()
    delays = bl.delays.geometric(mean=10)
    agents = {
        "transitions learned": bl.DelayedOPPO(
            world.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(learning_rate=0.1)
        ),
        "transitions known": bl.DelayedOPPO(
            world.problem,
            transitions=world.mdp.transitions,
            update=bl.parts.Softmax(learning_rate=0.1),
        ),
    }
    console = Console()
    console.print(
        "Delayed OPPO on a 10 x 10 grid: 50 steps, start top left, goal bottom right.\n"
        "The costs and the path of an episode come back about 10 episodes later.\n"
        "(The first run compiles the kernels, which takes some seconds.)"
    )
    runs = {}
    for name, agent in agents.items():

        def bar(episodes: range, name: str = name):
            return track(episodes, description=name, console=console)

        runs[name] = bl.simulate(
            world, agent, delays=delays, episodes=EPISODES, seed=0, progress=bar
        )
    console.print(table(runs))
    FIGURE.parent.mkdir(exist_ok=True)
    draw(runs)
    console.print(f"Learning curves: {FIGURE}")


def table(runs: dict[str, bl.Run]) -> Table:
    result = Table(title=f"{EPISODES} episodes, expected cost per episode (exact)")
    result.add_column("")
    for name in runs:
        result.add_column(name, justify="right")

    def row(label: str, cell) -> None:
        result.add_row(label, *(cell(run) for run in runs.values()))

    row("first 20 episodes", lambda run: f"{run.values[:20].mean():.2f}")
    row("last 20 episodes", lambda run: f"{run.values[-20:].mean():.2f}")
    row("optimum", lambda run: f"{run.optimum / EPISODES:.2f}")
    row("regret, total", lambda run: f"{run.regret[-1]:.0f}")
    row("delay, mean", lambda run: f"{run.delays.mean():.1f}")
    row("delay, largest", lambda run: f"{run.delays.max()}")
    row("feedback missing at the end", lambda run: f"{run.missing[-1]} episodes")
    return result


def draw(runs: dict[str, bl.Run]) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    best = next(iter(runs.values())).optimum / EPISODES
    axes.axhline(best, color="0.35", linewidth=1, linestyle="--")
    axes.annotate(
        f"best policy {best:.1f}", (EPISODES, best), xytext=(-4, -12), ha="right",
        textcoords="offset points", color="0.35",
    )  # fmt: skip
    for name, run in runs.items():
        axes.plot(np.arange(1, EPISODES + 1), run.values, color=COLOURS[name], label=name)
    axes.set(
        xlabel="episode", ylabel="expected cost of the policy", xlim=(1, EPISODES), ylim=(15, 52)
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("Delayed OPPO, 10 x 10 grid, feedback 10 episodes late on average", fontsize=10)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
