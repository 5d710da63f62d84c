"""LinearSampler: decisions with features whose outcomes come late, and mostly not at all.

    F(age)       how much of an outcome can have come by that age          exposure
    V, b, f      regression on what should have come by now                sums, fitting
    memories     discounts of the past, weighted by what they predicted    learning
    policy       optimistic Thompson sampling, exact probabilities         choosing

No constant has a unit: the learner does the same if outcomes and `silence` are multiplied by a
power of two, and the same up to rounding if a number is added to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from belated.core import checks, stored
from belated.core.arrays import Floats, Ints
from belated.core.contract import call
from belated.core.keywords import explained
from belated.core.records import Decision, Episode, FeedbackError, Notes, chance
from belated.linear import exposure as exposures
from belated.linear import files, learning, life, sums
from belated.linear.choice import Choice
from belated.linear.choosing import quadratic
from belated.linear.clock import Clock
from belated.linear.features import Features, Scaling
from belated.linear.fitting import WIDE
from belated.linear.learning import CLOSED, REPORTED, SILENT, UNDECIDED, Level, Log, Model
from belated.linear.life import Overview, Row
from belated.linear.logs import DecisionLog
from belated.linear.reward import EVENT, Reward

MEMORIES = (1.0, 0.9995, 0.999, 0.998, 0.996, 0.992, 0.984)
FEW_MEMORIES = (1.0, 0.9995, 0.998, 0.992)
"""Discounts per decision; few of them where there are more than `WIDE` features."""
DIAGONAL = 300
"""Features above which only the diagonal of the covariance is kept, unless asked otherwise."""
OPTIMISM = 0.35
BLOCKS = 128
EVERY = 10
"""Decisions after which the models are fitted anew, if outcomes do not ask for it before."""
_ARGUMENTS = ("silence", "changes", "floor", "holdout", "seed", "diagonal", "close_at")
_NUMBERS = [
    "begun",
    "base",
    "seen",
    "time",
    "reports",
    "fresh_reports",
    "fitted",
    "residuals",
    "late",
    "fitted_reports",
    "unpredicted",
]
_FIELDS = (
    *_ARGUMENTS,
    *[
        "problem",
        "retired",
        "numbers",
        "equal",
        "negative",
        "clock",
        "scaling",
        "level",
        "exposure",
        "young",
        "old",
        "model",
        "tails",
        "log",
        "nonzero",
        "square",
        "plays",
        "raw",
        "sum",
        "shares",
        "delays",
        "events",
        "waiting",
    ],
)


@explained
class LinearSampler:
    """A learner for decisions with features, late outcomes and silence.

    >>> agent = LinearSampler(Choice(actions=["plain", "question"], features=2))
    >>> decision = agent.decide([1.0, 0.5])
    >>> agent.observe([Reward(decision.number, 12.5)])
    >>> agent.begun
    1

    Args:
        problem: the choice to learn.
        silence: the outcome of decisions that never report; `None` if every outcome reports.
        changes: whether outcomes may change over time; without changes one memory is kept.
        floor: probability that is shared out among all actions at hand.
        holdout: share of the decisions that play uniformly, for an honest comparison.
        seed: decides all draws, together with the number of a decision.
        diagonal: keep only the variances of the features, not their covariances; by default where
            there are more than 300.
        close_at: exposure at which a decision is forgotten on its own, such as 0.999; `None`
            keeps every decision until `forget`.
    """

    information = "bandit"
    uses_paths = False
    holds_feedback = False
    reads_delays = True

    def __init__(
        self,
        problem: Choice,
        *,
        silence: float | None = 0.0,
        changes: bool = True,
        floor: float = 0.01,
        holdout: float = 0.0,
        seed: int = 0,
        diagonal: bool | None = None,
        close_at: float | None = None,
    ) -> None:
        checks.instance("problem", problem, Choice)
        self._problem = problem
        self._silence = None if silence is None else checks.real("silence", silence, -math.inf)
        self._changes = checks.flag("changes", changes)
        self._floor = checks.real("floor", floor, 0.0, 1.0)
        self._holdout = checks.real("holdout", holdout, 0.0, 1.0)
        self.seed = checks.integer("seed", seed, 0, checks.LARGEST_INTEGER)
        d = problem.width + (0 if problem.shared else 1)
        diagonal = d > DIAGONAL if diagonal is None else checks.flag("diagonal", diagonal)
        self._diagonal = diagonal
        self._close_at = None if close_at is None else checks.real("close_at", close_at, 0.9, 1.0)
        self._retired: set[int] = set()

        memories = FEW_MEMORIES if d > WIDE else MEMORIES
        self._discounts = np.array(memories if changes else (1.0,))
        M, A = len(self._discounts), self._models
        e = 1 if diagonal else d
        checks.room(BLOCKS * A * d * e, actions=problem.actions, features=problem.width)
        self._width = 8 if d <= WIDE else 32  # decisions in a new block
        self._wide = d > WIDE and not diagonal
        self._exposure = exposures.fresh(A)
        self._young = sums.fresh_young(BLOCKS if self._silent else 1, A, d, e, M)
        self._blocks = 0
        self._old = sums.fresh_old(A, d, e, M)
        self._tails = learning.fresh_tails()
        self._model = Model(
            np.zeros((M, A, d)),
            np.zeros(M),
            np.full(M, 1.0 / M),
            np.zeros((A, d)),
            np.zeros((A, d, e)),
            np.zeros((learning.RING, M + 2)),
        )
        self._level = Level(0.0, 0.0, 0.0, 0.998, 0.0, 0.0)
        self._shares = np.zeros((BLOCKS, A))
        self._precisions = np.ones((BLOCKS, A))
        self._nonzero = np.zeros(d)
        self._square = np.zeros(d)  # sums of squares of the features

        self._clock = Clock()
        self._scaling = Scaling(
            len(problem.features.numbers) if isinstance(problem.features, Features) else 0
        )
        self._begun = 0
        self._base = 0  # the first decision in the log
        self._open = 0
        self._seen = 0  # decisions begun at the last observe
        self._time = -1.0  # of the last observe
        self._log = _log(64, d)
        self._events: dict[int, dict[str, float]] = {}  # of decisions with named events
        self._acting: dict[int, Notes] = {}  # of episodes that have not acted
        self._waiting: list[tuple[int, float, str, float]] = []  # number, time, event, value
        self._reports = 0
        self._fresh_reports = 0  # since the models were fitted
        self._fitted = -1  # decisions begun when they were
        self._fitted_reports = 0  # reports then
        self._unpredicted = 0  # decisions below this number were made before any report
        self._residuals = 0.0
        self._equal: float | None = None  # the outcome that all reports have had, NaN if none
        self._negative = False
        self._late = 0
        self._delays: dict[int, float] = {}  # of first reports, until the unit of ages is fixed
        self._plays = np.zeros(A, dtype=np.int64)
        self._sum = np.zeros(d)  # of the features of all decisions
        self._raw = np.zeros((2, A))  # sums of outcomes, and of their squares, as they came

    # What the agent says of itself

    @property
    def problem(self) -> Choice:
        """What the agent was told."""
        return self._problem

    @property
    def floor(self) -> float:
        """Probability that is shared out among all actions at hand."""
        return self._floor

    @property
    def holdout(self) -> float:
        """Share of the decisions that play uniformly."""
        return self._holdout

    @property
    def retired(self) -> frozenset[int]:
        """Actions that are not played any more."""
        return frozenset(self._retired)

    @property
    def begun(self) -> int:
        """How many decisions have begun."""
        return self._begun

    @property
    def _silent(self) -> bool:
        """Whether silence has a meaning."""
        return self._silence is not None

    @property
    def _models(self) -> int:
        return self._problem.actions or 1

    def open_episodes(self) -> list[int]:
        """The decisions of which outcomes can still be taken, oldest first."""
        status = self._log.status[: self._begun - self._base]
        return (np.flatnonzero(status != CLOSED) + self._base).tolist()

    def is_open(self, number: int) -> bool:
        """Whether an outcome of this decision can still be taken."""
        number = checks.integer("number", number, 0)
        if not self._base <= number < self._begun:
            return False
        return bool(self._log.status[number - self._base] != CLOSED)

    # Decisions

    def decide(
        self,
        x: object = None,
        rng: np.random.Generator | None = None,
        now: float | None = None,
        among: Sequence[int | str] | None = None,
    ) -> Decision:
        """Choose an action.

        Args:
            x: the features: (d,), or one row per action at hand (n, d), or a table of named ones.
            rng: draws the action; by default the draw depends on seed and number alone.
            now: the time, if the caller has a clock.
            among: the actions that are allowed now, by number or name.
        """
        if rng is not None:
            checks.generator("rng", rng)
        time = self._clock.checked(now)
        rows, models, raw = self._at_hand(x, among)
        number = self._begin(time)
        return self._act(number, rows, models, raw, rng)

    def check_observation(self, x: object, among: object = None) -> None:
        """Raise `ValueError` if no decision can be made there; nothing changes."""
        self._at_hand(x, among)

    def _at_hand(self, x: object, among: object) -> tuple[Floats, Ints, list[Floats]]:
        """Features (1, d) or (n, d), the models of the actions that may be taken, and numbers."""
        rows, raw = self._rows(x)
        if self._problem.shared and among is None:
            return rows, np.zeros(len(rows), dtype=np.int64), raw
        if among is None and not self._retired:
            return rows, np.arange(self._models), raw
        return rows, np.array(self._problem.allowed(among, self._retired), dtype=np.int64), raw

    def _rows(self, x: object) -> tuple[Floats, list[Floats]]:
        """The features as rows, with a constant where each action has its own model."""
        given, raw = self._problem.rows(x, self._scaling)
        if self._problem.shared:
            return given, raw
        rows = np.ones((1, self._problem.width + 1))
        rows[:, :-1] = given
        return rows, raw

    def _begin(self, time: float | None) -> int:
        """The number of the next decision."""
        self._read_notes()
        self._learn_waiting()
        if self._clock.tick(time):
            self._restart_ages()
        number = self._begun
        if self._fit_is_due():
            self._fit()
        if number - self._base == len(self._log.clock):
            self._make_room()
        k = number - self._base
        self._log.clock[k] = self._clock.time if self._clock.told else number
        self._log.status[k] = UNDECIDED
        self._log.bin[k] = -1
        self._log.used[k] = self._log.total[k] = 0.0
        self._log.x[k] = 0.0
        self._log.model[k] = 0
        self._blocks = learning.open_number(
            self._young,
            self._old,
            self._blocks,
            number,
            self._width,
            self._discounts,
            self._level.judging,
            self._silent,
        )
        self._begun += 1
        self._open += 1
        return number

    def _policy(self, number: int, rows: Floats, models: Ints) -> tuple[Floats, Floats, Floats]:
        """Probabilities, means and variance factors of the actions at hand."""
        return learning.decide(
            rows,
            models,
            self._model,
            self._level,
            OPTIMISM,
            self._floor,
            self._holdout,
            self.seed,
            number,
        )

    def _act(
        self,
        number: int,
        rows: Floats,
        models: Ints,
        raw: list[Floats],
        rng: np.random.Generator | None,
    ) -> Decision:
        """Draw the action of a decision that has begun, and remember it."""
        shares, means, factors = self._policy(number, rows, models)
        place = learning.pick(shares, (chance(self.seed, number) if rng is None else rng).random())
        i = int(models[place])
        x = rows[place if len(rows) > 1 else 0]
        for numbers in raw:
            self._scaling.note(numbers)
        self._note(number, i, x, float(means[place]), float(factors[place]))
        action = place if self._problem.shared else i
        return Decision(number, action, float(shares[place]), self._whole(models, shares))

    def _asked(self, number: int, x: object, among: object) -> Floats:
        """See `Policy.probabilities`."""
        rows, models, _ = self._at_hand(x, among)
        return self._whole(models, self._policy(number, rows, models)[0])

    def _whole(self, models: Ints, shares: Floats) -> Floats:
        """Probabilities of all actions, of those that are not at hand too."""
        if self._problem.shared:
            return shares
        whole: Floats = np.zeros(self._models)
        whole[models] = shares
        return whole

    def _read_notes(self) -> None:
        """Learn which episodes have acted, and how."""
        for number, notes in list(self._acting.items()):
            asked = notes.decisions.get(0)
            if asked is None:
                continue
            del self._acting[number]
            rows, raw = self._rows(asked.observation)
            i = 0 if self._problem.shared else asked.action
            row = rows[asked.action if self._problem.shared else 0]
            _, means, factors = self._policy(number, row[None], np.array([i]))
            for numbers in raw:
                self._scaling.note(numbers)
            self._note(number, i, row, float(means[0]), float(factors[0]))

    def _note(self, number: int, i: int, x: Floats, mean: float, factor: float) -> None:
        """Add a decision of model i with features x (d,) to the sums."""
        k = number - self._base
        self._log.x[k] = x
        self._log.model[k] = i
        self._log.status[k] = SILENT
        self._nonzero += x != 0.0
        self._square += x * x
        self._sum += x
        self._plays[i] += 1
        if not self._fitted_reports:
            self._unpredicted = number + 1
        learning.note_decision(
            self._young,
            self._old,
            self._blocks,
            self._model,
            self._level,
            number,
            i,
            x,
            mean,
            factor,
            self._silent,
        )

    def begin_episode(self, now: float | None = None) -> Episode:
        """Begin a decision whose features are not known yet; `act` of the episode decides."""
        number = self._begin(self._clock.checked(now))
        episode = Episode(number, Policy(self, number), self._problem)
        self._acting[number] = episode.notes
        return episode

    # Outcomes

    def observe(self, records: Iterable[Reward], now: float | None = None) -> None:
        """Take a batch whole, or raise `FeedbackError` and take nothing of it.

        A call without records says that nothing has come until now.
        """
        time = self._clock.checked(now)
        self._read_notes()
        new, late = self._checked(records)
        if self._clock.tick(time):
            self._restart_ages()
        self._seen = self._begun
        self._time = self._clock.time if self._clock.told else self._begun - 1.0
        for record in new:
            number, event = record.episode, record.key
            arrived = self._time
            if self._clock.told and record.at is not None:
                arrived = min(record.at, arrived)
            k = number - self._base
            reported = self._log.status[k] == REPORTED or number in self._events
            known = self._events.setdefault(number, {})
            if reported and not known:
                known[EVENT] = float(self._log.total[k])
            known[event] = record.value
            self._waiting.append((number, arrived, event, record.value))
        self._late += late

    def _checked(self, records: Iterable[Reward]) -> tuple[list[Reward], int]:
        """The records that say something new, and how many come too late to be used."""
        try:
            batch = list(records)
        except TypeError:
            raise FeedbackError(
                f"records must be a list of Reward, got {checks.show(records)}"
            ) from None
        late = 0
        new: dict[tuple[int, str], Reward] = {}
        for record in batch:
            self._problem.check(record)
            number, event = record.episode, record.key
            where = f"Reward of episode {number}"
            if number >= self._begun:
                newest = f"the newest is {self._begun - 1}" if self._begun else "none has begun"
                raise FeedbackError(f"{where}: episode must be one that was begun ({newest})")
            if number < self._base or self._log.status[number - self._base] == CLOSED:
                if self._close_at is None:
                    raise FeedbackError(
                        f"{where}: episode must be an open one; this one was forgotten"
                    )
                late += 1
                continue
            if self._log.status[number - self._base] == UNDECIDED:
                raise FeedbackError(f"{where}: episode must be one that has acted")
            known = self._known(number, event)
            if (number, event) in new:
                known = new[number, event].value
            if known is not None:
                if known != record.value:
                    called = "" if record.event is None else f" of event {record.event!r}"
                    raise FeedbackError(
                        f"{where}: value{called} is known to be {known:g}, got {record.value:g}"
                    )
                continue
            new[number, event] = record
        return list(new.values()), late

    def _known(self, number: int, event: str) -> float | None:
        """The value of an event of an open decision, if it has come."""
        if number in self._events:
            return self._events[number].get(event)
        k = number - self._base
        if event == EVENT and self._log.status[k] == REPORTED:
            return float(self._log.total[k])
        return None

    def _learn_waiting(self) -> None:
        """Learn what was observed since the last decision, whatever its order was."""
        if not self._waiting:
            return
        numbers: list[int] = []
        outcomes: list[float] = []
        times: list[float] = []
        for number, time, event, value in sorted(self._waiting):
            k = number - self._base
            i = int(self._log.model[k])
            before = float(self._log.total[k]) - (self._silence or 0.0)
            if self._log.status[k] == SILENT and (not numbers or numbers[-1] != number):
                before = 0.0
            if not numbers or numbers[-1] != number:
                numbers.append(number)
                times.append(time)
                outcomes.append(0.0)
            self._log.total[k] += value
            outcomes[-1] = float(self._log.total[k]) - (self._silence or 0.0)
            self._raw[0, i] += outcomes[-1] - before
            self._raw[1, i] += outcomes[-1] ** 2 - before**2
            known = self._events.get(number)
            if event == EVENT and known is not None and len(known) == 1:
                del self._events[number]  # the total is this event alone
        self._waiting = []
        for number, outcome, time in zip(numbers, outcomes, times, strict=True):
            self._count_outcome(number, outcome, time)
        if not self._silent:
            self._predict_mean(numbers, outcomes[0])
        residuals, firsts = learning.take(
            self._young,
            self._old,
            self._blocks,
            self._exposure,
            self._log,
            self._base,
            self._begun,
            self._model,
            self._tails,
            self._discounts,
            self._level,
            self._silent,
            np.array(numbers),
            np.array(outcomes),
            np.array(times),
        )
        self._residuals += residuals
        self._reports += firsts
        self._fresh_reports += len(numbers)

    def _predict_mean(self, numbers: list[int], first: float) -> None:
        """Let what was decided before any report be judged as if the mean had been predicted."""
        hits = float(self._old.hits.sum())
        mean = float(self._old.r[0].sum()) / hits if hits else first
        for number in numbers:
            if number < self._unpredicted:
                self._model.predicted[number % learning.RING, :-1] = mean

    def _count_outcome(self, number: int, outcome: float, time: float) -> None:
        """Note what kinds of outcomes there are; delays too, until the unit of ages is fixed."""
        if not self._clock.fixed:
            k = number - self._base
            self._delays.setdefault(number, max(time - float(self._log.clock[k]), 0.0))
        self._negative |= outcome < 0.0
        if self._equal is None:
            self._equal = outcome
        elif self._equal != outcome:
            self._equal = math.nan

    def forget(self, episode: int) -> None:
        """Let go of a decision: no outcome of it will be used any more.

        Where silence has a meaning, the decision stays in the sums with the exposure that it has
        reached; otherwise it is dropped.
        """
        try:
            number = checks.integer("episode", episode, 0)
        except ValueError as error:
            raise FeedbackError(str(error)) from None
        if number >= self._begun:
            raise FeedbackError(f"episode must be one that was begun, got {number}")
        if not self.is_open(number):
            return
        self._read_notes()
        self._acting.pop(number, None)
        self._learn_waiting()
        self._close(number)
        self._trim()

    def _close(self, number: int) -> None:
        k = number - self._base
        if self._log.status[k] != UNDECIDED:
            if self._silent:
                learning.freeze(
                    self._young,
                    self._old,
                    self._blocks,
                    self._exposure,
                    self._log,
                    self._base,
                    self._begun,
                    number,
                    self._seen,
                    self._time,
                    self._model,
                    self._discounts,
                    self._level.judging,
                )
            elif self._log.status[k] == SILENT:
                learning.withdraw(
                    self._old,
                    int(self._log.model[k]),
                    self._log.x[k],
                    self._begun - number - 1,
                    self._discounts,
                )
        self._log.status[k] = CLOSED
        self._log.bin[k] = -1
        self._events.pop(number, None)
        self._delays.pop(number, None)
        self._open -= 1

    # Fitting

    def _fit_is_due(self) -> bool:
        """Whether enough has happened since the models were fitted."""
        since = self._begun - self._fitted
        every = min(max(EVERY, self._begun // 10), 10 * EVERY) if self._wide else EVERY
        if self._fitted < 0 or since >= every:
            return True
        soon = every // 4 if self._wide else 1
        return self._fresh_reports > 0.02 * self._reports and since >= soon

    def _ridge(self) -> Floats:
        """Penalties (d,): the mean square of each feature where it is not 0, times how many are."""
        per_feature = np.where(
            self._nonzero > 0.0, self._square / np.maximum(self._nonzero, 1.0), 1.0
        )
        ridge: Floats = per_feature * max(self._nonzero.sum() / max(self._plays.sum(), 1), 1.0)
        return ridge

    def _fit(self) -> None:
        self._fitted, self._fresh_reports = self._begun, 0
        self._fitted_reports = self._reports
        ridge = self._ridge()
        if self._silent:
            equal = self._equal is not None and not math.isnan(self._equal) and self._equal != 0.0
            self._blocks, self._level = learning.refresh_silent(
                self._young,
                self._old,
                self._blocks,
                self._exposure,
                self._log,
                self._base,
                self._begun,
                self._seen,
                self._time,
                self._reports,
                equal,
                not self._negative,
                self._discounts,
                ridge,
                self._model,
                self._level,
                self._shares,
                self._precisions,
            )
        else:
            self._level = learning.refresh_told(
                self._young,
                self._old,
                self._reports,
                self._residuals,
                self._begun,
                self._discounts,
                ridge,
                self._model,
                self._level,
                self._shares,
                self._precisions,
            )
            if self._level.sigma <= 1e-9 * abs(self._level.mean):
                self._model.average[:] = 0.0  # outcomes have been equal: rounding must not decide
        if self._close_at is not None:
            self._close_exposed(self._close_at)

    def _close_exposed(self, share: float) -> None:
        """Forget the oldest decisions whose exposure has reached a share."""
        if self._reports < learning.LATER:
            return
        shares = np.empty(self._models)
        number = self._base
        while number < self._seen - learning.LATER:
            k = number - self._base
            exposures.share_at(self._exposure, 0.5 * (self._time - self._log.clock[k]), shares)
            if shares.min() < share:
                break
            if self._log.status[k] != CLOSED:
                self._close(number)
            number += 1
        self._trim()

    def _restart_ages(self) -> None:
        """Count delays anew, in the unit that has changed."""
        fixed, self._clock.fixed = self._clock.fixed, False  # delays that wait are noted too
        self._learn_waiting()
        self._clock.fixed = fixed
        self._exposure = exposures.fresh(self._models, self._clock.unit)
        for k in range(self._begun - self._base):
            if self._log.bin[k] >= 0:
                self._log.bin[k] = exposures.count_report(
                    self._exposure,
                    k + self._base,
                    int(self._log.model[k]),
                    self._delays[k + self._base],
                )
        if self._clock.fixed:
            self._delays = {}

    # The life of a learner

    def add_action(self, name: str | None = None) -> int:
        """Add an action, with its name if actions have names; returns its number.

        It begins like any other: with the constant of all models and the delays of all actions.
        """
        self._problem = self._problem.with_action(name)
        self._learn_waiting()
        self._exposure = self._exposure._replace(
            **{
                name: _wider(getattr(self._exposure, name), 0)
                for name in ("came", "risk", "young", "share")
            }
        )
        per_block = ("n", "x", "xx", "hits", "r", "rr", "rx", "pp")
        self._young = self._young._replace(
            **{name: _wider(getattr(self._young, name), 1) for name in per_block}
        )
        per_memory = ("n", "x", "xx", "r", "rx", "asked")
        self._old = self._old._replace(
            **{name: _wider(getattr(self._old, name), 1) for name in per_memory},
            hits=_wider(self._old.hits, 0),
            rr=_wider(self._old.rr, 0),
        )
        self._model = self._model._replace(
            theta=_wider(self._model.theta, 1),
            average=_wider(self._model.average, 0),
            spread=_wider(self._model.spread, 0),
        )
        self._shares, self._precisions = _wider(self._shares, 1), _wider(self._precisions, 1)
        self._plays, self._raw = _wider(self._plays, 0), _wider(self._raw, 1)
        self._fitted = -1
        return self._models - 1

    def retire(self, action: int | str) -> None:
        """Play an action no more; outcomes of what was decided are still learned."""
        number = self._problem.index("action", action)
        if len(self._retired | {number}) == self._models:
            raise ValueError(f"action must leave one that is played, got {action!r}, the last one")
        self._retired.add(number)

    def change(
        self,
        *,
        names: Sequence[str] | None = None,
        floor: float | None = None,
        holdout: float | None = None,
    ) -> None:
        """Change what may change while the learner learns; what is None stays.

        names: what the actions are called from now on, all of them.
        """
        problem = self._problem
        if names is not None:
            problem = problem.with_actions(list(names))
            if problem.actions != self._problem.actions:
                raise ValueError(f"names must be {self._models}, got {len(names)}")
        if floor is not None:
            floor = checks.real("floor", floor, 0.0, 1.0)
        if holdout is not None:
            holdout = checks.real("holdout", holdout, 0.0, 1.0)
        self._problem = problem
        self._floor = self._floor if floor is None else floor
        self._holdout = self._holdout if holdout is None else holdout

    def table(self) -> list[Row]:
        """One row per action: plays, reports, expected outcome with an interval, what leads."""
        return stored.twin(self)._table()  # type: ignore[no-any-return]

    def _table(self) -> list[Row]:
        """The table, with all that has come; this learns, so it is asked of a copy."""
        self._learn_waiting()
        self._fit()
        names = ["all"]
        overall = None
        if not self._problem.shared:
            names = [self._problem.name(a) for a in range(self._models)]
        if self._problem.width and not self._problem.shared:
            x = self._sum / max(self._begun, 1)
            mean = self._model.constant[0] + self._model.theta[0] @ x
            error = [
                self._level.sigma * math.sqrt(max(quadratic(spread, x), 0.0))
                for spread in self._model.spread
            ]
            overall = (mean, np.array(error) if self._reports else np.full(len(mean), math.inf))
        exposed = self._exposed() if self._silent else self._hits()
        return life.table(
            names,
            self._plays,
            self._hits(),
            exposed,
            self._raw,
            self._silence or 0.0,
            overall,
            self._retired,
        )

    def overview(self, most: int = 40, newest: int = 100) -> Overview:
        """The table, the probabilities now, and the weights of the features that matter.

        most: weights at most. newest: decisions whose features stand for those to come.
        """
        return stored.twin(self)._overview(most, newest)  # type: ignore[no-any-return]

    def _overview(self, most: int, newest: int) -> Overview:
        """See `overview`; asked of a copy."""
        rows = self._table()
        average = self._sum / max(self._begun, 1)
        model, groups = self._model, self._problem.groups()
        adds, variances = life.contrasts(model.average, model.spread, average, groups)
        errors = self._level.sigma * np.sqrt(np.maximum(variances, 0.0))
        names = [row.action for row in rows]
        strongest = life.weights(
            names, self._problem.labels(), adds, errors, most if self._reports else 0
        )
        kept = self._begun - self._base
        asked = self._log.x[max(kept - newest, 0) : kept]
        asked = asked[self._log.status[max(kept - newest, 0) : kept] != UNDECIDED]
        now = np.zeros(0 if self._problem.shared else self._models)
        if len(now):
            models = np.array(self._problem.allowed(None, self._retired), dtype=np.int64)
            blank = np.zeros((1, self._problem.width + 1))
            blank[0, -1] = 1.0
            asked = asked if len(asked) else blank
            for n, x in enumerate(asked):
                now[models] += self._policy(self._begun + n, x[None], models)[0]
            now /= len(asked)
        pool = self._exposure.share.mean(axis=0) if self._reports else self._exposure.share[0] * 0.0
        return Overview(rows, now, strongest, self._exposure.edges.copy(), pool, self._silence)

    def verdict(self) -> str:
        """Which action leads, how sure that is, and what it would take to be sure."""
        span = self._clock.time - float(self._log.clock[0]) if self._clock.told else None
        return life.verdict(self.table(), self._begun, span)

    def replay(self, log: DecisionLog, observations: Sequence[object] | None = None) -> None:
        """Begin with a log of decisions that were made elsewhere; only a fresh learner can.

        They get the numbers from 0 on; rewards that come later are reported under these.

        Args:
            log: the decisions.
            observations: what each of them was asked with, instead of the features of the log, so
                that numbers get the scale that later decisions will have.
        """
        checks.instance("log", log, DecisionLog)
        if self._begun:
            raise ValueError(f"the learner must be fresh, got one with {self._begun} decisions")
        if self._problem.shared:
            raise ValueError("a log can be replayed only where actions are listed; here they vary")
        if observations is not None and len(observations) != len(log):
            raise ValueError(f"observations must be {len(log)}, got {len(observations)}")
        if observations is None and log.x.shape[1] != self._problem.width:
            raise ValueError(f"log must have {self._problem.width} features, got {log.x.shape[1]}")
        if len(log) and int(log.actions.max()) >= self._models:
            raise ValueError(f"log must have actions below {self._models}, got {log.actions.max()}")
        came = np.flatnonzero(log.came)
        came = came[np.argsort(log.reported[came], kind="stable")]
        place = 0
        for number in range(len(log)):
            now = float(log.decided[number])
            ready = []
            while place < len(came) and log.reported[came[place]] < now:
                ready.append(_logged(log, int(came[place])))
                place += 1
            self.observe(ready, now if log.clocked else None)
            self._begin(now if log.clocked else None)
            if observations is None:
                rows = np.ones((1, self._problem.width + 1))
                rows[0, :-1] = log.x[number]
            else:
                rows, raw = self._rows(observations[number])
                for numbers in raw:
                    self._scaling.note(numbers)
            action = int(log.actions[number])
            _, means, factors = self._policy(number, rows, np.array([action]))
            self._note(number, action, rows[0], float(means[0]), float(factors[0]))
        rest = [_logged(log, int(number)) for number in came[place:]]
        self.observe(rest, log.until if log.clocked else None)

    def _hits(self) -> Floats:
        """Decisions of each model that have reported, (A,)."""
        hits: Floats = self._old.hits + self._young.hits[self._young.order[: self._blocks]].sum(0)
        return hits

    # Files and figures

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        self._read_notes()
        level = self._level
        exposed = float(self._exposed().sum())
        numbers = {
            "begun": self._begun,
            "open": self._open,
            "reports": self._reports,
            "late": self._late,
            "exposed": exposed,
            "rate": self._reports / exposed if exposed > 0.0 else 0.0,
            "mean": level.mean + (self._silence or 0.0),
            "sigma": level.sigma,
            "memory": self._effective_memory(),
            "delay": self._median_delay(),
            "log_bytes": sum(column.nbytes for column in self._log),
        }
        numbers["too_fast"] = float(numbers["memory"] < 3.0 * numbers["delay"])
        return numbers

    def _effective_memory(self) -> float:
        """Decisions that count, averaged over the memories; at most all."""
        lengths = 1.0 / np.maximum(1.0 - self._discounts, 1.0 / max(self._begun, 1))
        return float(np.minimum(lengths, max(self._begun, 1)) @ self._model.weight)

    def _median_delay(self) -> float:
        """The median delay of reports, in decisions."""
        if not self._reports or not self._silent:
            return 0.0
        pool = self._exposure.share.mean(axis=0)
        age = float(self._exposure.edges[int(np.argmax(pool >= 0.5))])
        if not self._clock.told:
            return age
        span = self._time - float(self._log.clock[0])
        return age * (self._begun - self._base) / span if span > 0.0 else 0.0

    def _exposed(self) -> Floats:
        """Decisions of each model, each as far as its outcome can have come, (A,)."""
        exposed: Floats = self._old.n[0].copy()
        for slot in self._young.order[: self._blocks]:
            exposed += self._shares[slot] * self._young.n[slot]
        return exposed

    def configuration(self) -> dict[str, Any]:
        """The arguments."""
        return {
            "problem": self._problem,
            "silence": self._silence,
            "changes": self._changes,
            "floor": self._floor,
            "holdout": self._holdout,
            "seed": self.seed,
            "diagonal": self._diagonal,
            "close_at": self._close_at,
        }

    def __repr__(self) -> str:
        given = self.configuration()
        return call(self, given.pop("problem"), **given)

    def state(self) -> stored.State:
        """Everything that decides what the learner does next."""
        self._read_notes()
        given = self.configuration()
        kept = self._begun - self._base
        return {
            **given,
            "problem": stored.kept(self._problem),
            "retired": sorted(self._retired),
            "numbers": {name: getattr(self, f"_{name}") for name in _NUMBERS},
            "equal": self._equal,
            "negative": self._negative,
            "clock": self._clock.state(),
            "scaling": self._scaling.state(),
            "level": self._level._asdict(),
            "exposure": files.write_exposure(self._exposure),
            "young": files.write_young(self._young, self._blocks),
            "old": files.write_named(self._old),
            "model": files.write_model(self._model, self._begun),
            "tails": files.write_tails(self._tails),
            "log": files.write_log(self._log, kept),
            "nonzero": self._nonzero.copy(),
            "square": self._square.copy(),
            "plays": self._plays.copy(),
            "raw": self._raw.copy(),
            "sum": self._sum.copy(),
            "shares": self._shares[self._young.order[: self._blocks]],
            "delays": [[number, delay] for number, delay in self._delays.items()],
            "events": [
                [number, [[event, value] for event, value in known.items()]]
                for number, known in self._events.items()
            ],
            "waiting": [list(entry) for entry in self._waiting],
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """A learner that continues where the one that wrote the state was."""
        read = stored.exact(state, *_FIELDS)
        agent = cls(stored.made(read["problem"]), **{name: read[name] for name in _ARGUMENTS})
        agent._restore(read)
        return agent

    def _restore(self, read: stored.State) -> None:
        for action in stored.items("retired", read["retired"]):
            self._retired.add(checks.integer("retired", action, 0, self._models - 1))
        numbers = stored.exact(read["numbers"], *_NUMBERS)
        begun = stored.count("begun", numbers["begun"])
        base = checks.integer("base", numbers["base"], 0, begun)
        for name, value in numbers.items():
            if isinstance(getattr(self, f"_{name}"), float):
                setattr(self, f"_{name}", checks.real(name, value, -math.inf))
            else:
                low, high = (-1, begun) if name == "fitted" else (0, checks.MOST)
                setattr(self, f"_{name}", checks.integer(name, value, low, high))
        checks.integer("seen", self._seen, 0, begun)
        if read["equal"] is not None:
            equal = read["equal"]
            nan = isinstance(equal, float) and math.isnan(equal)
            self._equal = equal if nan else checks.real("equal", equal, -math.inf)
        self._negative = checks.flag("negative", read["negative"])
        self._clock.restore(read["clock"])
        self._scaling.restore(read["scaling"])
        self._level = files.read_level(read["level"])
        M, A, d, e = self._old.xx.shape
        sizes = files.Sizes(A, d, e, M)
        self._exposure = files.read_exposure(read["exposure"], sizes, begun)
        self._blocks = files.read_young(read["young"], self._young, sizes, begun)
        self._old = files.read_old(read["old"], self._old)
        self._model = files.read_model(read["model"], self._model, begun)
        files.read_tails(read["tails"], self._tails)
        self._log = files.read_log(read["log"], sizes, begun - base)
        self._nonzero = stored.copied("nonzero", read["nonzero"], np.float64, (d,))
        self._square = stored.copied("square", read["square"], np.float64, (d,))
        stored.between("nonzero", self._nonzero, 0.0, checks.MOST)
        stored.between("square", self._square, 0.0, stored.LARGEST_FLOAT)
        self._plays = stored.copied("plays", read["plays"], np.int64, (A,))
        stored.between("plays", self._plays, 0, begun)
        self._raw = stored.copied("raw", read["raw"], np.float64, (2, A))
        stored.finite("raw", self._raw)
        self._sum = stored.copied("sum", read["sum"], np.float64, (d,))
        stored.finite("sum", self._sum)
        shares = stored.array("shares", read["shares"], np.float64, (self._blocks, A))
        stored.between("shares", shares, 0.0, 1.0)
        self._shares[: self._blocks] = shares
        self._open = len(self.open_episodes())
        for item in stored.items("delays", read["delays"]):
            number, delay = stored.items("delays", item)
            self._delays[self._open_number(number)] = checks.real("delays", delay, 0.0)
        for item in stored.items("events", read["events"]):
            number, known = stored.items("events", item)
            events = self._events.setdefault(self._open_number(number), {})
            for event, value in stored.items("events", known):
                self._problem.check_fact(event, value)
                events[event] = float(value)
        for item in stored.items("waiting", read["waiting"]):
            number, time, event, value = stored.items("waiting", item)
            if not isinstance(event, str):
                raise ValueError(f"waiting must name its events, got {checks.show(event)}")
            self._waiting.append(
                (
                    self._open_number(number),
                    checks.real("waiting", time, -math.inf),
                    event,
                    checks.real("waiting", value, -math.inf),
                )
            )
        if not self._clock.fixed:
            reported = np.flatnonzero(self._log.bin >= 0) + self._base
            if not set(reported.tolist()) <= set(self._delays):
                raise ValueError("delays must hold all reports until the unit of ages is fixed")

    def _open_number(self, number: object) -> int:
        """The number of an open decision in a saved state."""
        found = checks.integer("number", number, self._base, self._begun - 1)
        if self._log.status[found - self._base] in (CLOSED, UNDECIDED):
            raise ValueError(f"number must be that of an open decision, got {found}")
        return found

    # Room

    def _make_room(self) -> None:
        """Let the log grow by a quarter; the arrays grow in place where the system can."""
        size = len(self._log.clock)
        for column in self._log:
            column.resize((max(size + 64, size + size // 4), *column.shape[1:]), refcheck=False)

    def _trim(self) -> None:
        """Free the log of decisions that are closed, from the oldest on."""
        kept = self._begun - self._base
        status = self._log.status[:kept]
        still = np.flatnonzero(status != CLOSED)
        gone = int(still[0]) if len(still) else kept
        if gone < 64 or gone < kept // 2:
            return
        for column in self._log:
            column[: kept - gone] = column[gone:kept].copy()
        self._base += gone


class Policy:
    """The policy of a decision that has begun; it is computed when it is asked for."""

    def __init__(self, agent: LinearSampler, number: int) -> None:
        self._agent = agent
        self._number = number

    def probabilities(self, step: int, observation: object, among: object) -> Floats:
        """The probability of every action for the features at hand."""
        checks.integer("step", step, 0, 0)
        return self._agent._asked(self._number, observation, among)


def _wider(array: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """The array with zeros for one model more."""
    shape = list(array.shape)
    shape[axis] = 1
    return np.concatenate([array, np.zeros(shape, dtype=array.dtype)], axis=axis)


def _logged(log: DecisionLog, number: int) -> Reward:
    """The reward of a decision in a log."""
    return Reward(
        number, float(log.rewards[number]), at=float(log.reported[number]) if log.clocked else None
    )


def _log(size: int, d: int) -> Log:
    return Log(
        np.zeros((size, d)),
        np.zeros(size, dtype=np.int32),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.full(size, -1, dtype=np.int8),
        np.zeros(size, dtype=np.int8),
    )
