"""A robot behind a lossy link: its records arrive late, out of order, or never.

The world is a 6 x 6 grid with a wall. The robot starts in one corner, must reach the opposite one
and slips in one move out of ten. After every episode it sends its path and its costs over the link.
The learner knows neither the grid nor the link; it is the recommended agent. The figure compares
four links; the table has Delayed OPPO as in the paper's experiments beside it.

pip install 'belated[lab]'
"""

import numpy as np
from drawing import BLACK, BLUE, GREEN, VERMILION, axes, band, save

import belated as bl

WALL = tuple((3, column) for column in range(1, 6))
EPISODES, SEEDS, HORIZON, SIZE = 300, 5, 25, 6
ARROWS = ((0, -0.32), (0, 0.32), (0.32, 0), (-0.32, 0))  # up, down, right, left in the picture


def main() -> None:
    world = bl.environments.gridworld(size=SIZE, walls=WALL, slip=0.1, horizon=HORIZON)
    late = bl.delays.geometric(mean=15)
    links = {
        "perfect link": (bl.delays.none(), BLACK),
        "late and out of order": (late, BLUE),
        "and 50% lost": (bl.delays.lost(0.5, late), GREEN),
        "and 90% lost": (bl.delays.lost(0.9, late), VERMILION),
    }
    figure, (left, right) = axes(2, width=10)
    print(f"{'':24} regret (mean of {SEEDS} seeds) / of OPPO   cost of the last 20 episodes")
    for name, (delays, colour) in links.items():
        runs = []
        for seed in range(SEEDS):
            agent = bl.recommend(world.problem, information="full", lost=True)
            runs.append(bl.simulate(world, agent, delays=delays, episodes=EPISODES, seed=seed))
        band(left, [run.values for run in runs], colour, name)
        regret = np.mean([run.regret[-1] for run in runs])
        last = np.mean([run.values[-20:].mean() for run in runs])
        other = np.mean([oppo(world, delays, seed) for seed in range(SEEDS)])
        print(f"{name:24} {regret:12.0f} {other:14.0f} {last:30.2f}")
        if name == "and 50% lost":
            learned = agent.begin_episode().policy
    best = runs[0].optimum / EPISODES
    print(f"{'best policy':24} {0:12d} {0:14d} {best:30.2f}")
    left.axhline(best, color="0.5", linestyle=":")
    left.annotate(f"best policy {best:.1f}", (EPISODES, best), va="top", ha="right", color="0.35")
    left.set(xlabel="episode", ylabel="expected cost (steps away from the goal)")
    left.set(xlim=(1, EPISODES), ylim=(best - 2, HORIZON + 0.5))
    left.set_title(f"Records 15 episodes late on average, {SEEDS} seeds and 95% band", fontsize=10)
    left.legend(frameon=False, loc="center", bbox_to_anchor=(0.58, 0.4))
    draw_grid(right, world, learned)
    figure.suptitle("A robot behind a lossy link")
    print(f"Figure: {save(figure, 'robot')}")


def oppo(world: bl.World, delays: bl.delays.DelayModel, seed: int) -> float:
    """The regret of Delayed OPPO with the bonus and a step size set by hand."""
    agent = bl.DelayedOPPO(
        world.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.3)
    )
    return float(bl.simulate(world, agent, delays=delays, episodes=EPISODES, seed=seed).regret[-1])


def draw_grid(on, world: bl.World, policy: np.ndarray) -> None:
    """Draw expected visits per cell, and the most likely move in cells that are visited often."""
    reach = bl.planning.occupancy(world.mdp, policy).sum(axis=(0, 2)).reshape(SIZE, SIZE)
    on.imshow(np.sqrt(reach), cmap="Blues", vmin=0)
    for row, column in WALL:
        on.fill_between([column - 0.5, column + 0.5], row - 0.5, row + 0.5, color="0.3")
    on.text(SIZE - 1, SIZE - 1, "goal", ha="center", va="center", color="white")
    first = bl.planning.occupancy(world.mdp, policy)
    for state in range(SIZE * SIZE - 1):
        row, column = divmod(state, SIZE)
        if reach[row, column] > 0.3:
            move = first[:, state].sum(axis=0).argmax()
            x, y = ARROWS[move]
            on.annotate(
                "", (column + x, row + y), (column - x, row - y), arrowprops={"arrowstyle": "->"}
            )
    on.set(xticks=[], yticks=[])
    on.set_title("Learned with half of the records lost (one seed)", fontsize=10)


if __name__ == "__main__":
    main()
