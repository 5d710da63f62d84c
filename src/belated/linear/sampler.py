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

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import (
    Deciding,
    Decision,
    Episode,
    FeedbackError,
    Information,
    Notes,
    check_is_agent,
)
from belated.core.episodes import newest
from belated.core.tree import Count, Entries
from belated.evaluation.sequences import Contest
from belated.evaluation.verdict import NO_WINDOW, OUTSIDE, ActionRow, Verdict, varying, verdict
from belated.linear import fit, life
from belated.linear.choice import Choice
from belated.linear.exposure import UNIT_EDGES
from belated.linear.features import noted
from belated.linear.life import Overview
from belated.linear.logs import DecisionLog
from belated.linear.model import Model, uniform
from belated.linear.reward import LARGEST as LARGEST_REWARD, Reward
from belated.linear.rows import COLUMNS, LATEST, Rows

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


class LinearSampler(Model, Deciding):
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
    reads_delays = True

    _ledger: Rows
    _acting: dict[int, Notes]  # of episodes that have not acted
    _past: fit.Sums  # of the decisions that have left the log
    _prior: fit.Belief | None  # after a change
    _changed: Count  # the first decision after it; 0 before
    _evidence: Annotated[float, Entries(low=0.0, high=1.0)]  # the probability of another change
    _tested: Count  # decisions at the last test
    _fitted: Count  # the first decision after the last fit
    _views: Annotated[Floats, Entries("2 models p")]  # weights by all decisions, by recent ones
    _batch: bool  # whether a batch has come since the last fit
    # What was known of the probabilities of decisions before their features were seen: without
    # features those of all actions; otherwise the smallest ones that floor and holdout allow.
    _policies: dict[tuple[float, ...], Count]  # with their places
    # Window, level and range of the last verdict; its sequences are about these.
    _asked: tuple[float, float, tuple[float, float] | None] | None
    _followed: tuple[float, int]  # time and number of the last decision that they have seen
    _sequences: Annotated[Floats, Entries("_")]  # their state; empty if an outcome ended them

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
        super().__init__(problem, floor=floor, holdout=holdout, reference=reference)
        self.silence = (
            None
            if silence is None
            else checks.real("silence", silence, -LARGEST_REWARD, LARGEST_REWARD)
        )
        self.changes = checks.flag("changes", changes)
        self.seed = checks.integer("seed", seed, 0, checks.LARGEST_INTEGER)
        self.close_at = None if close_at is None else checks.real("close_at", close_at, 0.9, 1.0)
        d = problem.width + 1
        checks.room(4 * self._models * d * d, actions=problem.actions, features=problem.width)
        self._ledger, self._acting = Rows(problem.width, silence), {}
        self._past = fit.Sums(self._models, d, d - problem.shared, rare=silence is not None)
        self._followed, self._sequences = (0.0, 0), np.zeros(0)
        self.set_first_values(self.axes)
        self._policy_places = dict[object, int]()  # it is not saved
        # What the next look at the table need not sum up again; it is not saved.
        self._looked: tuple[tuple[float, ...], Ints, int, fit.Sums] | None = None

    @property
    def made(self) -> int:
        """How many decisions have begun, without the numbers that wait for one made elsewhere."""
        return self._ledger.made

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
        time = self._ledger.checked(now)
        rows, raw = self.problem.rows(x, self.scaling)
        models = self.available(len(rows), among)
        number = self._begin(time)
        draw = uniform(self.seed, number) if rng is None else rng.random()
        made = self.drawn(rows, models, number, draw)
        known = self._known_before(models, made.probabilities)
        self._note(number, rows, raw, made.action, made.probability, known)
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
        self.scaling = noted(self.scaling, raw)
        log, k = self._ledger, number - self._ledger.base
        row, model = (rows[action], 0) if self.problem.shared else (rows[0], action)
        log.x[k], log.model[k], log.probability[k], log.known[k] = row, model, probability, known

    def decide_many(
        self, observations: Iterable[object], now: float | None = None
    ) -> list[Decision]:
        """Decide for several observations, or for none of them if one is invalid."""
        checks.instance("observations", observations, Iterable, " such as a list or rows (n, d)")
        asked = [self.problem.check_observation(x) for x in observations]
        return [self.decide(x, now=now) for x in asked]

    def _known_before(self, models: Ints, shares: Floats) -> int:
        """The place of what is known of the probabilities (A,) before the features are seen."""
        terms = (self.floor, self.holdout) if self.problem.width else shares.tobytes()
        key = (models.tobytes(), terms)
        if key not in self._policy_places:
            self._policy_places[key] = self._place(self.foreseen(models, shares))
        return self._policy_places[key]

    def _place(self, known: Sequence[float]) -> int:
        """The place of what was known of the probabilities of the actions; -1 if nothing was."""
        row = (*known, *[0.0] * (self._models - len(known)))  # one that was added since: not played
        return self._policies.setdefault(row, len(self._policies)) if known else -1

    def _begin(self, time: float | None) -> int:
        """Fit if it is time, and add a decision to the log; returns its number."""
        self._read_notes()
        self._fit()  # before this call counts, as `model` does
        self._ledger.tick(time)
        return self._ledger.begin()

    def begin_episode(self, now: float | None = None) -> Episode:
        """Begin a decision whose features are not known yet; `act` of the episode decides."""
        number = self._begin(self._ledger.checked(now))
        episode = Episode(number, self._model(self.known), self.problem)
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
            self._ledger.begin()
            self._ledger.reserved += 1

    def release(self, first: int, end: int) -> None:
        """Give up the numbers from `first` to `end` of which no decision was noted."""
        log = self._ledger
        unused = np.flatnonzero((log.model < 0) & (log.until == math.inf)) + log.base
        self._close(unused[(unused >= first) & (unused < min(end, log.begun))])

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
            self._ledger.tick(self._ledger.checked(now))
            self._ledger.time[number - self._ledger.base] = now
            self._ledger.reserved -= 1
        found = self.problem.rows(x, self.scaling)
        self._note(number, *found, action, probability, self._place(known))
        self._acting.pop(number, None)

    # Outcomes

    def observe(self, records: Iterable[Reward], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it.

        A call without records means that nothing has arrived until now.
        """
        log = self._ledger
        time = log.checked(now)
        self._read_notes()
        news, late = log.news(records)
        window, *_ = self._asked or (math.inf,)
        seen, _ = self._followed
        if any(log.heard - window >= log.time[k - log.base] >= seen for k in news):
            self._follow()  # so that what comes after the window changes no sequence
        self._batch = log.hear(time) > BATCH or self._batch
        log.late += late
        for number, (facts, at) in sorted(news.items()):
            log.take(number, facts, at)
            k, looked = number - log.base, self._looked
            if looked is not None and k < looked[2] and k not in looked[1]:
                self._looked = None

    def forget(self, episode: int) -> None:
        """Discard a decision: its outcomes will not be used any more.

        If silence has a meaning, the decision stays in the sums with its current exposure;
        otherwise it is dropped.
        """
        try:
            number = checks.integer("episode", episode, 0, self.begun - 1)
        except ValueError:
            raise FeedbackError(
                f"episode must be one that was begun ({newest(self.begun)}), "
                f"got {checks.show(episode)}"
            ) from None
        if self.is_open(number):
            self._read_notes()
            self._acting.pop(number, None)
            self._close(np.array([number]))

    def _close(self, numbers: Ints) -> None:
        """Close decisions; the oldest rows leave the log once half of it is closed."""
        gone = self._ledger.close(numbers)
        if gone:
            self._follow()
            self._past = self._sums(self._weigh().rows(slice(gone)))
            self._ledger.drop(gone)

    # Fitting

    def _fit(self) -> None:
        """Fit the models to the log, after a test for a change; see `fit`.

        Nothing happens before enough rows have come, which depends on the rows alone.
        """
        known, reports = self.known, self._ledger.reports
        due = (
            reports > 0
            if known is None or self._batch
            else self.made >= known.decisions or reports >= known.reports
        )
        if not due:
            return
        self._batch, base = False, self._ledger.base
        log = self._weigh()
        sums = self._sums(log)
        fitted, variance = fit.regressed(sums, self._prior)
        if self.changes and self.made - self._tested >= max(TESTED * self._counted, BATCH):
            self._tested, first = self.made, self._first
            self._evidence, start = fit.evidence(log.rows(slice(first, None)), sums, fitted)
            if self._evidence > 0.5:  # the log begins anew after the change
                before = self._sums(log.rows(slice(first + start)))
                weight = fit.PSEUDO if self.problem.shared else fit.FIXED
                last, _ = fit.regressed(before, self._prior or sums.fresh())
                self._prior = fit.inflated(last, sums.jump, weight)
                self._changed, self._evidence = base + first + start, 0.0
                self._past.clear()
                sums = self._sums(log)
                fitted, variance = fit.regressed(sums, self._prior)
        if self.changes:
            fitted = self._drifted(log, sums, fitted, variance)
        self.known = self._summed_up(sums, fitted, variance)
        if self.close_at is not None and self._ledger.reports >= ENOUGH:
            ripe = (log.exposed >= self.close_at) & self._ledger.awaited(slice(len(log.x)))
            self._close(base + np.flatnonzero(ripe))

    def _drifted(
        self, log: fit.Weighed, sums: fit.Sums, whole: fit.Belief, variance: float
    ) -> fit.Belief:
        """The models with their share of the recent regression; see `fit`."""
        base, said = self._ledger.base, self._ledger.said[: len(log.x)]
        new = slice(max(self._fitted - base, 0), None)
        if self.known is not None:
            for place, theta in enumerate(self._views):
                constant = self.known.constant
                said[new, place] = fit.predictions(log.x[new], log.models[new], theta, constant)
        later, self._fitted = log.rows(slice(self._first, None)), self.begun
        late = fit.recent(later, sums, whole)
        share = fit.drift(later, said[self._first :], variance)
        self._views = frozen(np.stack([whole.theta, late]))
        return whole._replace(theta=whole.theta + share * (late - whole.theta))

    @property
    def _counted(self) -> int:
        """How many decisions count: those since the last change."""
        return max(self.made - self._changed, 0)

    @property
    def _first(self) -> int:
        """The place of the first decision after the last change."""
        return max(self._changed - self._ledger.base, 0)

    def _weigh(self) -> fit.Weighed:
        """The log as a regression takes it."""
        return fit.weigh(self._ledger, slice(self._ledger.count), self._past, self.known)

    def _sums(
        self, log: fit.Weighed, past: fit.Sums | None = None, at: Ints | None = None
    ) -> fit.Sums:
        """The sums over the past and these decisions; those before a change only count.

        at: the places of the decisions in the log; by default they are its first.
        """
        sums = copy.deepcopy(past or self._past)
        sums.take(log, self._first if at is None else int(np.searchsorted(at, self._first)))
        return sums

    def _summed_up(self, sums: fit.Sums, fitted: fit.Belief, variance: float) -> fit.Known:
        """What a regression says; pending decisions count in the covariance."""
        p, made, reports = sums.p, self.made, self._ledger.reports
        precision = fitted.precision + sums.asked[:, :p, :p]
        growth = min(max(GROWTH, self.problem.width / 400.0), 1.0)
        counted = reports * self._counted / max(made, 1)
        rate = min(sums.hits.sum() / max(sums.exposed.sum(), 1e-9), 1.0)
        return fit.Known(
            frozen(fitted.theta),
            frozen(fit.inverse(precision)),
            fitted.constant,
            math.sqrt(variance),
            rate,
            sums.nonzero,
            made + 1 + int(growth * self._counted),
            reports + 1 + int(growth * counted),
        )

    # The life of a learner

    def add_action(self, name: str | None = None) -> int:
        """Add an action, with its name if actions have names; returns its number.

        It begins like any other: with the constant of all models and the delays of all actions.
        """
        reference = self.reference and [*self.reference, 0.0]
        given = {"problem": self.problem.with_action(name), "reference": reference}
        made = LinearSampler(**self.configuration() | given)  # raises an error if there is no room
        self._past = made._past.including(self._past)
        self.problem, self.reference = made.problem, made.reference
        self._policies = {(*row, 0.0): place for row, place in self._policies.items()}
        self._policy_places, self._asked = {}, None
        self._prior = self._prior and self._prior.with_model()
        self.known, self._views = None, made._views
        return self._models - 1

    def retire(self, action: int | str) -> None:
        """Stop playing an action; outcomes of earlier decisions still count."""
        self.problem.check_listed("an action can be retired")
        number = self.problem.index("action", action)
        left = {*self.retired, number}
        if len(left) == self._models:
            raise ValueError(f"action must leave one that is played, got {action!r}, the last one")
        self.retired = sorted(left)

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
        self._fit()
        return self._model(self.known)

    def _model(self, known: fit.Known | None) -> Model:
        """The model with what a fit has found."""
        made = Model(self.problem, floor=self.floor, holdout=self.holdout, reference=self.reference)
        made.known, made.scaling, made.retired = known, self.scaling, self.retired
        return made

    def log(self) -> DecisionLog:
        """The decisions that are in the log, with what has reported so far.

        Decisions that were made elsewhere without a probability are left out, and so are those that
        have not acted.
        """
        self.problem.check_listed("the log has columns")
        log = self._ledger
        kept = np.flatnonzero(log.probability[: log.count] > 0.0)
        delay, time = log.delay[kept], log.time[kept]
        came = delay >= 0.0
        return DecisionLog(
            log.model[kept],
            log.probability[kept],
            np.where(came, log.outcome[kept], math.nan),
            x=log.x[kept],
            decided=time if len(kept) else None,
            reported=np.where(came, time + delay, math.nan),
            until=log.clock if len(kept) else None,
        )

    def _now(self) -> tuple[fit.Sums, fit.Known | None]:
        """All sums, and what they say.

        Decisions that are fully exposed are summed up once; the next look begins after them.
        """
        log = self._ledger
        key = log.base, self._changed, log.unit, self._models
        if self._looked is None or self._looked[0] != key:
            self._looked = key, np.arange(0), 0, self._past
        _, left, end, past = self._looked
        at = np.append(left, np.arange(end, log.count))
        seen = fit.weigh(log, at, past, self.known, shown=True)
        sums = self._sums(seen, past, at)
        if end and sums.longest() > past.longest():  # then nothing was fully exposed
            self._looked = None
            return self._now()
        done = seen.hits | (log.until[at] < math.inf)
        if log.silent:
            done = (seen.ages >= sums.longest()) & (seen.models >= 0)
        if done.sum() >= SETTLED:
            self._looked = key, at[~done], log.count, self._sums(seen.rows(done), past, at[done])
        fitted, variance = fit.regressed(sums, self._prior)
        return sums, self._summed_up(sums, fitted, variance) if log.reports else None

    def table(self) -> list[ActionRow]:
        """One row per action: plays, reports, expected outcome with an interval, lead."""
        return life.learned(self, *self._now(), self.silence)

    def overview(self, most: int = 40, newest: int = 100) -> Overview:
        """The table, the current probabilities, and the weights of the important features.

        most: the largest number of weights. newest: the number of decisions to average over.
        """
        sums, known = self._now()
        log, now, model = self._ledger, np.zeros(0), self._model(known)
        recent = np.flatnonzero(log.model[: log.count] >= 0)[-newest:]
        asked = log.x[recent] if len(recent) else np.zeros((1, self.problem.width))
        if not self.problem.shared:
            models = self.available(1, None)
            shares = [model.shares(x[None], models) for x in asked]
            now = self.every(models, np.mean(shares, axis=0))
        ages, pool = UNIT_EDGES * log.unit, sums.pooled() * (known is not None)
        rows = life.learned(self, sums, known, self.silence)
        weights = life.weights(self.problem, sums, known, most)
        return Overview(rows, now, weights, ages, pool, self.silence)

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
        contest, why = None, NO_WINDOW
        if self._models > 1 and (window is not None or self.silence is None):
            fresh = Contest(self._models, self.problem.width, level=level, range=range)
            asked = 4.0 * LATEST if window is None else window, fresh.level, fresh.range
            if asked != self._asked:
                self._asked, self._followed = asked, (-2.0 * LATEST, 0)
                self._sequences = fresh.state()
            contest, why = self._follow(), OUTSIDE
        newest = self._ledger.model[: self._ledger.count][-RECENT:]
        played = np.bincount(newest[newest >= 0], minlength=self._models) / max(len(newest), 1)
        return verdict(
            rows,
            contest,
            why=why,
            level=level,
            shares=np.maximum(played, self.floor / self._models),
            pace=self._ledger.pace,
            window=window or 0.0,
            unit=unit,
            per=per,
            time=time,
        )

    def _contest(self) -> Contest:
        """The sequences so far."""
        _, level, ends = self._asked or (0.0, 0.95, None)
        made = Contest(self._models, self.problem.width, level=level, range=ends)
        return made.restore(self._sequences)

    def _follow(self) -> Contest | None:
        """Let the sequences take the decisions whose outcomes have become final, oldest first.

        Numbers are not in the order of time where other processes decide.
        """
        if self._asked is None or not self._sequences.size:
            return None
        contest, log, (window, *_) = self._contest(), self._ledger, self._asked
        times, (last, number) = log.time[: log.count], self._followed
        later = (times > last) | ((times == last) & (np.arange(log.base, log.begun) > number))
        new = np.flatnonzero(later & (log.model[: log.count] >= 0))
        new = new[np.argsort(times[new], kind="stable")]
        reported = log.delay[new] >= 0.0
        final = (log.until[new] < math.inf) | (log.ages(new) >= window)
        final |= reported & (not log.silent)
        new = new[np.logical_and.accumulate(final)]
        came = reported[: len(new)] & (log.delay[new] <= window)
        counted = (log.known[new] >= 0) & (came | log.silent)
        kept, came = new[counted], came[counted]
        outcomes = np.where(came, log.outcome[kept], log.silence)
        if contest.range and (outcomes != outcomes.clip(*contest.range)).any():
            self._sequences = np.zeros(0)  # so that all verdicts with this range say so
            return None
        contest.extend(
            log.model[kept],
            log.probability[kept],
            outcomes,
            log.x[kept],
            least=np.array([*self._policies])[log.known[kept]],
        )
        if len(new):
            self._followed = times.item(new[-1]), log.base + new.item(-1)
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
        check_is_agent("the learner", self, fresh=True)
        self.problem.check_listed("a log can be replayed")
        checks.whole_numbers("the actions of log", log.actions, 0, self._models - 1)
        name, x, scaling = "log", log.x, self.scaling
        if observations is not None:
            name, (x, scaling) = "observations", self.problem.matrix(observations)
        x = checks.shaped(name, x, (len(log), self.problem.width))
        self.scaling = scaling
        came = np.argsort(log.reported, kind="stable")[: int(log.came.sum())]  # NaN is last
        times = log.reported.tolist() if log.clocked else [None] * len(log)
        rewards = [Reward(k, log.rewards.item(k), at=times[k]) for k in came.tolist()]
        chances = log.probabilities * (not log.estimated)
        ends = [0, *np.searchsorted(log.reported[came], log.decided).tolist()]
        for number, (start, end) in enumerate(pairwise(ends)):
            now = log.decided.item(number) if log.clocked else None
            self.observe(rewards[start:end], now)
            self._begin(now)
            row, action = x[number : number + 1], log.actions.item(number)
            self._note(number, row, [], action, chances.item(number))
        self.observe(rewards[ends[-1] :], log.until if log.clocked else None)

    # Files and figures

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        self._read_notes()
        log, (sums, known) = self._ledger, self._now()
        rate, delay = 0.0 if known is None else float(known.rate), 0.0
        if known is not None and log.silent:  # the median delay of reports, in decisions
            pace = log.pace if log.clocked else 1.0
            delay = float(UNIT_EDGES[int(np.argmax(sums.pooled() >= 0.5))]) * log.unit * pace
        numbers = {
            "begun": self.made,
            "open": int(log.awaited(slice(log.count)).sum()) + len(self._acting),
            "reports": log.reports,
            "late": log.late,
            "exposed": float(sums.exposed.sum()),
            "rate": rate,
            "mean": float(sums.outcome[0]) + log.silence,
            "sigma": 0.0 if known is None else known.sigma,
            "memory": self._counted,
            "changed_at": self._changed or -1,
            "change": self._evidence,
            "delay": delay,
            "log_bytes": sum(getattr(log, name).nbytes for name in COLUMNS),
            # A memory that is nearly as long as the run is short only because the run is.
            "too_fast": float(self._counted < min(3.0 * delay, 0.5 * self.made)),
        }
        for i in range(self._models):
            if not self.problem.shared and rate * sums.exposed[i] < JUDGED:
                numbers[f"too few reports: {self.problem.name(i)}"] = float(sums.hits[i])
        plays = float(sums.plays.sum())
        for u, label in enumerate(self.problem.labels()):
            if label.endswith(" = another") and plays >= ENOUGH and sums.features[0, u] == plays:
                numbers[f"no listed value: {label.removesuffix(' = another')}"] = plays
        return numbers

    def check_learned(self) -> None:
        """Check that what was read belongs together."""
        super().check_learned()
        log = self._ledger
        if self._asked and self._sequences.size:
            self._contest()
        if log.known[: log.count].max(initial=-1) >= len(self._policies):
            raise ValueError("known must hold places of policies")
        if any(number < log.base or not log.is_open(number) for number in self._acting):
            raise ValueError("notes must be of open decisions")
