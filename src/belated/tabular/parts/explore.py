"""What is played uniformly, whatever has been learned.

`FewVisits` is explicit exploration: it plays uniformly in the states that were observed too rarely,
and an episode that came through such a state does not update the policy, unless `use_costs` says
so. `UniformShare` plays a
small part of every policy uniformly, so that an improvement is noticed where nobody would play.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Bools, Floats, frozen
from belated.tabular.counts import Counts
from belated.tabular.parts.transitions import Model
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.tuning import Parameters, exploration_threshold


class Exploring(Protocol):
    """Changes the policy before it is played.

    A part of one's own may leave out `restart` where it does not go into `Doubling`, and `state`
    and `restore` where its agent is not saved.

    Attributes:
        needs_paths: whether an episode can be used only once its trajectory is known.
    """

    @property
    def needs_paths(self) -> bool:
        """Whether an episode can be used only once its trajectory is known."""
        ...

    def mask(self) -> Bools | None:
        """The states (T, S) to play uniformly in the episode that begins now; None: no state."""
        ...

    def mixed(self, policy: Floats, mask: Bools | None) -> Floats:
        """What is played where `policy` was to be played under a mask, read-only."""
        ...

    def met(self, mask: Bools | None, path: Trajectory | None) -> bool:
        """Whether a path came through a state of the mask, so that its episode is not used."""
        ...

    def restart(self, parameters: Parameters) -> None:
        """Begin a new phase with new parameters."""
        ...

    def state(self) -> stored.State:
        """Everything that was learned."""
        ...

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        ...


class ExplorePart(Protocol):
    """A setting that makes an `Exploring`."""

    def start(self, problem: Problem, model: Model) -> Exploring:
        """A fresh part for an agent with this model."""
        ...


def no_exploration(part: ExplorePart | None) -> ExplorePart:
    """The part itself, or one that explores nothing where there is none."""
    if part is None:
        return UniformShare(0.0)
    checks.part("explore", part, "FewVisits(...), UniformShare() or None")
    return part


@dataclass(frozen=True, slots=True)
class UniformShare(stored.Stateless):
    """A share of uniform play in every state, so that nothing is left unobserved for ever.

    Attributes:
        share: the weight of the uniform policy, from 0 to 1.
    """

    slot: ClassVar[str] = "explore"

    share: float = 0.02

    needs_paths: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.fix(self, "share", checks.real("share", self.share, 0.0, 1.0))

    def start(self, problem: Problem, model: Model) -> UniformShare:
        """Itself: there is nothing to learn."""
        return self

    def mask(self) -> Bools | None:
        """No state is left to chance alone."""
        return None

    def mixed(self, policy: Floats, mask: Bools | None) -> Floats:
        """The policy and the uniform one."""
        if self.share == 0.0:
            return policy
        return frozen((1.0 - self.share) * policy + self.share / policy.shape[2])

    def met(self, mask: Bools | None, path: Trajectory | None) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class FewVisits:
    """Explicit exploration: play uniformly in states with too few observed visits.

    Give one of the two. From a largest delay the threshold follows as
    2 max_delay ln(H S A / delta), and `Doubling` replaces it with that of the phase.

    Attributes:
        threshold: number of visits up to which a state is played uniformly.
        max_delay: the largest delay.
        use_costs: full information only: use the costs of episodes that met such a state too. The
            paper throws them away, although they do not depend on what was played.
    """

    slot: ClassVar[str] = "explore"

    threshold: float | None = None
    max_delay: float | None = None
    use_costs: bool = False

    def __post_init__(self) -> None:
        checks.flag("use_costs", self.use_costs)
        if (self.threshold is None) == (self.max_delay is None):
            given = "neither" if self.threshold is None else "both"
            raise ValueError(f"FewVisits takes one of threshold and max_delay, got {given}")
        for name in ("threshold", "max_delay"):
            if getattr(self, name) is not None:
                checks.fix(self, name, checks.real(name, getattr(self, name), 0.0))

    def start(self, problem: Problem, model: Model) -> RarelySeen:
        """A fresh part."""
        if model.counts is None:
            raise ValueError(
                "explore=FewVisits(...) needs unknown transitions; known ones are not explored"
            )
        if self.threshold is not None:
            threshold = self.threshold
        else:
            assert self.max_delay is not None
            threshold = exploration_threshold(problem, self.max_delay, model.delta)
        return RarelySeen(problem, model, threshold, self)


class RarelySeen:
    """The states (T, S) with at most `threshold` observed visits, at step t or, if pooled, at any.

    If the threshold is derived from a largest delay, `Doubling` updates it.
    """

    def __init__(self, problem: Problem, model: Model, threshold: float, part: FewVisits) -> None:
        assert model.counts is not None
        self._problem = problem
        self._counts: Counts = model.counts
        self._delta = model.delta
        self._fixed = part.threshold is not None
        self._use_costs = part.use_costs
        self.needs_paths = not part.use_costs
        self.threshold = threshold
        self._seen = (-1, threshold)  # what the mask was made for: trajectories and threshold
        self._mask: Bools | None = None

    def mask(self) -> Bools | None:
        """The mask (T, S) of now, shared as long as it does not change; None when empty."""
        if self._seen != (self._counts.arrived, self.threshold):
            self._seen = (self._counts.arrived, self.threshold)
            mask: Bools = self._counts.state_visits() <= self.threshold
            if not mask.any():
                self._mask = None
            elif self._mask is None or not np.array_equal(mask, self._mask):
                self._mask = mask
        return self._mask

    def mixed(self, policy: Floats, mask: Bools | None) -> Floats:
        """The policy (H, S, A), uniform in the states of the mask (T, S)."""
        if mask is None:
            return policy
        played = policy.copy()
        played[np.broadcast_to(mask, played.shape[:2])] = 1.0 / played.shape[2]
        return frozen(played)

    def met(self, mask: Bools | None, path: Trajectory | None) -> bool:
        """Whether a path came through a state of the mask and its costs are not used for that."""
        if self._use_costs or mask is None or path is None:
            return False
        steps = np.minimum(np.arange(len(path.actions)), mask.shape[0] - 1)
        return bool(mask[steps, path.states[:-1]].any())

    def restart(self, parameters: Parameters) -> None:
        """Take the threshold that follows from the skipping threshold of the phase."""
        if not self._fixed and np.isfinite(parameters.threshold):
            self.threshold = exploration_threshold(self._problem, parameters.threshold, self._delta)

    def state(self) -> stored.State:
        """The threshold and the mask that was made last."""
        arrived, threshold = self._seen
        return {
            "threshold": self.threshold,
            "mask": self._mask,
            "mask_arrived": arrived,
            "mask_threshold": threshold,
        }

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        names = ("threshold", "mask", "mask_arrived", "mask_threshold")
        read = stored.exact(saved, *names)
        self.threshold = checks.real("threshold", read["threshold"], 0.0)
        self._mask = checked_mask(self._problem, read["mask"])
        self._seen = (
            checks.integer("mask_arrived", read["mask_arrived"], -1),
            checks.real("mask_threshold", read["mask_threshold"], 0.0),
        )


def checked_mask(problem: Problem, mask: object) -> Bools | None:
    """A mask (T, S) of a saved state, or None."""
    if mask is None:
        return None
    steps = 1 if problem.homogeneous else problem.horizon
    return stored.array("mask", mask, np.bool_, (steps, problem.states))
