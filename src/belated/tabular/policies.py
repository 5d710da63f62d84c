"""Policies (H, S, A): validation by a compiled loop, and the best actions of a Q-function."""

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.tabular.kernels import weights


def checked(name: str, value: Floats, shape: tuple[int, int, int]) -> Floats:
    """A policy whose rows over actions sum to 1, as a read-only view."""
    if getattr(value, "shape", None) == shape and value.dtype.char == "d":
        rows = frozen(value)
        if weights.are_distributions(rows.reshape(-1, shape[-1]), checks.ROW_TOLERANCE):
            return rows
    return checks.policy(name, value, shape)  # raises with the reason


def greedy(values: Floats) -> Floats:
    """The uniform distribution over the smallest values of the last axis, read-only.

    So ties are broken at random, at every step of every episode.
    """
    least = values == values.min(axis=-1, keepdims=True)
    return frozen(least / least.sum(axis=-1, keepdims=True))
