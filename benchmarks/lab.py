"""How fast the paper's experiments are, and where their time goes; written to benchmarks/LAB.md.

python benchmarks/lab.py
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
from rich.progress import track

import belated as bl
from belated.lab import named
from belated.lab.task import perform

ROUNDS = 5
PAPER = ("paper-grid", "paper-walls", "paper-short-delays")


def main() -> None:
    lines = [
        "# The lab",
        "",
        "`python benchmarks/lab.py`: whole commands, from the shell, figures and report included, "
        "with warm caches, on a machine with two cores that it does not have to itself.",
        "",
        *times(),
        "",
        *profile(),
    ]
    (Path(__file__).parent / "LAB.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def times() -> list[str]:
    unit = dense_pass()
    run("paper-grid", 2, 1)  # compiles, if need be
    wall, processor = run("paper-grid", 2, 10)
    lines = [
        f"`belated run paper-grid --seeds 10 --jobs 2`, 30 runs of 500 episodes: {wall:.1f} s "
        f"({processor:.1f} s of processor time), or {wall / unit:,.0f} dense NumPy bonus passes of "
        f"the same grid ({1e3 * unit:.2f} ms each).",
        "",
        f"The three experiments of the paper, 10 seeds each, in seconds; {ROUNDS} rounds, one and "
        "two jobs in turn:",
        "",
        "| " + " | ".join([*PAPER, "together", "`--jobs 1` / `--jobs 2`"]) + " |",
        "|" + "---|" * (len(PAPER) + 2),
    ]
    ratios = []
    for _ in track(range(ROUNDS)):
        pairs = [[run(name, jobs, 10)[0] for jobs in (1, 2)] for name in PAPER]
        pairs.append([sum(times) for times in zip(*pairs, strict=True)])
        one, two = pairs[-1]
        ratios.append(one / two)
        cells = [f"{one:.1f}, {two:.1f}" for one, two in pairs]
        lines.append(f"| {' | '.join(cells)} | {ratios[-1]:.2f} |")
    return [*lines, "", f"Two jobs are {np.median(ratios):.2f} times faster (median)."]


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


def profile() -> list[str]:
    experiment = named("paper-grid")
    for task in experiment.tasks()[:3]:
        perform(experiment, task)
    spent, calls = time_kernels()
    lines = [
        "Where the time of a run goes (`paper-grid`, seed 0):",
        "",
        "| agent | in kernels | the largest |",
        "|---|---|---|",
    ]
    for task in experiment.tasks()[:3]:
        spent.clear()
        calls.clear()
        start = time.perf_counter()
        perform(experiment, task)
        wall = time.perf_counter() - start
        largest = sorted(spent, key=lambda name: -spent[name])[:4]
        shares = ", ".join(f"`{n}` {spent[n] / wall:.0%} ({calls[n]} calls)" for n in largest)
        share = sum(spent.values()) / wall
        lines.append(f"| {task.learner} | {share:.0%} of {wall:.2f} s | {shares} |")
    return lines


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
