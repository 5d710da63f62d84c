"""A log of decisions in columns, for warm starts and off-policy evaluation."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, Ints, frozen
from belated.core.tree import LARGEST_FLOAT
from belated.linear import features, reward


class DecisionLog:
    """Past decisions and their outcomes.

    >>> log = DecisionLog([0, 1, 0], [0.5, 0.5, 0.9], [1.0, None, None], reported=[2, None, None])
    >>> len(log)
    3

    Columns may be arrays, lists, or columns of a polars or pandas frame.

    Args:
        actions: the action of each decision, (n,), in the order of the decisions: its number, or
            its name if `names` lists them.
        probabilities: its propensity, (n,); None if nobody wrote it down: then it is estimated,
            by the share of the action, or by `propensities` where there are features.
        rewards: its outcome, (n,); NaN or None if it has not reported yet.
        x: features, (n, d); None if there are none.
        decided: the times of the decisions, (n,), as numbers or as dates and times, which become
            seconds; None: time is the number of the decision.
        reported: when the reward arrived, (n,), on the same clock, NaN or None if it has not;
            without `decided`, the number of the newest decision at that time. None: at once.
        until: the time up to which the log contains reports; None: the last time in it.
        names: the names of all actions, if `actions` has names.
    """

    def __init__(
        self,
        actions: object,
        probabilities: object,
        rewards: object,
        *,
        x: object = None,
        decided: object = None,
        reported: object = None,
        until: float | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.actions: Ints = checks.whole_numbers("actions", _numbered(actions, names), 0)
        n = len(self.actions)
        self.estimated = probabilities is None
        self.x = np.zeros((n, 0)) if x is None else _column("x", x, n, 2, largest=features.LARGEST)
        self.probabilities = (
            propensities(self.actions, self.x)
            if probabilities is None
            else _column("probabilities", probabilities, n)
        )
        if n and not (self.probabilities.min() > 0.0 and self.probabilities.max() <= 1.0 + 1e-9):
            raise ValueError("probabilities must be above 0 and at most 1, got one that is not")
        self.rewards = _column("rewards", rewards, n, largest=reward.LARGEST, missing=True)
        self.clocked = decided is not None
        self.decided = _column("decided", np.arange(n) if decided is None else decided, n)
        falls = np.diff(self.decided, prepend=-math.inf) < 0.0
        if falls.any():
            raise ValueError(f"decided must never fall, got {self.decided[falls][0]:g} too late")
        came: Bools = ~np.isnan(self.rewards)
        self.came = came
        self.reported = (
            frozen(np.where(came, self.decided, math.nan))
            if reported is None
            else _column("reported", reported, n, missing=True)
        )
        if (np.isnan(self.reported) == came).any():
            raise ValueError("reported must have a time exactly where there is a reward")
        if (self.reported[came] < self.decided[came]).any():
            raise ValueError("reported must not be before decided")
        latest = max([*self.decided[-1:], *self.reported[came]], default=0.0)
        self.until = latest if until is None else checks.real("until", until, latest)

    def __len__(self) -> int:
        return len(self.actions)


def propensities(actions: Ints, x: Floats) -> Floats:
    """The probabilities of the chosen actions, (n,), under a multinomial logistic regression.

    Features are standardised, and their weights have a ridge of 1; the constants have none, so that
    every action gets its share over all. This assumes that the log's policy did not change, and saw
    nothing but these features.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import
    from scipy.special import log_softmax  # noqa: PLC0415

    n, A, d = len(actions), int(actions.max(initial=0)) + 1, x.shape[1]
    if not n:
        return np.zeros(0)
    scale = np.where(x.std(axis=0) > 0.0, x.std(axis=0), 1.0)
    X = np.column_stack([(x - x.mean(axis=0)) / scale, np.ones(n)])
    chosen, ridge = np.eye(A)[actions], np.append(np.ones(d), 0.0)

    def loss(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(A, -1)
        logs = log_softmax(X @ theta.T, axis=1)
        slope = (np.exp(logs) - chosen).T @ X + ridge * theta
        return 0.5 * float((ridge * theta**2).sum()) - float((chosen * logs).sum()), slope.ravel()

    start = np.zeros((A, d + 1))
    start[:, -1] = np.log(np.maximum(chosen.mean(axis=0), 1e-12))
    best = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B").x.reshape(A, -1)
    return frozen(np.exp(log_softmax(X @ best.T, axis=1))[np.arange(n), actions])


def _listed(value: Any) -> Any:
    """A column of a frame as a list, and dates and times as seconds; anything else as it is."""
    if hasattr(value, "to_numpy") and np.ndim(value) == 2:
        return value.to_numpy()
    if hasattr(value, "to_list"):
        value = value.to_list()
    several = value if isinstance(value, list | tuple | np.ndarray) else ()
    if not any(isinstance(each, datetime | np.datetime64) for each in several):
        return value
    moments = [each.replace(tzinfo=None) if isinstance(each, datetime) else each for each in value]
    times = np.array(moments, dtype="datetime64[us]")
    return np.where(np.isnat(times), math.nan, times.astype(np.int64) / 1e6)


def _numbered(actions: Any, names: Sequence[str] | None) -> Any:
    """The numbers of actions that are given by their names."""
    checks.instance("names", names or (), Sequence, " of the names of all actions")
    listed, places = _listed(actions), {name: place for place, name in enumerate(names or ())}
    return [places[checks.choice("actions", one, places)] for one in listed] if names else listed


def _column(
    name: str,
    value: object,
    n: int,
    axes: int = 1,
    *,
    largest: float = LARGEST_FLOAT,
    missing: bool = False,
) -> Floats:
    """Numbers (n,), or (n, d) with two axes, read-only, if none is larger.

    missing: whether NaN is allowed.
    """
    shape = f"({n},)" if axes == 1 else f"({n}, d)"
    found = checks.numbers(name, _listed(value), shape)
    if found.ndim != axes or len(found) != n:
        raise ValueError(f"{name} must have shape {shape}, got shape {found.shape}")
    features.bounded(name, found[~np.isnan(found)] if missing else found, largest)
    return frozen(found)
