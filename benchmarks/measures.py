"""How long an update on occupancy measures takes, in one run on one thread.

    python benchmarks/measures.py     a table, to benchmarks/MEASURES.md as well

One update: an episode is observed, and the next policy is made. O-REPS sees the whole cost
function, FTRL and UOB-REPS the costs of a path. O-REPS and FTRL know the transitions; UOB-REPS does
not. Medians over consecutive updates, so all but the first start warm; processor time.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import time

import numpy as np
import pages

import belated as bl

WARM = 3
"""Updates that are not timed."""


def update(world: bl.World, agent: bl.Agent, updates: int) -> float:
    """Median processor time, in ms, of observing an episode and beginning the next."""
    H, S, A = world.problem.shape
    rng = np.random.default_rng(0)
    size = round(S**0.5)
    goal = bl.environments.goal_costs(size, (size - 1, size - 1))
    times = []
    episode = agent.begin_episode()
    for k in range(WARM + updates):
        path = world.mdp.play(episode.policy, rng, k)
        costs = np.clip(goal + 0.1 * rng.standard_normal((H, S, A)), 0.0, 1.0)
        if agent.information == "bandit":
            costs = costs[np.arange(H), path.states[:-1], path.actions]
        records = [path, bl.Costs(k, costs)]
        began = time.process_time()
        agent.observe(records)
        episode = agent.begin_episode()
        times.append(time.process_time() - began)
    return float(np.median(times[WARM:])) * 1e3


def row(size: int, horizon: int, updates: int) -> list[str]:
    """The rows of one grid."""
    world = bl.environments.gridworld(size, slip=0.1, horizon=horizon)
    problem, known = world.problem, {"transitions": world.mdp.transitions}
    K, D, largest = 10_000, 100_000, 20
    printed = bl.tuning.ftrl(problem, K, D, max_delay=largest)
    practical = bl.tuning.ftrl(problem, K, D)
    uob = bl.tuning.uob_reps(problem, K, D)
    agents = {
        "O-REPS": bl.DelayedOREPS(problem, learning_rate=0.1, **known),
        "FTRL, as printed": bl.DelayedFTRL(problem, **printed, **known),
        "FTRL, for practice": bl.DelayedFTRL(problem, **practical, **known),
        "FTRL, barrier 0.01": bl.DelayedFTRL(
            problem, learning_rate=practical["learning_rate"], barrier=0.01, **known
        ),
        "UOB-REPS, unknown transitions": bl.UOBREPS(problem, episodes=K, **uob),
    }
    found = {name: update(world, agent, updates) for name, agent in agents.items()}
    return [
        f"| {size} x {size}, H = {horizon} | {name} | {ms:.2f} | {ms / found['O-REPS']:.1f} |"
        for name, ms in found.items()
    ]


def main() -> None:
    """Measure, print, write."""
    lines = [
        "# Updates on occupancy measures",
        "",
        "| grid | agent | ms per update | O-REPS updates |",
        "|---|---|---|---|",
        *row(5, 15, 100),
        *row(10, 50, 15),
        "",
    ]
    pages.write("MEASURES.md", lines)


if __name__ == "__main__":
    main()
