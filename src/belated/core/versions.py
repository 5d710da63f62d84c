"""Storage of the policies of open episodes: one per version, large ones as differences.

The agent needs the policy that an episode played when its feedback arrives. Consecutive policies
often share most of their rows, such as those that were not visited. So a large policy is stored as
its difference from an earlier one, row by row and bit by bit, and computed again when it is needed.
An agent that has not learned between two episodes stores one policy for both.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from belated.core.arrays import Bools, Floats, Ints, frozen
from belated.core.tree import Entries

Policy = Annotated[Floats, Entries("policy", rows=True)]
LARGE = 2**16
"""A policy with at least this many numbers is kept as a difference."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsDifference:
    """A policy that differs from another one in some rows.

    Attributes:
        base: the other policy (..., A), read-only, which many differences share.
        bits: one bit for every row, packed: whether it differs.
        values: (R, A) the rows that differ.
    """

    base: Policy
    bits: Annotated[npt.NDArray[np.uint8], Entries("_")]
    values: Annotated[Floats, Entries("_ A", rows=True)]

    @property
    def rows(self) -> Ints:
        """(R,) the flat indices of the rows that differ, increasing."""
        return np.flatnonzero(np.unpackbits(self.bits))

    def check_learned(self) -> None:
        """Check that there are values for the rows that differ."""
        rows = self.rows
        if len(rows) != len(self.values) or rows.max(initial=0) >= self.base[..., 0].size:
            raise ValueError("bits must be one per row, as many of them as values")


Kept = Policy | RowsDifference
"""A stored policy."""


def whole(kept: Kept) -> Floats:
    """The whole policy from its stored form, read-only."""
    if isinstance(kept, np.ndarray):
        return kept
    made = kept.base.copy()
    made.reshape(-1, made.shape[-1])[kept.rows] = kept.values
    return frozen(made)


class Versions:
    """Turns the policies that an agent plays into their stored form.

    Args:
        read: for every row whether it is ever read; the other rows are stored as those of the first
            policy. None: all rows are read.
    """

    def __init__(self, read: Bools | None = None) -> None:
        self._read = read
        self._base: Floats | None = None
        self._policy = np.zeros(0)  # the newest one
        self._kept: Kept | None = None

    def keep(self, policy: Floats) -> Kept:
        """The stored form of a read-only policy (..., A); one object while the policy stays."""
        if self._kept is None or not np.may_share_memory(policy, self._policy):
            self._kept = policy if policy.size < LARGE else self._compared(policy)
        self._policy = policy
        return self._kept

    def _compared(self, policy: Floats) -> Kept:
        """The difference from the base; the policy is the next base if nearly all rows differ."""
        if self._base is not None:
            changed = np.flatnonzero(policy.view(np.int64) != self._base.view(np.int64))
            differs = np.zeros(policy.shape[:-1], dtype=np.bool_)
            differs.ravel()[changed // policy.shape[-1]] = True
            if self._read is not None:
                differs &= self._read
            if np.count_nonzero(differs) < 0.9 * differs.size:
                return RowsDifference(self._base, np.packbits(differs), frozen(policy[differs]))
        self._base = policy
        return policy
