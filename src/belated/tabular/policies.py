"""Policies (H, S, A) and cost functions: validation, and the best actions of a Q-function."""

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.tabular.kernels import weights


def checked(name: str, value: object, shape: tuple[int, int, int]) -> Floats:
    """A policy whose rows over actions sum to 1, as a read-only view."""
    if not (isinstance(value, np.ndarray) and value.dtype == np.float64):
        value = checks.floats(name, value, f"(H, S, A) = {shape}", (3,))
    if value.shape != shape:
        raise ValueError(f"{name} must have shape (H, S, A) = {shape}, got shape {value.shape}")
    rows = frozen(value)
    good = weights.are_distributions(rows.reshape(-1, shape[-1]), checks.ROW_TOLERANCE)
    return rows if good else frozen(checks.distributions(name, rows))  # raises with the reason


def cost_function(name: str, value: object, shape: tuple[int, int, int]) -> Floats:
    """A read-only, finite cost function (1, S, A) or (H, S, A); (S, A) is taken as (1, S, A)."""
    shapes = f"{(1, *shape[1:])} or {shape}"
    array = checks.floats(name, value, shapes, (2, 3))
    array = array[None] if array.ndim == 2 else array
    if array.shape[1:] != shape[1:] or len(array) not in (1, shape[0]):
        raise ValueError(f"{name} must have shape {shapes}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return frozen(array)


def greedy(values: Floats) -> Floats:
    """The uniform distribution over the smallest values of the last axis, read-only.

    So ties are broken at random, at every step of every episode.
    """
    least = values == values.min(axis=-1, keepdims=True)
    return frozen(least / least.sum(axis=-1, keepdims=True))


def one_hot(actions: Ints, count: int) -> Floats:
    """The deterministic policy (..., A) that plays these actions (...)."""
    policy: Floats = np.zeros((*actions.shape, count))
    np.put_along_axis(policy, actions[..., None], 1.0, axis=-1)
    return policy
