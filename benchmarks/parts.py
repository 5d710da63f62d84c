"""Parts that several experiments share."""

from __future__ import annotations

from belated.config.part import Part, part


def arms(number: int) -> Part:
    """Arms of equal mean, for experiments that replace the costs."""
    return part("bandit", means=(0.5,) * number)


def late(mean: float) -> Part:
    """Geometric delays."""
    return part("geometric", mean=mean)


def switches(count: int, every: int, seed: int, noise: str | None = "bernoulli") -> Part:
    """Costs that switch among several cost functions."""
    given = {} if noise is None else {"noise": noise}
    return part("random_switching", count=count, every=every, seed=seed, **given)
