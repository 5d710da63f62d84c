"""The books: what is known of the episodes of a learner. Only events change them.

The same events give the same books, whether they happen now or are read from the log. An `Inbox`
sorts feedback and asks its agent which episodes are open. Here the real agent lags behind, because
it learns in its own thread, so the books take its place. They have the only table of open episodes,
and return the calls for the agent in order.

The sums for reports are updated with every event: per action, per day, by delay. Amounts are those
of the records: rewards for decisions, costs for learners with states. A decision and all of its
later outcomes count on the day of the decision, in UTC. With a holdout of share h, an action with
probability p among n actions was drawn by the holdout with probability h / (n p). Every decision
counts for the holdout with that weight, so that no decision needs a label, and the weighted mean is
the mean under uniform play.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.core.contract import Information, Record
from belated.core.inbox import OVERDUE, PASSED, TOO_LATE, Inbox, Outcome
from belated.core.quantiles import Quantiles
from belated.service.wire import (
    Arrived,
    Begun,
    Changed,
    Chosen,
    Decided,
    Drawn,
    End,
    Event,
    Fed,
    Forgotten,
    Timed,
)
from belated.tabular.records import UNKNOWN, Trajectory

HISTORY = 1000
"""The number of newest episodes that the page shows."""
BUCKETS = 32
"""The number of buckets of delays; the last has 2**30 seconds and more."""
WAITED = "it happened after the deadline, or does not say when, and the default is learned"
"""The reason of a late record while a default waits."""
REMEMBER = 10_000
"""The number of closed episodes to remember, to tell duplicates from conflicts."""
CHUNK = 64
"""The largest number of records of one call, so that no call takes long."""

Call = tuple[Record, ...] | int | float
"""A call for the agent: records to observe, an episode to forget, or the time (a float)."""
DAYS = 400
"""The number of days to keep."""
DAY = 86_400.0
"""Seconds."""
LARGEST_AMOUNT = 1e100
"""Larger amounts count as this, so that squares stay finite."""
NOBODY = -1
"""The number of an unknown action."""
NOTHING: Mapping[int, tuple[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of the books.

    deadline: of an episode, in seconds or, unless `timed`, in episodes. default: the cost of a step
    that has not reported by then; None: the episode is forgotten. grace: the time by which this is
    postponed; with a default, only outcomes that happened in time are accepted in the meantime.
    first: the number of the first episode. start: digest of the file that the agent was loaded
    from. dated: whether the agent uses the times of arrival. rewards: the range of rewards.
    """

    problem: Any
    information: Information
    uses_paths: bool
    deadline: float | None = None
    timed: bool = False
    default: float | None = None
    grace: float | None = None
    remember: int = REMEMBER
    first: int = 0
    start: str | None = None
    dated: bool = False
    rewards: tuple[float, float] | None = None

    @property
    def waits(self) -> bool:
        """Whether a default is postponed by a grace."""
        return self.default is not None and self.grace is not None

    @property
    def inbox(self) -> tuple[float | None, float | None, float | None]:
        """Deadline, default and grace of the inbox."""
        if self.waits:
            return (self.deadline or 0.0) + (self.grace or 0.0), self.default, None
        return self.deadline, self.default, self.grace


def digest(policy: Floats) -> str:
    """A short digest of a policy."""
    return hashlib.blake2b(policy.tobytes(), digest_size=8).hexdigest()


class Entry(NamedTuple):
    """What is known of an open episode.

    It never changes, so that copies of the table share it.

    Attributes:
        began: when it began, in seconds.
        key: the client's key.
        policy: (H, S, A), if the client requests its actions one by one.
        decided: state and action by step.
        end: the last state.
        path: whether the agent knows the path.
        heard: whether the agent knows an outcome.
        action: the first action.
        holdout: the probability that the holdout has drawn it.
        total: the sum of the outcomes.
        reports: the number of outcomes.
    """

    began: float
    key: str | None = None
    policy: Floats | None = None
    decided: Mapping[int, tuple[int, int]] = NOTHING
    end: int | None = None
    path: bool = False
    heard: bool = False
    action: int = NOBODY
    holdout: float = 0.0
    total: float = 0.0
    reports: int = 0

    @property
    def day(self) -> int:
        """The day on which it began, since 1970."""
        return int(self.began // DAY)


FRESH = Entry(0.0)


@dataclass(slots=True)
class Sums:
    """Decisions, those that have reported, and the sums of their outcomes and of the squares."""

    decisions: float = 0.0
    reports: float = 0.0
    total: float = 0.0
    square: float = 0.0

    def change(self, weight: float, before: Entry, after: Entry) -> None:
        """Replace the counts of an episode before a report by those after it."""
        self.reports += weight * ((after.reports > 0) - (before.reports > 0))
        self.total += weight * (after.total - before.total)
        self.square += weight * (after.total**2 - before.total**2)


@dataclass(slots=True)
class Day:
    """One day: all decisions, the holdout's part of them, and the plays of each action."""

    all: Sums = field(default_factory=Sums)
    holdout: Sums = field(default_factory=Sums)
    plays: dict[int, int] = field(default_factory=dict)


class LearnerTotals:
    """Sums of a learner.

    Attributes:
        days: the newest days, by number of days since 1970.
        actions: sums of each action; an outcome counts once the action is known too.
        holdout: sums of the holdout, since the beginning.
        squares: the sums of w², w² t and w² t² over the holdout's weights w and totals t.
        delays: the delays of first reports, in seconds.
        heard_at: when the last outcome arrived, in seconds; None before the first.
        late: the number of late records.
    """

    def __init__(self) -> None:
        self.days: dict[int, Day] = {}
        self.actions: dict[int, Sums] = {}
        self.holdout = Sums()
        self.squares = [0.0, 0.0, 0.0]
        self.delays = Quantiles()
        self.heard_at: float | None = None
        self.late = 0

    def __copy__(self) -> LearnerTotals:
        """An independent copy."""
        made = LearnerTotals()
        made.__dict__.update(self.__dict__)
        made.days = {
            number: Day(copy.copy(day.all), copy.copy(day.holdout), day.plays.copy())
            for number, day in self.days.items()
        }
        made.actions = {action: copy.copy(sums) for action, sums in self.actions.items()}
        made.holdout, made.squares = copy.copy(self.holdout), self.squares.copy()
        made.delays = copy.copy(self.delays)
        return made

    def begin(self, entry: Entry) -> None:
        """Count an episode that begins."""
        day = entry.day
        if day not in self.days:
            self.days[day] = Day()
            while len(self.days) > DAYS:
                del self.days[min(self.days)]
        if day in self.days:
            self.days[day].all.decisions += 1.0

    def act(self, entry: Entry, action: int, holdout: float = 0.0) -> Entry:
        """Note the first action of an open episode. Returns the new entry."""
        if entry.action != NOBODY:
            return entry
        self.count(entry, action, holdout)
        return entry._replace(action=action, holdout=holdout)

    def count(self, entry: Entry, action: int, holdout: float) -> None:
        """Count the first action of an episode."""
        sums = self.actions.setdefault(action, Sums())
        sums.decisions += 1.0
        sums.change(1.0, FRESH, entry)
        self.holdout.decisions += holdout
        self.squares[0] += holdout**2
        day = self.days.get(entry.day)
        if day is not None:
            day.plays[action] = day.plays.get(action, 0) + 1
            day.holdout.decisions += holdout

    def hear(self, before: Entry, amount: float, now: float, waited: float | None) -> Entry:
        """Count an outcome. waited: seconds since the episode began; None for a default.

        Returns the new entry.
        """
        total = before.total + min(max(amount, -LARGEST_AMOUNT), LARGEST_AMOUNT)
        entry = before._replace(total=total, reports=before.reports + 1)
        if waited is not None:
            self.heard_at = now
            if before.reports == 0:
                self.delays.add(int(max(0.0, waited)))
        if entry.action != NOBODY:
            self.actions[entry.action].change(1.0, before, entry)
        w = entry.holdout
        self.holdout.change(w, before, entry)
        self.squares[1] += w * w * (entry.total - before.total)
        self.squares[2] += w * w * (entry.total**2 - before.total**2)
        day = self.days.get(entry.day)
        if day is not None:
            day.all.change(1.0, before, entry)
            day.holdout.change(w, before, entry)
        return entry

    def state(self) -> stored.State:
        """Everything, as plain data."""
        days = sorted(self.days.items())
        return {
            "days": np.array(
                [(n, *astuple(day.all), *astuple(day.holdout)) for n, day in days]
            ).reshape(-1, 9),
            "plays": np.array(
                [(n, action, count) for n, day in days for action, count in day.plays.items()],
                dtype=np.int64,
            ).reshape(-1, 3),
            "actions": np.array(
                [(action, *astuple(sums)) for action, sums in self.actions.items()]
            ).reshape(-1, 5),
            "holdout": np.array(astuple(self.holdout)),
            "squares": np.array(self.squares),
            "delays": self.delays.state(),
            "heard_at": self.heard_at,
            "late": self.late,
        }

    @classmethod
    def from_state(cls, saved: object) -> LearnerTotals:
        """The tally that wrote the state."""
        names = ("days", "plays", "actions", "holdout", "squares", "delays")
        read = stored.exact(saved, *names, "heard_at", "late")
        made = cls()
        for number, *sums in _rows("days", read["days"], 9):
            made.days[int(number)] = Day(Sums(*sums[:4]), Sums(*sums[4:]))
        plays = stored.array("plays", read["plays"], np.int64, (None, 3)).tolist()
        for number, action, count in plays:
            if number not in made.days:
                raise ValueError(f"plays must be of days that are kept, got {number}")
            made.days[number].plays[action] = count
        for action, *sums in _rows("actions", read["actions"], 5):
            made.actions[int(action)] = Sums(*sums)
        made.holdout = Sums(*_finite("holdout", read["holdout"], (len(fields(Sums)),)))
        made.squares = _finite("squares", read["squares"], (3,))
        made.delays.restore(read["delays"])
        made.late = checks.integer("late", read["late"], 0)
        if read["heard_at"] is not None:
            made.heard_at = checks.real("heard_at", read["heard_at"], 0.0)
        return made


def _rows(name: str, value: object, width: int) -> list[list[float]]:
    found: list[list[float]] = _finite(name, value, (None, width))
    return found


def _finite(name: str, value: object, shape: tuple[int | None, ...]) -> Any:
    array = stored.array(name, value, np.float64, shape)
    stored.finite(name, array)
    return array.tolist()


class Number(NamedTuple):
    """An episode by its number, which is all that an inbox needs."""

    number: int


class Books:
    """The open episodes of a learner and their feedback.

    Attributes:
        inbox: sorts feedback.
        begun: the number of episodes begun.
        open: the open episodes by number, oldest first.
        overdue: the number of open episodes past their deadline.
        chosen: action and probability of decisions, while their key is known.
        keys: episodes by the client's key.
        history: time, cost and whether it is a default, of the newest complete episodes.
        delays: the number of costs that arrived after 2**i seconds.
        tally: sums per action and per day.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.now = 0.0
        self.begun = self._due = self._oldest = terms.first
        self.open: dict[int, Entry] = {}
        self.overdue = self._answered = 0
        self._calls: list[Call] = []
        self._closed_ends: dict[int, int] = {}  # in the order in which episodes were closed
        self.chosen: dict[int, tuple[int, float]] = {}
        self.keys: dict[str, int] = {}
        self._old_keys: deque[str] = deque()
        self.history: deque[tuple[float, float, bool]] = deque(maxlen=HISTORY)
        self.delays = [0] * BUCKETS
        self.tally = LearnerTotals()
        self._by_deadline = False
        deadline, default, grace = terms.inbox
        self.inbox = Inbox(
            self,
            deadline=deadline,
            default=default,
            clock=self._clock if terms.timed else None,
            grace=grace,
            remember=terms.remember,
        )

    def __copy__(self) -> Books:
        """A copy that does not change any more, to be written in another thread.

        Immutable parts, such as entries, are shared, so that this is fast.
        """
        made: Books = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, dict | deque | list):
                setattr(made, name, value.copy())
        made.tally = copy.copy(self.tally)
        made.inbox = copy.copy(self.inbox)
        made.inbox.agent = made
        return made

    def _clock(self) -> float:
        return self.now

    # The attributes of an agent that an inbox uses.

    @property
    def problem(self) -> Any:
        """That of the learner."""
        return self.terms.problem

    @property
    def information(self) -> Information:
        """That of the learner."""
        return self.terms.information

    @property
    def uses_paths(self) -> bool:
        """Whether the agent uses paths."""
        return self.terms.uses_paths

    def is_open(self, number: int) -> bool:
        """Whether this episode still waits for feedback."""
        return number in self.open

    def open_episodes(self) -> list[int]:
        """The open episodes, oldest first."""
        return list(self.open)

    def begin_episode(self, now: float | None = None) -> Any:
        """Open the next episode; the agent provides its policy."""
        number = self.begun
        self.open[number] = Entry(self.now)
        self.begun += 1
        return Number(number)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Note sorted records, and close the episodes that are complete."""
        batch = list(records)
        for record in batch:
            number, entry = record.episode, self.open[record.episode]
            self.open[number] = (
                self._heard(number, entry, record)
                if record.is_outcome
                else self._went(entry, record)._replace(path=True)
            )
        if self.problem.one_outcome:
            for number in dict.fromkeys(record.episode for record in batch):
                entry = self.open[number]
                if entry.heard and (entry.path or not self.uses_paths):
                    self._close(number)
        wanted = [record for record in batch if self.uses_paths or record.is_outcome]
        for i in range(0, len(wanted), CHUNK):
            self._calls.append(tuple(wanted[i : i + CHUNK]))

    def forget(self, episode: int) -> None:
        """Close an episode that will not report any more."""
        if episode in self.open:
            self._close(episode)
            self._calls.append(episode)

    def diagnostics(self) -> dict[str, float]:
        """The numbers of episodes begun and open."""
        return {"begun": self.begun, "open": len(self.open)}

    # The methods for the learner's session.

    @property
    def oldest(self) -> Entry | None:
        """The oldest open episode."""
        while self._oldest < self.begun and self._oldest not in self.open:
            self._oldest += 1
        return self.open.get(self._oldest)

    def passed(self, now: float) -> bool:
        """Whether a deadline or grace in seconds has passed without an event for it."""
        deadline, oldest = self.terms.deadline, self.oldest
        if not self.terms.timed or oldest is None or deadline is None:
            return False
        now = max(now, self.now)
        due = self.open.get(self._due)
        if due is not None and now - due.began > deadline:
            return True
        return now - oldest.began > deadline + (self.terms.grace or 0)

    @property
    def untold(self) -> bool:
        """Whether there are calls that `calls` has not returned yet."""
        return bool(self._calls)

    def calls(self) -> list[Call]:
        """The calls for the agent since the last time."""
        found, self._calls = self._calls, []
        return found

    def apply(self, event: Event, policy: Floats | None = None) -> list[Outcome]:
        """Apply an event. policy: of the new episode. Returns the outcomes of feedback."""
        self.now = max(self.now, event.at)
        self._by_deadline = True
        self.inbox.expire()
        outcomes: list[Outcome] = []
        if isinstance(event, Begun):
            assert policy is not None
            self._begin(event, policy)
        elif isinstance(event, Chosen):
            for drawn in event.choices:
                self._choose(drawn)
        elif isinstance(event, Decided):
            self._by_deadline = False
            self._decide(event)
        elif isinstance(event, Fed):
            self._by_deadline = False
            at = self.now if self.terms.dated else None
            if at is not None and not event.records:
                self._calls.append(at)
            outcomes = self._feed([record.dated(at) for record in event.records])
        elif isinstance(event, Forgotten):
            self.inbox.forget(event.episode)
        elif isinstance(event, Changed):
            self._change(event)
        self._advance()
        return outcomes

    def _advance(self) -> None:
        """Count the episodes whose deadline has passed."""
        while self._due < self.begun:
            entry = self.open.get(self._due)
            if entry is not None:
                if not self._is_overdue(self._due):
                    return
                self.overdue += 1
                self._answered -= entry.heard
            self._due += 1

    def _is_overdue(self, episode: int) -> bool:
        """Whether the deadline of an open episode has passed."""
        if self.terms.waits:
            return self.now - self.open[episode].began > (self.terms.deadline or 0.0)
        return self.inbox.is_overdue(episode)

    def _change(self, event: Changed) -> None:
        terms = self.terms
        if event.actions is not None:
            terms = replace(terms, problem=terms.problem.with_actions(event.actions))
        if "remember" in event.settings:
            terms = replace(terms, remember=event.settings["remember"])
        self.terms = terms
        self.inbox.problem = terms.problem
        self.inbox.remember = terms.remember

    def _opened(self, number: int, key: str | None) -> Entry:
        """Open the episode of this number."""
        found = self.inbox.begin_episode().number
        self.inbox.skip_report()  # it is not used
        assert found == number
        if key is not None:
            self.keys[key] = number
        entry = Entry(self.now, key)
        self.tally.begin(entry)
        return entry

    def _begin(self, event: Begun, policy: Floats) -> None:
        self.open[event.episode] = self._opened(event.episode, event.key)._replace(policy=policy)

    def _choose(self, drawn: Drawn) -> None:
        """Enter a decision of one step, with its observation and action.

        The agent has noted it already.
        """
        number = drawn.episode
        entry = self._opened(number, drawn.key)
        decided = entry.decided
        if self.problem.states is not None:
            decided = {0: (drawn.observation or 0, drawn.action)}
        self.tally.count(entry, drawn.action, drawn.holdout)
        known = (drawn.key, None, decided, None, True, False, drawn.action, drawn.holdout)
        self.open[number] = Entry(self.now, *known)
        if drawn.key is not None:
            self.chosen[number] = (drawn.action, drawn.probability)

    def _decide(self, event: Decided) -> None:
        """Enter a decision of an episode; the agent gets the path once it is complete."""
        number = event.episode
        if number not in self.open:
            return
        made = {event.step: (event.state, event.action)}
        entry = self.open[number]
        self.open[number] = self._acted(entry._replace(decided={**entry.decided, **made}))
        built = self._built(number)
        if built is not None:
            self.inbox.take([built])

    def _acted(self, entry: Entry) -> Entry:
        """Count the action of an episode of one step, once it is known."""
        if self.problem.horizon == 1 and entry.decided:
            return self.tally.act(entry, entry.decided[0][1])
        return entry

    def _went(self, entry: Entry, path: Any) -> Entry:
        """Note the decisions and the end of a path, so that later records must agree."""
        if not isinstance(path, Trajectory):
            return entry
        if self.problem.states == 1 and len(entry.decided) == self.problem.horizon:
            return entry  # it was built from decisions
        pairs = zip(path.states.tolist(), path.actions.tolist(), strict=False)
        end = int(path.states[-1])
        known = entry._replace(decided=dict(enumerate(pairs)))
        return self._acted(known if end == UNKNOWN else known._replace(end=end))

    def awaited(self, episode: int) -> list[Any]:
        """What an open episode needs before the agent can learn from it: words and steps."""
        several = not self.problem.one_outcome  # the agent learns from each of them
        return [] if several or episode not in self.open else self.inbox.awaited(episode)

    def _feed(self, records: Iterable[Arrived]) -> list[Outcome]:
        """Accept the valid records, and return the outcome of every record."""
        outcomes: list[Outcome | None] = []
        batch: list[Any] = []
        places: list[int | None] = []
        times: dict[int, float] = {}
        for given in records:
            record, time = given if isinstance(given, Timed) else (given, self.now)
            own = self._own_outcome(record, time)
            if own is None:
                times[len(batch)] = time
                batch.append(record)
                places.append(len(outcomes))
            elif isinstance(record, End) and own.used:
                number = record.episode
                self.open[number] = self.open[number]._replace(end=record.state)
                built = self._built(number)
                if built is not None:
                    batch.append(built)
                    places.append(None)
            elif isinstance(record, End) and own.kind == "late":
                self._remember_end(record.episode, record.state)
            outcomes.append(own)
        if batch:
            began = {record.episode: self._began(record.episode) for record in batch}
            found = self.inbox.take(batch).outcomes
            for i, (place, record, outcome) in enumerate(zip(places, batch, found, strict=True)):
                number = record.episode
                if outcome.kind == "late" and isinstance(record, Trajectory) and not outcome.used:
                    self._remember_end(number, int(record.states[-1]))
                if place is not None:
                    past = outcome.kind != "late" or self._is_past(began[number], times[i])
                    in_time = outcome.used and not past
                    outcomes[place] = (
                        Outcome("taken", number, outcome.part, used=True) if in_time else outcome
                    )
        told = [outcome for outcome in outcomes if outcome is not None]
        assert len(told) == len(outcomes)
        self.tally.late += sum(outcome.kind == "late" for outcome in told)
        return told

    def _end(self, episode: int) -> int | None:
        """The last state of an episode, if it is known."""
        entry = self.open.get(episode)
        return self._closed_ends.get(episode) if entry is None else entry.end

    def contradiction(self, record: Arrived) -> Outcome | None:
        """A conflict, if a path ends in another state than reported before.

        This is checked before an event is made, but not when a log is read: logs of earlier
        releases contain such paths, and their learners have learned from them.
        """
        if not isinstance(record, Trajectory):
            return None
        number = record.episode
        end = self._end(number)
        if end is None or end == record.states[-1]:
            return None
        why = f"episode {number}, path: it ended in state {end}, got {record.states[-1]}"
        return Outcome("conflict", number, "path", why)

    def _began(self, episode: int) -> float | None:
        """When an open episode began."""
        entry = self.open.get(episode)
        return None if entry is None else entry.began

    def _is_past(self, began: float | None, time: float) -> bool:
        """Whether the deadline of an episode had passed at a time; only with a clock."""
        if not self.terms.timed or began is None or self.terms.deadline is None:
            return True
        return min(time, self.now) - began > self.terms.deadline

    def _own_outcome(self, record: Arrived, time: float) -> Outcome | None:
        """The outcome of a record that the inbox does not handle.

        These are ends, paths beside decisions, and outcomes that happened after their deadline
        while a default waits.
        """
        number = record.episode

        def is_now(kind: Literal["invalid", "unknown", "late", "conflict"], why: str) -> Outcome:
            return Outcome(kind, number, part, f"episode {number}, {part}: {why}")

        if isinstance(record, Trajectory):
            part = "path"
            entry = self.open.get(number)
            for h, made in () if entry is None else entry.decided.items():
                if h < len(record.actions) and made != (record.states[h], record.actions[h]):
                    why = f"state {made[0]}, action {made[1]} was decided at step {h}"
                    return is_now("conflict", why)
            if self._is_built_without_end(number):
                return Outcome("duplicate", number, part, "its decision was noted before")
        waits = self.terms.waits and number in self.open and record.is_outcome
        past = waits and self._is_past(self._began(number), time)
        if past and self.inbox.foresee(record).used:  # it is well-formed and new
            return self.inbox.set_aside(record, WAITED)
        if not isinstance(record, End):
            return None
        part = "end"
        S = self.terms.problem.states
        if record.state >= S:
            return is_now("invalid", f"end must be below {S}, got {record.state}")
        if number >= self.begun:
            return is_now("unknown", "the episode must be one that was begun")
        known = self._end(number)
        if known is not None:
            if known == record.state:
                return Outcome("duplicate", number, part, "the same value came before")
            return is_now("conflict", f"it ended in state {known} before")
        if number not in self.open:
            return is_now("late", TOO_LATE)
        if self.inbox.is_overdue(number):
            return replace(is_now("late", OVERDUE), used=True)
        return Outcome("taken", number, part, used=True)

    def _is_built_without_end(self, episode: int) -> bool:
        """Whether the path of an open episode of one step was made from its decision."""
        entry = self.open.get(episode)
        one = self.problem.horizon == 1
        return entry is not None and one and len(entry.decided) == 1 and entry.end is None

    def _built(self, episode: int) -> Trajectory | None:
        """The path of the decisions of an open episode, once it is complete."""
        H, S, _ = self.problem.shape
        entry = self.open[episode]
        end = 0 if S == 1 else entry.end
        if end is None and self._is_built_without_end(episode):
            end = UNKNOWN
        if len(entry.decided) < H or end is None:
            return None
        states = [entry.decided[h][0] for h in range(H)]
        actions = [entry.decided[h][1] for h in range(H)]
        return Trajectory(episode, np.array([*states, end]), np.array(actions))

    def _heard(self, number: int, entry: Entry, outcome: Any) -> Entry:
        """Note an outcome of an episode and its delay."""
        self._answered += number >= self._due and not entry.heard
        waited = self.now - entry.began
        if not self._by_deadline:
            seconds = int(max(0.0, waited))
            self.delays[min(seconds.bit_length(), BUCKETS - 1)] += 1
        if self.information == "bandit":
            amount = float(sum(outcome.facts().values()))
            self.history.append((self.now, amount, self._by_deadline))
            entry = self.tally.hear(entry, amount, self.now, None if self._by_deadline else waited)
        return entry._replace(heard=True)

    def _close(self, episode: int) -> None:
        """Drop what is not needed of a closed episode."""
        entry = self.open.pop(episode)
        if episode < self._due:
            self.overdue -= 1
        else:
            self._answered -= entry.heard
        if entry.end is not None:
            self._remember_end(episode, entry.end)
        if entry.key is not None:
            self._old_keys.append(entry.key)
            while len(self._old_keys) > self.terms.remember:
                number = self.keys.pop(self._old_keys.popleft(), None)
                self.chosen.pop(-1 if number is None else number, None)

    def _remember_end(self, episode: int, state: int) -> None:
        """Remember the last state of a closed episode, and drop the oldest one."""
        self._closed_ends[episode] = state
        while len(self._closed_ends) > self.terms.remember:
            del self._closed_ends[next(iter(self._closed_ends))]

    def is_overdue(self, episode: int) -> bool:
        """Whether an open episode is past its deadline."""
        return episode < self._due

    @property
    def pending(self) -> int:
        """The number of open episodes within their deadline without an outcome."""
        return len(self.open) - self.overdue - self._answered

    def counts(self) -> Counter[str]:
        """The numbers of episodes closed by the deadline, since the beginning."""
        counted = self.inbox.counts()
        return Counter({name: counted[name] for name in PASSED})

    def count_open(self) -> None:
        """Count the open episodes anew."""
        self.overdue, self._due, self._oldest = 0, self.terms.first, self.terms.first
        self._answered = sum(entry.heard for entry in self.open.values())
        self._advance()
