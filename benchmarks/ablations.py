"""What each constant of the recommended planners is worth: change one, and play the same worlds.

python -m benchmarks.ablations              all tables, to benchmarks/ABLATIONS.md; hours
python -m benchmarks.ablations bandit 20    one table, with 20 seeds
python -m benchmarks.ablations bandit 20 "no penalty"    one row of it

The worlds are those of benchmarks/practice.py with seeds that no table of it has, and three more.
Scores are kept in benchmarks/out/ablations.json, so that a broken run continues. A change is made
in a process of its own; constants are compiled into kernels, so a change of one has a cache of its
own.
"""

import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import practice
from benchmarks.practice import Case

import belated as bl
from belated.tabular.kernels import beliefs
from belated.tabular.planner import rewound

HERE = Path(__file__).parent
KEPT = HERE / "out" / "ablations.json"
FIRST = 400
"""The first seed."""
SEEDS = 10
SHIPPED = "as shipped"


def close_arms(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.bandit(rng.permutation([0.4, 0.5, 0.5, 0.5])), bl.delays.geometric(10)


def by_step(rng: np.random.Generator, seed: int) -> Case:
    costs = bl.costs.stochastic(rng.random((5, 5, 3)))
    return bl.World(practice.random_mdp(300 + seed, 5, 3, 5).mdp, costs), bl.delays.geometric(10)


def maze(rng: np.random.Generator, seed: int) -> Case:
    walls = [(1, 1), (1, 2), (1, 3), (1, 4), (3, 1), (3, 2), (3, 3), (3, 5), (5, 1), (5, 3), (5, 4)]
    return bl.environments.gridworld((7, 6), horizon=30, walls=walls), bl.delays.geometric(25)


def alternate(rng: np.random.Generator, seed: int) -> Case:
    costs = bl.costs.switching(np.array([[[[0.0, 1.0]]], [[[1.0, 0.0]]]]), every=1)
    return bl.World(bl.environments.bandit(np.ones(2)).mdp, costs), bl.delays.fixed(2)


Cases = tuple[Callable[[np.random.Generator, int], Case], ...]

CASES: dict[str, Cases] = {
    "bandit": (
        *(practice.noise, practice.river, maze, practice.deep_sea, practice.faint),
        *(close_arms, practice.many_arms, practice.hidden, practice.switch, practice.drift),
        *(practice.moving_goal, by_step),
    ),
    "full": (
        *(practice.noise, practice.river, practice.deep_sea, practice.faint),
        *(practice.hidden, practice.switch, practice.drift, practice.moving_goal, alternate),
    ),
}

PLANNER, INFORMED = "belated.tabular.planner", "belated.tabular.informed"
BELIEFS, DEEP = "belated.tabular.kernels.beliefs", "belated.tabular.kernels.deep_planning"
PENDING = "belated.tabular.parts.pending"


class LowestAction:
    """Draws that break no tie: the first action of several is played."""

    def __init__(self, *given: Any) -> None:
        self._rng = rewound(*given)

    def random(self, shape: tuple[int, ...] | None = None) -> object:
        """Whether to probe is drawn; which action is not."""
        return self._rng.random() if shape is None else np.zeros(shape)


def all_but_by_step(
    memories: beliefs.CostMemories, *given: Any, learn: Callable[..., None] = beliefs.learn
) -> None:
    """Learn, and let the memory that is kept by step count nowhere."""
    learn(memories, *given)
    memories.scores[-1] = -np.inf
    memories.errors[-2] = memories.errors[0]


BOTH: dict[str, dict[str, object]] = {
    "ties to the first action": {f"{PLANNER}.rewound": LowestAction},
    "no visits on their way": {f"{PENDING}.Pending.put_in": lambda *_: None},
    "prior visits of a row 0": {f"{DEEP}.PRIOR": 0.0},
}
KERNELS: dict[str, dict[str, object]] = {
    "visits on their way never overdue": {f"{PENDING}.SPARE_EPISODES": 10**9},
    "more than one visit on its way per row": {f"{DEEP}.MOST": 1e9},
    "prior visits of a row 0.2": {f"{DEEP}.PRIOR": 0.2},
    "rate of the weights 1": {f"{each}.RATE": 1.0 for each in (BELIEFS, INFORMED)},
    "rate of the weights 4": {f"{each}.RATE": 4.0 for each in (BELIEFS, INFORMED)},
    "smallest weight 0.1": {f"{BELIEFS}.LEAST": float(np.log(0.1))},
    "smallest weight 0.001": {f"{BELIEFS}.LEAST": float(np.log(0.001))},
    "least noise and spread 100 times smaller": {
        f"{BELIEFS}.LEAST_NOISE": 4e-5,
        f"{BELIEFS}.LEAST_SPREAD": 2.5e-7,
    },
    "noise without added costs of 1/2": {f"{BELIEFS}.COINS": 0.01},
    "no cell of each kind in the fit of eps": {f"{BELIEFS}.ONE_EACH": 0.01},
    "no wide core in the fit of the prior": {f"{BELIEFS}.WIDE": 0.0},
    "no cell of 1/2 in the fit of the prior": {f"{BELIEFS}.HALF": 0.01},
}
CHANGES: dict[str, dict[str, dict[str, object]]] = {
    "bandit": {
        SHIPPED: {},
        "optimism 0.5": {f"{PLANNER}.OPTIMISM": 0.5},
        "optimism 1.2": {f"{PLANNER}.OPTIMISM": 1.2},
        "no penalty": {f"{PLANNER}.TIE_PENALTY": 0.0},
        "no memory 0.9": {f"{PLANNER}.KEEP": (1.0, 0.99)},
        "memory 0.97 for 0.9": {f"{PLANNER}.KEEP": (1.0, 0.99, 0.97)},
        "no memory 0.99, probes with 0.9": {f"{PLANNER}.KEEP": (1.0, 0.9)},
        "no memory by step": {f"{BELIEFS}.learn": all_but_by_step},
        "no probes": {f"{PLANNER}.probe_rate": lambda horizon: 0.0},
        "half the probes": {f"{PLANNER}.probe_rate": lambda H: min(0.08, 0.1 / H) / 2.0},
        "twice the probes": {f"{PLANNER}.probe_rate": lambda H: min(0.08, 0.1 / H) * 2.0},
        "probes never fewer": {f"{PLANNER}.FRUITLESS": 10**9},
        "probes with optimism 0.8": {f"{PLANNER}.PROBE_OPTIMISM": 0.8},
        **BOTH,
        **KERNELS,
    },
    "full": {
        SHIPPED: {},
        "no memory 0.8": {f"{INFORMED}.KEEP": (1.0, 0.97)},
        "no memory 0.97": {f"{INFORMED}.KEEP": (1.0, 0.8)},
        "no handicap of regret matching+": {f"{INFORMED}.HANDICAP": 0.0},
        "no regret matching+": {f"{INFORMED}.HANDICAP": 1e9},
        "visited rows do not end": {f"{INFORMED}.NEW": 0.0},
        "handicap 0.1": {f"{INFORMED}.HANDICAP": 0.1},
        "floor of the policies 0.01": {f"{INFORMED}.FLOOR": float(np.log(0.01))},
        "handicap 0.1, floor 0.01": {
            f"{INFORMED}.HANDICAP": 0.1,
            f"{INFORMED}.FLOOR": float(np.log(0.01)),
        },
        **BOTH,
    },
}


def kept() -> dict[str, float]:
    """The scores of earlier runs."""
    if not KEPT.exists():
        return {}
    return dict(json.loads(line) for line in KEPT.read_text().splitlines())


def play(information: str, change: str, seeds: int) -> None:
    """Make the change, then play all cases, but for scores that are kept."""
    for place, value in CHANGES[information][change].items():
        owner, name = place.rsplit(".", 1)
        setattr(pkgutil.resolve_name(owner), name, value)
    found = kept()
    for case in CASES[information]:
        for seed in range(FIRST, FIRST + seeds):
            key = f"{information} {change} {case.__name__} {seed}"
            if key in found:
                continue
            number = sum(map(ord, case.__name__))
            world, delays = case(np.random.default_rng([51, number, seed]), seed)
            agent = bl.recommend(world.problem, information=information, seed=seed)
            run = bl.simulate(world, agent, delays=delays, episodes=practice.EPISODES, seed=seed)
            score = float(run.values.mean()) if case is alternate else run.score_on_means
            with KEPT.open("a") as file:
                file.write(json.dumps([key, score]) + "\n")
    print(f"{information}: {change}", flush=True)


def table(information: str, seeds: int) -> list[str]:
    """What every change costs in every case, over paired seeds."""
    found, cases = kept(), CASES[information]

    def scores(change: str, case: Callable[..., Case]) -> np.ndarray:
        names = (f"{information} {change} {case.__name__} {FIRST + i}" for i in range(seeds))
        return np.array([found[name] for name in names])

    names = [case.__name__.replace("_", " ") for case in cases]
    lines = ["| changed | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    shipped = [scores(SHIPPED, case) for case in cases]
    cells = [f"{each.mean():.3f}" for each in shipped]
    lines.append(f"| {SHIPPED} | {' | '.join(cells)} |")
    for change in CHANGES[information]:
        if change != SHIPPED:
            paired = [
                scores(change, case) - each for case, each in zip(cases, shipped, strict=True)
            ]
            cells = [f"{d.mean():+.3f} ± {d.std(ddof=1) / seeds**0.5:.3f}" for d in paired]
            lines.append(f"| {change} | {' | '.join(cells)} |")
    return lines


def main(given: list[str]) -> None:
    if len(given) == 3:
        play(given[0], given[2], int(given[1]))
        return
    seeds = int(given[1]) if len(given) > 1 else SEEDS
    KEPT.parent.mkdir(exist_ok=True)
    for information in given[:1] or CHANGES:
        for change in CHANGES[information]:
            with tempfile.TemporaryDirectory() as cache:
                compiled = any(".kernels." in place for place in CHANGES[information][change])
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.ablations", information, str(seeds), change],
                    env={**os.environ, **({"NUMBA_CACHE_DIR": cache} if compiled else {})},
                    check=True,
                )
        if given:
            print("\n".join(table(information, seeds)))
    if not given:
        text = [
            "# What each constant of the planners is worth\n",
            "Written by `python -m benchmarks.ablations`.\n",
            f"The first row is the score over {practice.EPISODES:,} episodes, the others are what "
            f"one change adds to it: mean of {SEEDS} paired seeds with standard errors, above 0 is "
            "worse. `alternate` has costs per episode: those of two arms alternate between 0 and "
            "1, and uniform play pays 0.5.\n",
            "## Bandit feedback\n",
            *table("bandit", SEEDS),
            "\n## Full information\n",
            *table("full", SEEDS),
            "",
        ]
        (HERE / "ABLATIONS.md").write_text("\n".join(text))


if __name__ == "__main__":
    main(sys.argv[1:])
