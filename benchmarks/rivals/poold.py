"""DORM+ and AdaHedgeD of the package `poold`, as agents.

Flaspohler, Orabona, Cohen, Mouatadid, Oprescu, Orenstein & Mackey (ICML 2021). The package takes
whole cost functions of arms, in the order of the episodes: to learn from episode t it needs the
costs of every episode that was open when t was played. So costs that arrive out of order wait here
for the earlier ones, and lost costs stop all learning until their episode is forgotten; a forgotten
episode counts as one with costs of 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Deciding, Episode, Information
from belated.core.episodes import Ledger
from belated.core.tree import call
from belated.tabular.problem import Problem, check_arms
from belated.tabular.records import Record

Name = Literal["dorm+", "adahedged"]


class Poold(Deciding):
    """A learner of the package `poold`, for arms under full information, without hints.

    Args:
        problem: one state, one step, at least two actions.
        learner: "dorm+" or "adahedged".
    """

    information: Information = "full"
    uses_paths = False
    unsaved = "the package poold has no way to save its learners"

    def __init__(self, problem: Problem, *, learner: Name = "dorm+") -> None:
        checks.instance("problem", problem, Problem)
        check_arms("Poold", problem)
        if problem.actions < 2:
            raise ValueError(f"problem must have at least two actions, got {problem.actions}")
        name = checks.choice("learner", learner, get_args(Name))
        self.problem = problem
        self.parameters: Mapping[str, str] = {"learner": name}
        arms = [str(arm) for arm in range(problem.actions)]
        self._learner = imported().create(name.replace("+", "plus"), model_list=arms)
        self._ledger: Ledger[bool] = Ledger(problem, "full", uses_paths=False)
        self._waiting: dict[int, Floats] = {}  # costs (A,) that arrived before earlier ones
        self._ready: list[tuple[int, dict[str, Any]]] = []  # costs to pass on next, in order
        self._next = 0  # the oldest episode whose costs have not arrived

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy (1, 1, A) to play in it."""
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 if all costs are equal
            play = self._learner.update_and_play(self._ready, hint=None)
        self._ready = []
        policy: Floats = np.array(play, dtype=float)[None, None]
        return self._ledger.open_episode(True, policy)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Learn from costs in the order of the episodes."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.costs is not None:
                self._arrive(entry.number, entry.costs.values[0, 0])
                self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Discard an episode: it counts as one with costs of 0."""
        entry = self._ledger.forget(episode)
        if entry is not None:
            self._arrive(entry.number, np.zeros(self.problem.actions))

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the newest costs, and the number of waiting costs."""
        told = self._ledger.diagnostics()
        if self._ledger.newest_costs is not None and self._ledger.policy is not None:
            told["cost"] = float(np.vdot(self._ledger.newest_costs, self._ledger.policy))
        return {**told, "waiting": len(self._waiting)}

    def __repr__(self) -> str:
        return call(self, self.problem, **self.parameters)

    def _arrive(self, episode: int, costs: Floats) -> None:
        self._waiting[episode] = costs
        while self._next in self._waiting:
            self._ready.append((self._next, linear(self._waiting.pop(self._next))))
            self._next += 1


def linear(costs: Floats) -> dict[str, Any]:
    """The loss w -> <costs, w> in the form of the package."""
    return {"fun": lambda w: float(costs @ w), "grad": lambda w: costs}


def imported() -> Any:
    """The package; an error in one sentence if it is missing.

    Importing it makes Matplotlib typeset everything with LaTeX, which is undone here. Warnings
    about escape sequences in its code are suppressed.
    """
    try:
        with import_module("matplotlib").rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*invalid escape sequence")
            return import_module("poold")
    except ImportError:
        raise ImportError("Poold needs the package poold: pip install 'belated[poold]'") from None
