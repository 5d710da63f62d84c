"""Draws that depend on a seed and a decision's number alone.

A counter-based generator: the n-th number of a decision is a hash of (seed, number, n), with the
mixing function of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
generators"). So the same calls give the same decisions, whatever else was drawn in between.
"""

import math

import numpy as np
from numba import njit

from belated.core.arrays import Floats

_STEP = 0x9E3779B97F4A7C15


@njit(cache=True)
def uniforms(seed: int, number: int, stream: int, count: int) -> Floats:
    """Numbers in (0, 1), shape (count,), of one stream of one decision."""
    # Arrays, not scalars: unsigned arrays wrap around in plain Python too.
    key = np.zeros(1, dtype=np.uint64)
    for part in (seed, number, stream):
        key = _mixed(key + np.uint64(_STEP) ^ np.array([part], dtype=np.uint64))
    bits = np.arange(1, count + 1).astype(np.uint64) * np.uint64(_STEP) + key
    drawn: Floats = ((_mixed(bits) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return drawn


@njit(cache=True)
def _mixed(bits):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64 on an array of unsigned 64-bit numbers."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True)
def normal_above(u: float) -> float:
    """max(z, 0) for the standard normal quantile z of u: Wichura (1988), algorithm AS 241."""
    q = u - 0.5
    if q <= 0.0:
        return 0.0
    if q <= 0.425:
        r = 0.180625 - q * q
        top = 2509.0809287301226727 * r + 33430.575583588128105
        top = (top * r + 67265.770927008700853) * r + 45921.953931549871457
        top = (top * r + 13731.693765509461125) * r + 1971.5909503065514427
        top = (top * r + 133.14166789178437745) * r + 3.387132872796366608
        low = 5226.495278852545925 * r + 28729.085735721942674
        low = (low * r + 39307.89580009271061) * r + 21213.794301586595867
        low = (low * r + 5394.1960214247511077) * r + 687.1870074920579083
        low = (low * r + 42.313330701600911252) * r + 1.0
        return q * top / low
    r = math.sqrt(-math.log(1.0 - u))
    if r <= 5.0:
        r -= 1.6
        top = 7.7454501427834140764e-4 * r + 0.0227238449892691845833
        top = (top * r + 0.24178072517745061177) * r + 1.27045825245236838258
        top = (top * r + 3.64784832476320460504) * r + 5.7694972214606914055
        top = (top * r + 4.6303378461565452959) * r + 1.42343711074968357734
        low = 1.05075007164441684324e-9 * r + 5.475938084995344946e-4
        low = (low * r + 0.0151986665636164571966) * r + 0.14810397642748007459
        low = (low * r + 0.68976733498510000455) * r + 1.6763848301838038494
        low = (low * r + 2.05319162663775882187) * r + 1.0
        return top / low
    r -= 5.0
    top = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
    top = (top * r + 0.0012426609473880784386) * r + 0.026532189526576123093
    top = (top * r + 0.29656057182850489123) * r + 1.7848265399172913358
    top = (top * r + 5.4637849111641143699) * r + 6.6579046435011037772
    low = 2.04426310338993978564e-15 * r + 1.4215117583164458887e-7
    low = (low * r + 1.8463183175100546818e-5) * r + 7.868691311456132591e-4
    low = (low * r + 0.0148753612908506148525) * r + 0.13692988092273580531
    low = (low * r + 0.59983220655588793769) * r + 1.0
    return top / low
