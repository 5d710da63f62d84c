"""LinearSampler: decisions with features whose outcomes arrive late, and mostly never.

    F(age)       the exposure of a decision of that age                    exposure
    V, b, f      regression on the exposed outcomes                        sums, fitting
    memories     discounts of the past, weighted by their predictions      learning
    policy       optimistic Thompson sampling, exact probabilities         choosing

No constant has a unit: the learner does the same if outcomes and `silence` are multiplied by a
power of two, and the same up to rounding if a number is added to both, as long as their size is
between about 1e-100 and 1e30.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, Ints
from belated.core.contract import Information
from belated.core.records import Decision, Episode, FeedbackError, Notes, decided
from belated.core.tree import call
from belated.linear import exposure as exposures
from belated.linear import files, learning, life, sums
from belated.linear.choice import Choice
from belated.linear.clock import CallClock
from belated.linear.exposure import BIN, CLOCK, STATUS, TOTAL
from belated.linear.features import LARGEST, Features, Scaling
from belated.linear.fitting import WIDE, quadratic
from belated.linear.learning import BEGIN, CHOOSE, CLOSED, FIT, NOTE, REPORTED, UNDECIDED
from belated.linear.life import ActionRow, Overview
from belated.linear.logs import DecisionLog
from belated.linear.reward import EVENT, Reward
from belated.linear.reward import LARGEST as LARGEST_REWARD

MEMORIES = (1.0, 0.9995, 0.998, 0.992)
MORE_MEMORIES = (1.0, 0.9995, 0.999, 0.998, 0.996, 0.992, 0.984)
"""Discounts per decision if silence has a meaning, and if every outcome reports."""
DIAGONAL = 300
"""The number of features above which only the diagonal of the covariance is kept by default."""
BLOCKS = 64
FLOAT = np.dtype(np.float64)
_ARGUMENTS = (
    *("silence", "changes", "floor", "holdout", "reference", "seed", "diagonal", "close_at"),
)
_FIELDS = (
    *_ARGUMENTS,
    *("problem", "retired", "seen", "time", "late", "clock", "scaling", "sums", "log"),
    *("delays", "events", "waiting"),
)


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
        floor: the probability that is divided equally among all available actions.
        holdout: the share of the decisions that play another policy, for an unbiased comparison.
        reference: that policy, as the probability of every action; by default uniform.
        seed: the seed of all draws, together with the number of a decision.
        diagonal: whether to keep only the variances of the features, not their covariances; by
            default if there are more than 300 features.
        close_at: the exposure at which a decision is forgotten automatically, such as 0.999;
            `None` keeps every decision until `forget`.
    """

    information: Information = "bandit"
    uses_paths = False
    holds_feedback = 0
    reads_delays = True

    def __init__(
        self,
        problem: Choice,
        *,
        silence: float | None = 0.0,
        changes: bool = True,
        floor: float = 0.01,
        holdout: float = 0.0,
        reference: Sequence[float] | None = None,
        seed: int = 0,
        diagonal: bool | None = None,
        close_at: float | None = None,
    ) -> None:
        checks.instance("problem", problem, Choice)
        self._problem = problem
        self._silence = (
            None
            if silence is None
            else checks.real("silence", silence, -LARGEST_REWARD, LARGEST_REWARD)
        )
        self._changes = checks.flag("changes", changes)
        self._floor = checks.real("floor", floor, 0.0, 1.0)
        self._holdout = checks.real("holdout", holdout, 0.0, 1.0)
        self._reference = None if reference is None else _reference(reference, problem)
        self.seed = checks.integer("seed", seed, 0, checks.LARGEST_INTEGER)
        d = problem.width + (0 if problem.shared else 1)
        self._diagonal = d > DIAGONAL if diagonal is None else checks.flag("diagonal", diagonal)
        self._close_at = None if close_at is None else checks.real("close_at", close_at, 0.9, 1.0)
        self._retired: set[int] = set()
        self._lay_out(problem.actions or 1)

        self._clock = CallClock()
        self._scaling = Scaling(
            len(problem.features.numbers) if isinstance(problem.features, Features) else 0
        )
        self._begun = 0
        self._base = 0  # the first decision in the log
        self._open = 0
        self._seen = 0  # decisions begun at the last observe
        self._time = -1.0  # of the last observe
        self._x = np.zeros((64, problem.width))  # features of the chosen action, by number - base
        self._log = np.zeros((64, 3))  # time, sum of the events, outcome as it was learned
        self._marks = np.zeros((64, 3), dtype=np.int32)  # model, bin of the delay, status
        self._events: dict[int, dict[str, float]] = {}  # of decisions with named events
        self._acting: dict[int, Notes] = {}  # of episodes that have not acted
        self._waiting: list[tuple[int, float, str, float]] = []  # number, time, event, value
        self._late = 0
        self._delays: dict[int, float] = {}  # of first reports, until the unit of ages is fixed
        self._given = np.zeros((1, problem.width))  # features of the decision
        self._row = self._given[0]
        # Whether an observation is one row of numbers, which can be read quickly.
        self._plain = not problem.shared and not isinstance(problem.features, Features)
        self._empty = np.zeros(0)

    def _lay_out(self, A: int) -> None:
        """Make the arrays of a fresh learner with A models."""
        problem = self._problem
        d = problem.width + (0 if problem.shared else 1)
        t = d if self._diagonal else d * (d + 1) // 2
        memories = MEMORIES if self._silent else MORE_MEMORIES
        discounts = np.array(memories if self._changes else (1.0,))
        M, B = len(discounts), BLOCKS if self._silent else 1
        floats, whole = sums.room(A, d, t, M, B, not self._silent)
        checks.room(floats, actions=problem.actions, features=problem.width)
        self._floats = np.zeros(floats)
        self._whole = np.zeros(whole, dtype=np.int64)
        for place, value in (
            (sums.MODELS, A),
            (sums.FEATURES, d),
            (sums.TERMS, t),
            (sums.MEMORIES, M),
            (sums.ROOM, B),
            (sums.CONSTANT, not problem.shared),
            (sums.SILENT, self._silent),
            (sums.WIDTH, 8 if d <= WIDE else 32),
            (sums.SEED, self.seed),
            (sums.FITTED, -1),
            (sums.SPREAD, -1),
        ):
            self._whole[place] = value
        self._parts = sums.parts_of(self._floats, self._whole)
        parts = self._parts
        parts.level[sums.JUDGING] = 0.998
        parts.level[sums.FLOOR] = self._floor
        parts.level[sums.HOLDOUT] = self._holdout
        parts.edges[:] = exposures.unit_edges()
        parts.within[sums.FIRST] = parts.edges  # no delay in any bin
        parts.memory[sums.DISCOUNT] = discounts
        parts.memory[sums.SCALE] = 1.0
        parts.memory[sums.WEIGHT] = 1.0 / M
        parts.reference[:] = 1.0
        if self._reference is not None:
            parts.reference[:] = 0.0
            parts.reference[: len(self._reference)] = self._reference
        parts.fits[:, :, sums.WHEN] = -1.0
        parts.order[:] = np.arange(B)
        parts.span[:] = parts.sizes.shape[1], -1
        self._all = np.arange(A)

    # Attributes of the agent

    @property
    def problem(self) -> Choice:
        """The problem that the agent was made for."""
        return self._problem

    @property
    def floor(self) -> float:
        """The probability that is divided equally among all available actions."""
        return self._floor

    @property
    def holdout(self) -> float:
        """The share of the decisions that play the reference policy, by default the uniform one."""
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
        status = self._marks[: self._begun - self._base, STATUS]
        return (np.flatnonzero(status != CLOSED) + self._base).tolist()

    def is_open(self, number: int) -> bool:
        """Whether an outcome of this decision can still be taken."""
        number = checks.integer("number", number, 0)
        if not self._base <= number < self._begun:
            return False
        return bool(self._marks[number - self._base, STATUS] != CLOSED)

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
            x: the features: (d,), or one row per available action (n, d), or a table of named ones.
            rng: draws the action; by default the draw depends only on seed and number.
            now: the time, if the caller has a clock; then it is given from the first call on. A
                call without it, or with an earlier time, happens at the latest time so far.
            among: the allowed actions, by number or name.
        """
        if rng is not None:
            checks.generator("rng", rng)
        time = None if now is None else self._clock.checked(now)
        # If nothing changes before the compiled call, that call checks the features.
        idle = rng is None and not (self._waiting or self._acting or self._clock.ticking)
        given, models, raw = self._at_hand(x, among, check=not idle)
        draw = -1.0 if rng is None else rng.random()
        number = self._begun
        if not idle or number - self._base == len(self._log):
            self._ready(time)
        out = np.empty(len(models))
        place = self._run(BEGIN | CHOOSE | NOTE, number, given, models, out, draw)
        if place < 0:
            self._problem.rows(x, self._scaling)  # raises the error
        for numbers in raw:
            self._scaling.note(numbers)
        self._has_begun()
        action = place
        if models is not self._all and not self._problem.shared:
            action, out = int(models[place]), self._whole_policy(models, out)
        return decided(number, action, out.item(action), out)

    def check_observation(self, x: object, among: object = None) -> object:
        """Raise `ValueError` if no decision is possible there; nothing changes.

        Returns the observation for `decide`: a list of numbers as an array, already checked.
        """
        given, _, _ = self._at_hand(x, among)
        return given[0].copy() if given is self._given else x

    def _at_hand(
        self, x: object, among: object, *, check: bool = True
    ) -> tuple[Floats, Ints, list[Floats]]:
        """Features (1, d) or (n, d), the models of the actions that may be taken, and numbers.

        check: whether to check the size of the features, if they are one row of numbers.
        """
        given, raw = self._rows(x, check=check)
        if among is None and not self._retired:
            if self._plain or not self._problem.shared:
                return given, self._all, raw
            return given, np.zeros(len(given), dtype=np.int64), raw
        return given, np.array(self._problem.allowed(among, self._retired), dtype=np.int64), raw

    def _rows(self, x: object, *, check: bool = True) -> tuple[Floats, list[Floats]]:
        """The features as rows; one row is written over by the next call. check: see `_at_hand`."""
        if self._plain and x is not None:
            row = self._row
            try:
                given = np.asarray(x)
            except (TypeError, ValueError):
                pass
            else:
                kind = given.dtype
                if given.shape == row.shape and (kind is FLOAT or kind.kind in "fiub"):
                    row[:] = given
                    if not check or row.dot(row) <= LARGEST:  # so no number is larger, or none
                        return self._given, []
        return self._problem.rows(x, self._scaling)

    def _ready(self, time: float | None) -> None:
        """Learn from the outcomes so far, and make room, before a decision begins."""
        if self._acting:
            self._read_notes()
        if self._waiting:
            self._learn_waiting()
        if self._clock.ticking and self._clock.tick(time, self._seen):
            self._restart_ages()
        if self._begun - self._base == len(self._log):
            self._make_room()

    def _run(
        self,
        what: int,
        number: int,
        given: Floats,
        models: Ints,
        out: Floats,
        draw: float = -1.0,
    ) -> int:
        """See `learning.run`."""
        return learning.run(
            self._floats,
            self._whole,
            self._x,
            self._log,
            self._marks,
            what,
            number,
            given,
            models,
            draw,
            self._seen,
            self._time,
            self._clock.time if self._clock.told else float(self._seen),
            out,
        )

    def _has_begun(self) -> None:
        """Count a decision that has begun."""
        self._begun += 1
        self._open += 1
        if self._close_at is not None and self._whole[sums.FITTED] == self._begun - 1:
            self._close_exposed(self._close_at)

    def _asked(self, number: int, x: object, among: object) -> Floats:
        """See `Policy.probabilities`."""
        given, models, _ = self._at_hand(x, among)
        out = np.empty(len(models))
        self._run(CHOOSE, number, given, models, out)
        return out if self._problem.shared else self._whole_policy(models, out)

    def _whole_policy(self, models: Ints, shares: Floats) -> Floats:
        """Probabilities of all actions, 0 for those that are not available."""
        if len(models) == len(self._all):
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
            self.note(number, asked.observation, asked.action)

    def _note(self, number: int, row: Floats, model: int) -> None:
        """Add a decision that was made elsewhere to the sums; row: features (d,)."""
        self._run(NOTE, number, np.array(row[None], order="C"), np.array([model]), np.empty(1))

    def note(self, number: int, x: object, action: int) -> None:
        """Report the action of a decision that has begun and was made elsewhere."""
        given, raw = self._rows(x)
        for numbers in raw:
            self._scaling.note(numbers)
        self._acting.pop(number, None)
        shared = self._problem.shared
        self._note(number, given[action if shared else 0], 0 if shared else action)

    def _begin(self, time: float | None) -> int:
        """Begin a decision without features yet; returns its number."""
        self._ready(time)
        number = self._begun
        self._run(BEGIN, number, self._blank(), self._all, self._empty)
        self._has_begun()
        return number

    def _blank(self) -> Floats:
        """Features (1, d) of a call that needs none."""
        self._given[:] = 0.0
        return self._given

    def begin_episode(self, now: float | None = None) -> Episode:
        """Begin a decision whose features are not known yet; `act` of the episode decides."""
        number = self._begin(self._clock.checked(now))
        episode = Episode(number, Policy(self, number), self._problem)
        self._acting[number] = episode.notes
        return episode

    # Outcomes

    def observe(self, records: Iterable[Reward], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it.

        A call without records means that nothing has arrived until now.
        """
        clock = self._clock
        time = None if now is None else clock.checked(now)
        if self._acting:
            self._read_notes()
        new, late = self._checked(records)
        if clock.told is not False and clock.tick(time, self._seen):
            self._restart_ages()
        if clock.told:
            self._time = clock.time
        elif self._seen < self._begun:
            self._time = float(self._seen)  # that of the newest decisions
        self._seen = self._begun
        for (number, event), record in new.items():
            arrived = self._time
            if clock.told and record.at is not None:
                arrived = min(record.at, arrived)
            known = self._events.get(number)
            if known is None:
                known = self._events[number] = {}
                k = number - self._base
                if self._marks.item(k, STATUS) == REPORTED:
                    known[EVENT] = self._log.item(k, TOTAL)
            known[event] = record.value
            self._waiting.append((number, arrived, event, record.value))
        self._late += late

    def _checked(self, records: Iterable[Reward]) -> tuple[dict[tuple[int, str], Reward], int]:
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
            if number >= self._begun:
                newest = f"the newest is {self._begun - 1}" if self._begun else "none has begun"
                raise FeedbackError(
                    f"Reward of episode {number}: episode must be one that was begun ({newest})"
                )
            k = number - self._base
            status = CLOSED if k < 0 else self._marks.item(k, STATUS)
            if status == CLOSED:
                late += 1
                continue
            if status == UNDECIDED:
                raise FeedbackError(
                    f"Reward of episode {number}: episode must be one that has acted"
                )
            known = self._known(number, event)
            if (number, event) in new:
                known = new[number, event].value
            if known is not None:
                if known != record.value:
                    called = "" if record.event is None else f" of event {record.event!r}"
                    raise FeedbackError(
                        f"Reward of episode {number}: value{called} is known to be {known:g}, "
                        f"got {record.value:g}"
                    )
                continue
            new[number, event] = record
        return new, late

    def _known(self, number: int, event: str) -> float | None:
        """The value of an event of an open decision, if it has arrived."""
        if number in self._events:
            return self._events[number].get(event)
        k = number - self._base
        if event == EVENT and self._marks.item(k, STATUS) == REPORTED:
            return self._log.item(k, TOTAL)
        return None

    def _learn_waiting(self) -> None:
        """Learn what was observed since the last decision, whatever its order was."""
        if not self._waiting:
            return
        waiting = sorted(self._waiting)
        for number, time, event, _ in waiting:
            known = self._events.get(number)
            if event == EVENT and known is not None and len(known) == 1:
                del self._events[number]  # the total is this event alone
            if not self._clock.fixed:
                began = self._log.item(number - self._base, CLOCK)
                self._delays.setdefault(number, max(time - began, 0.0))
        self._waiting = []
        learning.take(
            self._floats,
            self._whole,
            self._x,
            self._log,
            self._marks,
            np.array([(number, time, value) for number, time, _, value in waiting]),
            self._silence or 0.0,
        )

    def forget(self, episode: int) -> None:
        """Discard a decision: its outcomes will not be used any more.

        If silence has a meaning, the decision stays in the sums with its current exposure;
        otherwise it is dropped.
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
        if self._waiting:
            self._learn_waiting()
        self._close(number)
        self._trim()

    def _close(self, number: int) -> None:
        learning.close(
            self._floats,
            self._whole,
            self._x,
            self._log,
            self._marks,
            number,
            self._seen,
            self._time,
        )
        self._events.pop(number, None)
        self._delays.pop(number, None)
        self._open -= 1

    # Fitting

    def _fit(self) -> None:
        """Fit the models to all outcomes so far."""
        self._run(FIT, self._begun, self._blank(), self._all, self._empty)

    def _close_exposed(self, share: float) -> None:
        """Forget the oldest decisions whose exposure has reached a share."""
        if self._whole[sums.REPORTS] < learning.LATER:
            return
        end = learning.exposed_until(
            self._floats, self._whole, self._log, share, self._seen, self._time
        )
        for number in range(self._base, end):
            if self._marks[number - self._base, STATUS] != CLOSED:
                self._close(number)
        self._trim()

    def _restart_ages(self) -> None:
        """Count delays anew after a change of the unit."""
        fixed, self._clock.fixed = self._clock.fixed, False  # delays that wait are noted too
        if self._waiting:
            self._learn_waiting()
        self._clock.fixed = fixed
        learning.recount(
            self._floats,
            self._whole,
            self._log,
            self._marks,
            self._clock.unit,
            np.array(list(self._delays), dtype=np.int64),
            np.array(list(self._delays.values()), dtype=np.float64),
        )
        if self._clock.fixed:
            self._delays = {}

    # The life of a learner

    def add_action(self, name: str | None = None) -> int:
        """Add an action, with its name if actions have names; returns its number.

        It begins like any other: with the constant of all models and the delays of all actions.
        """
        given = self.configuration() | {"problem": self._problem.with_action(name)}
        if self._reference is not None:
            given["reference"] = [*self._reference, 0.0]
        made = LinearSampler(**given)  # raises an error if there is no room
        if self._waiting:
            self._learn_waiting()
        for part, old in zip(made._parts, self._parts, strict=True):
            part[tuple(slice(n) for n in old.shape)] = old
        self._problem, self._reference = made._problem, made._reference
        self._floats, self._whole, self._parts = made._floats, made._whole, made._parts
        self._all = made._all
        self._whole[sums.MODELS] = self._models
        self._whole[sums.FITTED] = self._whole[sums.SPREAD] = -1
        return self._models - 1

    def retire(self, action: int | str) -> None:
        """Stop playing an action; outcomes of earlier decisions still count."""
        if self._problem.shared:
            raise ValueError(
                "an action can be retired only where actions are listed; here they vary"
            )
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
        """Change the settings that may change while the learner learns; None keeps one.

        names: the new names of all actions.
        """
        problem = self._problem
        if names is not None:
            if not isinstance(names, Sequence) or isinstance(names, str):
                raise ValueError(f"names must be a list of names, got {checks.show(names)}")
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
        self._parts.level[sums.FLOOR] = self._floor
        self._parts.level[sums.HOLDOUT] = self._holdout

    def table(self) -> list[ActionRow]:
        """One row per action: plays, reports, expected outcome with an interval, lead."""
        return stored.twin(self)._table()  # type: ignore[no-any-return]

    def _table(self) -> list[ActionRow]:
        """The table, with all outcomes so far; this learns, so it is called on a copy."""
        if self._waiting:
            self._learn_waiting()
        parts = self._parts
        parts.fits[:, :, sums.WHEN] = -1.0  # nothing is stale
        self._whole[sums.SPREAD] = -1
        self._fit()
        names = ["all"]
        overall = None
        if not self._problem.shared:
            names = [self._problem.name(a) for a in range(self._models)]
        if self._problem.width and not self._problem.shared:
            x = parts.features[2] / max(self._begun, 1)
            fits, mu, d = parts.fits[0], parts.memory[sums.MU, 0], len(x)
            mean = mu + (fits[:, :d] - mu * fits[:, d : 2 * d]) @ x
            error = [
                parts.level[sums.SIGMA] * math.sqrt(max(quadratic(spread, x), 0.0))
                for spread in parts.spread
            ]
            known = self._whole[sums.REPORTS] > 0
            overall = (mean, np.array(error) if known else np.full(len(mean), math.inf))
        tally = parts.tally
        return life.table(
            names,
            tally[sums.PLAYS],
            tally[sums.HITS],
            self._exposed() if self._silent else tally[sums.HITS],
            tally[sums.RAW :],
            self._silence or 0.0,
            overall,
            self._retired,
        )

    def overview(self, most: int = 40, newest: int = 100) -> Overview:
        """The table, the current probabilities, and the weights of the important features.

        most: the largest number of weights. newest: the number of decisions to average over.
        """
        return stored.twin(self)._overview(most, newest)  # type: ignore[no-any-return]

    def _overview(self, most: int, newest: int) -> Overview:
        """See `overview`; called on a copy."""
        rows = self._table()
        parts, groups = self._parts, self._problem.groups()
        d = parts.theta.shape[1]
        average = parts.features[2] / max(self._begun, 1)
        spread = np.stack([_matrix(one, d) for one in parts.spread])
        adds, variances = life.contrasts(parts.theta, spread, average, groups)
        errors = parts.level[sums.SIGMA] * np.sqrt(np.maximum(variances, 0.0))
        names = [row.action for row in rows]
        reports = int(self._whole[sums.REPORTS])
        strongest = life.weights(
            names, self._problem.labels(), adds, errors, most if reports else 0
        )
        kept = self._begun - self._base
        asked = self._x[max(kept - newest, 0) : kept]
        asked = asked[self._marks[max(kept - newest, 0) : kept, STATUS] != UNDECIDED]
        now = np.zeros(0 if self._problem.shared else self._models)
        if len(now):
            models = np.array(self._problem.allowed(None, self._retired), dtype=np.int64)
            asked = asked if len(asked) else np.zeros((1, self._problem.width))
            out = np.empty(len(models))
            for n, x in enumerate(asked):
                self._given[0] = x
                self._run(CHOOSE, self._begun + n, self._given, models, out)
                now[models] += out
            now /= len(asked)
        pool = parts.delays[:, sums.SHARE].mean(axis=0)
        pool = pool if reports else 0.0 * pool
        return Overview(rows, now, strongest, parts.edges.copy(), pool, self._silence)

    def verdict(self) -> str:
        """The leading action, its certainty, and how many decisions are needed for certainty."""
        span = self._span() if self._clock.told else None
        return life.verdict(self.table(), self._begun, span, vary=self._problem.shared)

    def _span(self) -> float:
        """The time since the first decision, by the clock."""
        began = self._clock.began
        return self._clock.time - (self._log.item(0, CLOCK) if began is None else began)

    def replay(self, log: DecisionLog, observations: Sequence[object] | None = None) -> None:
        """Learn from a log of decisions that were made elsewhere; only for a fresh learner.

        They get the numbers from 0 on; report later rewards under these.

        Args:
            log: the decisions.
            observations: their observations, in place of the features of the log, so that numbers
                get the same scale as in later decisions.
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
        learned = stored.twin(self)  # so that an error changes nothing
        learned._replay(log, observations)
        self.__dict__.update(learned.__dict__)

    def _replay(self, log: DecisionLog, observations: Sequence[object] | None) -> None:
        """See `replay`; called on a copy."""
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
            row = log.x[number]
            if observations is not None:
                given, raw = self._rows(observations[number])
                row = given[0]
                for numbers in raw:
                    self._scaling.note(numbers)
            self._note(number, row, int(log.actions[number]))
        rest = [_logged(log, int(number)) for number in came[place:]]
        self.observe(rest, log.until if log.clocked else None)

    # Files and figures

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        self._read_notes()
        level = self._parts.level
        exposed = float(self._exposed().sum())
        reports = int(self._whole[sums.REPORTS])
        numbers = {
            "begun": self._begun,
            "open": self._open,
            "reports": reports,
            "late": self._late,
            "exposed": exposed,
            "rate": reports / max(exposed, reports, 1e-12),
            "mean": float(level[sums.MEAN]) + (self._silence or 0.0),
            "sigma": float(level[sums.SIGMA]),
            "memory": self._effective_memory(),
            "delay": self._median_delay(),
            "log_bytes": self._x.nbytes + self._log.nbytes + self._marks.nbytes,
        }
        # A memory that is nearly as long as the run is short only because the run is.
        limit = min(3.0 * numbers["delay"], 0.5 * self._begun)
        numbers["too_fast"] = float(numbers["memory"] < limit)
        return numbers

    def _effective_memory(self) -> float:
        """The effective number of decisions, averaged over the memories."""
        memory, begun = self._parts.memory, max(self._begun, 1)
        lengths = 1.0 / np.maximum(1.0 - memory[sums.DISCOUNT], 1.0 / begun)
        return float(np.minimum(lengths, begun) @ memory[sums.WEIGHT])

    def _median_delay(self) -> float:
        """The median delay of reports, in decisions."""
        if not self._whole[sums.REPORTS] or not self._silent:
            return 0.0
        pool = self._parts.delays[:, sums.SHARE].mean(axis=0)
        age = float(self._parts.edges[int(np.argmax(pool >= 0.5))])
        if not self._clock.told:
            return age
        span = self._span()
        return age * self._begun / span if span > 0.0 else 0.0

    def _exposed(self) -> Floats:
        """The sum of the exposures of the decisions of each model, (A,)."""
        parts = self._parts
        order = parts.order[: self._whole[sums.BLOCKS]]
        exposed: Floats = parts.old[0, :, 0] + (parts.shares * parts.young[:, :, 0])[order].sum(0)
        return exposed

    def configuration(self) -> dict[str, Any]:
        """The arguments."""
        return {
            "problem": self._problem,
            "silence": self._silence,
            "changes": self._changes,
            "floor": self._floor,
            "holdout": self._holdout,
            "reference": self._reference,
            "seed": self.seed,
            "diagonal": self._diagonal,
            "close_at": self._close_at,
        }

    def __getstate__(self) -> dict[str, Any]:
        """For copies: views are made anew."""
        views = ("_parts", "_row")
        return {name: value for name, value in self.__dict__.items() if name not in views}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._row = self._given[0]
        self._parts = sums.parts_of(self._floats, self._whole)

    def __repr__(self) -> str:
        given = self.configuration()
        return call(self, given.pop("problem"), **given)

    def state(self) -> stored.State:
        """Everything that the learner's next decisions depend on."""
        self._read_notes()
        given = self.configuration()
        return {
            **given,
            "problem": stored.kept(self._problem),
            "retired": sorted(self._retired),
            "seen": self._seen,
            "time": self._time,
            "late": self._late,
            "clock": self._clock.state(),
            "scaling": self._scaling.state(),
            "sums": files.write(self._parts),
            "log": files.write_log(self._x, self._log, self._marks, self._begun - self._base),
            "delays": [[number, delay] for number, delay in self._delays.items()],
            "events": [
                [number, [[event, value] for event, value in known.items()]]
                for number, known in self._events.items()
            ],
            "waiting": [list(entry) for entry in self._waiting],
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The learner that wrote the state."""
        read = stored.exact(state, *_FIELDS)
        agent = cls(stored.made(read["problem"]), **{name: read[name] for name in _ARGUMENTS})
        agent.restore(state)
        return agent

    def restore(self, state: stored.State) -> None:
        """Continue from the state of a learner with the same arguments."""
        read = stored.exact(state, *_FIELDS)
        for action in stored.items("retired", read["retired"]):
            self._retired.add(checks.integer("retired", action, 0, self._models - 1))
        if len(self._retired) == self._models:
            raise ValueError("retired must leave one action that is played")
        files.read(read["sums"], self._parts)
        self._begun = int(self._whole[sums.BEGUN])
        self._base = int(self._whole[sums.BASE])
        self._seen = checks.integer("seen", read["seen"], 0, self._begun)
        self._time = checks.real("time", read["time"], -math.inf)
        self._late = stored.count("late", read["late"])
        self._clock.restore(read["clock"])
        self._scaling.restore(read["scaling"])
        kept = self._begun - self._base
        self._x, self._log, self._marks = files.read_log(
            read["log"], self._problem.width, self._models, kept
        )
        files.check_early(self._parts, self._marks)
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
            reported = np.flatnonzero(self._marks[:, BIN] >= 0) + self._base
            if not set(reported.tolist()) <= set(self._delays):
                raise ValueError("delays must hold all reports until the unit of ages is fixed")

    def _open_number(self, number: object) -> int:
        """The number of an open decision in a saved state."""
        found = checks.integer("number", number, self._base, self._begun - 1)
        if self._marks[found - self._base, STATUS] in (CLOSED, UNDECIDED):
            raise ValueError(f"number must be that of an open decision, got {found}")
        return found

    # Room

    def _make_room(self) -> None:
        """Let the log grow by an eighth; the arrays grow in place if the system allows it."""
        size = len(self._log)
        for column in (self._x, self._log, self._marks):
            column.resize((size + max(64, size // 8), column.shape[1]), refcheck=False)

    def _trim(self) -> None:
        """Free the log of decisions that are closed, from the oldest on."""
        kept = self._begun - self._base
        still = np.flatnonzero(self._marks[:kept, STATUS] != CLOSED)
        gone = int(still[0]) if len(still) else kept
        if gone < 64 or gone < kept // 2:
            return
        if self._base == 0:
            self._clock.began = self._log.item(0, CLOCK)
        for column in (self._x, self._log, self._marks):
            column[: kept - gone] = column[gone:kept].copy()
        self._base += gone
        self._whole[sums.BASE] = self._base


class Policy:
    """The policy of a decision that has begun; it is computed when it is used."""

    def __init__(self, agent: LinearSampler, number: int) -> None:
        self._agent = agent
        self._number = number

    def probabilities(self, step: int, observation: object, among: object) -> Floats:
        """The probability of every action for these features."""
        checks.integer("step", step, 0, 0)
        return self._agent._asked(self._number, observation, among)


def _logged(log: DecisionLog, number: int) -> Reward:
    """The reward of a decision in a log."""
    return Reward(
        number, float(log.rewards[number]), at=float(log.reported[number]) if log.clocked else None
    )


def _matrix(packed: Floats, d: int) -> Floats:
    """A symmetric matrix (d, d) from the rows of its upper triangle, or a diagonal (d, 1)."""
    if len(packed) == d:
        return packed[:, None]
    upper: Floats = np.zeros((d, d))
    upper[np.triu_indices(d)] = packed
    return upper + np.triu(upper, 1).T


def _reference(given: object, problem: Choice) -> list[float]:
    """The policy of the holdout, checked."""
    if problem.actions is None:
        raise ValueError("reference must be None where the actions vary: the holdout is uniform")
    policy = checks.floats("reference", given, "(A,)", (1,))
    if policy.shape != (problem.actions,):
        raise ValueError(
            f"reference must have {problem.actions} probabilities, got shape {policy.shape}"
        )
    return [float(p) for p in checks.distributions("reference", policy)]
