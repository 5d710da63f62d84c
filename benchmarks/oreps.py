"""How fast the O-REPS update is, in one run on one thread.

    python benchmarks/oreps.py     tables, to benchmarks/OREPS.md as well

Compared: the update as `project` makes it (gap 1e-10), and one feedback of Delayed OPPO with known
transitions. Medians over consecutive updates of a learner, so all start warm; processor time, so
that other work on the machine does not count.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pages

import belated as bl
from belated.core.arrays import Floats, frozen
from belated.tabular.counts import ConfidenceSet, Counts, log_term
from belated.tabular.kernels.weights import softmax
from belated.tabular.oreps import newton as kernels
from belated.tabular.oreps.projection import Dynamics, initial_reference, project
from belated.tabular.parts.transitions import Model

ETA = 0.1


def known_grid(size, horizon, slip) -> Dynamics:
    world = bl.environments.gridworld(size, slip=slip, horizon=horizon)
    return Dynamics(world.mdp.transitions.rows, world.problem.start_probabilities, horizon)


def box_after(size, horizon, episodes, scale) -> Dynamics:
    """The confidence box after episodes of the uniform policy."""
    world = bl.environments.gridworld(size, horizon=horizon)
    problem = world.problem
    box = ConfidenceSet(Counts(problem), log_term(problem, 500, 0, 0.1), scale)
    rng = np.random.default_rng(0)
    uniform = np.full(problem.shape, 0.25)
    for k in range(episodes):
        box.add(world.mdp.play(uniform, rng, k))
    successors, known, lower, width, unseen, _ = box.box
    bounds = kernels.BoxBounds(successors, known, lower, lower + width, unseen)
    return Dynamics(bounds, problem.start_probabilities, horizon)


def goal(size) -> Floats:
    return bl.environments.goal_costs(size, (size - 1, size - 1))


def time_oppo(size, horizon) -> float:
    """Median seconds of one full-information feedback of Delayed OPPO, known transitions."""
    world = bl.environments.gridworld(size, horizon=horizon)
    shape = world.problem.shape
    dynamics = Model(world.problem, world.mdp.transitions)
    policy, total, new = frozen(np.full(shape, 0.25)), np.zeros(shape), np.empty(shape)
    rate, cost, times = frozen(np.array([ETA])), world.costs.at(0), []
    for _ in range(50):
        begin = time.process_time()
        dynamics.add_q(cost, policy, total)
        softmax(total, rate, new)
        times.append(time.process_time() - begin)
        policy = frozen(new.copy())
    return float(np.median(times))


def updates_of(dynamics, cost, updates, leader):
    """Medians of seconds and Newton steps over updates."""
    reference = initial_reference(dynamics)
    last = project(dynamics, reference)
    times, steps = [], []
    for k in range(updates):
        before = reference - k * cost if leader else last.log_measure
        begin = time.process_time()
        last = project(dynamics, before, cost, warm=last)
        times.append(time.process_time() - begin)
        steps.append(last.steps)
        assert last.converged
    return np.median(times), np.median(steps)


def time_known(size, horizon, slip, updates, batch):
    return updates_of(known_grid(size, horizon, slip), ETA * batch * goal(size), updates, True)


def time_unknown(size, horizon, scale, updates):
    return updates_of(box_after(size, horizon, 200, scale), ETA * goal(size), updates, False)


def compile_times():
    """Processor seconds of the first known and unknown update with an empty cache, then again."""
    code = """
import sys, time, numpy as np
sys.path.insert(0, {here!r})
import oreps
from belated.tabular.oreps.projection import initial_reference, project
for d in (oreps.known_grid(3, 4, 0.1), oreps.box_after(3, 4, 20, 0.01)):
    begin = time.process_time()
    project(d, initial_reference(d), oreps.goal(3))
    print(time.process_time() - begin)
"""
    found = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", code.format(here=str(Path(__file__).parent))],
                check=True, capture_output=True, text=True,
                env={**os.environ, "NUMBA_CACHE_DIR": cache},
            )  # fmt: skip
            found.append([float(line) for line in done.stdout.split()])
    return found


def main():
    lines = ["# Delayed O-REPS: the update\n", __doc__.split("\n\n")[2], ""]
    oppo = time_oppo(10, 50)
    lines += [
        f"10 x 10 grid, H = 50, eta = {ETA}; one feedback of Delayed OPPO: {1e3 * oppo:.2f} ms.\n",
        "| known transitions | ms | Newton steps | OPPO feedbacks |",
        "|---|---|---|---|",
    ]
    for slip in (0.1, 1e-6, 0.0):
        for batch in (1, 20):
            mine, steps = time_known(10, 50, slip, 30 if batch == 1 else 10, batch)
            lines.append(
                f"| slip {slip:g}, {batch} costs at once | {1e3 * mine:.1f} | {steps:.0f} | "
                f"{mine / oppo:.0f} |"
            )
    lines += [
        "",
        "| unknown transitions, after 200 episodes | ms | Newton steps |",
        "|---|---|---|",
    ]
    for scale in (1.0, 0.1, 0.01, 0.001):
        mine, steps = time_unknown(10, 50, scale, 4)
        lines.append(f"| radius x {scale:g} | {1e3 * mine:.0f} | {steps:.0f} |")
    lines += [
        "",
        "| growth | known, ms | unknown (radius x 0.01), ms |",
        "|---|---|---|",
    ]
    for size, horizon in ((5, 50), (10, 50), (15, 50), (10, 25), (10, 100)):
        known, unknown = (
            time_known(size, horizon, 0.1, 12, 1)[0],
            time_unknown(size, horizon, 0.01, 3)[0],
        )
        lines.append(
            f"| S = {size * size}, H = {horizon} | {1e3 * known:.1f} | {1e3 * unknown:.0f} |"
        )
    (first, second), (again, again_unknown) = compile_times()
    lines.append(
        f"\nFirst update with an empty cache: {first:.0f} s known, {second:.0f} s more for "
        f"unknown; from the cache {again:.1f} s and {again_unknown:.1f} s.\n"
    )
    pages.write("OREPS.md", lines)


if __name__ == "__main__":
    main()
