"""Exact values to compare experiments with."""

from __future__ import annotations

import math

import numpy as np

from belated import config as kinds
from belated.config.registry import with_defaults
from belated.lab.spec import Scene


def delay_lower_bound(scene: Scene) -> float | None:
    """Expected regret of every learner on the lower-bound world; None in other worlds.

    With N = K / (d + 1) blocks of d + 1 episodes it is
    H (d + 1) E[max over a of N / 2 - Bin_a(N, 1/2)]. If N is not a whole number: None.
    """
    if scene.environment.kind != "delay_lower_bound" or scene.costs is not None:
        return None
    world = with_defaults(scene.environment, kinds.ENVIRONMENTS)
    length = world["delay"] + 1
    if scene.delays.kind != "fixed" or scene.delays.values["delay"] != world["delay"]:
        return None
    blocks, rest = divmod(scene.episodes, length)
    if rest:
        return None
    surplus = expected_largest_surplus(blocks, world["actions"])
    return float(world["horizon"] * length * surplus)


def expected_largest_surplus(blocks: int, actions: int) -> float:
    """E[max over a of N / 2 - Bin_a(N, 1/2)], from the distribution of the smallest binomial."""
    n = np.arange(blocks + 1)
    logs = [math.lgamma(blocks + 1) - math.lgamma(i + 1) - math.lgamma(blocks - i + 1) for i in n]
    mass = np.exp(np.array(logs) - blocks * math.log(2))
    at_least = np.cumsum(mass[::-1])[::-1] ** actions  # P(smallest >= i)
    smallest = float(at_least[1:].sum())
    return blocks / 2 - smallest


def oppo_bound(
    horizon: int, actions: int, episodes: int, total_delay: float, learning_rate: float
) -> float:
    """Bound on the regret of Delayed OPPO with known transitions and full information.

    H ln(A) / eta + eta (K + D) (1 + 4 + ... + H^2). It holds on every run, for any costs and
    delays.
    """
    squares = horizon * (horizon + 1) * (2 * horizon + 1) / 6
    rate = learning_rate
    return horizon * math.log(actions) / rate + rate * (episodes + total_delay) * squares
