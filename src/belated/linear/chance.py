"""Draws that depend only on a seed and a decision's number.

A counter-based generator: the number of a decision is a hash of (seed, number), with the mixing
function of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators").
So the same calls give the same decisions, whatever else was drawn in between.
"""

import numpy as np

from belated.core.compiled import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@njit(cache=True)
def mixed(bits: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True)
def uniform(seed: int, number: int) -> float:
    """The number in (0, 1) that draws the action of a decision."""
    key = mixed(_STEP ^ np.uint64(seed))
    key = mixed((key + _STEP) ^ np.uint64(number))
    return (float(mixed(key + _STEP) >> np.uint64(12)) + 0.5) * 2.0**-52
