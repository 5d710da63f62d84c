"""A linear agent in one file: ridge regression and epsilon-greedy on features of the visitor.

Its problem and its record are its own, which shows what the core needs of both.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated import saving
from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Deciding, Episode, FeedbackError, altered
from belated.core.episodes import Ledger
from belated.core.tree import Configured


@saving.register
@dataclass(frozen=True, slots=True, eq=False)
class Paid:
    """The worth of a decision, a finite number; one decision may have several, by event."""

    episode: int
    value: float
    event: str = "paid"
    at: float | None = None
    is_outcome: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    part: ClassVar[str] = "value"

    def facts(self):
        return {self.event: self.value}

    def renumbered(self, episode):
        return altered(self, episode=episode)

    def dated(self, at):
        return self if at is None or self.at is not None else altered(self, at=at)

    def to_json(self):
        return {name: getattr(self, name) for name in self.__slots__}

    to_state = to_json


@saving.register
@dataclass(frozen=True)
class Visits:
    """One of several actions for every visitor, who is described by d numbers."""

    actions: int
    features: int
    states: ClassVar[None] = None
    horizon: ClassVar[int] = 1
    one_outcome: ClassVar[bool] = False

    def check(self, record, information):
        if not isinstance(record, Paid):
            raise FeedbackError(f"a record must be Paid, got {checks.show(record)}")
        try:
            checks.integer("episode", record.episode, 0)
            checks.real("value", record.value, -np.inf)
            if not isinstance(record.event, str):
                raise ValueError(f"event must be a text, got {checks.show(record.event)}")
        except ValueError as error:
            raise FeedbackError(f"Paid of episode {record.episode}: {error}") from None

    def check_observation(self, observation, among=None):
        if np.shape(observation) != (self.features,) or not np.all(np.isfinite(observation)):
            raise ValueError(f"features must be {self.features} numbers, got {observation}")
        for action in range(self.actions) if among is None else among:
            checks.integer("among", action, 0, self.actions - 1)

    def awaited(self, known, information, *, uses_paths):
        return [] if known else ["paid"]

    def assemble(self, episode, known, information, default=None):
        return None if known or default is None else Paid(episode, default)

    def path(self, episode, notes):
        return None

    def example(self, episode, information, *, outcome):
        return Paid(episode, 0.0, "example") if outcome else None

    def example_observation(self):
        return [0.0] * self.features

    def read(self, value):
        return Paid(**value)

    def trial(self, seed=0):
        return Trial(self, seed)


@saving.register
class Greedy(Configured, Deciding):
    """Ridge regression per action on the outcomes so far; epsilon-greedy."""

    information, uses_paths = "bandit", False
    _ledger: Ledger
    V: Floats  # (A, d, d)
    b: Floats  # (A, d)

    def __init__(self, problem, epsilon=0.1, seed=0):
        self.problem, self.epsilon, self.seed = problem, epsilon, seed
        self.times = []  # when outcomes arrived, by the caller's clock
        A, d = problem.actions, problem.features
        self.V, self.b = np.tile(np.eye(d), (A, 1, 1)), np.zeros((A, d))
        self._ledger = Ledger(problem, "bandit", uses_paths=False)

    def begin_episode(self, now=None):
        theta = np.linalg.solve(self.V, self.b[..., None])[..., 0]
        policy = Policy(self.problem, theta, self.epsilon)
        episode = Episode(self.begun, policy, self.problem)
        self._ledger.begin(True, notes=episode.notes)
        return episode

    def observe(self, records, now=None):
        _, entries = self._ledger.take(record.dated(now) for record in listed(records))
        for entry in entries:
            asked = entry.notes.decisions.get(0)
            for paid in entry.outcomes if asked else ():
                x, a = np.asarray(asked.observation), asked.action
                self.V[a] += np.outer(x, x) * (entry.reported == len(entry.outcomes))
                self.b[a] += paid.value * x
                self.times.append(paid.at)
            entry.outcomes = ()

    def forget(self, episode):
        self._ledger.forget(episode)

    def diagnostics(self):
        return self._ledger.tally()


def listed(records):
    if not isinstance(records, (list, tuple)) or None in records:
        raise FeedbackError(f"records must be a list of records, got {checks.show(records)}")
    return records


@dataclass(frozen=True)
class Policy:
    problem: Visits
    theta: np.ndarray  # (A, d)
    epsilon: float

    def probabilities(self, step, observation, among):
        self.problem.check_observation(observation, among)
        allowed = np.zeros(self.problem.actions, dtype=bool)
        allowed[slice(None) if among is None else among] = True
        values = np.where(allowed, self.theta @ np.asarray(observation), -np.inf)
        best = values == values.max()
        return self.epsilon * allowed / allowed.sum() + (1 - self.epsilon) * best / best.sum()


class Trial:
    """Visitors whose outcome is linear in their features, with noise."""

    def __init__(self, problem, seed=0):
        rng = np.random.default_rng(seed)
        self.theta = rng.normal(size=(problem.actions, problem.features))
        self.visitors = rng.normal(size=(7, problem.features))

    def play(self, agent, episode, rng):
        x = self.visitors[episode.number % 7]
        action, _ = episode.act(0, x, rng)
        return [Paid(episode.number, float(self.theta[action] @ x + rng.normal()))]

    def policy(self, agent, episode):
        rows = np.array([episode.probabilities(0, x) for x in self.visitors])
        assert np.all(rows >= 0.0)
        assert np.allclose(rows.sum(1), 1.0)
        return rows

    def spoil(self, episode):
        pass

    def spoiled(self, records):
        return records

    def bad_records(self, agent, records):
        (paid,) = records
        other = Paid(paid.episode, paid.value + 1.0)
        return {
            "an outcome never begun": [Paid(paid.episode + 100, 0.0)],
            "an outcome that is not finite": [Paid(paid.episode, np.nan)],
            "another outcome of the same event": [paid, other],
            "no record": [None],
            "no list": 7,
        }
