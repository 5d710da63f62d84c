"""Sparse transition probabilities."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, Indices, frozen
from belated.tabular.kernels.planning import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """The successors of every (step, state, action) and their probabilities, padded.

    Attributes:
        successors: (T, S, A, W) states, int32. T is 1 where the dynamics are the same at every
            step, otherwise H. W is the largest number of successors of a row.
        probabilities: (T, S, A, W); rows sum to 1, padding has probability 0.

    Both arrays are copied and made read-only. `from_dense` makes one from the usual dense array.

    Example:
        >>> t = bl.Transitions.from_dense(np.eye(2)[:, None, :])
        >>> t.dense().shape
        (1, 2, 1, 2)
    """

    gives: ClassVar[tuple[str, ...]] = ("upper bounds",)

    successors: Indices
    probabilities: Floats

    def __post_init__(self) -> None:
        probabilities = checks.floats("probabilities", self.probabilities, "(T, S, A, W)", (4,))
        raw = np.asarray(self.successors)
        if raw.shape != probabilities.shape or raw.dtype.kind not in "iu":
            raise ValueError(
                f"successors must be whole numbers of shape {probabilities.shape} like "
                f"probabilities, got {raw.dtype} of shape {raw.shape}"
            )
        states = probabilities.shape[1]
        if raw.min() < 0 or raw.max() >= states:
            wrong = raw[(raw < 0) | (raw >= states)][0]
            raise ValueError(f"successors must be states from 0 to {states - 1}, got {wrong}")
        probabilities = checks.distributions("probabilities", probabilities)
        checks.fix(self, "successors", frozen(np.array(raw, dtype=np.int32)))
        checks.fix(self, "probabilities", frozen(probabilities))

    @classmethod
    def from_dense(cls, p: object) -> Self:
        """From p (S, A, S), the same at every step, or (H, S, A, S), one per step."""
        dense = checks.floats("p", p, "(S, A, S) or (H, S, A, S)", (3, 4))
        if dense.shape[-1] != dense.shape[-3]:
            raise ValueError(
                f"p must have shape (S, A, S) or (H, S, A, S), got shape {dense.shape}"
            )
        dense = checks.distributions("p", dense)
        T, S, A, _ = (1, *dense.shape)[-4:]
        rows = dense.reshape(-1, S)
        row, state = np.nonzero(rows)
        lengths = np.bincount(row, minlength=len(rows))
        slot = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        successors = np.zeros((len(rows), lengths.max()), dtype=np.int32)
        probabilities = np.zeros(successors.shape)
        successors[row, slot] = state
        probabilities[row, slot] = rows[row, state]
        return cls(successors.reshape(T, S, A, -1), probabilities.reshape(T, S, A, -1))

    @property
    def rows(self) -> Rows:
        """The arrays as kernels take them."""
        return Rows(self.successors, self.probabilities)

    def reachable(self, start: Floats, horizon: int) -> Bools:
        """Whether some policy comes to a state at a step, (H, S). start: (S,) probabilities."""
        return reachable(self.rows, start, horizon)

    def dense(self) -> Floats:
        """The transitions as a dense array (T, S, A, S)."""
        T, S, A, _ = self.successors.shape
        p = np.zeros((T, S, A, S))
        t, s, a = np.ogrid[:T, :S, :A]
        np.add.at(
            p, (t[..., None], s[..., None], a[..., None], self.successors), self.probabilities
        )
        return p

    @property
    def steps(self) -> int:
        """T: 1 if the dynamics are the same at every step, otherwise H."""
        return int(self.successors.shape[0])

    @property
    def states(self) -> int:
        """S."""
        return int(self.successors.shape[1])

    @property
    def actions(self) -> int:
        """A."""
        return int(self.successors.shape[2])

    def __repr__(self) -> str:
        return f"Transitions(states={self.states}, actions={self.actions}, steps={self.steps})"

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it is immutable


def reachable(rows: Rows, start: Floats, horizon: int) -> Bools:
    """Whether some policy comes to a state at a step, (H, S). start: (S,) probabilities."""
    successors, probabilities = rows
    found: Bools = np.zeros((horizon, len(start)), dtype=np.bool_)
    found[0] = start > 0.0
    for h in range(horizon - 1):
        t = min(h, len(successors) - 1)
        here = found[h]
        found[h + 1, successors[t, here][probabilities[t, here] > 0.0]] = True
    return found
