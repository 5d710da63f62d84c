"""Corrections side by side under late rollouts, in JAX.

    python benchmarks/stale/sweep.py tune     clips, selected on Swing-up and Docking
    python benchmarks/stale/sweep.py grid     CartPole and Pendulum, and Acrobot at one delay
    python benchmarks/stale/sweep.py parts    V-trace taken apart, with a clip of 0.1
    python benchmarks/stale/sweep.py common   a clip of 0.2 for all

The last three can be named together. Each writes a row per run to a file beside this one, as soon
as a batch is finished. Runs that are in the file are not repeated, so that a stopped sweep can
continue. Returns are means over the episodes that ended within ten rounds. With
JAX_COMPILATION_CACHE_DIR set, JAX keeps what it has compiled.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from learner import METHODS, Setting, many
from runs import (
    APART,
    CLIPS,
    COMMON,
    CORRECTIONS,
    DELAYS,
    GRID,
    ORDERS,
    PARTS_OF_VTRACE,
    SELECTING,
    TUNING,
    add,
    read,
    rows_of,
    selected,
)
from tasks import TASKS

ROUNDS, WINDOW, TOGETHER = 300, 10, 40
TUNING_ROUNDS, TUNING_SEEDS, SEEDS = 150, range(100, 105), range(5)
NAMES = ("task", "delay", "order", "correction", "clip", "seed")
Key = tuple[str, int, str, str, float, int]


def done(file: Path) -> set[Key]:
    """The runs that a file holds."""
    return {
        (task, int(delay), order, method, float(clip), int(seed))
        for task, delay, order, method, clip, seed, *_ in rows_of(file)
    }


def planned(what: str) -> list[Key]:
    """The runs, the most informative first."""
    if what == "tune":
        return [
            (task, 20, "out of order", c, clip, seed)
            for task in SELECTING
            for c in CORRECTIONS
            for clip in CLIPS
            for seed in TUNING_SEEDS
        ]
    clips, names = selected(read(TUNING)), CORRECTIONS
    cells = [("Acrobot", 20, "out of order")]
    cells += [(task, d, o) for o in ORDERS for d in DELAYS for task in ("CartPole", "Pendulum")]
    if what == "common":
        clips = dict.fromkeys(CORRECTIONS, COMMON)
        cells.sort(key=lambda cell: cell[2] != "out of order")
    if what == "parts":
        names, clips = PARTS_OF_VTRACE, dict.fromkeys(PARTS_OF_VTRACE, APART)
        cells = [cell for cell in cells[::-1] if cell[2] != "lost" and cell[1] == 20]
    return [(*cell, c, clips[c], seed) for cell in cells for c in names for seed in SEEDS]


def compute(keys: list[Key], rounds: int) -> list[list[float]]:
    """Runs of one task, TOGETHER at once."""
    task = TASKS[keys[0][0]]
    padded = keys + [keys[-1]] * (TOGETHER - len(keys))
    settings = Setting(
        jnp.array([METHODS.index(k[3]) for k in padded]),
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


def main(names: list[str]) -> None:
    file, rounds = (TUNING, TUNING_ROUNDS) if names == ["tune"] else (GRID, ROUNDS)
    header = ",".join((*NAMES, "ess", "drift", *(f"r{i}" for i in range(rounds // WINDOW))))
    plan = [key for name in names for key in planned(name)]
    while todo := [key for key in plan if key not in done(file)]:
        keys = [key for key in todo if key[0] == todo[0][0]][:TOGETHER]
        wall, processor = time.time(), time.process_time()
        numbers = compute(keys, rounds)
        rows = [
            ",".join([*map(str, key), *(f"{x:.4g}" for x in row)])
            for key, row in zip(keys, numbers, strict=True)
        ]
        add(file, header, rows)
        print(
            f"{time.strftime('%H:%M:%S')} {len(todo) - len(keys)} of {len(plan)} left, "
            f"{keys[0][:3]}, {time.time() - wall:.0f} s, "
            f"{time.process_time() - processor:.0f} s of processor",
            flush=True,
        )


if __name__ == "__main__":
    names = sys.argv[1:]
    if names != ["tune"] and (not names or set(names) - {"grid", "parts", "common"}):
        raise SystemExit("usage: python benchmarks/stale/sweep.py tune | [grid] [parts] [common]")
    main(names)
