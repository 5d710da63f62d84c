"""Which states are played uniformly: those with too few observed visits (explicit exploration)."""

import math

import numpy as np

from belated.arrays import Bools, Floats
from belated.feedback import Trajectory
from belated.model import Counts
from belated.problem import Problem


def threshold(problem: Problem, max_delay: float, delta: float) -> float:
    """2 d_max ln(H S A / delta) observed visits of a state are needed, and one more."""
    rows = problem.horizon * problem.states * problem.actions
    return 2.0 * max_delay * math.log(rows / delta)


class FewVisits:
    """The states (T, S) with at most `limit` observed visits, at step t or, if pooled, at any."""

    def __init__(self, counts: Counts, limit: float) -> None:
        self._counts = counts
        self._limit = limit
        self._arrived = -1
        self._mask: Bools | None = None

    def mask(self) -> Bools | None:
        """The mask (T, S) of now, shared as long as it does not change; None when empty."""
        if self._arrived != self._counts.arrived:
            self._arrived = self._counts.arrived
            mask: Bools = self._counts.state_visits() <= self._limit
            if not mask.any():
                self._mask = None
            elif self._mask is None or not np.array_equal(mask, self._mask):
                self._mask = mask
        return self._mask


def explored(policy: Floats, mask: Bools | None) -> Floats:
    """A copy of the policy (H, S, A), uniform in the states of the mask (T, S)."""
    played = policy.copy()
    if mask is not None:
        played[np.broadcast_to(mask, played.shape[:2])] = 1.0 / played.shape[2]
    return played


def met(mask: Bools | None, path: Trajectory) -> bool:
    """Whether a path came through a state of the mask."""
    if mask is None:
        return False
    steps = np.minimum(np.arange(len(path.actions)), mask.shape[0] - 1)
    return bool(mask[steps, path.states[:-1]].any())
