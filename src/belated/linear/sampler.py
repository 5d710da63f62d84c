"""LinearSampler: decisions with features whose outcomes arrive late, and mostly never.

    log      one row per decision: features, action, time, outcome so far, delay      rows
    fit      exposures, regressions, a change                                         exposure, fit
    choose   a pure function of the fitted model, the features, a seed and a number   model

The state is the log. A fit reads it anew, at positions that depend on the rows alone: when the
decisions or the reports that count have grown by 7 %, or after a batch. So a learner that is
rebuilt from its log is the same learner.

No constant has a unit: the learner does the same if outcomes and `silence` are multiplied by a
power of two, and the same up to rounding if a number is added to both.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Decision, Episode, FeedbackError, Information, Notes
from belated.core.episodes import in_a_list, newest
from belated.core.tree import Configured, Count, Entries
from belated.linear import fit, life
from belated.linear.chance import uniform
from belated.linear.choice import Choice
from belated.linear.exposure import EDGES, UNIT_EDGES
from belated.linear.features import Features, Scaling, unscaled
from belated.linear.life import Overview
from belated.linear.logs import DecisionLog
from belated.linear.model import Known, Model, available, drawn, every, foreseen, probabilities
from belated.linear.reward import EVENT, LARGEST as LARGEST_REWARD, Reward
from belated.linear.rows import COLUMNS, LATEST, Rows
from belated.sequences import Contest
from belated.verdict import NO_WINDOW, OUTSIDE, ActionRow, Verdict, varying, verdict

GROWTH = 0.07
"""The growth of what counts, decisions or reports, after which the models are fitted anew."""
TESTED = 0.05
"""The growth of what counts after which the next fit tests for a change."""
BATCH = 20
"""The number of decisions before an `observe` that make it a batch."""
RECENT = 1000
"""The number of newest decisions that show the present allocation."""
SETTLED = 1000
"""The least number of decisions that a look sums up for good."""
ENOUGH = 20
"""The number of reports from which decisions are closed by their exposure, and of decisions from
which a category whose values were never listed is a warning."""
JUDGED = 8.0
"""The expected number of reports below which an action cannot be judged."""
Value = Annotated[float, Entries(low=-LARGEST_REWARD, high=LARGEST_REWARD)]
"""That of a reward."""


class LinearSampler(Configured):
    """A learner for decisions with features, late outcomes and silence.

    >>> agent = LinearSampler(Choice(actions=["plain", "question"], features=2))
    >>> decision = agent.decide([1.0, 0.5])
    >>> agent.observe([Reward(decision, 12.5)])
    >>> agent.begun
    1

    Args:
        problem: the choice to learn.
        silence: the outcome of decisions that never report; `None` if every outcome reports.
        changes: whether outcomes may change over time.
        floor: the probability that is divided equally among all available actions.
        holdout: the share of the decisions that play another policy, for an unbiased comparison.
        reference: that policy, as the probability of every action; by default uniform.
        seed: the seed of all draws, together with the number of a decision.
        close_at: the exposure at which a decision is forgotten automatically, such as 0.999;
            `None` keeps every decision until `forget`.
    """

    information: Information = "bandit"
    uses_paths = False
    holds_feedback = 0
    reads_delays = True

    _rows: Rows
    # What was known of the probabilities of decisions before their features were seen: without
    # features those of all actions; otherwise the smallest ones that floor and holdout allow.
    _policies: dict[tuple[float, ...], Count]  # with their places
    _terms: list[float]  # of the verdict: window, level, range, and 1 if an outcome was outside
    _followed: list[float]  # time and number of the last decision that its sequences have seen
    _sequences: Annotated[Floats, Entries("_")]  # their state
    _past: fit.Sums  # of the decisions that have left the log
    _known: Known | None
    _prior: fit.Belief | None  # after a change
    _changed: Annotated[int, Entries(low=-1, high=checks.MOST)]  # the first decision after it
    _evidence: Annotated[float, Entries(low=0.0, high=1.0)]  # the probability of another change
    _tested: Count  # decisions at the last test
    _reports: Count
    _late: Count
    _batch: bool  # whether a batch has come since the last fit
    _scaling: Scaling
    _retired: list[int]
    _events: dict[int, dict[str, Value]]  # of decisions with several events, or named ones
    _acting: dict[int, Notes]  # of episodes that have not acted

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
        close_at: float | None = None,
    ) -> None:
        checks.instance("problem", problem, Choice)
        self.problem = problem
        self.silence = (
            None
            if silence is None
            else checks.real("silence", silence, -LARGEST_REWARD, LARGEST_REWARD)
        )
        self.changes = checks.flag("changes", changes)
        self.floor = checks.real("floor", floor, 0.0, 1.0)
        self.holdout = checks.real("holdout", holdout, 0.0, 1.0)
        self.reference = None if reference is None else _reference(reference, problem)
        self.seed = checks.integer("seed", seed, 0, checks.LARGEST_INTEGER)
        self.close_at = None if close_at is None else checks.real("close_at", close_at, 0.9, 1.0)
        d = problem.width + 1
        checks.room(4 * self._models * d * d, actions=problem.actions, features=problem.width)
        self._rows = Rows(problem.width, silent=silence is not None)
        self._policies, self._policy_places = {}, dict[object, int]()  # the latter are not saved
        self._terms, self._followed, self._sequences = [], [], np.zeros(0)
        self._past = self._no_sums()
        self._known, self._prior, self._changed, self._evidence = None, None, -1, 0.0
        self._tested = self._reports = self._late = 0
        self._batch = False
        self._retired, self._events, self._acting = [], {}, {}
        self._scaling = unscaled(problem.features)
        # What the next look at the table need not sum up again; it is not saved.
        self._looked: tuple[tuple[float, ...], Ints, int, fit.Sums] | None = None

    # Attributes of the agent

    @property
    def axes(self) -> dict[str, int]:
        """The sizes of the axes of what is learned."""
        d = self.problem.width + 1
        return {
            "models": self._models,
            "width": self.problem.width,
            "d": d,
            "p": d - self.problem.shared,
            "edges": EDGES,
            "numbers": len(self._scaling.mean),
        }

    @property
    def retired(self) -> frozenset[int]:
        """Actions that are not played any more."""
        return frozenset(self._retired)

    @property
    def begun(self) -> int:
        """How many decisions have begun."""
        return self._rows.end

    @property
    def made(self) -> int:
        """How many decisions have begun, without the numbers that wait for one made elsewhere."""
        return self._rows.made

    @property
    def _models(self) -> int:
        return self.problem.actions or 1

    def _no_sums(self) -> fit.Sums:
        d, rare = self.problem.width + 1, self.silence is not None
        return fit.Sums(self._models, d, d - self.problem.shared, rare=rare)

    def open_episodes(self) -> list[int]:
        """The decisions of which outcomes can still be taken, oldest first."""
        return [int(number) for number in self._rows.open()]

    def is_open(self, number: int) -> bool:
        """Whether an outcome of this decision can still be taken."""
        number = checks.integer("number", number, 0)
        return number < self.begun and not self._rows.closed(number)

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
        time = self._rows.checked(now)
        rows, raw = self.problem.rows(x, self._scaling)
        models = available(self.problem, len(rows), among, self._retired)
        number = self._begin(time)
        draw = uniform(self.seed, number) if rng is None else rng.random()
        made = drawn(self, self._known, rows, models, number, draw)
        noted = (number, rows, raw, made.action, made.probability)
        self._note(*noted, self._known_before(models, made.probabilities))
        return made

    def _note(
        self,
        number: int,
        rows: Floats,
        raw: list[Floats],
        action: int,
        probability: float,
        known: int = -1,
    ) -> None:
        """Write a decision to the log."""
        self._scaling.note(raw)
        log, k = self._rows, number - self._rows.base
        row, model = (rows[action], 0) if self.problem.shared else (rows[0], action)
        log.x[k], log.model[k], log.probability[k], log.known[k] = row, model, probability, known

    def decide_many(
        self, observations: Iterable[object], now: float | None = None
    ) -> list[Decision]:
        """Decide for several observations, or for none of them if one is invalid."""
        asked = list(observations)
        for x in asked:
            self.problem.check_observation(x)
        return [self.decide(x, now=now) for x in asked]

    def check_observation(self, x: object, among: object = None) -> object:
        """Raise `ValueError` if no decision is possible there; nothing changes.

        Returns the observation for `decide`: a list of numbers as an array, already checked.
        """
        rows, _ = self.problem.rows(x, self._scaling)
        available(self.problem, len(rows), among, self._retired)
        named = isinstance(self.problem.features, Features)
        return x if x is None or named or self.problem.shared else rows[0]

    def _known_before(self, models: Ints, shares: Floats) -> int:
        """The place of what is known of the probabilities (A,) before the features are seen."""
        terms = (self.floor, self.holdout) if self.problem.width else shares.tobytes()
        key = (models.tobytes(), terms)
        if key not in self._policy_places:
            self._policy_places[key] = self._place(foreseen(self, models, shares))
        return self._policy_places[key]

    def _place(self, known: Sequence[float]) -> int:
        """The place of what was known of the probabilities of the actions; -1 if nothing was."""
        row = (*known, *[0.0] * (self._models - len(known)))  # one that was added since: not played
        return self._policies.setdefault(row, len(self._policies)) if known else -1

    def _begin(self, time: float | None) -> int:
        """Fit if it is time, and add a decision to the log; returns its number."""
        if self._acting:
            self._read_notes()
        self._rows.tick(time)
        if self._is_stale():
            self._fit()
        return self._rows.begin()

    def begin_episode(self, now: float | None = None) -> Episode:
        """Begin a decision whose features are not known yet; `act` of the episode decides."""
        number = self._begin(self._rows.checked(now))
        episode = Episode(number, self._model(), self.problem)
        self._acting[number] = episode.notes
        return episode

    def _read_notes(self) -> None:
        """Learn which episodes have acted, and how."""
        for number, notes in list(self._acting.items()):
            asked = notes.decisions.get(0)
            if asked is not None:
                self.note(number, asked.observation, asked.action, asked.probability)

    def reserve(self, end: int) -> None:
        """Keep the next numbers, those below `end`, for decisions that are made elsewhere."""
        while self.begun < end:
            self._rows.begin()
            self._rows.reserved += 1

    def release(self, first: int, end: int) -> None:
        """Give up the numbers from `first` to `end` of which no decision was noted."""
        rows = self._rows
        unused = np.flatnonzero((rows.model < 0) & (rows.until == math.inf)) + rows.base
        unused = unused[(unused >= first) & (unused < min(end, rows.end))]
        if len(unused):
            self._close(unused)

    def note(
        self,
        number: int,
        x: object,
        action: int,
        probability: float = 0.0,
        now: float | None = None,
        known: Sequence[float] = (),
    ) -> None:
        """Report the action of a decision that was made elsewhere.

        number: one that has begun, or was reserved. now: when a decision of the latter was made.
        known: what was known of the probabilities of all actions there; see `foreseen`.
        """
        if now is not None:
            self._rows.tick(self._rows.checked(now))
            self._rows.time[number - self._rows.base] = now
            self._rows.reserved -= 1
        found = self.problem.rows(x, self._scaling)
        self._note(number, *found, action, probability, self._place(known))
        self._acting.pop(number, None)

    # Outcomes

    def observe(self, records: Iterable[Reward], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it.

        A call without records means that nothing has arrived until now.
        """
        time = self._rows.checked(now)
        if self._acting:
            self._read_notes()
        facts, arrived, late = self._checked(records)
        rows, final = self._rows, self._rows.heard - self._terms[0] if self._terms else -math.inf
        if any(final >= rows.time[k - rows.base] >= self._followed[0] for k in arrived):
            self._follow()  # so that what comes after the window changes no sequence
        self._batch = rows.hear(time) > BATCH or self._batch
        self._late += late
        for number in sorted(arrived):
            self._take(number, facts[number], arrived[number])

    def _checked(
        self, records: Iterable[Reward]
    ) -> tuple[dict[int, dict[str, float]], dict[int, float], int]:
        """What is then known of decisions, when something new arrived, and how much is late."""
        rows, late = self._rows, 0
        facts: dict[int, dict[str, float]] = {}
        arrived: dict[int, float] = {}
        for record in in_a_list(records):
            self.problem.check(record)
            number, key = record.episode, record.key
            why = ""
            if number >= rows.end:
                why = f"episode must be one that was begun ({newest(rows.end)})"
            elif rows.closed(number):
                late += 1
                continue
            elif rows.model[number - rows.base] < 0:
                why = "episode must be one that has acted"
            else:
                known = facts.setdefault(number, self._facts(number))
                if key not in known:
                    at = math.inf if record.at is None else record.at
                    arrived[number] = min(at, arrived.get(number, at))
                if known.setdefault(key, record.value) != record.value:
                    event = "" if record.event is None else f" of event {record.event!r}"
                    why = f"value{event} is known to be {known[key]:g}, got {record.value:g}"
            if why:
                raise FeedbackError(f"Reward of episode {number}: {why}")
        return facts, arrived, late

    def _facts(self, number: int) -> dict[str, float]:
        """The values of the events of an open decision that have arrived, by key."""
        k = number - self._rows.base
        if number in self._events or self._rows.delay[k] < 0.0:
            return dict(self._events.get(number, {}))
        return {EVENT: self._rows.outcome.item(k) + (self.silence or 0.0)}

    def _take(self, number: int, facts: dict[str, float], at: float) -> None:
        """Note all that is known of a decision; at: when something new arrived."""
        rows, k = self._rows, number - self._rows.base
        arrived = min(at, rows.heard) if rows.clocked else rows.heard
        delay, before = max(arrived - rows.time.item(k), 0.0), rows.delay.item(k)
        if len(facts) > 1 or EVENT not in facts:
            self._events[number] = dict(sorted(facts.items()))
        if self._looked is not None and k < self._looked[2] and k not in self._looked[1]:
            self._looked = None
        hit = rows.hits(slice(k, k + 1))[0]
        rows.outcome[k] = math.fsum(facts.values()) - (self.silence or 0.0)
        rows.delay[k] = delay if before < 0.0 else min(before, delay)
        self._reports += int(rows.hits(slice(k, k + 1))[0]) - int(hit)

    def forget(self, episode: int) -> None:
        """Discard a decision: its outcomes will not be used any more.

        If silence has a meaning, the decision stays in the sums with its current exposure;
        otherwise it is dropped.
        """
        try:
            number = checks.integer("episode", episode, 0)
        except ValueError as error:
            raise FeedbackError(str(error)) from None
        if number >= self.begun:
            raise FeedbackError(f"episode must be one that was begun, got {number}")
        if self.is_open(number):
            self._read_notes()
            self._acting.pop(number, None)
            self._close(np.array([number]))

    def _close(self, numbers: Ints) -> None:
        """Close decisions; the oldest rows leave the log once half of it is closed."""
        rows = self._rows
        rows.until[numbers - rows.base] = rows.heard
        for number in numbers.tolist():
            self._events.pop(number, None)
        gone = rows.gone()
        if gone:
            self._follow()
            self._past = self._sums(self._weigh().rows(slice(gone)))
            rows.drop(gone)

    # Fitting

    def _is_stale(self) -> bool:
        """Whether the models must be fitted anew, which depends on the rows alone."""
        known = self._known
        if known is None or self._batch:
            return self._reports > 0
        return self.made >= known.decisions or self._reports >= known.reports

    def _fit(self) -> None:
        """Fit the models to the log, after a test for a change; see `fit`."""
        self._batch = False
        log = self._weigh()
        sums = self._sums(log)
        fitted, covariance, variance = fit.regressed(sums, self._prior)
        if self.changes and self.made - self._tested >= max(TESTED * self._counted, BATCH):
            self._tested = self.made
            if self._has_changed(log, sums, fitted, covariance):
                sums = self._sums(log)
                fitted, _, variance = fit.regressed(sums, self._prior)
        self._known = self._summed_up(sums, fitted, variance)
        if self.close_at is not None and self._reports >= ENOUGH:
            ripe = (log.exposed >= self.close_at) & self._rows.awaited(slice(self._rows.count))
            if ripe.any():
                self._close(self._rows.base + np.flatnonzero(ripe))

    @property
    def _counted(self) -> int:
        """How many decisions count: those since the last change."""
        return max(self.made - max(self._changed, 0), 0)

    def _weigh(self) -> fit.Weighed:
        """The log as a regression takes it."""
        return fit.weigh(self._rows, slice(self._rows.count), self._past, self._known)

    def _sums(
        self, log: fit.Weighed, past: fit.Sums | None = None, at: Ints | None = None
    ) -> fit.Sums:
        """The sums over the past and these decisions; those before a change only count.

        at: the places of the decisions in the log; by default they are its first.
        """
        sums = fit.copied(past or self._past, self._no_sums())
        first = max(self._changed - self._rows.base, 0)
        sums.take(log, first if at is None else int(np.searchsorted(at, first)))
        return sums

    def _summed_up(self, sums: fit.Sums, fitted: fit.Belief, variance: float) -> Known:
        """What a regression says; pending decisions count in the covariance."""
        p = sums.p
        precision = fitted.precision + sums.asked[:, :p, :p]
        growth = min(max(GROWTH, self.problem.width / 400.0), 1.0)
        reports = self._reports * self._counted / max(self.made, 1)
        return Known(
            frozen(fitted.theta),
            frozen(fit.inverse(precision)),
            float(fitted.constant),
            math.sqrt(variance),
            min(float(sums.hits.sum()) / max(float(sums.exposed.sum()), 1e-9), 1.0),
            sums.nonzero,
            self.made + math.ceil(max(growth * self._counted, 1.0)),
            self._reports + math.ceil(max(growth * reports, 1.0)),
        )

    def _has_changed(
        self, log: fit.Weighed, sums: fit.Sums, fitted: fit.Belief, covariance: Floats
    ) -> bool:
        """Whether there was a change; then the log begins anew after it."""
        first = max(self._changed - self._rows.base, 0)
        self._evidence, start = fit.evidence(log.rows(slice(first, None)), sums, fitted, covariance)
        if self._evidence <= 0.5:
            return False
        before = self._sums(log.rows(slice(first + start)))
        weight = fit.PSEUDO if self.problem.shared else fit.FIXED
        last = fit.regress(before.gram, before.moment, self._prior or sums.fresh())
        self._prior = fit.inflated(last[0], sums.jump, weight)
        self._changed, self._evidence = self._rows.base + first + start, 0.0
        self._past.clear()
        return True

    # The life of a learner

    def add_action(self, name: str | None = None) -> int:
        """Add an action, with its name if actions have names; returns its number.

        It begins like any other: with the constant of all models and the delays of all actions.
        """
        given = self.configuration() | {"problem": self.problem.with_action(name)}
        if self.reference is not None:
            given["reference"] = [*self.reference, 0.0]
        made = LinearSampler(**given)  # raises an error if there is no room
        self._past = fit.copied(self._past, made._past)
        self.problem, self.reference = made.problem, made.reference
        self._policies = {(*row, 0.0): place for row, place in self._policies.items()}
        self._policy_places, self._terms = {}, []
        if self._prior is not None:
            self._prior = self._prior.with_model()
        self._known = None
        return self._models - 1

    def retire(self, action: int | str) -> None:
        """Stop playing an action; outcomes of earlier decisions still count."""
        if self.problem.shared:
            raise ValueError(
                "an action can be retired only where actions are listed; here they vary"
            )
        number = self.problem.index("action", action)
        left = set(self._retired) | {number}
        if len(left) == self._models:
            raise ValueError(f"action must leave one that is played, got {action!r}, the last one")
        self._retired = sorted(left)

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
        problem = self.problem
        if names is not None:
            if not isinstance(names, Sequence) or isinstance(names, str):
                raise ValueError(f"names must be a list of names, got {checks.show(names)}")
            problem = problem.with_actions(list(names))
            if problem.actions != self.problem.actions:
                raise ValueError(f"names must be {self._models}, got {len(names)}")
        floor = self.floor if floor is None else checks.real("floor", floor, 0.0, 1.0)
        holdout = self.holdout if holdout is None else checks.real("holdout", holdout, 0.0, 1.0)
        self.problem, self.floor, self.holdout = problem, floor, holdout

    def model(self) -> Model:
        """What the next decision depends on, from which any process can decide: `choose`."""
        if self._is_stale():
            self._fit()
        return self._model()

    def _model(self) -> Model:
        """The model of the last fit."""
        return Model(
            self.problem,
            self._known,
            copy.deepcopy(self._scaling),
            self.floor,
            self.holdout,
            None if self.reference is None else tuple(self.reference),
            tuple(self._retired),
        )

    def log(self) -> DecisionLog:
        """The decisions that are in the log, with what has reported so far.

        Decisions that were made elsewhere without a probability are left out, and so are those that
        have not acted.
        """
        if self.problem.shared:
            raise ValueError("the log has columns only where actions are listed; here they vary")
        rows = self._rows
        kept = np.flatnonzero(rows.probability[: rows.count] > 0.0)
        delay, time = rows.delay[kept], rows.time[kept]
        came = delay >= 0.0
        return DecisionLog(
            rows.model[kept],
            rows.probability[kept],
            np.where(came, rows.outcome[kept] + (self.silence or 0.0), math.nan),
            x=rows.x[kept],
            decided=time if len(kept) else None,
            reported=np.where(came, time + delay, math.nan),
            until=max(rows.heard, rows.clock, float(time.max())) if len(kept) else None,
        )

    def _now(self) -> tuple[fit.Sums, Known | None, Floats]:
        """All sums, what they say, and the exposure at each edge over all actions, (E,).

        Decisions that are fully exposed are summed up once; the next look begins after them.
        """
        rows, terms = self._rows, (self._rows.base, self._changed, self._rows.unit, self._models)
        if self._looked is None or self._looked[0] != terms:
            self._looked = terms, np.arange(0), 0, self._past
        _, left, end, past = self._looked
        at = np.append(left, np.arange(end, rows.count))
        log = fit.weigh(rows, at, past, self._known, shown=True)
        sums = self._sums(log, past, at)
        if end and sums.longest() > past.longest():  # then nothing was fully exposed
            self._looked = None
            return self._now()
        done = log.hits | (rows.until[at] < math.inf)
        if self.silence is not None:
            done = (log.ages >= sums.longest()) & (log.models >= 0)
        if done.sum() >= SETTLED:
            self._looked = terms, at[~done], rows.count, self._sums(log.rows(done), past, at[done])
        fitted, _, variance = fit.regressed(sums, self._prior)
        known = self._summed_up(sums, fitted, variance) if self._reports else None
        return sums, known, sums.shares().mean(axis=0)

    def table(self) -> list[ActionRow]:
        """One row per action: plays, reports, expected outcome with an interval, lead."""
        return self._table(*self._now()[:2])

    def _table(self, sums: fit.Sums, known: Known | None) -> list[ActionRow]:
        """The table."""
        names, overall = ["all"], None
        if not self.problem.shared:
            names = [self.problem.name(a) for a in range(self._models)]
            if self.problem.width and known is not None:
                x = sums.features[2] / max(sums.plays.sum(), 1.0)
                means, errors = life.effects(known, x[None])
                overall = known.constant + means[:, 0], errors[:, 0]
        counts, silence = (sums.plays, sums.hits, sums.exposed, sums.raw), self.silence or 0.0
        return life.table(names, *counts, silence, overall, set(self._retired))

    def overview(self, most: int = 40, newest: int = 100) -> Overview:
        """The table, the current probabilities, and the weights of the important features.

        most: the largest number of weights. newest: the number of decisions to average over.
        """
        sums, known, pool = self._now()
        rows, found = self._table(sums, known), []
        if known is not None:
            average = sums.features[2, : known.theta.shape[1]] / max(sums.plays.sum(), 1.0)
            contrasts = life.effects(known, life.changes(average, self.problem.groups()))
            names = [row.action for row in rows]
            found = life.weights(names, self.problem.labels(), *contrasts, most)
        log = self._rows
        recent = np.flatnonzero(log.model[: log.count] >= 0)[-newest:]
        asked = log.x[recent] if len(recent) else np.zeros((1, self.problem.width))
        now = np.zeros(0)
        if not self.problem.shared:
            models = available(self.problem, 1, None, self._retired)
            shares = [probabilities(self, known, x[None], models) for x in asked]
            now = every(self.problem, models, np.mean(shares, axis=0))
        pool = pool * (known is not None)
        return Overview(rows, now, found, UNIT_EDGES * log.unit, pool, self.silence)

    def verdict(
        self,
        window: float | None = None,
        range: tuple[float, float] | None = None,
        level: float = 0.95,
        *,
        unit: str = "",
        per: str = "decision",
        time: str = "",
    ) -> Verdict:
        """Which action wins, and how sure that is.

        Fix window, range and level before you look: other ones, and another action, begin new
        sequences, over the decisions that are still in the log. They take the decisions that
        `decide` made, once their outcomes are final; a closed decision is.

        Args:
            window: the age at which an outcome is final, by the clock or in decisions; what
                reports after it does not count, and where all outcomes report, neither does a
                decision that reports then first. Without a window no winner is named, unless all
                outcomes report.
            range: the smallest and the largest possible outcome; with it, answers are exact.
            level: the confidence level.
            unit: the unit of outcomes, such as "euros", for the sentence.
            per: what a decision is, such as "mail".
            time: the unit of time, such as "days".
        """
        rows = self.table()
        if self.problem.shared:
            return varying(rows[0], level)
        window = None if window is None else checks.real("window", window, 0.0, LATEST)
        if range is not None and self.problem.width and not (self.floor or self.holdout):
            raise ValueError("range must be None with features and a floor of 0, got a range")
        contest = None
        if self._models > 1 and (window is not None or self.silence is None):
            fresh = Contest(self._models, self.problem.width, level=level, range=range)
            terms = [4.0 * LATEST if window is None else window, fresh.level, *(fresh.range or ())]
            if terms != self._terms[:4]:
                self._terms, self._followed = terms, [-2.0 * LATEST, 0.0]
                self._sequences = fresh.state()
            contest = self._follow()
        newest = self._rows.model[: self._rows.count][-RECENT:]
        played = np.bincount(newest[newest >= 0], minlength=self._models) / max(len(newest), 1)
        span = self._rows.span
        return verdict(
            rows,
            contest,
            why=OUTSIDE if len(self._terms) > 4 and range is not None else NO_WINDOW,
            level=level,
            shares=np.maximum(played, self.floor / self._models),
            pace=self.made / span if span > 0.0 else math.nan,
            window=window or 0.0,
            unit=unit,
            per=per,
            time=time,
        )

    def _contest(self) -> Contest:
        """The sequences so far."""
        return Contest(
            self._models,
            self.problem.width,
            level=self._terms[1],
            range=self._terms[2:4] or None,
        ).restore(self._sequences)

    def _follow(self) -> Contest | None:
        """Let the sequences take the decisions whose outcomes have become final, oldest first.

        Numbers are not in the order of time where other processes decide.
        """
        if len(self._terms) not in (2, 4):
            return None
        contest, rows, window = self._contest(), self._rows, self._terms[0]
        times, (last, number) = rows.time[: rows.count], self._followed
        later = (times > last) | ((times == last) & (np.arange(rows.base, rows.end) > number))
        new = np.flatnonzero(later & (rows.model[: rows.count] >= 0))
        new = new[np.argsort(times[new], kind="stable")]
        final = (
            (rows.until[new] < math.inf)
            | (rows.ages(new) >= window)
            | ((rows.delay[new] >= 0.0) & (self.silence is None))
        )
        new = new[: int(np.argmin(final))] if not final.all() else new
        kept = new[rows.known[new] >= 0]
        came = (rows.delay[kept] >= 0.0) & (rows.delay[kept] <= window)
        if self.silence is None:
            kept, came = kept[came], came[came]
        outcomes = np.where(came, rows.outcome[kept], 0.0) + (self.silence or 0.0)
        if contest.range and (outcomes != outcomes.clip(*contest.range)).any():
            self._terms = [*self._terms, 1.0]  # so that all verdicts with this range say so
            return None
        contest.extend(
            rows.model[kept],
            rows.probability[kept],
            outcomes,
            rows.x[kept],
            least=np.array([*self._policies])[rows.known[kept]],
        )
        if len(new):
            self._followed = [times.item(new[-1]), float(rows.base + new[-1])]
        self._sequences = contest.state()
        return contest

    def replay(self, log: DecisionLog, observations: Sequence[object] | None = None) -> None:
        """Learn from a log of decisions that were made elsewhere; only for a fresh learner.

        They get the numbers from 0 on; report later rewards under these.

        Args:
            log: the decisions.
            observations: their observations, in place of the features of the log, so that numbers
                get the same scale as in later decisions.
        """
        checks.instance("log", log, DecisionLog)
        if self.begun:
            raise ValueError(f"the learner must be fresh, got one with {self.begun} decisions")
        if self.problem.shared:
            raise ValueError("a log can be replayed only where actions are listed; here they vary")
        if observations is not None and len(observations) != len(log):
            raise ValueError(f"observations must be {len(log)}, got {len(observations)}")
        if observations is None and log.x.shape[1] != self.problem.width:
            raise ValueError(f"log must have {self.problem.width} features, got {log.x.shape[1]}")
        if len(log) and int(log.actions.max()) >= self._models:
            raise ValueError(f"log must have actions below {self._models}, got {log.actions.max()}")
        for x in observations or ():
            self.problem.check_observation(x)
        came = np.argsort(log.reported, kind="stable")[: int(log.came.sum())]  # NaN is last
        times = log.reported.tolist() if log.clocked else [None] * len(log)
        rewards = [Reward(k, float(log.rewards[k]), at=times[k]) for k in came.tolist()]
        place = 0
        for number, before in enumerate(np.searchsorted(log.reported[came], log.decided)):
            now = float(log.decided[number]) if log.clocked else None
            self.observe(rewards[place:before], now)
            place = before
            self._begin(now)
            found = log.x[number : number + 1], list[Floats]()
            if observations is not None:
                found = self.problem.rows(observations[number], self._scaling)
            chance = 0.0 if log.estimated else float(log.probabilities[number])
            self._note(number, *found, int(log.actions[number]), chance)
        self.observe(rewards[place:], log.until if log.clocked else None)

    # Files and figures

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        self._read_notes()
        sums, known, pool = self._now()
        exposed, reports = float(sums.exposed.sum()), float(sums.hits.sum())
        numbers = {
            "begun": self.made,
            "open": int(self._rows.awaited(slice(self._rows.count)).sum()) + len(self._acting),
            "reports": int(reports),
            "late": self._late,
            "exposed": exposed,
            "rate": reports / max(exposed, reports, 1e-12),
            "mean": float(sums.level[0]) / max(exposed, 1e-12) + (self.silence or 0.0),
            "sigma": 0.0 if known is None else known.sigma,
            "memory": self._counted,
            "changed_at": self._changed,
            "change": self._evidence,
            "delay": self._median_delay(sums, pool),
            "log_bytes": sum(getattr(self._rows, name).nbytes for name in COLUMNS),
        }
        # A memory that is nearly as long as the run is short only because the run is.
        limit = min(3.0 * numbers["delay"], 0.5 * self.made)
        numbers["too_fast"] = float(numbers["memory"] < limit)
        rate = numbers["rate"]
        for i in range(self._models):
            if not self.problem.shared and rate * sums.exposed[i] < JUDGED:
                numbers[f"too few reports: {self.problem.name(i)}"] = float(sums.hits[i])
        plays = float(sums.plays.sum())
        for u, label in enumerate(self.problem.labels()):
            if label.endswith(" = another") and plays >= ENOUGH and sums.features[0, u] == plays:
                numbers[f"no listed value: {label.removesuffix(' = another')}"] = plays
        return numbers

    def _median_delay(self, sums: fit.Sums, pool: Floats) -> float:
        """The median delay of reports, in decisions."""
        if not sums.hits.sum() or self.silence is None:
            return 0.0
        rows, age = self._rows, float(UNIT_EDGES[int(np.argmax(pool >= 0.5))]) * self._rows.unit
        if not rows.clocked:
            return age
        return age * rows.made / rows.span if rows.span > 0.0 else 0.0

    def check_learned(self) -> None:
        """Check that what was read belongs together."""
        rows = self._rows
        self._retired = [checks.integer("retired", a, 0, self._models - 1) for a in self._retired]
        if len(set(self._retired)) == self._models:
            raise ValueError("retired must leave one action that is played")
        if self._terms:
            self._contest()
        if rows.known[: rows.count].max(initial=-1) >= len(self._policies):
            raise ValueError("known must hold places of policies")
        if self._tested > rows.end or self._changed > rows.end:
            raise ValueError("numbers of decisions must be of ones that have begun")
        for number in (*self._events, *self._acting):
            if not rows.base <= number < rows.end or rows.closed(number):
                raise ValueError(f"events and notes must be of open decisions, got {number}")


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
