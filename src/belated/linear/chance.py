"""Draws that depend on a seed and a decision's number alone.

A counter-based generator: the n-th number of a decision is a hash of (seed, number, n), with the
mixing function of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
generators"). So the same calls give the same decisions, whatever else was drawn in between.
"""

from statistics import NormalDist

import numpy as np
from numba import njit

from belated.core.arrays import Floats

_STEP = 0x9E3779B97F4A7C15
LEVELS = 4096
"""Values that a normal draw can have; a power of two."""
PARTS = 5
"""Draws that one hash of 64 bits gives, 12 bits each."""
ABOVE = np.array([max(NormalDist().inv_cdf((k + 0.5) / LEVELS), 0.0) for k in range(LEVELS)])
"""Values of max(z, 0), z standard normal, that are equally probable, increasing."""


@njit(cache=True)
def hashes(seed: int, number: int, stream: int, count: int):  # type: ignore[no-untyped-def]
    """Unsigned 64-bit numbers, shape (count,), of one stream of one decision."""
    # Arrays, not scalars: unsigned arrays wrap around in plain Python too.
    key = np.zeros(1, dtype=np.uint64)
    for part in (seed, number, stream):
        key = _mixed(key + np.uint64(_STEP) ^ np.array([part], dtype=np.uint64))
    return _mixed(np.arange(1, count + 1).astype(np.uint64) * np.uint64(_STEP) + key)


@njit(cache=True)
def _mixed(bits):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64 on an array of unsigned 64-bit numbers."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True)
def uniforms(seed: int, number: int, stream: int, count: int) -> Floats:
    """Numbers in (0, 1), shape (count,), of one stream of one decision."""
    bits = hashes(seed, number, stream, count)
    drawn: Floats = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return drawn
