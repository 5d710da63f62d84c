"""Each honest weighting alone, in the agent that version 0.2.0 recommended for bandit feedback.

python benchmarks/honest.py     a table, to benchmarks/HONEST.md; some minutes

An interrupted run continues: see `practice.once`.

    began     memories are judged by what they said when the episode began
    once      a cell that an episode visits several times counts once
    ties      a toll of 0.01 per cost for all memories but the slowest
    members   members of the blend are judged by their policies when the episode began
    all       all four

Tuning worlds, 1,000 episodes, five seeds; scores on mean costs.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from practice import earlier, once
from rich.progress import track

import belated as bl
from belated.tabular.kernels import memories
from belated.tabular.parts import predicted

HERE = Path(__file__).parent
EPISODES, SEEDS, TOLL = 1000, 5, 0.01
CHANGES = ("began", "once", "ties", "members")


class Changed:
    """A part of the agent with one method replaced."""

    def __init__(self, part, **methods):
        self._part = part
        vars(self).update(methods)

    def __getattr__(self, name):
        return getattr(self._part, name)


def honest(agent: bl.DelayedOPPO, changes: tuple[str, ...]) -> bl.DelayedOPPO:
    """Change how memories and members of the agent are judged."""
    costs, update = agent._cost_part, agent._update_part
    begin, settle, learn = agent.begin_episode, agent._ledger.settle, agent._learn
    said: dict[int, tuple] = {}  # of open episodes: the memories, and the members' policies
    current: list[int] = []

    def begun(now=None):
        episode = begin(now)
        groups = tuple(
            memories.Memories(group.means.copy(), group.weights.copy(), group.keep)
            for group in predicted._memories(agent._costs)
        )
        said[episode.number] = (groups, list(agent._update.policies))
        return episode

    def learned_costs(learned, path, values):
        """What `Predicted.learn` does, with the changes."""
        prediction = costs.prediction(learned)
        states, actions = path.states[:-1], path.actions
        error = values - prediction[np.arange(len(values)), states, actions]
        newest = predicted._memories(learned)
        pooled, stepped = said[path.episode][0] if "began" in changes else newest
        cells = states * agent.problem.actions + actions
        _, where, visits = np.unique(cells, return_inverse=True, return_counts=True)
        share = 1.0 / visits[where] if "once" in changes else np.ones(len(values))
        squares = np.zeros(len(learned.scores))
        for h in range(len(values)):
            s, a = states[h], actions[h]
            guesses = list(pooled.means[:, 0, s, a])
            for m in range(len(stepped.keep)):
                seen = stepped.weights[m, h, s, a] > 0.0
                guesses.append(stepped.means[m, h, s, a] if seen else pooled.means[0, 0, s, a])
            squares += share[h] * (values[h] - np.array(guesses)) ** 2
        if "ties" in changes:
            squares[1:] += TOLL * share.sum()
        scores = learned.scores - predicted.RATE * squares
        learned.scores = np.maximum(scores - scores.max(), math.log(predicted.LEAST_WEIGHT))
        if "once" in changes:
            first = np.unique(where, return_index=True)[1]
            mean = np.bincount(where, values) / visits
            memories.learn(newest[0], np.array(states[first]), np.array(actions[first]), mean)
        else:
            memories.learn(newest[0], path.states, actions, values)
        memories.learn(newest[1], path.states, actions, values)
        learned.prediction = None
        return predicted.Lesson(prediction, error)

    def learned_update(learned, arrival):
        now = learned.policies
        if "members" in changes:
            learned.policies = said[current[-1]][1]
        update.learn(learned, arrival)
        learned.policies = now

    def learning(entry, lesson=None):
        current.append(entry.number)
        learn(entry, lesson)

    def settled(entry):
        said.pop(entry.number, None)
        settle(entry)

    agent.begin_episode, agent._learn, agent._ledger.settle = begun, learning, settled
    agent._cost_part = Changed(costs, learn=learned_costs)
    agent._update_part = Changed(update, learn=learned_update)
    return agent


def drawn(seed: int, count: int, S: int, A: int) -> np.ndarray:
    return np.random.default_rng([11, seed]).random((count, 1, S, A))


def noise(seed: int) -> bl.World:
    return bl.environments.random_mdp(6, 3, 5, seed=7000 + seed)


def faint(seed: int) -> bl.World:
    means = 0.45 + 0.1 * drawn(seed, 1, 6, 3)[0]
    return bl.World(bl.environments.random_mdp(6, 3, 5, seed=7100 + seed).mdp,
                    bl.costs.stochastic(means))  # fmt: skip


def goal(seed: int) -> bl.World:
    return bl.environments.gridworld(4, horizon=10)


def river_cycle(seed: int) -> bl.World:
    mdp = bl.environments.chain(6, 12).mdp
    return bl.World(mdp, bl.costs.switching(drawn(seed, 3, 6, 2), 8))


def switch(seed: int) -> bl.World:
    mdp = bl.environments.random_mdp(6, 3, 5, seed=7200 + seed).mdp
    return bl.World(mdp, bl.costs.noisy(bl.costs.switching(drawn(seed, 2, 6, 3), 300)))


def drift(seed: int) -> bl.World:
    mdp = bl.environments.random_mdp(6, 3, 5, seed=7300 + seed).mdp
    return bl.World(mdp, bl.costs.drifting(drawn(seed, 3, 6, 3), 300))


def arms(seed: int) -> bl.World:
    return bl.World(bl.environments.bandit(np.ones(8)).mdp,
                    bl.costs.noisy(bl.costs.switching(drawn(seed, 3, 1, 8), 300)))  # fmt: skip


WORLDS: tuple[Callable[[int], bl.World], ...] = (
    noise, faint, goal, river_cycle, switch, drift, arms,
)  # fmt: skip


def score(make: Callable[[int], bl.World], changes: tuple[str, ...] | None, seed: int) -> float:
    world = make(seed)
    if changes is None:
        agent = bl.recommend(world.problem, information="bandit", seed=seed)
    else:
        agent = honest(earlier(world.problem, 0, seed), changes)
    delays = bl.delays.geometric(10)
    run = bl.simulate(world, agent, delays=delays, episodes=EPISODES, seed=seed)
    return run.score_on_means


def main() -> None:
    variants: dict[str, tuple[str, ...] | None] = {
        "0.2.0": (),
        **{change: (change,) for change in CHANGES},
        "all": CHANGES,
        "planner": None,
    }
    names = [world.__name__.replace("_", " ") for world in WORLDS]
    lines = [f"| judged | {' | '.join(names)} | mean |", "|---|" + "---|" * (len(names) + 1)]
    for name, changes in track(variants.items(), description="honest weights"):
        found = [
            np.mean(
                [
                    once(f"honest {w.__name__} {name} {seed}", partial(score, w, changes, seed))
                    for seed in range(SEEDS)
                ]
            )
            for w in WORLDS
        ]
        cells = " | ".join(f"{x:.2f}" for x in (*found, np.mean(found)))
        lines.append(f"| {name} | {cells} |")
    text = [
        "# Honest weights\n",
        "Written by `python benchmarks/honest.py`.\n",
        f"Scores on mean costs, bandit feedback, {EPISODES:,} episodes, geometric delays of mean "
        f"10, mean of {SEEDS} seeds, on tuning worlds. Each row changes one thing in the agent "
        "that version 0.2.0 recommended; `planner` is the agent that replaced it.\n",
        *lines,
        "",
    ]
    (HERE / "HONEST.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
