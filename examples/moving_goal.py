"""Adversarial costs: a goal that moves, with delayed feedback.

The world is a 7 x 7 grid with known transitions. The goal moves to the next of three cells every 20
episodes. The learner is not told; the costs of an episode arrive d episodes later on average.
Regret compares with the best fixed policy in hindsight, which knows all costs but cannot change.
Delayed OPPO is designed to match that policy. It is not designed to follow the goal.

pip install 'belated[lab]'
"""

import numpy as np
from drawing import BLACK, BLUE, ORANGE, VERMILION, axes, band, save

import belated as bl

SIZE, EVERY, EPISODES, SEEDS = 7, 20, 600, 5
CELLS = ((6, 6), (5, 3), (2, 5))
LEARNING_RATE = 0.1


def main() -> None:
    grid = bl.environments.gridworld(size=SIZE, horizon=30).mdp
    goals = [bl.environments.goal_costs(SIZE, cell) for cell in CELLS]
    world = bl.World(grid, bl.costs.switching(goals, every=EVERY))
    figure, (left, right) = axes(2, width=10)
    for mean, colour in ((0, BLACK), (10, BLUE), (40, VERMILION)):
        runs = []
        for seed in range(SEEDS if mean else 1):  # without delay every seed gives the same values
            agent = bl.DelayedOPPO(
                world.problem, transitions=grid.transitions, update=bl.parts.Softmax(LEARNING_RATE)
            )
            delays = bl.delays.geometric(mean)
            runs.append(bl.simulate(world, agent, delays=delays, episodes=EPISODES, seed=seed))
        label = f"{mean} episodes late" if mean else "no delay"
        band(left, [run.values for run in runs], colour, label)
        band(right, [run.regret for run in runs], colour, label)
        print(f"{label:18} regret {np.mean([run.regret[-1] for run in runs]):8.0f}")
    left.plot(np.arange(1, EPISODES + 1), runs[0].comparator, color=ORANGE, linestyle="--",
              label="best fixed policy")  # fmt: skip
    for on in (left, right):
        for switch in range(EVERY, EPISODES, EVERY):
            on.axvline(switch, color="0.8", linewidth=0.8, zorder=0)
        on.set(xlabel="episode (grey: the goal moves)", xlim=(1, EPISODES))
    left.set(ylabel="expected cost of the policy", xlim=(1, 200))
    right.plot([], [], color=ORANGE, linestyle="--", label="best fixed policy")
    right.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.06))
    right.axhline(0, color=ORANGE, linestyle="--")
    right.set(ylim=(-30, None), ylabel="regret against the best fixed policy")
    right.set_title(f"All {EPISODES}; {SEEDS} seeds of the delays and 95% band", fontsize=10)
    left.set_title(f"The first 200 episodes, learning rate {LEARNING_RATE}", fontsize=10)
    figure.suptitle("A goal that moves every 20 episodes")
    print(f"Figure: {save(figure, 'moving_goal')}")


if __name__ == "__main__":
    main()
