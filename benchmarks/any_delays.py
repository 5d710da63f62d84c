"""What a lost record does to each method, and what the weight of doubling is worth.

python benchmarks/any_delays.py     two tables, to benchmarks/ANY_DELAYS.md
"""

from pathlib import Path

import numpy as np
from rich.progress import track

import belated as bl

HERE = Path(__file__).parent
EPISODES, SEEDS = 500, 20
ARMS, ROUNDS, ARM_SEEDS = 50, 4000, 30


def largest(delays):
    """The largest delay that shows within the run: what Parallel and Pipeline must be told."""
    left = len(delays) - 1 - np.arange(len(delays))
    return int(np.minimum(delays, left).max())


def interval(sample):
    """Mean and half of a 95 % interval."""
    sample = np.asarray(sample)
    return sample.mean(), 1.96 * sample.std(ddof=1) / np.sqrt(len(sample))


def lost_record():
    """Regret without and with one lost record, the same delays for all."""
    world = bl.environments.gridworld(4, horizon=10)

    def make(update=bl.parts.Softmax(0.5)):  # noqa: B008
        return bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions, update=update)

    methods = {
        "Delayed OPPO": lambda delays: make(),
        "Delayed OPPO, anytime, scale 20": lambda delays: make(bl.parts.Softmax(scale=20)),
        "Regret matching+": lambda delays: make(bl.parts.RegretMatching()),
        "Skipping (threshold 60)": lambda delays: bl.wrappers.Skipping(make(), 60),
        "Doubling, scale 20": lambda delays: bl.wrappers.Doubling(make(bl.parts.Softmax(scale=20))),
        "BOLD": lambda delays: bl.wrappers.Bold(make),
        "Parallel (told the largest delay)": lambda delays: bl.wrappers.Parallel(
            make, largest(delays)
        ),
        "Pipeline (told the largest delay)": lambda delays: bl.wrappers.Pipeline(
            make(), largest(delays)
        ),
    }
    found = {name: ([], []) for name in methods}
    for seed in track(range(SEEDS), description="lost record"):
        rng = np.random.default_rng(seed)
        drawn = bl.delays.geometric(2).draw(EPISODES, rng)
        lost = drawn.copy()
        lost[rng.integers(10, 100)] = bl.NEVER
        for name, agent in methods.items():
            for delays, kept in zip((drawn, lost), found[name], strict=True):
                run = bl.simulate(world, agent(delays), delays=delays, episodes=EPISODES, seed=seed)
                kept.append(run.regret[-1])
    lines = ["| method | regret | with one record lost |", "|---|---|---|"]
    for name, (before, after) in found.items():
        cells = [f"{m:.0f} ± {h:.0f}" for m, h in map(interval, (before, after))]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return lines


def weights():
    """Regrets of doubling with weight A and weight 1, and of anytime EXP3, seed by seed."""
    means = np.full(ARMS, 0.6)
    means[ARMS // 2] = 0.2
    world = bl.environments.bandit(means)
    agents = {
        "weight A": lambda: bl.wrappers.Doubling(
            bl.DelayedOPPO(world.problem, costs=bl.parts.Weighted())
        ),
        "weight 1": lambda: bl.wrappers.Doubling(
            bl.DelayedOPPO(world.problem, costs=bl.parts.Weighted()), weight=1
        ),
        "anytime": lambda: bl.DelayedOPPO(world.problem, costs=bl.parts.Weighted()),
    }
    regrets = {name: [] for name in agents}
    for seed in track(range(ARM_SEEDS), description="weights"):
        drawn = bl.delays.geometric(10).draw(ROUNDS, np.random.default_rng(seed))
        for name, agent in agents.items():
            run = bl.simulate(world, agent(), delays=drawn, episodes=ROUNDS, seed=seed)
            regrets[name].append(run.regret[-1])
    return regrets


def main():
    lost = lost_record()
    rows = ["| agent | regret after 4000 episodes |", "|---|---|"]
    for name, regrets in weights().items():
        mean, half = interval(regrets)
        rows.append(f"| {name} | {mean:.0f} ± {half:.0f} |")
    text = [
        "# Any delays\n",
        "Written by `python benchmarks/any_delays.py`.\n",
        f"## One lost record in {EPISODES}\n",
        "4 x 4 grid, H = 10, known transitions, full information, geometric delays of mean 2, "
        f"learning rate 0.5 where it is constant; {SEEDS} seeds, mean and 95 % interval. Parallel "
        "and Pipeline know the largest delay that shows within the run, and the others do not; "
        "with a lost record it is almost the whole run.\n",
        *lost,
        "\n## Doubling: weight A against weight 1\n",
        f"{ARMS} arms with mean cost 0.6, one with 0.2, Bernoulli costs, bandit feedback, "
        f"geometric delays of mean 10, {ARM_SEEDS} seeds. Weight A has the better guarantee and "
        "the smaller steps; at this size it has the larger regret.\n",
        *rows,
    ]
    (HERE / "ANY_DELAYS.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
