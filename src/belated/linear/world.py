"""Worlds of decisions: visitors with features, and the outcome of every action.

The expected outcome of every action is known, so that the value of a policy is exact. Everything is
drawn from a seed before the first decision: two learners with the same seed get the same visitors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.delays import as_delays
from belated.linear.choice import Choice


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """The visitors and potential outcomes of K decisions.

    Attributes:
        features: (K, d), or (K, A, d) if they describe the actions; None if there are none.
        means: (K, A) expected outcome of every action.
        outcomes: (K, A) outcome of every action.
        delays: (K, A) delay of every outcome, if the world determines it; `NEVER` if it is lost.
    """

    features: Floats | None
    means: Floats
    outcomes: Floats
    delays: Ints | None = None

    def __post_init__(self) -> None:
        arrays: dict[str, Any] = {
            name: checks.floats(name, getattr(self, name), "(K, A)", (2,))
            for name in ("means", "outcomes")
        }
        if self.delays is not None:
            delays = as_delays("delays", np.ravel(self.delays))
            arrays["delays"] = delays.reshape(np.shape(self.delays))
        if self.features is not None:
            shapes = "(K, d) or (K, A, d)"
            arrays["features"] = checks.floats("features", self.features, shapes, (2, 3))
        whole = arrays["means"].shape
        for name, value in arrays.items():
            axes = value.ndim - 1 if name == "features" else 2
            if value.shape[:axes] != whole[:axes] or value.ndim < 2:
                how = "begin with" if name == "features" else "have"
                raise ValueError(
                    f"{name} must {how} the shape of means, {whole}, got {value.shape}"
                )
            checks.fix(self, name, frozen(value))

    def at(self, episode: int) -> Floats | None:
        """The features of a visitor: (d,), (A, d) or None."""
        return None if self.features is None else self.features[episode]


Draw = Callable[[int, np.random.Generator], Visits]


class DecisionWorld:
    """Visitors, their features and the expected outcome of every action; hidden from the learner.

    Args:
        problem: the problem of the learner.
        draw: `draw(episodes, rng)` draws the `Visits` of a run.
        silence: the outcome that does not report; None if every outcome reports.
    """

    def __init__(self, problem: Choice, draw: Draw, *, silence: float | None = 0.0) -> None:
        checks.instance("problem", problem, Choice)
        if not callable(draw):
            raise ValueError(f"draw must be a function, got {checks.show(draw)}")
        self.problem = problem
        self.silence = None if silence is None else checks.real("silence", silence, -np.inf)
        self._draw = draw

    def visits(self, episodes: int, rng: np.random.Generator) -> Visits:
        """The visits of a run, checked."""
        made = self._draw(episodes, rng)
        checks.instance("draw(episodes, rng)", made, Visits)
        width = 0 if made.features is None else made.features.shape[-1]
        actions = made.means.shape[1]
        for what, given, wanted in (
            ("decisions", len(made.means), episodes),
            ("actions", actions, self.problem.actions or actions),
            ("features", width, self.problem.width),
        ):
            if given != wanted:
                raise ValueError(f"draw must give {wanted} {what}, got {given}")
        return made

    def __repr__(self) -> str:
        return f"DecisionWorld({self.problem!r}, silence={self.silence!r})"
