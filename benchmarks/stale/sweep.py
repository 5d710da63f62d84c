"""Corrections side by side under late rollouts, in JAX.

    python benchmarks/stale/sweep.py tune     clips, selected on Swing-up and Docking
    python benchmarks/stale/sweep.py grid     CartPole and Pendulum, and Acrobot at one delay
    python benchmarks/stale/sweep.py common   the same with a clip of 0.2 for all

A second process may share the work: with `last` as second argument it begins at the end.
Each writes a row per run to a file beside this one, as soon as it is there; what is already in the
file is not run again. Returns are means over the episodes that ended within ten rounds.
"""

import csv
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np
from learner import CORRECTIONS, ORDERS, Setting, many
from tasks import TASKS

PLACE = Path(__file__).parent
TUNING, GRID = PLACE / "tuning.csv", PLACE / "grid.csv"
CLIPS, COMMON = (0.1, 0.2, 0.4), 0.2
DELAYS = {2: "1e3", 20: "1e4", 78: "4e4"}
"""Rounds of 512 steps, and the steps that they stand for."""
ROUNDS, WINDOW, TOGETHER = 300, 10, 40
TUNING_ROUNDS, TUNING_SEEDS, SEEDS = 150, range(100, 103), range(5)
NAMES = ("task", "delay", "order", "correction", "clip", "seed")
Key = tuple[str, int, str, str, float, int]


def rows(file: Path) -> dict[Key, list[float]]:
    """What a file holds: effective sample size, drift and the returns of each run."""
    if not file.exists():
        return {}
    found = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for task, delay, order, correction, clip, seed, *numbers in list(csv.reader(lines))[1:]:
            key = (task, int(delay), order, correction, float(clip), int(seed))
            found[key] = [float(x) for x in numbers]
    return found


def score(numbers: list[float]) -> float:
    """The mean over the curve."""
    return float(np.mean(numbers[2:]))


def last(numbers: list[float]) -> float:
    """The mean over the last tenth."""
    returns = numbers[2:]
    return float(np.mean(returns[-max(1, len(returns) // 10) :]))


def selected() -> dict[str, float]:
    """The clip of each correction: best on average over the tasks of the tuning.

    The means of a task are brought to [0, 1], from the worst to the best of all settings.
    """
    found = rows(TUNING)
    total: dict[tuple[str, float], float] = {}
    for task in ("Swing-up", "Docking"):
        means = {
            (c, clip): np.mean(
                [score(n) for k, n in found.items() if (k[0], k[3], k[4]) == (task, c, clip)]
            )
            for c in CORRECTIONS
            for clip in CLIPS
        }
        low, high = min(means.values()), max(means.values())
        for key, mean in means.items():
            total[key] = total.get(key, 0.0) + (mean - low) / (high - low)
    return {c: max(CLIPS, key=lambda clip: total[c, clip]) for c in CORRECTIONS}


def planned(what: str) -> list[Key]:
    """The runs, the most telling first."""
    if what == "tune":
        return [
            (task, 20, "out of order", c, clip, seed)
            for task in ("Swing-up", "Docking")
            for c in CORRECTIONS
            for clip in CLIPS
            for seed in TUNING_SEEDS
        ]
    clips = selected() if what == "grid" else dict.fromkeys(CORRECTIONS, COMMON)
    cells = [
        (task, delay, order)
        for order, delay in (
            *((o, d) for o in ORDERS[1::-1] for d in (20, 78, 2)),
            *(("lost", d) for d in (20, 78, 2)),
        )
        for task in ("CartPole", "Pendulum")
    ]
    cells.insert(len(cells) // 2, ("Acrobot", 20, "out of order"))
    return [(*cell, c, clips[c], seed) for cell in cells for c in CORRECTIONS for seed in SEEDS]


def compute(keys: list[Key], rounds: int) -> list[list[float]]:
    """Runs of one task, TOGETHER at once."""
    task = TASKS[keys[0][0]]
    padded = keys + [keys[-1]] * (TOGETHER - len(keys))
    settings = Setting(
        jnp.array([CORRECTIONS.index(k[3]) for k in padded]),
        jnp.array([ORDERS.index(k[2]) for k in padded]),
        jnp.array([k[1] for k in padded]),
        jnp.array([k[4] for k in padded]),
        jnp.stack([jax.random.key(k[5]) for k in padded]),
    )
    returns, ended, size, drift = map(np.asarray, many(task, rounds, settings))
    shape = (TOGETHER, rounds // WINDOW, WINDOW)
    means = returns.reshape(shape).sum(-1) / ended.reshape(shape).sum(-1)
    return [
        [float(np.nanmean(size[i])), float(np.nanmean(drift[i])), *means[i].tolist()]
        for i in range(len(keys))
    ]


def main(what: str, *, last_first: bool) -> None:
    file, rounds = (TUNING, TUNING_ROUNDS) if what == "tune" else (GRID, ROUNDS)
    if not file.exists():
        columns = [f"r{i}" for i in range(rounds // WINDOW)]
        file.write_text(",".join((*NAMES, "ess", "drift", *columns)) + "\n", encoding="utf-8")
    plan = planned(what)[:: -1 if last_first else 1]
    while todo := [key for key in plan if key not in rows(file)]:
        keys = [key for key in todo[:TOGETHER] if key[0] == todo[0][0]]
        wall, processor = time.time(), time.process_time()
        numbers = compute(keys, rounds)
        lines = [
            ",".join([*map(str, key), *(f"{x:.4g}" for x in row)]) + "\n"
            for key, row in zip(keys, numbers, strict=True)
        ]
        with file.open("ab", buffering=0) as out:  # at once: two sweeps may share a file
            out.write("".join(lines).encode())
        print(
            f"{time.strftime('%H:%M:%S')} {what}: {len(todo) - len(keys)} of {len(plan)} left, "
            f"{keys[0][:3]}, {time.time() - wall:.0f} s, "
            f"{time.process_time() - processor:.0f} s of processor",
            flush=True,
        )


if __name__ == "__main__":
    what, *other = sys.argv[1:] or [""]
    if what not in ("tune", "grid", "common") or other not in ([], ["last"]):
        raise SystemExit("usage: python benchmarks/stale/sweep.py tune | grid | common [last]")
    main(what, last_first=bool(other))
