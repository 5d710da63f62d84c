"""How fast the O-REPS update is, in one run on one thread.

    python benchmarks/oreps.py     tables, to benchmarks/OREPS.md as well

Compared: the update as `project` makes it (gap 1e-10); SciPy's L-BFGS on the same dual and the
same compiled row operator, stopped when no flow constraint is violated by more than 1e-6; and one
feedback of Delayed OPPO with known transitions. Medians over consecutive updates of a learner, so
all start warm; processor time, so that other work on the machine does not count.
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
from numba import njit
from scipy.optimize import minimize

import belated as bl
from belated.core.arrays import Floats, frozen
from belated.tabular.counts import ConfidenceSet, Counts, log_term
from belated.tabular.kernels.weights import softmax
from belated.tabular.oreps import newton as kernels
from belated.tabular.oreps.projection import (
    Dynamics,
    _Newton,
    initial_reference,
    project,
)
from belated.tabular.parts.transitions import Model

RESULTS = Path(__file__).parent / "OREPS.md"
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


@njit(cache=True)
def dual_gradient(
    rows: kernels.NewtonRows, point: kernels.Point, log_start: Floats, gradient: Floats
) -> float:
    """Negative dual value; gradient (H, S) is filled with the violation of the flow constraints."""
    V, W, pi = point.V, point.W, point.pi
    law, successors, reach = rows.law, rows.successors, rows.reach
    H, S, A = pi.shape
    T, lines, columns, slots = successors.shape
    value = 0.0
    weight = np.exp(log_start)
    for s in range(S):
        if reach[0, s]:
            value -= weight[s] * (log_start[s] + W[0, s])
    for h in range(H):
        if h > 0:
            top = -np.inf
            for s in range(S):
                if reach[h, s]:
                    top = max(top, V[h, s] - W[h, s])
            total = 0.0
            for s in range(S):
                weight[s] = np.exp(V[h, s] - W[h, s] - top) if reach[h, s] else 0.0
                total += weight[s]
            value += top + np.log(total)
            for s in range(S):
                weight[s] /= total
                gradient[h, s] += weight[s]
        else:
            gradient[:] = 0.0
        if h == H - 1:
            break
        t, u = min(h, T - 1), min(h, law.shape[0] - 1)
        for s in range(S):
            for a in range(A):
                targets = successors[t, min(s, lines - 1), min(a, columns - 1)]
                for j in range(slots):
                    gradient[h + 1, targets[j]] -= weight[s] * pi[h, s, a] * law[u, s, a, j]
    return value


def by_lbfgs(
    dynamics: Dynamics, log_reference: Floats, cost: Floats, V: Floats
) -> tuple[float, int, float]:
    """Returns (seconds, evaluations, largest flow violation) of L-BFGS from V (H, S)."""
    begin = time.process_time()
    newton = _Newton(dynamics, log_reference, cost)
    log_weights = np.ascontiguousarray(newton.log_reference - cost[..., None])
    log_weights.flags.writeable = False
    rows, point = newton.rows, newton.point
    H, S = rows.reach.shape
    gradient = np.zeros((H, S))
    inside = rows.reach.copy()
    inside[0] = False

    def objective(x: Floats) -> tuple[float, Floats]:
        point.V[:H][inside] = x
        kernels.evaluate_rows(log_weights, newton.bounds, rows, point, False)
        value = dual_gradient(rows, point, newton.log_start, gradient)
        return value, gradient[inside]

    options = {"gtol": 1e-6, "ftol": 0.0, "maxiter": 3000, "maxfun": 6000, "maxcor": 20}
    answer = minimize(objective, V[inside], jac=True, method="L-BFGS-B", options=options)
    return time.process_time() - begin, answer.nfev, float(np.max(np.abs(answer.jac)))


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


def updates_of(dynamics, reference, cost, updates, lbfgs, leader):
    """Medians over updates; L-BFGS is run on the first few of them."""
    last = project(dynamics, reference)
    times, rival, steps, flow = [], [], [], []
    for k in range(updates):
        before = reference - k * cost if leader else last.log_measure
        begin = time.process_time()
        now = project(dynamics, before, cost, warm=last)
        times.append(time.process_time() - begin)
        steps.append(now.steps)
        assert now.converged
        if k < lbfgs:
            guess = last.dual if leader else np.zeros_like(last.dual)
            seconds, _, violation = by_lbfgs(dynamics, before, cost, guess)
            rival.append(seconds)
            flow.append(violation)
        last = now
    return np.median(times), np.median(steps), np.median(rival) if rival else np.nan


def time_known(size, horizon, slip, updates, batch, lbfgs):
    dynamics = known_grid(size, horizon, slip)
    cost = ETA * batch * goal(size)
    return updates_of(dynamics, initial_reference(dynamics), cost, updates, lbfgs, leader=True)


def time_unknown(size, horizon, scale, updates, lbfgs):
    box = box_after(size, horizon, 200, scale)
    return updates_of(box, initial_reference(box), ETA * goal(size), updates, lbfgs, leader=False)


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
        "| known transitions | ms | Newton steps | L-BFGS, ms | times faster | OPPO feedbacks |",
        "|---|---|---|---|---|---|",
    ]
    for slip in (0.1, 1e-6, 0.0):
        for batch in (1, 20):
            mine, steps, other = time_known(10, 50, slip, 30 if batch == 1 else 10, batch, 4)
            lines.append(
                f"| slip {slip:g}, {batch} costs at once | {1e3 * mine:.1f} | {steps:.0f} | "
                f"{1e3 * other:.0f} | {other / mine:.1f} | {mine / oppo:.0f} |"
            )
            print(lines[-1], flush=True)
    lines += ["", "| unknown transitions, after 200 episodes | ms | Newton steps | L-BFGS, ms | "
              "times faster |", "|---|---|---|---|---|"]  # fmt: skip
    for scale in (1.0, 0.1, 0.01, 0.001):
        mine, steps, other = time_unknown(10, 50, scale, 4, 1)
        lines.append(
            f"| radius x {scale:g} | {1e3 * mine:.0f} | {steps:.0f} | {1e3 * other:.0f} | "
            f"{other / mine:.1f} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "\nWith the radius as printed almost every box is the whole simplex at this size, the "
        "update hardly depends on the multipliers, and L-BFGS is done after a handful of "
        "evaluations: nothing is left to gain there.\n",
        "| growth | known, ms | unknown (radius x 0.01), ms |",
        "|---|---|---|",
    ]
    for size, horizon in ((5, 50), (10, 50), (15, 50), (10, 25), (10, 100)):
        known, unknown = (
            time_known(size, horizon, 0.1, 12, 1, 0)[0],
            time_unknown(size, horizon, 0.01, 3, 0)[0],
        )
        lines.append(
            f"| S = {size * size}, H = {horizon} | {1e3 * known:.1f} | {1e3 * unknown:.0f} |"
        )
        print(lines[-1], flush=True)
    (first, second), (again, again_unknown) = compile_times()
    lines.append(
        f"\nFirst update with an empty cache: {first:.0f} s known, {second:.0f} s more for "
        f"unknown; from the cache {again:.1f} s and {again_unknown:.1f} s.\n"
    )
    RESULTS.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
