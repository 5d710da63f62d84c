"""Arrays of delays: the value for lost feedback, validation, total delay and missing feedback."""

from __future__ import annotations

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints

NEVER = checks.LARGEST_INTEGER
"""The delay of feedback that is lost. Models print it as `NEVER`."""


def as_delays(name: str, value: object) -> Ints:
    """Check an array of delays (K,) and return a copy; NaN and infinity become `NEVER`.

    Args:
        name: the name of the argument, for the error message.
        value: whole numbers from 0 to `NEVER`, as integers or as floats; None is NaN.

    Example:
        >>> bl.delays.as_delays('delays', [0, 3])
        array([0, 3])
    """
    array = np.asarray(value)
    if array.dtype == object:  # None, or numbers beyond those of NumPy
        array = checks.numbers(name, value, "(K,)")
    if array.dtype.kind == "f" and array.ndim == 1:
        lost = ~np.isfinite(array) | (array == NEVER)
        numbers = np.where(lost, 0.0, array)
        wrong = (numbers != np.floor(numbers)) | (array < 0) | (numbers > NEVER)
        if np.any(wrong):
            raise ValueError(
                f"{name} must be whole numbers from 0 to 2**62, NaN or infinity, "
                f"got {array[wrong][0]}"
            )
        value = np.where(lost, NEVER, numbers.astype(np.int64))
    return checks.whole_numbers(name, value, 0, NEVER)


def total_delay(delays: Ints) -> int:
    """The sum of the delays (K,) of a run, each cut off at the last episode: min(d_k, K - 1 - k).

    This is D in the theory. Lost feedback counts until the end of the run.

    Example:
        >>> bl.delays.total_delay(np.array([1, 0, 0]))
        1
    """
    left = len(delays) - 1 - np.arange(len(delays))
    return int(np.minimum(delays, left).sum())


def missing_feedback(delays: Ints) -> Ints:
    """For every episode k, the number of episodes up to k whose feedback arrives after k.

    Args:
        delays: the delays (K,) of a run.

    Example:
        >>> bl.delays.missing_feedback(np.array([1, 0, 0]))
        array([1, 0, 0])
    """
    K = len(delays)
    arrival = np.arange(K) + delays
    arrived = np.bincount(arrival[arrival < K], minlength=K)
    missing: Ints = np.arange(1, K + 1) - np.cumsum(arrived)
    return missing
