"""One learner in normal operation: what each request reads and writes, within a transaction.

A session belongs to one thread, so requests have one order, in which they are numbered (`seq`).
Every method checks a request before it writes the first row. What is open, known or repeated is a
question to the tables; the session itself keeps only counters. Deadlines are a function of the
times of requests: a request first closes the episodes whose deadline has passed at its time.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from belated.core import saving
from belated.core.arrays import Floats
from belated.core.records import Episode, FeedbackError
from belated.core.rewards import Scale
from belated.linear.reward import Reward
from belated.service.bodies import Asked, Decided, Outcome
from belated.service.errors import Refusal, busy
from belated.service.recovery import Restored, start
from belated.service.runner import DEFAULT, OUTCOMES, OutcomeRow, digest
from belated.service.tables import Tables
from belated.service.wire import End, Reader, RecordError, Timed, parse
from belated.tabular.records import UNKNOWN, Trajectory

WITHOUT_STATES = "this learner has no states; POST /decide with what is known begins and decides"
OVERDUE = "its deadline has passed, and the agent still uses it"
TOO_LATE = "the episode is closed, and this value did not come before"
WAITED = "it happened after the deadline, or does not say when, and the default is learned"
"""Why a record is late."""
X = re.compile(r"^x\b")
"""The library's name of an observation at the beginning of an error message."""
MINUTES = 60
"""The number of minutes for which arrivals are counted."""
KEPT = 2
"""The number of snapshots to keep."""
CACHED = 64
"""The number of policies that are kept in memory."""
LARGEST_AMOUNT = 1e100
"""Larger amounts count as this, so that squares stay finite."""
SLICE = 500
"""The largest number of values in one statement."""


class Clock:
    """The time in seconds. It never decreases, and ignores steps of the system's clock.

    Args:
        after: the latest time in the tables.
        wall: the system's clock, read once.
    """

    def __init__(
        self,
        after: float,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._base = max(after, wall()) - monotonic()

    def __call__(self) -> float:
        """The current time."""
        return self._base + self._monotonic()


class EpisodeState:
    """What the tables say of an episode, while a request is handled.

    Attributes:
        exists: whether the tables have such an episode.
        is_open: whether it was open before this request.
        is_complete: whether this request completes it.
        facts: value and status of each fact by its name in the tables.
        decided: state, action and probability by step.
    """

    def __init__(self, number: int, row: Sequence[Any] | None) -> None:
        self.number = number
        self.exists = row is not None
        told: Any = (None, 0.0, None, None, None, 0.0) if row is None else row
        self.key, self.began, self.policy, self.heard, self.total, closed = told
        self.is_open = closed is None
        self.is_complete = False
        self.facts: dict[str, OutcomeRow] = {}
        self.decided: dict[int, tuple[Any, int, float | None]] = {}

    def known(self, *, used: bool) -> dict[Any, Any]:
        """The reported facts by the keys of records. used: only those that the agent gets."""
        return {
            _key(name): row.value if row.text is None else row.text
            for name, row in self.facts.items()
            if row.status != DEFAULT and not (used and row.status == "late") and name != "end"
        }

    @property
    def end(self) -> int | None:
        """The last state, from its own record or from the path."""
        if "end" in self.facts:
            return int(self.facts["end"].value or 0)
        path = self.facts.get("path")
        if path is None or path.body is None:
            return None
        last = json.loads(path.body)["path"]["states"][-1]
        return None if last == UNKNOWN else int(last)


def _key(name: str) -> Any:
    """The key of a fact among those of a record."""
    return int(name[5:]) if name.startswith("step ") else name


def _name(key: Any) -> str:
    """The name of a fact in the tables."""
    return f"step {key}" if isinstance(key, int) else key


class Session:
    """A learner that runs here.

    Args:
        name: the name of the learner.
        db: its tables.
        restored: the learner, from its tables.
        scale: of rewards in records that state no range.
        most_open: the largest number of open episodes.
    """

    def __init__(
        self, name: str, db: Tables, restored: Restored, scale: Scale | None, most_open: int
    ) -> None:
        self.name = name
        self.db = db
        self.terms = restored.terms
        self.scale = scale
        self.runner = restored.runner
        self.seq = restored.seq
        self.since = restored.since
        self.snapshot_at = restored.snapshot
        self.clock = Clock(restored.time)
        self.counts: Counter[str] = Counter()
        self.arrivals: deque[tuple[int, Counter[str]]] = deque(maxlen=MINUTES)
        self._time = restored.time
        self._most_open = most_open
        self._rng = np.random.default_rng()
        self._policies: dict[str, Floats] = {}
        with db.transaction():
            start(db, name, restored, self.clock())
            (self._open,) = db.all(
                "SELECT count(*) FROM episodes WHERE learner = ? AND closed IS NULL", name
            )[0]
            self._oldest = self._first_open()
            if restored.wanted is not None:
                self.runner.change(restored.wanted)
                self._changed("change", restored.wanted, self._now(), self._next())

    @property
    def problem(self) -> Any:
        """The problem, with the actions of today."""
        return self.runner.agent.problem

    # Time, numbers and counts.

    def _now(self) -> float:
        """The time of a request."""
        self._time = max(self._time, self.clock())
        return self._time

    def _next(self) -> int:
        """The number of a request that changes something."""
        self.seq += 1
        return self.seq

    def count(self, kind: str, more: int = 1) -> None:
        """Count what has happened, also by minute."""
        self.counts[kind] += more
        minute = int(self._time // 60)
        if not self.arrivals or self.arrivals[-1][0] != minute:
            self.arrivals.append((minute, Counter()))
        self.arrivals[-1][1][kind] += more

    # Deadlines.

    def is_overdue(self, number: int, began: float, now: float) -> bool:
        """Whether the deadline of an open episode has passed."""
        return self._is_past(self.terms.deadline, number, began, now)

    def _is_past(self, limit: float | None, number: int, began: float, now: float) -> bool:
        if limit is None:
            return False
        waited = now - began if self.terms.timed else self.runner.agent.begun - 1 - number
        return waited > limit

    def _first_open(self) -> tuple[int, float] | None:
        found = self.db.all(
            "SELECT number, began FROM episodes WHERE learner = ? AND closed IS NULL "
            "ORDER BY number LIMIT 1",
            self.name,
        )
        return found[0] if found else None

    def expire(self) -> None:
        """Close the episodes past deadline and grace, without another request."""
        self._expire(self._now())

    def _expire(self, now: float, seq: int | None = None) -> int | None:
        """Close the episodes past deadline and grace. seq: of the request, if it has a number."""
        terms = self.terms
        while self._oldest is not None and self._is_past(terms.limit, *self._oldest, now):
            past = "? - began > ?" if terms.timed else "? - number > ?"
            newest = now if terms.timed else self.runner.agent.begun - 1
            found = self.db.all(
                "SELECT number FROM episodes WHERE learner = ? AND closed IS NULL "
                f"AND {past} ORDER BY number LIMIT {SLICE}",
                self.name, newest, terms.limit,
            )  # fmt: skip
            if found:
                seq = self._next() if seq is None else seq
                for state in self._states([number for (number,) in found]).values():
                    self._expire_one(state, now, seq)
            self._oldest = self._first_open()
        return seq

    def _expire_one(self, state: EpisodeState, now: float, seq: int) -> None:
        """Close an episode, and give the default to the steps that have not reported."""
        terms, number, known = self.terms, state.number, state.known(used=True)
        heard = not self.problem.awaited(known, terms.information, uses_paths=False)
        silent = None
        if not heard and terms.default is not None:
            silent = self.problem.assemble(number, known, terms.information, terms.default)
        row = None
        if silent is not None:
            amount = self._amount(silent)
            row = OutcomeRow(
                number, DEFAULT, amount, None, _dumped(silent.to_json()), now, now, DEFAULT, seq, 0
            )
            self._write_outcomes([row])
            state.total = amount
        pathless = self.problem.one_outcome and self._needs_path(state) and "path" not in known
        why = "forgotten" if pathless or not (row or heard) else "default" if row else "expired"
        self._close(state, why, now, seq)
        self.runner.expire(number, row)

    def _close(self, state: EpisodeState, why: str, now: float, seq: int) -> None:
        state.is_open = False
        self._open -= 1
        self.db.all(
            "UPDATE episodes SET heard = ?, total = ?, closed = ?, ended = ?, why = ? "
            "WHERE learner = ? AND number = ?",
            state.heard, state.total, now, seq, why, self.name, state.number,
        )  # fmt: skip

    def _amount(self, record: Any) -> float | None:
        """The sum of what a record reports; None for a whole cost function."""
        if self.terms.information != "bandit" or not record.is_outcome:
            return None
        total = float(sum(record.facts().values()))
        return min(max(total, -LARGEST_AMOUNT), LARGEST_AMOUNT)

    # Rows of several episodes at once.

    def _select(self, statement: str, values: Iterable[Any]) -> list[Any]:
        """The rows of a statement with a list of values, in portions."""
        found: list[Any] = []
        items = list(values)
        for i in range(0, len(items), SLICE):
            some = items[i : i + SLICE]
            listed = ", ".join("?" * len(some))
            found += self.db.all(statement.format(listed), self.name, *some)
        return found

    def _states(self, numbers: Iterable[int]) -> dict[int, EpisodeState]:
        """What the tables say of these episodes."""
        asked = dict.fromkeys(numbers)
        rows = self._select(
            "SELECT number, key, began, policy, heard, total, closed FROM episodes "
            "WHERE learner = ? AND number IN ({})",
            asked,
        )
        by_number = {number: row for number, *row in rows}
        found = {number: EpisodeState(number, by_number.get(number)) for number in asked}
        for values in self._select(
            f"SELECT {OUTCOMES} FROM outcomes WHERE learner = ? AND number IN ({{}})", by_number
        ):
            row = OutcomeRow(*values)
            found[row.number].facts[row.fact] = row
        if self.problem.states is not None:
            for number, step, observation, action, probability in self._select(
                "SELECT number, step, observation, action, probability FROM decisions "
                "WHERE learner = ? AND number IN ({})",
                by_number,
            ):
                state = json.loads(observation)
                found[number].decided[step] = (state or 0, action, probability)
        return found

    def _write_outcomes(self, rows: Sequence[OutcomeRow]) -> None:
        self.since += len(rows)
        self.db.many(
            f"INSERT INTO outcomes (learner, {OUTCOMES}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (learner, number, fact) DO UPDATE SET value = excluded.value, "
            "text = excluded.text, body = excluded.body, at = excluded.at, "
            "happened = excluded.happened, status = excluded.status, seq = excluded.seq, "
            "place = excluded.place",
            [(self.name, *row) for row in rows],
        )

    def _write_decisions(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """number, step, observation, allowed, action, probability, holdout, at of each."""
        self.since += len(rows)
        self.db.many(
            "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(self.name, *row) for row in rows],
        )

    def _write_episodes(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """number, key, seq, version, began, policy of each."""
        self._open += len(rows)
        if self._oldest is None:
            self._oldest = (rows[0][0], rows[0][4])
        self.db.many(
            "INSERT INTO episodes (learner, number, key, seq, version, began, policy) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(self.name, *row) for row in rows],
        )

    # Decisions.

    def begin(self, key: str | None) -> tuple[int, bool]:
        """Begin an episode, or find that of a known key. Returns whether it is new."""
        if self.problem.states is None:
            raise Refusal(422, WITHOUT_STATES, outcome="invalid")
        if key is not None:
            for number, policy in self.db.all(
                "SELECT number, policy FROM episodes WHERE learner = ? AND key = ?", self.name, key
            ):
                if policy is None:
                    why = f"key {key!r} is that of a decision, which began and decided at once"
                    raise Refusal(409, why, outcome="conflict", field="key")
                return number, False
        now = self._now()
        seq = self._expire(now) or self._next()
        self._check_open(1)
        version = self.runner.version
        number, policy = self.runner.begin()
        mark = digest(policy)
        if mark not in self._policies:
            self.db.all(
                "INSERT INTO policies VALUES (?, ?, ?) ON CONFLICT (learner, digest) DO NOTHING",
                self.name, mark, policy.tobytes(),
            )  # fmt: skip
            self._remember(mark, policy)
        self._write_episodes([(number, key, seq, version, now, mark)])
        self.since += 1
        self._expire(now, seq)
        self.count("begun")
        return number, True

    def _remember(self, mark: str, policy: Floats) -> None:
        while len(self._policies) >= CACHED:
            del self._policies[next(iter(self._policies))]
        self._policies[mark] = policy

    def _check_open(self, more: int) -> None:
        if self._open + more > self._most_open:
            raise busy(f"{self._most_open} episodes are open; close some, or set a deadline", 10)

    def choose(self, asked: Sequence[Asked]) -> list[Decided]:
        """Decide in new episodes of one step: all of them, or none.

        A known key returns its decision again, if it asks the same.
        """
        problem = self.problem
        if problem.horizon != 1:
            why = f"a decision in one request needs a learner of one step, got {problem.horizon}"
            raise Refusal(422, why, outcome="invalid", field="episode")
        keys = [one.key for one in asked if one.key is not None]
        if len(set(keys)) < len(keys):
            raise Refusal(422, "keys of a batch must differ", outcome="invalid", field="key")
        found = {
            key: row
            for key, *row in self._select(
                "SELECT e.key, e.number, d.observation, d.allowed, d.action, d.probability, "
                "e.policy FROM episodes e LEFT JOIN decisions d "
                "ON d.learner = e.learner AND d.number = e.number AND d.step = 0 "
                "WHERE e.learner = ? AND e.key IN ({})",
                keys,
            )
        }
        for one in asked:
            if one.key in found:
                _check_same(one, found[one.key])
        new = [one for one in asked if one.key not in found]
        made = iter(self._choose_new(new) if new else ())
        known = {
            key: self._decided(number, action, probability, created=False)
            for key, (number, _, _, action, probability, _) in found.items()
        }
        return [known[one.key] if one.key in known else next(made) for one in asked]

    def _decided(self, number: int, action: int, probability: float, *, created: bool) -> Decided:
        names = getattr(self.problem, "names", None)
        name = msgspec.UNSET if names is None else names[action]
        return Decided(number, 0, action, probability, name, created)

    def _choose_new(self, asked: Sequence[Asked]) -> list[Decided]:
        seen = [self._checked(i, one, len(asked)) for i, one in enumerate(asked)]
        now = self._now()
        seq = self._expire(now) or self._next()
        self._check_open(len(asked))
        agent, version = self.runner.agent, self.runner.version
        share = getattr(agent, "holdout", 0.0)
        episodes, decisions, answers = [], [], []
        for one, observation in zip(asked, seen, strict=True):
            made = self.runner.decide(observation, one.among, now)
            holdout = share and share / (np.count_nonzero(made.probabilities) * made.probability)
            told = (_dumped(one.observation), _dumped(one.among))
            drawn = (int(made.action), float(made.probability), float(holdout), now)
            episodes.append((made.number, one.key, seq, version, now, None))
            decisions.append((made.number, 0, *told, *drawn))
            answers.append(self._decided(made.number, *drawn[:2], created=True))
        self._write_episodes(episodes)
        self._write_decisions(decisions)
        self._expire(now, seq)
        self.count("decided", len(asked))
        return answers

    def _checked(self, place: int, one: Asked, size: int) -> Any:
        """The observation for the agent; raises `Refusal` if no decision is possible there."""
        agent = self.runner.agent
        check = getattr(agent, "check_observation", agent.problem.check_observation)
        try:
            found = check(one.observation, one.among)
        except ValueError as error:
            where = f"decision {place}: " if size > 1 else ""
            field = "among" if str(error).startswith("among") else one.field
            why = f"{where}{X.sub(one.field, str(error))}"
            raise Refusal(422, why, outcome="invalid", field=field) from None
        return one.observation if found is None else found

    def decide(self, episode: int, step: int, state: int) -> Decided:
        """Draw an action, or repeat the earlier one."""
        problem = self.problem
        if problem.states is None:
            raise Refusal(422, WITHOUT_STATES, outcome="invalid", field="episode")
        if step >= problem.horizon:
            why = f"step must be below {problem.horizon}, got {step}"
            raise Refusal(422, why, outcome="invalid", field="step")
        if state >= problem.states:
            why = f"state must be below {problem.states}, got {state}"
            raise Refusal(422, why, outcome="invalid", field="state")
        if step == 0 and problem.start_probabilities[state] == 0.0:
            why = f"state must be one that episodes can start in, got {state}"
            raise Refusal(422, why, outcome="invalid", field="state")
        now = self._now()
        seq = self._expire(now)
        found, policy = self._opened(episode)
        known = found.decided.get(step)
        if known is not None and known[0] != state:
            why = f"step {step} of episode {episode} was decided in state {known[0]}, got {state}"
            raise Refusal(409, why, outcome="conflict", field="state")
        if known is not None:
            action = known[1]
            return Decided(episode, step, action, float(policy[step, state, action]))
        action, probability = Episode(episode, policy).act(step, state, self._rng)
        self._write_decisions(
            [(episode, step, _dumped(state), "null", int(action), float(probability), 0.0, now)]
        )
        found.decided[step] = (state, action, probability)
        seq = self._next() if seq is None else seq
        self._settle(found, self._built(found, now, now, "taken", seq, 0), now, seq)
        self.count("decided")
        return Decided(episode, step, int(action), float(probability))

    def policy(self, episode: int) -> Floats:
        """The policy (H, S, A) of an open episode."""
        self.expire()
        return self._opened(episode)[1]

    def _opened(self, episode: int) -> tuple[EpisodeState, Floats]:
        """An open episode and its policy, or a `Refusal`."""
        if episode >= self.runner.agent.begun:
            raise Refusal(404, f"episode {episode} has not begun", outcome="unknown")
        found = self._states([episode])[episode]
        if not found.is_open or found.policy is None:
            raise Refusal(410, f"episode {episode} is closed", outcome="late")
        policy = self._policies.get(found.policy)
        if policy is None:
            ((content,),) = self.db.all(
                "SELECT content FROM policies WHERE learner = ? AND digest = ?",
                self.name, found.policy,
            )  # fmt: skip
            policy = np.frombuffer(bytes(content), np.float64).reshape(self.problem.shape)
            self._remember(found.policy, policy)
        return found, policy

    # Feedback.

    def feed(self, given: Sequence[Any]) -> list[Outcome]:
        """Take feedback; returns an outcome for each record."""
        now = self._now()
        seq = self._expire(now)
        records = self._parsed(given)
        states = self._states(
            record.episode
            for record in records
            if not isinstance(record, RecordError) and record.episode < self.runner.agent.begun
        )
        rows: list[OutcomeRow] = []
        outcomes = []
        ahead = self.seq + 1 if seq is None else seq
        changed: dict[int, EpisodeState] = {}
        for sent, record in zip(given, records, strict=True):
            outcome, more = self._take(sent, record, states, now, ahead, len(rows))
            outcomes.append(outcome)
            rows += more
            for row in more:
                changed[row.number] = states[row.number]
                changed[row.number].facts[row.fact] = row
            if more:
                self._hear(states[more[0].number], more, now)
        if rows:
            seq = self._next() if seq is None else seq
            self._write_outcomes(rows)
            self._write_path_decisions(rows, states, now)
            self._update(changed.values(), now, seq)
            self.runner.observe(rows)
        elif not given and getattr(self.runner.agent, "reads_delays", False):
            self._changed("time", None, now, self._next() if seq is None else seq)
            self.runner.tell_time(now)
        for outcome in outcomes:
            self.count(outcome.outcome)
            self.counts["late_used"] += outcome.used is True
        return outcomes

    def _parsed(self, given: Sequence[Any]) -> list[Any]:
        """The records, or what is wrong with them."""
        keys = {
            one["key"] for one in given if isinstance(one, Mapping) and type(one.get("key")) is str
        }
        found = dict(
            self._select(
                "SELECT key, number FROM episodes WHERE learner = ? AND key IN ({})",
                [key for key in keys if "\0" not in key],
            )
        )
        reader = Reader(self.problem, self.scale, found)
        records: list[Any] = []
        for one in given:
            try:
                records.append(parse(one, reader))
            except RecordError as error:
                records.append(error)
        return records

    def _take(
        self,
        sent: Any,
        given: Any,
        states: dict[int, EpisodeState],
        now: float,
        seq: int,
        place: int,
    ) -> tuple[Outcome, list[OutcomeRow]]:
        """The outcome of a record, and its rows; facts of earlier records of a batch are known."""
        if isinstance(given, RecordError):
            named = {"part" if given.kind == "unknown" else "field": given.field}
            return Outcome.of(given.kind, given.episode, why=str(given), **named), []
        record, happened = given if isinstance(given, Timed) else (given, now)
        number, part = record.episode, record.part

        def outcome(kind: str, why: str, **more: Any) -> tuple[Outcome, list[OutcomeRow]]:
            where = f"step {part}" if isinstance(part, int) else part
            full = f"episode {number}, {where}: {why}"
            return Outcome.of(kind, number, part=part, why=full, **more), []

        wrong = self._wrong(sent, record)
        if wrong is not None:
            return Outcome.of("invalid", number, why=wrong[1], field=wrong[0]), []
        if number >= self.runner.agent.begun:
            return outcome("unknown", "the episode must be one that was begun")
        state = states[number]
        past = not self.terms.timed or self._is_past(
            self.terms.deadline, number, state.began, min(happened, now)
        )
        is_open = state.is_open and not state.is_complete
        waits = self.terms.waits and is_open and record.is_outcome
        clash = self._contradiction(state, record)
        if clash is not None:
            return outcome(*clash)
        facts = {"end": record.state} if isinstance(record, End) else record.facts()
        known = state.known(used=waits and not past)
        if isinstance(record, End):
            known = {} if state.end is None else {"end": state.end}
        kind, why = _compared(facts, known)
        if kind != "taken":
            return outcome(kind, why)
        if not is_open or (waits and past):
            status, told = "late", outcome("late", WAITED if is_open else TOO_LATE, used=False)
        elif self.is_overdue(number, state.began, now) and past:
            status, told = "used", outcome("late", OVERDUE, used=True)
        else:
            status, told = "taken", (Outcome.of("taken", number, part=part), [])
        if not state.exists:
            return told
        rows = self._rows(state, record, facts, now, happened, status, seq, place)
        if status == "taken":
            told[0].awaited = self._awaited(state, rows)
        return told[0], rows

    def _wrong(self, sent: Any, record: Any) -> tuple[str, str] | None:
        """The field and the reason of a record that does not fit the problem."""
        if isinstance(record, End):
            S = self.problem.states
            if record.state < S:
                return None
            return (
                "end",
                f"episode {record.episode}, end: end must be below {S}, got {record.state}",
            )
        try:
            self.problem.check(record, self.terms.information)
        except FeedbackError as error:
            field = "step" if isinstance(record.part, int) else record.part
            return "rewards" if field == "costs" and "rewards" in sent else field, str(error)
        return None

    def _contradiction(self, state: EpisodeState, record: Any) -> tuple[str, str] | None:
        """Why a path does not agree with decisions and with the last state."""
        if not isinstance(record, Trajectory):
            return None
        for h, made in sorted(state.decided.items()):
            if h < len(record.actions) and made[:2] != (record.states[h], record.actions[h]):
                return "conflict", f"state {made[0]}, action {made[1]} was decided at step {h}"
        if self.problem.horizon == 1 and 0 in state.decided and state.end is None:
            return "duplicate", "its decision was noted before"
        if state.end is not None and state.end != record.states[-1]:
            return "conflict", f"it ended in state {state.end}, got {record.states[-1]}"
        return None

    def _rows(
        self,
        state: EpisodeState,
        record: Any,
        facts: Mapping[Any, Any],
        now: float,
        happened: float,
        status: str,
        seq: int,
        place: int,
    ) -> list[OutcomeRow]:
        """The rows of a record; the last has what the agent gets as its body, if it is complete."""
        number = state.number
        before = state.known(used=status != "late")
        new = {key: value for key, value in facts.items() if key not in before}
        rows = []
        for i, (key, value) in enumerate(new.items()):
            is_text = isinstance(value, str)
            amount, text = (None, value) if is_text else (float(value) + 0.0, None)
            fixed = (None, now, happened, status, seq, place + i)
            rows.append(OutcomeRow(number, _name(key), amount, text, *fixed))
        if isinstance(record, End):
            state.facts["end"] = rows[0]
            return rows + self._built(state, now, happened, status, seq, place + len(rows))
        whole = record
        if record.partial and status != "late":
            whole = self.problem.assemble(number, {**before, **facts}, self.terms.information)
        if whole is not None and not isinstance(whole, Reward):
            rows[-1] = rows[-1]._replace(body=_dumped(whole.to_json()))
        return rows

    def _built(
        self, state: EpisodeState, now: float, happened: float, status: str, seq: int, place: int
    ) -> list[OutcomeRow]:
        """The row of the path that decisions and the last state make, once it is complete."""
        H, S, _ = self.problem.shape
        end = 0 if S == 1 else state.end
        if end is None and H == 1:
            end = UNKNOWN
        noted = state.policy is None or "path" in state.facts
        if end is None or len(state.decided) < H or noted or status == "late":
            return []
        states = [state.decided[h][0] for h in range(H)]
        actions = [state.decided[h][1] for h in range(H)]
        path = Trajectory(state.number, np.array([*states, end]), np.array(actions))
        told = (None, path.facts()["path"], _dumped(path.to_json()))
        return [OutcomeRow(state.number, "path", *told, now, happened, status, seq, place)]

    def _awaited(self, state: EpisodeState, rows: Sequence[OutcomeRow]) -> Any:
        """What an episode needs before the agent can learn from it: words and steps."""
        if not self.problem.one_outcome:
            return msgspec.UNSET
        known = {**state.known(used=True), **{_key(row.fact): 0 for row in rows}}
        uses_paths = self._needs_path(state)
        left = self.problem.awaited(known, self.terms.information, uses_paths=uses_paths)
        return left or msgspec.UNSET

    def _needs_path(self, state: EpisodeState) -> bool:
        """Whether the agent waits for a path: it has noted that of a decision in one request."""
        return self.terms.uses_paths and state.policy is not None

    def _hear(self, state: EpisodeState, rows: Sequence[OutcomeRow], now: float) -> None:
        """Add up what has been reported, and close an episode that is complete."""
        for row in rows:
            state.facts[row.fact] = row
            if row.status == "late" or row.fact in ("path", "end"):
                continue
            if not self.problem.one_outcome:
                state.heard = now if state.heard is None else state.heard
                amount = min(max(row.value or 0.0, -LARGEST_AMOUNT), LARGEST_AMOUNT)
                state.total = (state.total or 0.0) + amount
            elif row.body is not None and state.heard is None:
                state.heard = now
                state.total = self._amount(self.problem.read(json.loads(row.body)))
        if self.problem.one_outcome and state.is_open and state.heard is not None:
            known = state.known(used=True)
            needs = self._needs_path(state)
            awaited = self.problem.awaited(known, self.terms.information, uses_paths=needs)
            state.is_complete = not awaited

    def _update(self, states: Iterable[EpisodeState], now: float, seq: int) -> None:
        """Write the sums of episodes, and close those that are complete."""
        for state in states:
            if state.is_complete:
                self._close(state, "complete", now, seq)
            elif state.is_open:
                self.db.all(
                    "UPDATE episodes SET heard = ?, total = ? WHERE learner = ? AND number = ?",
                    state.heard, state.total, self.name, state.number,
                )  # fmt: skip

    def _settle(self, state: EpisodeState, rows: list[OutcomeRow], now: float, seq: int) -> None:
        """Write the path of an episode whose last decision was made."""
        if rows:
            self._write_outcomes(rows)
            self._hear(state, rows, now)
            if state.is_complete:
                self._close(state, "complete", now, seq)
            self.runner.observe(rows)

    def _write_path_decisions(
        self, rows: Sequence[OutcomeRow], states: dict[int, EpisodeState], now: float
    ) -> None:
        """Note the decisions of reported paths, so that later requests must agree."""
        made = []
        for row in rows:
            if row.fact != "path":
                continue
            path = json.loads(row.body or "null")["path"]
            decided = states[row.number].decided
            for h, action in enumerate(path["actions"]):
                if h not in decided:
                    state = path["states"][h]
                    decided[h] = (state, action, None)
                    made.append((row.number, h, _dumped(state), "null", action, None, 0.0, now))
        self._write_decisions(made)

    def forget(self, episode: int) -> Outcome:
        """Forget an episode."""
        now = self._now()
        seq = self._expire(now)
        if episode >= self.runner.agent.begun:
            raise Refusal(404, f"episode {episode} has not begun", outcome="unknown")
        state = self._states([episode])[episode]
        if not state.is_open:
            return Outcome.of("duplicate", episode, why=f"episode {episode} is closed already")
        seq = self._next() if seq is None else seq
        self._close(state, "request", now, seq)
        self._changed("forget", episode, now, seq)
        self.runner.forget(episode)
        self.count("forgotten_by_request")
        return Outcome.of("taken", episode)

    # Changes and snapshots.

    def change(
        self, actions: Callable[[Any], Any] = lambda agent: None, retire: int | None = None
    ) -> dict[str, Any] | None:
        """Change the actions; returns the change, or None if nothing changes.

        actions: a function from the agent to all future actions, or None.
        """
        agent = self.runner.agent
        now = self._now()
        try:
            wanted = actions(agent)
            if wanted is None and (retire is None or retire in getattr(agent, "retired", ())):
                return None
            body = {"actions": wanted, "retire": retire, "settings": {}}
            version = self.runner.version
            self.runner.change(body)
        except ValueError as error:
            raise Refusal(422, str(error), outcome="invalid", field="action") from None
        self._changed("change", body, now, self._next(), version)
        return body

    def _changed(
        self, what: str, body: Any, now: float, seq: int, version: int | None = None
    ) -> None:
        version = self.runner.version if version is None else version
        self.since += 1
        self.db.all(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
            self.name, seq, what, _dumped(body), version, now,
        )  # fmt: skip

    def snapshot(self, log: int | None) -> None:
        """Store the agent, and delete what two snapshots cover. log: the requests to keep."""
        self.runner.learn_all()
        content = saving.to_bytes(self.runner.agent)
        with self.db.transaction():
            seq = self._next()
            told = (self.name, seq, self.runner.version, self._time, content)
            self.db.all("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", *told)
            kept = self.db.all(
                "SELECT seq FROM snapshots WHERE learner = ? ORDER BY seq DESC LIMIT ?",
                self.name, KEPT,
            )  # fmt: skip
            oldest = kept[-1][0]
            self.db.all("DELETE FROM snapshots WHERE learner = ? AND seq < ?", self.name, oldest)
            self.db.all(
                "DELETE FROM policies WHERE learner = ? AND digest NOT IN (SELECT policy "
                "FROM episodes WHERE learner = ? AND closed IS NULL AND policy IS NOT NULL)",
                self.name, self.name,
            )  # fmt: skip
            if log is not None and len(kept) == KEPT:
                self._shorten(min(oldest, seq - log))
        self._policies.clear()
        self.snapshot_at, self.since = seq, 0

    def _shorten(self, before: int) -> None:
        """Delete the rows of episodes that were closed before a request, and old changes."""
        name = self.name
        old = "SELECT number FROM episodes WHERE learner = ? AND ended <= ?"
        for table in ("decisions", "outcomes"):
            self.db.all(
                f"DELETE FROM {table} WHERE learner = ? AND number IN ({old})", name, name, before
            )
        self.db.all("DELETE FROM episodes WHERE learner = ? AND ended <= ?", name, before)
        self.db.all("DELETE FROM changes WHERE learner = ? AND seq <= ?", name, before)
        self.db.all(
            "UPDATE learners SET shortened = ? WHERE learner = ? AND shortened < ?",
            max(before, 0), name, before,
        )  # fmt: skip


def _check_same(one: Asked, row: Sequence[Any]) -> None:
    """Raise `Refusal` if a key was used for something else."""
    _, observation, allowed, _, _, policy = row
    differs = None
    if policy is not None or observation is None:
        differs = "an episode that was begun without a decision"
    elif json.loads(observation) != one.observation:
        differs = f"other {one.field}"
    elif json.loads(allowed) != one.among:
        differs = "other among"
    if differs is not None:
        why = f"key {one.key!r} was used before with {differs}"
        raise Refusal(409, why, outcome="conflict", field="key")


def _compared(facts: Mapping[Any, Any], known: Mapping[Any, Any]) -> tuple[str, str]:
    """Whether facts are new ("taken"), the same as before or different."""
    kind = "duplicate"
    for key, value in facts.items():
        before = known.get(key)
        if before is None:
            kind = "taken"
        elif before != value:
            if isinstance(value, str):
                return "conflict", f"another {key} came before"
            if key == "end":
                return "conflict", f"it ended in state {before:g} before"
            what = f"step {key} cost" if isinstance(key, int) else f"{_event(key)} was"
            return "conflict", f"{what} {before:g} before, got {value:g}"
    return kind, "the same value came before"


def _event(key: str) -> str:
    """An event as the client named it."""
    return f"event {key[1:]!r}" if key.startswith("=") else "the reward" if key == "event" else key


def _dumped(value: Any) -> str:
    """A value as JSON text; floats come back as they were."""
    return msgspec.json.encode(value).decode()
