"""Exploration: uniform play in some states.

`FewVisits` is explicit exploration: it plays uniformly in the states with too few observed visits,
and an episode that passed through such a state does not update the policy.

A part is a frozen setting. What it learns is a plain object that `start` makes and that is passed
to every method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, frozen
from belated.core.tree import Entries, Learned
from belated.tabular.counts import Model
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import Parameters, exploration_threshold


@dataclass(frozen=True, slots=True)
class FewVisits:
    """Explicit exploration: play uniformly in states with too few observed visits.

    Exactly one of the two is required. A largest delay gives the threshold
    2 max_delay ln(H S A / delta), which `Doubling` replaces with that of the phase.

    Attributes:
        threshold: the number of visits up to which play in a state is uniform.
        max_delay: the largest delay.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(world.problem, explore=bl.parts.FewVisits(threshold=2))
        >>> agent.information
        'full'
    """

    needs: ClassVar[Mapping[tuple[str, str], str]] = {
        ("transitions", "counts"): "it needs unknown transitions; known ones are not explored"
    }

    threshold: float | None = None
    max_delay: float | None = None

    needs_paths: ClassVar[bool] = True  # an episode is used only once its trajectory is known

    def __post_init__(self) -> None:
        if (self.threshold is None) == (self.max_delay is None):
            given = "neither" if self.threshold is None else "both"
            raise ValueError(f"FewVisits takes one of threshold and max_delay, got {given}")
        for name in ("threshold", "max_delay"):
            if getattr(self, name) is not None:
                checks.fix(self, name, checks.real(name, getattr(self, name), 0.0))

    def start(self, problem: Problem, model: Model) -> Mask:
        """The threshold of the phase, and the last mask (T, S)."""
        threshold = self.threshold
        if threshold is None:
            threshold = exploration_threshold(problem, self.max_delay or 0.0, model.delta)
        return Mask(problem, model, threshold)

    def mask(self, learned: Mask) -> Bools | None:
        """The current mask (T, S), shared as long as it does not change; None when empty."""
        mask: Bools = learned.counts.visits.sum(axis=2) <= learned.threshold
        if not mask.any():
            learned.mask = None
        elif learned.mask is None or not np.array_equal(mask, learned.mask):
            learned.mask = mask
        return learned.mask

    def mixed(self, policy: Floats, mask: Bools | None) -> Floats:
        """The policy (H, S, A) that is played: uniform in the states of the mask (T, S)."""
        if mask is None:
            return policy
        played = policy.copy()
        played[np.broadcast_to(mask, played.shape[:2])] = 1.0 / played.shape[2]
        return frozen(played)

    def met(self, mask: Bools | None, path: Trajectory | None) -> bool:
        """Whether a path passed through a state of the mask, so that its episode is not used."""
        if mask is None or path is None:
            return False
        steps = np.minimum(np.arange(len(path.actions)), mask.shape[0] - 1)
        return bool(mask[steps, path.states[:-1]].any())

    def restart(self, learned: Mask, parameters: Parameters) -> None:
        """Set the threshold that follows from the skipping threshold of the phase."""
        if self.threshold is None and np.isfinite(parameters.threshold):
            learned.threshold = exploration_threshold(
                learned.problem, parameters.threshold, learned.delta
            )


StateMask = Annotated[Bools, Entries("T S")]


class Mask(Learned):
    """What `FewVisits` learns: the threshold of the phase, and the mask of the last episode."""

    threshold: Annotated[float, Entries(low=0.0)]
    mask: StateMask | None

    def __init__(self, problem: Problem, model: Model, threshold: float) -> None:
        assert model.counts is not None
        self.problem, self.counts, self.delta = problem, model.counts, model.delta
        self.threshold, self.mask = threshold, None
