"""Which states are played uniformly: those with too few observed visits (explicit exploration)."""

import numpy as np

from belated import checks
from belated.arrays import Bools, Floats
from belated.feedback import Trajectory
from belated.model import Counts
from belated.problem import Problem
from belated.tuning import exploration_threshold


class FewVisits:
    """The states (T, S) with at most `limit` observed visits, at step t or, if pooled, at any.

    of_delay: whether the limit came from a largest delay, so that a new delay changes it.
    """

    def __init__(self, counts: Counts, limit: float, *, of_delay: bool) -> None:
        self.of_delay = of_delay
        self._counts = counts
        self.limit = limit
        self._seen = (-1, limit)
        self._mask: Bools | None = None

    def mask(self) -> Bools | None:
        """The mask (T, S) of now, shared as long as it does not change; None when empty."""
        if self._seen != (self._counts.arrived, self.limit):
            self._seen = (self._counts.arrived, self.limit)
            mask: Bools = self._counts.state_visits() <= self.limit
            if not mask.any():
                self._mask = None
            elif self._mask is None or not np.array_equal(mask, self._mask):
                self._mask = mask
        return self._mask


def few_visits(
    counts: Counts | None,
    problem: Problem,
    *,
    wanted: bool,
    max_delay: float | None,
    given: float | None,
    delta: float,
) -> FewVisits | None:
    """The part for an agent's keywords; None if explicit exploration is not wanted."""
    checks.flag("explicit_exploration", wanted)
    limit = None
    if given is not None:
        limit = checks.real("exploration_threshold", given, 0.0)
    elif max_delay is not None:
        limit = exploration_threshold(problem, max_delay, delta)
    if not wanted:
        return None
    if counts is None:
        raise ValueError("explicit_exploration must be False where transitions are given, got True")
    if limit is None:
        raise ValueError(
            "explicit_exploration needs max_delay or exploration_threshold, got neither"
        )
    return FewVisits(counts, limit, of_delay=given is None)


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
