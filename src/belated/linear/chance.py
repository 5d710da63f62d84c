"""Draws that depend only on a seed and a decision's number.

A counter-based generator: the n-th number of a decision is a hash of (seed, number, n), with the
mixing function of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
generators"). So the same calls give the same decisions, whatever else was drawn in between.
"""

from statistics import NormalDist

import numpy as np

from belated.core.compiled import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
LEVELS = 4096
"""The number of values of a normal draw; a power of two."""
PARTS = 5
"""The number of draws from one hash of 64 bits, 12 bits each."""
ABOVE = np.array([max(NormalDist().inv_cdf((k + 0.5) / LEVELS), 0.0) for k in range(LEVELS)])
"""Equally probable values of max(z, 0), z standard normal, increasing."""


@njit(cache=True)
def mixed(bits: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True)
def key_of(seed: int, number: int, stream: int) -> np.uint64:
    """The key of one stream of numbers of one decision."""
    key = mixed(_STEP ^ np.uint64(seed))
    key = mixed((key + _STEP) ^ np.uint64(number))
    return mixed((key + _STEP) ^ np.uint64(stream))


@njit(cache=True)
def hashed(key: np.uint64, n: int) -> np.uint64:
    """The n-th number of a stream, counted from 0."""
    return mixed(np.uint64(n + 1) * _STEP + key)


@njit(cache=True)
def uniform(seed: int, number: int) -> float:
    """The number in (0, 1) that draws the action of a decision."""
    bits = hashed(key_of(seed, number, 0), 0)
    return (float(bits >> np.uint64(12)) + 0.5) * 2.0**-52
