"""One learner in normal operation: what each request reads and writes, within a transaction.

A session belongs to one thread, so requests have one order, in which they are numbered (`seq`).
Every method checks a request before it writes the first row. What is open, known or repeated is a
question to the tables; the session itself keeps only counters. The requests of a transaction have
one time. Deadlines are a function of these times: a transaction first closes the episodes whose
deadline has passed.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from belated.core import saving
from belated.core.arrays import Floats
from belated.core.contract import Decision, Episode
from belated.core.episodes import compare
from belated.linear.reward import EVENT, Reward
from belated.service.config import LearnerConfig, Limits
from belated.service.runner import (
    DEFAULT,
    OUTCOMES,
    WHOLE,
    AgentRunner,
    OutcomeRow,
    digest,
    newest,
    wanted,
)
from belated.service.tables import Tables
from belated.service.wire import Asked, Done, Outcome, Refusal, read
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
Facts = dict[Any, Any]
"""What is known of an episode, by the keys of records."""
KEPT = 2
"""The number of snapshots to keep, and of published models."""
SLICE = 500
"""The largest number of episodes that are closed at once."""
INSERT = {
    "episodes": "(learner, number, key, seq, version, began, policy, model) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (learner, key) DO NOTHING",
    "decisions": "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "changes": "VALUES (?, ?, ?, ?, ?, ?)",
    "policies": "VALUES (?, ?, ?) ON CONFLICT (learner, digest) DO NOTHING",
    "outcomes": f"(learner, {OUTCOMES}, seq, place) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (learner, number, fact) DO UPDATE SET value = excluded.value, "
    "text = excluded.text, body = excluded.body, at = excluded.at, "
    "happened = excluded.happened, status = excluded.status, seq = excluded.seq, "
    "place = excluded.place",
}
"""How rows are inserted. A fact that came too late may come again in time, for another default. A
key that another process uses at the same time inserts nothing."""
UPDATE = """
UPDATE episodes SET closed = coalesce(closed, ?), ended = coalesce(ended, ?),
why = coalesce(why, ?),
heard = (SELECT min(o.at) FROM outcomes o WHERE o.learner = episodes.learner
    AND o.number = episodes.number AND o.status IN ('taken', 'used'){whole}),
total = (SELECT sum(o.value) FROM outcomes o WHERE o.learner = episodes.learner
    AND o.number = episodes.number AND o.status <> 'late'{whole})
WHERE learner = ? AND number = ?
"""
"""How an episode is closed, and its outcomes are added up."""


def steady_clock(
    after: float,
    wall: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[], float]:
    """The time in seconds. It never decreases, and ignores steps of the system's clock.

    Args:
        after: the latest time in the tables.
        wall: the system's clock, read once.
        monotonic: a clock without steps.
    """
    base = max(after, wall()) - monotonic()
    return lambda: base + monotonic()


@dataclass(slots=True)
class EpisodeState:
    """What the tables say of an episode, while a request is handled.

    Attributes:
        exists: whether the tables have such an episode.
        why: the reason of the current request, if it closes the episode.
        facts: the rows of its outcomes by their facts.
        decided: state and action by step.
    """

    number: int
    exists: int = False
    began: float = 0.0
    policy: str | None = None
    closed: float | None = 0.0
    why: str | None = None
    facts: dict[str, OutcomeRow] = field(default_factory=dict)
    decided: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def known(self, *, used: bool) -> Facts:
        """The reported facts by the keys of records. used: only those that the agent gets."""
        return {
            row.key: row.value if row.text is None else row.text
            for row in self.facts.values()
            if row.fact != WHOLE and not (used and row.status == "late")
        }


class Session:
    """A learner that runs here.

    Args:
        db: its tables.
        config: the learner.
        limits: the limits of the server.
        runner: its agent, as the tables say.

    Attributes:
        learns: whether the agent learns here, so that requests are numbered and episodes close.
        now: the time of the current request.
        address: of the process that learns, if it is another one that can be reached.
        still: the number of seconds for which rows have waited for the process that learns.
    """

    learns = True
    address: str | None = None
    still = 0.0
    _order, _lock = "number", ""

    def __init__(
        self, db: Tables, config: LearnerConfig, limits: Limits, runner: AgentRunner
    ) -> None:
        self.name, self.db, self.config, self.runner = config.name, db, config, runner
        self.now = newest(db, self.name)[1]
        self.clock = steady_clock(self.now)
        self.counts: Counter[str] = Counter()
        self.arrivals: deque[Counter[str]] = deque(maxlen=MINUTES)
        self._seq: Any = None  # the number of the current request
        self._rows: list[OutcomeRow] = []  # its outcomes, before they are written
        self._changed: dict[int, EpisodeState] = {}  # their episodes, and those that it closes
        self.limits = limits
        self._timed, self._deadline, self._limit = config.timed, config.deadline, config.limit
        self._rng = np.random.default_rng()
        with db.transaction():
            self._prepare()

    def _prepare(self) -> None:
        """Count what is open, and make the agent the configured one."""
        db, name = self.db, self.name
        self._open: float = db.all(
            "SELECT count(*) FROM episodes "
            "WHERE learner = ? AND closed IS NULL AND seq IS NOT NULL",
            name,
        )[0][0]
        self._oldest = self._first_open()
        for what, body in wanted(self.runner.agent, self.config.fresh()):
            self.now = max(self.now, self.clock())
            self.call(what, **body)

    @property
    def problem(self) -> Any:
        """The problem, with the actions of today."""
        return self.runner.agent.problem

    # What other processes have done; see `decider`.

    def catch_up(self, *, every: bool = False) -> int:
        """Begin a transaction: take what others have written; returns how many rows that were.

        every: whether to take rows though the queue of the agent is full.
        """
        return 0

    def catch_up_all(self) -> None:
        """Take all that others have written, though the queue of the agent is full."""
        while self.catch_up(every=True):
            pass

    def rolled_back(self) -> None:
        """Forget what was only in a transaction that has failed."""

    def tend(self) -> bool:
        """Do between two transactions what is due; returns whether to open the learner again."""
        return False

    # Requests: their time, their number, and what they write.

    def expire(self) -> None:
        """Read the clock for all requests of a transaction, and close what is past its deadline."""
        self.now = max(self.now, self.clock())
        self.next_request()
        self._expire()

    def next_request(self) -> None:
        """Give the rows that follow the next number; it counts once there is such a row."""
        self._seq = self.runner.seq + 1 if self.learns else None
        self._rows, self._changed = [], {}

    def call(self, what: str, **given: Any) -> Any:
        """Call a method of the agent, as a request of its own."""
        self.next_request()
        version, made = self.runner.version, self.runner.call(what, given)
        self._insert("changes", (self._seq, what, _dumped(given), version, self.now))
        self.next_request()
        return made

    def _insert(self, table: str, *rows: Sequence[Any]) -> int:
        """Write rows of a table, all values but the name of the learner; returns how many."""
        self.runner.since += len(rows) if table in ("episodes", "changes") else 0
        self.runner.seq = self._seq
        values = [(self.name, *row) for row in rows]
        return self.db.many(f"INSERT INTO {table} {INSERT[table]}", values)

    def _select(self, statement: str, values: Iterable[Any]) -> list[Any]:
        """The rows of a statement with a list of values, as many as a batch may have."""
        items = list(values)
        marks = ", ".join("?" * len(items))
        return self.db.all(statement.format(marks), self.name, *items) if items else []

    def count(self, kind: str, more: int = 1) -> None:
        """Count what has happened, also by minute."""
        self.counts[kind] += more
        minute = int(self.now // 60)
        if not self.arrivals or self.arrivals[-1]["minute"] != minute:
            self.arrivals.append(Counter(minute=minute))
        self.arrivals[-1][kind] += more

    # Deadlines.

    def is_past(self, limit: float | None, number: int, began: float, now: float) -> bool:
        """Whether an episode has waited longer than a limit."""
        waited = now - began if self._timed else self.runner.agent.begun - 1 - number
        return limit is not None and waited > limit

    def _first_open(self) -> tuple[int, float] | None:
        found = self.db.all(
            "SELECT number, began FROM episodes WHERE learner = ? AND closed IS NULL "
            f"ORDER BY {self._order} LIMIT 1",
            self.name,
        )
        return found[0] if found else None

    def _expire(self) -> None:
        """Close the episodes past deadline and grace."""
        past = "? - began > ?" if self._timed else "? - number > ?"
        while self.learns and self._oldest and self.is_past(self._limit, *self._oldest, self.now):
            found = self.db.all(
                "SELECT number FROM episodes WHERE learner = ? AND closed IS NULL "
                f"AND {past} ORDER BY {self._order} LIMIT {SLICE}",
                self.name, self.now if self._timed else self.runner.agent.begun - 1, self._limit,
            )  # fmt: skip
            states = self._states(number for (number,) in found)
            self.catch_up_all()
            for state in states.values():
                self._expire_one(state)
            self._write()
            self._oldest = self._first_open()

    def _expire_one(self, state: EpisodeState) -> None:
        """Close an episode, and give the default to the steps that have not reported."""
        config, known = self.config, state.known(used=True)
        heard = not self.problem.awaited(known, config.information, uses_paths=False)
        why = "expired" if heard else "forgotten"
        if not heard and config.default is not None:
            silent = self.problem.assemble(state.number, known, config.information, config.default)
            if silent is not None:
                self._note_whole(state, silent, self.now, DEFAULT)
                why = "default"
        if self.problem.one_outcome and self._needs_path(state) and "path" not in known:
            why = "forgotten"
        self._close(state, why)

    def _close(self, state: EpisodeState, why: str) -> None:
        state.closed, state.why = self.now, why
        self._changed[state.number] = state
        self._open -= 1

    def _note_new(
        self,
        state: EpisodeState,
        facts: Facts,
        happened: float,
        status: str,
        body: Any,
    ) -> Facts:
        """Note the facts that are not known; returns all.

        body: the record that the agent gets with the last one.
        """
        before = state.known(used=status != "late")
        new = [key for key in facts if key not in before]
        for key in new:
            told = body if key == new[-1] else None
            self._note(state, key, facts[key], happened, status, told)
        return before | facts

    def _note(
        self, state: EpisodeState, key: Any, value: Any, happened: float, status: str, body: Any
    ) -> None:
        """Note a fact of an episode; body: the record that the agent gets with it."""
        fact = f"step {key}" if isinstance(key, int) else key
        is_text = value is None or isinstance(value, str)
        amount, text = (None, value) if is_text else (float(value) + 0.0, None)
        told = None if body is None else _dumped(body.to_json())
        row = OutcomeRow(state.number, fact, amount, text, told, self.now, happened, status)
        state.facts[fact] = row
        self._changed[state.number] = state
        self._rows.append(row)

    def _note_whole(self, state: EpisodeState, record: Any, happened: float, status: str) -> None:
        """Note a whole outcome; its value is the sum, None of a whole cost function."""
        bandit = self.config.information == "bandit"
        total = sum(record.facts().values()) if bandit else None
        self._note(state, WHOLE, total, happened, status, record)

    def _states(self, numbers: Iterable[int]) -> dict[int, EpisodeState]:
        """What the tables say of these episodes, with their rows locked.

        Before one is closed, `catch_up_all` takes what others have written of it until then.
        """
        asked = sorted(set(numbers))
        rows = self._select(
            "SELECT number, 1, began, policy, closed FROM episodes "
            f"WHERE learner = ? AND number IN ({{}}){self._lock}",
            asked,
        )
        found = {number: EpisodeState(number) for number in asked}
        found |= {row[0]: EpisodeState(*row) for row in rows}
        for values in self._select(
            f"SELECT {OUTCOMES} FROM outcomes WHERE learner = ? AND number IN ({{}})", asked
        ):
            row = OutcomeRow(*values)
            found[row.number].facts[row.fact] = row
        if self.problem.states is not None:
            for number, step, observation, action in self._select(
                "SELECT number, step, observation, action FROM decisions "
                "WHERE learner = ? AND number IN ({})",
                asked,
            ):
                found[number].decided[step] = (json.loads(observation) or 0, action)
        return found

    # Decisions.

    def begin(self, key: str | None) -> Done:
        """Begin an episode, or find that of a known key."""
        if self.problem.states is None:
            raise Refusal(WITHOUT_STATES)
        for number, policy in self.db.all(
            "SELECT number, policy FROM episodes WHERE learner = ? AND key = ?", self.name, key
        ):
            if policy is None:
                raise Refusal(
                    f"key {key!r} is that of a decision, which began and decided at once",
                    "key",
                    "conflict",
                )
            return Done(number, created=False)
        self._make_room(1)
        version, (number, policy) = self.runner.version, self.runner.begin()
        mark = digest(policy)
        self._insert("policies", (mark, policy.tobytes()))
        self._insert("episodes", (number, key, self._seq, version, self.now, mark, None))
        self._begun(number, 1)
        self.count("begun")
        return Done(number, created=True)

    def _begun(self, first: int, more: int) -> None:
        """Note that episodes have begun, which may close others."""
        self._open += more
        self._oldest = self._oldest or (first, self.now)
        self._expire()

    def _make_room(self, more: int) -> None:
        """Raise `Refusal` if too many episodes would be open."""
        if self._open + more > self.limits.open:
            raise Refusal(
                f"{self.limits.open} episodes are open; close some, or set a deadline",
                status=429,
                headers={"retry-after": "10"},
            )

    def choose(self, asked: Sequence[Asked]) -> list[Done]:
        """Decide in new episodes of one step: all of them, or none.

        A known key returns its decision again, if it asks the same.
        """
        if self.problem.horizon != 1:
            raise Refusal(
                "a decision in one request needs a learner of one step, "
                f"got {self.problem.horizon}",
                "episode",
            )
        keys = [one.key for one in asked if one.key is not None]
        if len(set(keys)) < len(keys):
            raise Refusal("keys of a batch must differ", "key")
        found = {
            key: row
            for key, *row in self._select(
                "SELECT e.key, e.number, d.action, d.probability, d.observation, d.allowed, "
                "e.policy FROM episodes e LEFT JOIN decisions d "
                "ON d.learner = e.learner AND d.number = e.number AND d.step = 0 "
                "WHERE e.learner = ? AND e.key IN ({})",
                keys,
            )
        }
        for one in asked:
            if one.key in found:
                _check_same(one, *found[one.key][3:])
        new = [one for one in asked if one.key not in found]
        chosen = self._choose_new(new) if new else []
        if chosen is None:
            return self.choose(asked)
        made = iter(chosen)
        return [
            self._decided(*found[one.key][:3], created=False) if one.key in found else next(made)
            for one in asked
        ]

    def _decided(self, number: int, action: int, probability: float, *, created: bool) -> Done:
        names = getattr(self.problem, "names", None)
        name = msgspec.UNSET if names is None else names[action]
        return Done(number, 0, action, probability, name, created)

    def _choose_new(self, asked: Sequence[Asked]) -> list[Done] | None:
        """Decide; None, and nothing has changed, if another process has used one of the keys."""
        seen = [self._checked(i, one, len(asked)) for i, one in enumerate(asked)]
        self._make_room(len(asked))
        agent, numbers = self.runner.agent, self._free(len(asked))
        model, share = getattr(agent, "published", None), getattr(agent, "holdout", 0.0)
        policy = getattr(agent, "reference", None)
        rows = [
            (number, one.key, self._seq, self.runner.version, self.now, None, model)
            for number, one in zip(numbers, asked, strict=True)
        ]
        if self._insert("episodes", *rows) < len(rows):
            self.db.all(
                "DELETE FROM episodes WHERE learner = ? AND number >= ? AND number <= ?",
                self.name, numbers[0], numbers[-1],
            )  # fmt: skip
            return None
        decisions = []
        for one, observation in zip(asked, seen, strict=True):
            made = self.runner.decide(observation, among=one.among, now=self.now)
            chance = float(made.probability)
            holdout = share and share * _held(made, policy) / chance
            known = None if model is None else _dumped(agent.foreseen(one.among, made))
            x, among = _dumped(one.observation), _dumped(one.among)
            decisions.append(
                (made.number, 0, x, among, int(made.action), chance, holdout, self.now, known)
            )
        self._insert("decisions", *decisions)
        self._begun(numbers[0], len(asked))
        self.count("decided", len(asked))
        return [
            self._decided(number, action, chance, created=True)
            for number, _, _, _, action, chance, *_ in decisions
        ]

    def _free(self, count: int) -> range:
        """The numbers of the next decisions."""
        begun = self.runner.agent.begun
        return range(begun, begun + count)

    def _checked(self, place: int, one: Asked, size: int) -> Any:
        """The observation for the agent; raises `Refusal` if no decision is possible there."""
        agent = self.runner.agent
        check = getattr(agent, "check_observation", agent.problem.check_observation)
        try:
            found = check(one.observation, one.among)
        except ValueError as error:
            where = f"decision {place}: " if size > 1 else ""
            field = "among" if str(error).startswith("among") else one.field
            raise Refusal(f"{where}{X.sub(one.field, str(error))}", field) from None
        return one.observation if found is None else found

    def decide(self, episode: int, step: int, state: int) -> Done:
        """Draw an action, or repeat the earlier one."""
        found, row = self._played(episode, step, state)
        if step == 0 and self.problem.start_probabilities[state] == 0.0:
            raise Refusal(f"state must be one that episodes can start in, got {state}", "state")
        before, action = found.decided.get(step, (state, None))
        if before != state:
            raise Refusal(
                f"step {step} of episode {episode} was decided in state {before}, got {state}",
                "state",
                "conflict",
            )
        if action is None:
            action = int(Episode(episode, row[None, None]).act(0, 0, self._rng)[0])
            self._insert(
                "decisions",
                (
                    episode,
                    step,
                    _dumped(state),
                    "null",
                    action,
                    float(row[action]),
                    0.0,
                    self.now,
                    None,
                ),
            )
            found.decided[step] = (state, action)
            self._finish(found, self.now, "taken")
            self._write()
            self.count("decided")
        return Done(episode, step, action, float(row[action]))

    def policy(self, episode: int, step: int | None, state: int | None) -> Floats:
        """The policy (H, S, A) of an open episode, or that of a step, or of a state in it."""
        return self._played(episode, step, state)[1]

    def _played(
        self, episode: int, step: int | None, state: int | None
    ) -> tuple[EpisodeState, Floats]:
        """An open episode, and its policy there."""
        if self.problem.states is None:
            raise Refusal(WITHOUT_STATES, "episode")
        H, S, A = self.problem.shape
        if step is not None and step >= H:
            raise Refusal(f"step must be below {H}, got {step}", "step")
        if state is not None and (state >= S or step is None):
            raise Refusal(f"state must be below {S} and come with a step, got {state}", "state")
        found = self._begun_before(episode)
        if found.closed is not None or found.policy is None:
            raise Refusal(f"episode {episode} is closed", outcome="late", status=410)
        first = ((step or 0) * S + (state or 0)) * A
        made = np.empty([n for n, place in ((H, step), (S, state), (A, None)) if place is None])
        ((content,),) = self.db.all(
            "SELECT substr(content, ?, ?) FROM policies WHERE learner = ? AND digest = ?",
            made.itemsize * first + 1, made.nbytes, self.name, found.policy,
        )  # fmt: skip
        return found, np.frombuffer(bytes(content), made.dtype).reshape(made.shape)

    def _begun_before(self, episode: int) -> EpisodeState:
        state = self._states([episode])[episode]
        self.catch_up_all()
        if not state.exists and episode >= self.runner.agent.begun:
            raise Refusal(f"episode {episode} has not begun", outcome="unknown")
        return state

    # Feedback.

    def feed(self, given: Sequence[Any]) -> list[Outcome]:
        """Take feedback; returns an outcome for each record."""
        records = self._read(given)
        states = self._states(one.episode for one, _ in records if not isinstance(one, Outcome))
        outcomes = [
            one if isinstance(one, Outcome) else self._take(one, states[one.episode], happened)
            for one, happened in records
        ]
        for outcome in outcomes:
            self.count(outcome.outcome)
            self.counts["late_used"] += outcome.used is True
        self._write()
        if not given and self.runner.dated:
            self.runner.learn_all()
            self.call("observe", records=[], now=self.now)
        return outcomes

    def _read(self, given: Sequence[Any]) -> list[tuple[Any, float]]:
        """The records and when they happened, or the outcomes of those that cannot be read."""
        named = (one["key"] for one in given if isinstance(one, Mapping) and "key" in one)
        keys = {key for key in named if isinstance(key, str) and "\0" not in key}
        found = dict(
            self._select("SELECT key, number FROM episodes WHERE learner = ? AND key IN ({})", keys)
        )
        terms = (self.problem, self.config.scale, self.config.information)
        return [read(one, found, self.now, *terms) for one in given]

    def _take(self, record: Any, state: EpisodeState, happened: float) -> Outcome:
        """The outcome of a record, whose facts are noted; those of earlier ones are known."""
        part = record.part
        kind, why, status = self._judged(record, state, happened)
        used = status == "used" if kind == "late" else msgspec.UNSET
        told = Outcome.of(kind, record.episode, part=part, used=used)
        if why:
            where = f"step {part}" if isinstance(part, int) else part
            told.why = f"episode {record.episode}, {where}: {why}"
        if status and state.exists:
            self._enter(state, record, happened, status)
            awaited = self._finish(state, happened, status)
            told.awaited = awaited if awaited and kind == "taken" else msgspec.UNSET
        return told

    def _judged(self, record: Any, state: EpisodeState, happened: float) -> tuple[str, str, str]:
        """What becomes of a record: the kind of its outcome, why, and the status of its rows."""
        number = state.number
        if not state.exists and number >= self.runner.agent.begun:
            return "unknown", "the episode must be one that was begun", ""
        past = self.is_past(self._deadline, number, state.began, min(happened, self.now))
        is_open = state.closed is None
        waits = (
            is_open and record.is_outcome and None not in (self.config.default, self.config.grace)
        )
        facts, known = record.facts(), state.known(used=waits and not past)
        if isinstance(record, Trajectory):
            facts, known = _steps(record), known | _decisions(state.decided.items())
            if self.problem.horizon == 1:
                del facts["end"]  # of one step, the last state does not matter
        kind, why = compare(_named(facts), _named(known))
        if kind != "taken":
            return kind, why, ""
        if not is_open or (waits and past):
            return "late", WAITED if is_open else TOO_LATE, "late"
        return ("late", OVERDUE, "used") if past else ("taken", "", "taken")

    def _enter(self, state: EpisodeState, record: Any, happened: float, status: str) -> None:
        """Note the facts of a record, and the whole outcome that they complete."""
        facts, pieces = record.facts(), self.problem.one_outcome
        if isinstance(record, Trajectory):
            self._write_path(state, record)
            facts = {"end": int(record.states[-1])}
        body = None if pieces or isinstance(record, Reward) else record
        known = self._note_new(state, facts, happened, status, body)
        if pieces and record.is_outcome and status != "late":
            if record.partial:
                record = self.problem.assemble(state.number, known, self.config.information)
            if record is not None:
                self._note_whole(state, record, happened, status)

    def _built(self, state: EpisodeState) -> Trajectory | None:
        """The path that decisions and the last state make, once it is complete."""
        H, S, _ = self.problem.shape
        told = state.facts.get("end")
        end = 0 if S == 1 else UNKNOWN if told is None else int(told.value or 0)
        noted = state.policy is None or "path" in state.facts
        if len(state.decided) < H or noted or (end == UNKNOWN and H > 1):
            return None
        states, actions = zip(*(state.decided[h] for h in range(H)), strict=True)
        return Trajectory(state.number, np.array([*states, end]), np.array(actions))

    def _needs_path(self, state: EpisodeState) -> bool:
        """Whether the agent waits for a path: it has noted that of a decision in one request."""
        return self.runner.agent.uses_paths and state.policy is not None

    def _finish(self, state: EpisodeState, happened: float, status: str) -> list[Any]:
        """Note the path if it is complete, and close an episode to which nothing lacks.

        Returns what it needs before the agent can learn from it.
        """
        if not self.problem.one_outcome:
            return []
        path = self._built(state)
        if path is not None and status != "late":
            end = {} if path.states[-1] == UNKNOWN else {"end": int(path.states[-1])}
            self._note_new(state, end | path.facts(), happened, status, path)
        known, needs = state.known(used=True), self._needs_path(state)
        awaited = self.problem.awaited(known, self.config.information, uses_paths=needs)
        if not awaited and state.closed is None:
            self._close(state, "complete")
        return list(awaited)

    def _write(self) -> None:
        """Write the noted outcomes and what became of their episodes, and tell the runner."""
        rows, states = self._rows, self._changed.values()
        if not states:
            return
        self._insert("outcomes", *((*row, self._seq, i) for i, row in enumerate(rows)))
        whole = f" AND o.fact = '{WHOLE}'" if self.problem.one_outcome else ""
        told = [(s.closed, s.why and self._seq, s.why, self.name, s.number) for s in states]
        self.db.many(UPDATE.format(whole=whole), told)
        if self.learns:
            closed = [(one.number,) for one in states if one.why not in (None, "complete")]
            self.runner.take(defaultdict(list, outcomes=rows, closed=closed))
        self._rows, self._changed = [], {}

    def _write_path(self, state: EpisodeState, path: Trajectory) -> None:
        """Note the decisions of a reported path, so that later requests must agree."""
        made = enumerate(zip(path.states.tolist(), path.actions.tolist(), strict=False))
        new = {h: pair for h, pair in made if h not in state.decided}
        state.decided |= new
        self._insert(
            "decisions",
            *(
                (state.number, h, _dumped(seen), "null", action, None, 0.0, self.now, None)
                for h, (seen, action) in new.items()
            ),
        )

    def forget(self, episode: int) -> Outcome:
        """Forget an episode."""
        state = self._begun_before(episode)
        if state.closed is not None:
            return Outcome.of("duplicate", episode, why=f"episode {episode} is closed already")
        self._close(state, "request")
        self._write()
        self.count("forgotten_by_request")
        return Outcome.of("taken", episode)

    # Changes and snapshots.

    def add_action(self, name: str | None) -> Done:
        """Add an action; a known name changes nothing."""
        problem = self._changeable
        known = name is not None and name in (problem.names or ())
        action = problem.index("action", name) if known else problem.actions
        if action in self.runner.agent.retired:
            raise Refusal(f"{name} was retired; add it under another name", "action")
        return self.change(None if known else "add_action", action, {"name": name})

    def retire_action(self, action: str) -> Done:
        """Retire an action by its name, or by its number if none has this name."""
        problem = self._changeable
        numbered = action not in (problem.names or ()) and re.fullmatch("[0-9]{1,9}", action)
        try:
            number = problem.index("action", int(action) if numbered else action)
        except ValueError as error:
            raise Refusal(str(error), "action", "unknown") from None
        retired = number in getattr(self.runner.agent, "retired", ())
        return self.change(None if retired else "retire", number, {"action": number})

    @property
    def _changeable(self) -> Any:
        """The problem, if its actions may change."""
        if not hasattr(self.problem, "with_action"):
            raise Refusal(
                "the actions of this learner are fixed: its tables have one place per action from "
                "the beginning on; linear_sampler, with a model per action, can add and retire "
                "them",
                "action",
            )
        return self.problem

    def change(self, what: str | None, action: int, given: dict[str, Any]) -> Done:
        """Change an action of the agent by a call, if one is needed."""
        try:
            if what is not None:
                self.call(what, **given)
        except ValueError as error:
            raise Refusal(str(error), "action") from None
        return Done(action=action, name=self.problem.name(action), changed=what is not None)

    def snapshot_soon(self) -> None:
        """Let a snapshot be due, whatever the number of rows since the last one."""
        self.runner.since = max(self.runner.since, self.limits.snapshot)

    def snapshot(self) -> None:
        """Store the agent, and delete what two snapshots cover."""
        self.runner.learn_all()
        content, name = saving.to_bytes(self.runner.agent), self.name
        with self.db.transaction():
            seq = self.runner.seq = self.runner.seq + 1
            self.db.all(
                "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)",
                name, seq, self.runner.version, self.now, content,
            )  # fmt: skip
            kept = self.db.all(
                "SELECT seq FROM snapshots WHERE learner = ? ORDER BY seq DESC LIMIT ?", name, KEPT
            )
            (oldest,) = kept[-1]
            self.db.all("DELETE FROM snapshots WHERE learner = ? AND seq < ?", name, oldest)
            self.db.all(
                "DELETE FROM policies WHERE learner = ? AND digest NOT IN (SELECT policy "
                "FROM episodes WHERE learner = ? AND closed IS NULL AND policy IS NOT NULL)",
                name, name,
            )  # fmt: skip
            if self.limits.log is not None and len(kept) == KEPT:
                self._shorten(min(oldest, seq - self.limits.log))
        self.runner.snapshot, self.runner.since = seq, 0

    def _shorten(self, before: int) -> None:
        """Delete the rows of episodes that were closed before a request, and old changes."""
        ended = "FROM episodes WHERE learner = ? AND ended <= ?"
        for statement in (
            f"DELETE FROM decisions WHERE learner = ? AND number IN (SELECT number {ended})",
            f"DELETE FROM outcomes WHERE learner = ? AND number IN (SELECT number {ended})",
            f"DELETE {ended}",
            "DELETE FROM changes WHERE learner = ? AND seq <= ?",
        ):
            self.db.all(statement, *[self.name] * (statement.count("?") - 1), before)
        begun = self.runner.agent.begun
        self.db.all(
            "UPDATE learners SET shortened = ?, leased = CASE WHEN leased < ? THEN ? ELSE leased "
            "END WHERE learner = ? AND shortened < ?",
            before, begun, begun, self.name, before,
        )  # fmt: skip


def _check_same(one: Asked, observation: str, allowed: str, policy: str | None) -> None:
    """Raise `Refusal` if a key was used for something else."""
    if policy is not None or observation is None:
        differs = "an episode that was begun without a decision"
    elif json.loads(observation) != one.observation:
        differs = f"other {one.field}"
    elif json.loads(allowed) != one.among:
        differs = "other among"
    else:
        return
    raise Refusal(f"key {one.key!r} was used before with {differs}", "key", "conflict")


def _held(made: Decision, policy: Sequence[float] | None) -> float:
    """The probability of the action of a decision under the policy of the holdout, or uniform."""
    possible = made.probabilities > 0.0
    given = possible * (1.0 if policy is None else np.array(policy))
    given = given if given.any() else possible
    return float(given[made.action] / given.sum())


def _steps(path: Trajectory) -> Facts:
    """The states and actions of a path as facts."""
    steps = zip(path.states.tolist(), path.actions.tolist(), strict=False)
    return _decisions(enumerate(steps)) | {"end": int(path.states[-1])}


def _decisions(steps: Iterable[Any]) -> Facts:
    """States and actions by step as facts."""
    return {
        f"the {word} of step {h}": value
        for h, pair in steps
        for word, value in zip(("state", "action"), pair, strict=True)
    }


def _named(facts: Facts) -> Facts:
    """Facts with events as the client named them."""
    names = {EVENT: "the reward", "end": "the last state"}
    return {
        f"event {key[1:]!r}" if str(key).startswith("=") else names.get(key, key): value
        for key, value in facts.items()
    }


def _dumped(value: Any) -> str:
    """A value as JSON text; floats come back as they were."""
    return msgspec.json.encode(value).decode()
