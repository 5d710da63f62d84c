"""What an agent of a run may be told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Information
from belated.core.delays import total_delay
from belated.tabular.tuning import Parameters


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What an agent of a run may be told; it takes what it would know.

    Attributes:
        problem: every agent is told the problem: a `Problem`, or a `Choice` for decisions.
        information: "full" or "bandit".
        paths: "late" or "at once".
        transitions: the true transitions; None for decisions.
        delays: (K,) the delays of the run; None where they depend on what happens, so that nobody
            can be told.
        tuned: the paper's parameters for the agent, if its learning rate is "tuned".
        seed: for what the agent draws itself; another one in every repetition of a run.
        length: K, where the delays are not known before the run.
        silence: of decisions: the outcome of those that never report; None if every one reports.
    """

    problem: Any
    information: Information
    paths: str
    transitions: Any
    delays: Ints | None
    tuned: Parameters | None = None
    seed: int = 0
    length: int = 0
    silence: float | None = None

    @property
    def episodes(self) -> int:
        """K."""
        return self.length if self.delays is None else len(self.delays)

    @property
    def total_delay(self) -> int:
        """Sum of the delays, each cut off at the end of the run."""
        return total_delay(self._drawn("the total delay"))

    def largest(self, max_delay: float | str | None) -> float | None:
        """A largest delay as a file gives it: a number, or "realised" for that of the run.

        The realised one is cut off at K - 1: what is later does not come within the run.
        """
        if not isinstance(max_delay, str):
            return max_delay
        checks.choice("max_delay (if not a number)", max_delay, ("realised",))
        return int(min(self._drawn("the largest delay").max(), self.episodes - 1))

    def _drawn(self, what: str) -> Ints:
        if self.delays is None:
            raise ValueError(
                f"delays must not depend on what happens for an agent that is told {what}"
            )
        return self.delays

    def undelayed(self, episodes: int) -> Told:
        """The same for a learner of so many episodes without delays."""
        return replace(self, delays=np.zeros(episodes, dtype=np.int64))
