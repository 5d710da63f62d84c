"""What the rivals share: the contract of an agent, around two methods that differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered
from belated.core.records import Episode
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory


class Rival(Ledgered, ABC):
    """An agent under bandit feedback that learns from an episode once all of it has arrived.

    A subclass gives the next policy (`_policy`) and learns from one episode (`_learn`).

    Attributes:
        problem: what the agent was told.
        parameters: what else it was given, by name.
    """

    information: Information = "bandit"
    uses_paths = True

    def __init__(self, problem: Problem, **parameters: float | str | None) -> None:
        checks.instance("problem", problem, Problem)
        self.problem = problem
        self.parameters: Mapping[str, float | str | None] = parameters
        self._ledger: Ledger[Floats] = Ledger(problem, self.information, uses_paths=self.uses_paths)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        policy = self._policy()
        return self._ledger.hand_out(policy, policy)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Learn from every episode whose path and costs have both arrived, oldest first."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.path is None or entry.costs is None or entry.memory is None:
                continue
            self._learn(entry.path, entry.costs.values, entry.memory)
            self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self._ledger.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says."""
        return self._ledger.diagnostics()

    def __repr__(self) -> str:
        return call(self, self.problem, **self.parameters)

    @abstractmethod
    def _policy(self) -> Floats:
        """The policy (H, S, A) to play next."""

    @abstractmethod
    def _learn(self, path: Trajectory, costs: Floats, policy: Floats) -> None:
        """Learn from a path, the costs (H,) suffered on it and the policy that was played."""


class ArmsRival(Rival):
    """A rival for arms: one state, one step."""

    def __init__(self, problem: Problem, **parameters: float | str | None) -> None:
        super().__init__(problem, **parameters)
        check_arms(type(self).__name__, problem)
        self._sums: Floats = np.zeros(problem.actions)  # total observed cost of every arm
        self._visits: Floats = np.zeros(problem.actions)  # number of observed plays

    def _learn(self, path: Trajectory, costs: Floats, policy: Floats) -> None:
        self._sums[path.actions[0]] += costs[0]
        self._visits[path.actions[0]] += 1.0


def check_arms(name: str, problem: Problem) -> None:
    """The problem has one state and one step."""
    if problem.states != 1 or problem.horizon != 1:
        raise ValueError(
            f"{name} is for arms: problem must have states = 1 and horizon = 1, got "
            f"states = {problem.states} and horizon = {problem.horizon}"
        )


def greedy(values: Floats) -> Floats:
    """The distribution over the least values of the last axis; ties share evenly."""
    least = values == values.min(axis=-1, keepdims=True)
    shared: Floats = least / least.sum(axis=-1, keepdims=True)
    return shared
