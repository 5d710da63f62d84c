"""The base of the rivals for decisions: pending decisions, and when they are learned from.

join          when a rival learns from a decision
"arrival"     when its outcome arrives; silence is ignored
"window"      after `window` decisions, from the outcome so far; silence counts as `silence`
"at once"     as `silence` when it is made, and corrected when its outcome arrives
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Decision, FeedbackError
from belated.core.tree import call
from belated.linear.choice import Choice
from belated.linear.reward import Reward

Join = Literal["arrival", "window", "at once"]
JOINS = ("arrival", "window", "at once")


class PendingDecision:
    """A decision that the rival has not learned from yet, or may still correct."""

    __slots__ = ("action", "events", "probability", "rows", "total")

    def __init__(self, rows: Floats, action: int, probability: float) -> None:
        self.rows = rows
        self.action = action
        self.probability = probability
        self.events: dict[str | None, float] = {}
        self.total = 0.0

    @property
    def features(self) -> Floats:
        """The features of the chosen action, (d,)."""
        row: Floats = self.rows[self.action]
        return row


class BegunDecision:
    """A decision that has begun.

    Attributes:
        number: the number of the decision.
    """

    def __init__(self, rival: DecisionRival, number: int) -> None:
        self._rival = rival
        self.number = number

    def probabilities(self, step: int = 0, observation: object = None, among: Any = None) -> Floats:
        """The policy (n,) for these features."""
        return self.decided(observation, None, among, note=False).probabilities

    def act(
        self, step: int = 0, observation: object = None, rng: Any = None, among: Any = None
    ) -> tuple[int, float]:
        """Draw the action; returns the action and its probability."""
        made = self.decided(observation, rng, among)
        return made.action, made.probability

    def decided(self, x: object, rng: Any, among: Any, *, note: bool = True) -> Decision:
        """Draw an action and note it."""
        if among is not None:
            raise ValueError(f"among must be None for this rival, got {checks.show(among)}")
        rival = self._rival
        rows = rival._rows(x)
        policy = rival._probabilities(rows)
        level = (rival._rng if rng is None else rng).random() * policy.sum() if note else 0.0
        action = min(int(np.searchsorted(np.cumsum(policy), level)), len(rows) - 1)
        if note:
            rival._note(self.number, PendingDecision(rows, action, float(policy[action])))
        return Decision(self.number, action, float(policy[action]), policy)


class DecisionRival(ABC):
    """A learner for a `Choice`; a subclass has `_probabilities` and `_learn`.

    Args:
        problem: the choice.
        silence: the outcome of decisions that never report; None if every outcome reports.
        join: when a rival learns from a decision; see above.
        window: the length of the window for "window", in decisions.
        seed: the seed of the draws.
    """

    information = "bandit"
    uses_paths = False
    holds_feedback = True
    reads_delays = True

    def __init__(
        self,
        problem: Choice,
        *,
        silence: float | None = 0.0,
        join: Join = "arrival",
        window: int | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        checks.instance("problem", problem, Choice)
        self.problem = problem
        self._silence = 0.0 if silence is None else checks.real("silence", silence, -np.inf)
        checks.choice("join", join, JOINS)
        if silence is None:  # every outcome reports, so there is nothing to wait for or to assume
            join, window = "arrival", None
        self._join = join
        if (window is None) == (join == "window"):
            raise ValueError(
                f'window must be given with join="window" and only there, got {window}'
            )
        self._window = None if window is None else checks.integer("window", window, 1)
        self._rng = np.random.default_rng(checks.integer("seed", seed, 0))
        self._arguments = {
            **{"silence": silence, "join": join, "window": window, "seed": seed},
            **parameters,
        }
        self._open: dict[int, PendingDecision] = {}
        self._used = 0
        self.begun = 0

    def open_episodes(self) -> list[int]:
        """The decisions of which an outcome can still be taken, oldest first."""
        return list(self._open)

    def is_open(self, number: int) -> bool:
        """Whether an outcome of this decision can still be taken."""
        return number in self._open

    def begin_episode(self, now: float | None = None) -> BegunDecision:
        """Begin a decision; `act` makes it."""
        if self._window is not None:
            self._close(self.begun - self._window)
        self.begun += 1
        return BegunDecision(self, self.begun - 1)

    def decide(
        self, x: object = None, rng: Any = None, now: float | None = None, among: Any = None
    ) -> Decision:
        """Decide for a visitor with features x: (d,), (n, d) or nothing."""
        return self.begin_episode(now).decided(x, rng, among)

    def observe(self, records: Iterable[Reward], now: float | None = None) -> None:
        """Accept outcomes; those of closed decisions and repeated ones are ignored."""
        batch = list(records)
        for record in batch:
            if not isinstance(record, Reward):
                raise FeedbackError(f"records must be Reward, got {checks.show(record)}")
            if record.episode >= self.begun:
                raise FeedbackError(f"episode must be one that was begun, got {record.episode}")
        for record in batch:
            entry = self._open.get(record.episode)
            if entry is None or record.event in entry.events:
                continue
            first = not entry.events
            entry.events[record.event] = record.value
            entry.total += record.value
            if self._join == "arrival":
                if first:
                    self._learn_from(entry, record.value, 1.0)
                    self._used += 1
            elif self._join == "at once":
                gain = record.value - (self._silence if first else 0.0)
                self._learn_from(entry, gain, 0.0)
                self._used += first

    def forget(self, episode: int) -> None:
        """Discard a decision."""
        self._open.pop(episode, None)

    def diagnostics(self) -> Mapping[str, float]:
        """The numbers of decisions made, open and learned from."""
        return {"begun": self.begun, "open": len(self._open), "used": self._used}

    def __repr__(self) -> str:
        return call(self, self.problem, **self._arguments)

    def _rows(self, x: object) -> Floats:
        """The features of every action, (n, d), with a constant if each has its own model."""
        given = np.zeros(0) if x is None else np.asarray(x, dtype=float)
        if self.problem.shared:
            return np.atleast_2d(given)
        actions = self.problem.actions
        assert actions is not None
        return np.tile(np.append(given, 1.0), (actions, 1))

    def _note(self, number: int, entry: PendingDecision) -> None:
        self._open[number] = entry
        if self._join == "at once":
            self._learn_from(entry, self._silence, 1.0)

    def _close(self, last: int) -> None:
        """Learn from every decision up to this one, from the outcomes so far."""
        while self._open and (number := next(iter(self._open))) <= last:
            entry = self._open.pop(number)
            outcome = entry.total if entry.events else self._silence
            self._learn_from(entry, outcome, 1.0)
            self._used += 1

    @abstractmethod
    def _probabilities(self, rows: Floats) -> Floats:
        """The policy (n,) for actions with features (n, d)."""

    def _learn_from(self, entry: PendingDecision, outcome: float, weight: float) -> None:
        """Add a decision with its outcome; see `_learn`."""
        self._learn(entry.features, entry.action, outcome, weight)

    @abstractmethod
    def _learn(self, features: Floats, action: int, outcome: float, weight: float) -> None:
        """Add a decision with its outcome; weight 0 adds to the outcome of an earlier one."""


def greedy(values: Floats) -> Floats:
    """The uniform distribution over the largest values."""
    best = values == values.max()
    shared: Floats = best / best.sum()
    return shared
