"""How fast the paper's experiments are, and where their time goes.

python benchmarks/lab.py            wall times of `belated run`, as multiples of a dense NumPy pass
python benchmarks/lab.py profile    the share of kernels in a run of each agent of paper-grid
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from dense import DensePasses
from numba.core.registry import CPUDispatcher

import belated as bl
from belated.lab import named
from belated.lab.runs import perform

ROUNDS = 3
PAPER = ("paper-grid", "paper-walls", "paper-short-delays")


def main() -> None:
    if sys.argv[1:] == ["profile"]:
        profile()
    else:
        times()


def times() -> None:
    unit = dense_pass()
    print(f"one dense NumPy bonus pass of the 10 x 10 grid, H = 50: {1e3 * unit:.2f} ms")
    run("paper-grid", 2, 1)  # compiles, if need be
    wall, processor = run("paper-grid", 2, 10)
    print(
        f"belated run paper-grid --seeds 10 --jobs 2: {wall:.1f} s ({wall / unit:,.0f} passes), "
        f"processor {processor:.1f} s ({processor / unit:,.0f} passes)"
    )
    ratios = []
    for _ in range(ROUNDS):  # in turn, so that both meet the same moods of the machine
        pairs = [[run(name, jobs, 10)[0] for jobs in (1, 2)] for name in PAPER]
        one, two = (sum(times) for times in zip(*pairs, strict=True))
        ratios.append(one / two)
        print(
            f"the paper's three experiments: --jobs 1 {one:.1f} s, --jobs 2 {two:.1f} s, "
            f"{one / two:.2f} times faster"
        )
    print(f"median of {ROUNDS} rounds: {np.median(ratios):.2f} times faster")


def dense_pass() -> float:
    """Median wall time of the pass, in seconds."""
    world = bl.environments.paper_grid()
    p = world.mdp.transitions.dense()[0]
    policy = np.full(world.problem.shape, 0.25)
    dense = DensePasses(p, p, p, np.full(p.shape[:2], 30), np.ones(p.shape[:2]), policy)
    samples = []
    for _ in range(300):
        start = time.perf_counter()
        dense.bonus_pass()
        samples.append(time.perf_counter() - start)
    return float(np.median(samples))


def run(name: str, jobs: int, seeds: int) -> tuple[float, float]:
    """Wall and processor time of the command, figures and report included, in seconds."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "belated", "run", name, "--seeds", str(seeds)]
        command += ["--jobs", str(jobs), "--out", str(Path(directory) / "out")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def profile() -> None:
    experiment = named("paper-grid")
    for task in experiment.tasks()[:3]:
        perform(experiment, task)
    spent, calls = time_kernels()
    for task in experiment.tasks()[:3]:
        spent.clear()
        calls.clear()
        start = time.perf_counter()
        perform(experiment, task)
        wall = time.perf_counter() - start
        print(f"\n{task.name}: {wall:.2f} s, {sum(spent.values()) / wall:.0%} in kernels")
        for name in sorted(spent, key=lambda name: -spent[name]):
            print(f"  {spent[name] / wall:6.1%}  {calls[name]:7d} calls  {name}")


def time_kernels() -> tuple[dict[str, float], dict[str, int]]:
    """Put a clock around every kernel, wherever it is called from outside the kernels."""
    spent: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)

    def clocked(name, kernel):
        def call(*arguments):
            start = time.perf_counter()
            result = kernel(*arguments)
            spent[name] += time.perf_counter() - start
            calls[name] += 1
            return result

        return call

    kernels = {}
    for module in [m for n, m in sys.modules.items() if n.startswith("belated")]:
        for name, item in list(vars(module).items()):
            if isinstance(item, CPUDispatcher):
                clock = kernels.setdefault(item, clocked(name, item))
                setattr(module, name, clock)
    return spent, calls


if __name__ == "__main__":
    main()
