"""Scores of learning: costs on a scale from the best fixed policy (0) to uniform play (1).

An agent with a score below 0 follows changes that no fixed policy can follow. Where uniform play
costs no more than the best fixed policy there is nothing to learn, and the score is NaN.
"""

import numpy as np

from belated.core.arrays import Floats

NOTHING = 0.95
"""A score of at least this in the last quarter of a run counts as uniform play."""
IMPROVED = 0.01
"""An improvement of the score by less than this counts as none."""
GOOD = 0.1
"""A run with a score up to this in its last quarter is good, even if uniform play is as good."""
HALF = 0.5
"""A run with a score up to this has learned, however good its first episodes were."""
SHORTEST = 20
"""Runs with fewer episodes get no verdict."""


def score(values: Floats, comparator: Floats, uniform: Floats) -> float:
    """(cost - best fixed policy) / (uniform play - best fixed policy), all arrays (K,).

    NaN if uniform play costs no more than the best fixed policy.
    """
    scale = float(np.sum(uniform - comparator))
    if scale <= 1e-9 * max(float(np.sum(uniform)), 1.0):
        return float("nan")
    return float(np.sum(values - comparator)) / scale


def verdict(values: Floats, comparator: Floats, uniform: Floats) -> str:
    """What is wrong with a learning curve, in a few words; empty if it has learned.

    The first tenth of the run is compared with its last quarter.
    """
    K = len(values)
    scale = float(np.sum(uniform - comparator))
    if K < SHORTEST or scale <= 1e-9 * max(float(np.sum(uniform)), 1.0):
        return ""
    first, last = slice(0, max(1, K // 10)), slice(K - K // 4, K)
    # one scale for both windows: under changing costs, that of a single window may be almost 0
    early, late = (
        float(np.mean(values[part] - comparator[part])) * K / scale for part in (first, last)
    )
    at_random = float(np.mean(uniform[last] - comparator[last])) * K / scale
    if late >= NOTHING * at_random and late > GOOD:
        return "no better than uniform play in its last quarter"
    if late > early - IMPROVED and score(values, comparator, uniform) > HALF:
        return "no better in its last quarter than in its first episodes"
    return ""
