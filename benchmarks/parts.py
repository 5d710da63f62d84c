"""Parts that several experiments share."""

from __future__ import annotations

from typing import Any

from belated.config.part import Part, part


def own(kind: str, **parameters: Any) -> Part:
    """A kind of `benchmarks.scenes`."""
    return part(f"benchmarks.scenes:{kind}", **parameters)


def arms(number: int) -> Part:
    """Arms of equal mean, for experiments that replace the costs."""
    return part("bandit", means=(0.5,) * number)


def late(mean: float) -> Part:
    """Geometric delays."""
    return part("geometric", mean=mean)


def switches(count: int, every: int, seed: int, noise: str | None = "bernoulli") -> Part:
    """Costs that switch among several cost functions."""
    given = {} if noise is None else {"noise": noise}
    return own("random_switching", count=count, every=every, seed=seed, **given)
