"""One learner in normal operation: what each request reads and writes, within a transaction.

A session belongs to one thread, so what it writes has one order: `seq` is the number of rows up to
there. Every method checks a request before it writes the first row. What is open, known or repeated
is a question to the tables; the session itself keeps only counters. The requests of a transaction
have one time. Deadlines are a function of these times: a transaction first closes the episodes
whose deadline has passed.
"""

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
from belated.service.wire import (
    SOON,
    ActionBody,
    Asked,
    DecideBatchBody,
    Decisions,
    Done,
    FeedbackBatchBody,
    KeyBody,
    Name,
    Outcome,
    Outcomes,
    Refusal,
    Table,
    Whole,
    read,
)
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
Clock = Callable[[], float]
Facts = dict[Any, Any]
"""What is known of an episode, by the keys of records."""
KEPT = 2
"""The number of snapshots to keep, and of published models."""
SLICE = 500
"""The largest number of episodes that are closed at once."""
INSERT = {
    "episodes": "(learner, number, key, seq, version, began, policy, model) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (learner, key) WHERE key IS NOT NULL DO NOTHING",
    "decisions": "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "changes": "VALUES (?, ?, ?, ?, ?, ?)",
    "snapshots": "VALUES (?, ?, ?, ?, ?)",
    "models": "VALUES (?, ?, ?, ?, ?)",
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


def steady_clock(after: float, wall: Clock = time.time, monotonic: Clock = time.monotonic) -> Clock:
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

    def known(self, *, used: bool = True) -> Facts:
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
        learns: whether the agent learns here, so that rows are numbered and episodes close.
        now: the time of the current transaction.
        address: of the process that learns, if it is another one that can be reached.
        still: the number of seconds for which rows have waited for the process that learns.
    """

    learns = True
    address: str | None = None
    still = 0.0

    def __init__(
        self, db: Tables, config: LearnerConfig, limits: Limits, runner: AgentRunner
    ) -> None:
        self.name, self.db, self.config, self.runner = config.name, db, config, runner
        self.clock = steady_clock(newest(db, self.name)[1])
        self.now = self.clock()
        self.counts: Counter[str] = Counter()
        self.arrivals: deque[Counter[str]] = deque(maxlen=MINUTES)
        self._rows: list[OutcomeRow] = []  # of a request, before they are written
        self._changed: dict[int, EpisodeState] = {}  # their episodes, and those that it closes
        self.limits = limits
        self._rng = np.random.default_rng()
        with db.transaction():
            self._prepare()

    def _prepare(self) -> None:
        """Count what is open, and make the agent the configured one."""
        ((self._open,),) = self.all(
            "SELECT count(*) FROM episodes WHERE learner = ? AND closed IS NULL AND seq IS NOT NULL"
        )
        for what, body in wanted(self.runner.agent, self.config.fresh()):
            self.call(what, **body)

    @property
    def problem(self) -> Any:
        """The problem, with the actions of today."""
        return self.runner.agent.problem

    # What other processes have done; see `decider`.

    def catch_up(self, *, every: bool = False) -> None:
        """Take what other processes have written.

        every: whether to take all of it though the queue of the agent is full.
        """

    def publish(self) -> None:
        """Give other processes the model: no later decision is made from an older one."""

    def rolled_back(self) -> None:
        """Forget what was only in a transaction that has failed."""

    def tend(self) -> bool:
        """Do between two transactions what is due; returns whether to open the learner again."""
        return False

    # Requests: their time, and what they write.

    def start(self) -> None:
        """Begin a transaction: its time, the rows of others, and deadlines that have passed."""
        self.discard()
        self.now = self.clock()
        self.catch_up()
        self._expire()

    def discard(self) -> None:
        """Drop what a request noted and did not write."""
        self._rows, self._changed = [], {}

    def call(self, what: str, **given: Any) -> Any:
        """Call a method of the agent, and note that; `ValueError` if that is impossible."""
        version, made = self.runner.version, getattr(self.runner.agent, what)(**given)
        self._insert("changes", (self._next(1), what, _dumped(given), version, self.now))
        return made

    def _next(self, rows: int) -> int | None:
        """The number of the next rows, if they are numbered here."""
        self.runner.seq += rows if self.learns else 0
        return self.runner.seq if self.learns else None

    def _insert(self, table: str, *rows: Sequence[Any]) -> int:
        """Write rows of a table, all values but the name of the learner; returns how many."""
        values = [(self.name, *row) for row in rows]
        return self.db.many(f"INSERT INTO {table} {INSERT[table]}", values)

    def all(self, statement: str, *values: Any) -> list[Any]:
        """The rows that a statement about this learner returns, which is its first value."""
        return self.db.all(statement, self.name, *values)

    def _select(self, statement: str, values: Iterable[Any]) -> list[Any]:
        """The rows of a statement with a list of values, as many as a batch may have."""
        items = list(values)
        return self.all(statement.format(", ".join("?" * len(items))), *items) if items else []

    def count(self, kind: str, more: int = 1) -> None:
        """Count what has happened, also by minute."""
        self.counts[kind] += more
        minute = int(self.now // 60)
        if not self.arrivals or self.arrivals[-1]["minute"] != minute:
            self.arrivals.append(Counter(minute=minute))
        self.arrivals[-1][kind] += more

    # Deadlines.

    def is_past(self, number: int, began: float, now: float) -> bool:
        """Whether the deadline of an episode has passed."""
        deadline = self.config.deadline
        waited = now - began if self.config.timed else self.runner.agent.begun - 1 - number
        return deadline is not None and waited > deadline

    def _expire(self) -> None:
        """Close the episodes past deadline and grace."""
        limit, timed = self.config.limit, self.config.timed
        if limit is None or not self.learns:
            return
        edge = (self.now if timed else self.runner.agent.begun - 1) - limit
        what, order = ("began", "began, number") if timed else ("number", "number")
        while found := self.all(
            f"SELECT number FROM episodes WHERE learner = ? AND closed IS NULL AND {what} < ? "
            f"ORDER BY {order} LIMIT {SLICE}",  # by an index of open episodes
            edge,
        ):
            states = self._states(number for (number,) in found)
            self.catch_up(every=True)
            for state in states.values():
                self._close(state, self._apply_default(state))
            self._write()

    def _apply_default(self, state: EpisodeState) -> str:
        """Give the default to the steps that have not reported; returns why the episode ends."""
        default, awaited = self.config.default, self._awaited(state)
        late = default is not None and {*awaited} - {"path"}
        if late and self._assemble(state, self.now, DEFAULT, default) and "path" not in awaited:
            return "default"
        return "forgotten" if awaited else "expired"

    def _awaited(self, state: EpisodeState) -> list[Any]:
        """What the agent needs of an episode; it has noted the path of one that it decided in."""
        needs, known = self.runner.agent.uses_paths and state.policy is not None, state.known()
        return list(self.problem.awaited(known, self.config.information, uses_paths=needs))

    def _close(self, state: EpisodeState, why: str) -> None:
        state.closed, state.why = self.now, why
        self._changed[state.number] = state
        self._open -= 1

    def _note(
        self, state: EpisodeState, facts: Facts, happened: float, status: str, record: Any = None
    ) -> None:
        """Note facts that are not known. record: what the agent gets with the last of them."""
        known = state.known(used=status != "late")
        new = [key for key in facts if key not in known]
        for key in new:
            fact, value = f"step {key}" if isinstance(key, int) else key, facts[key]
            is_text = value is None or isinstance(value, str)
            amount, text = (None, value) if is_text else (float(value) + 0.0, None)
            told = None if record is None or key != new[-1] else _dumped(record.to_json())
            row = OutcomeRow(state.number, fact, amount, text, told, self.now, happened, status)
            state.facts[fact] = row
            self._rows.append(row)
        self._changed[state.number] = state

    def _states(self, numbers: Iterable[int]) -> dict[int, EpisodeState]:
        """What the tables say of these episodes, with their rows locked.

        Before one is closed, `catch_up` takes what others have written of it until then.
        """
        asked, lock = sorted(set(numbers)), "FOR UPDATE" if self.db.shared else ""
        rows = self._select(
            "SELECT number, 1, began, policy, closed FROM episodes "
            f"WHERE learner = ? AND number IN ({{}}) ORDER BY number {lock}",
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

    def begin(self, body: KeyBody | None = None) -> Done:
        """Begin an episode. A retry with the same key returns the same episode."""
        key = (body or {}).get("key")
        if self.problem.states is None:
            raise Refusal(WITHOUT_STATES)
        for number, policy in self.all(
            "SELECT number, policy FROM episodes WHERE learner = ? AND key = ?", key
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
        self._insert("episodes", (number, key, self._next(1), version, self.now, mark, None))
        self._begun("begun", 1)
        return Done(number, created=True)

    def _begun(self, kind: str, more: int) -> None:
        """Note that episodes have begun, which closes others if deadlines count episodes."""
        self._open += more
        self.count(kind, more)
        if not self.config.timed:
            self._expire()

    def _make_room(self, more: int) -> None:
        """Raise `Refusal` if too many episodes would be open."""
        if self._open + more > self.limits.open:
            raise Refusal(
                f"{self.limits.open} episodes are open; close some, or set a deadline",
                status=429,
                headers={"retry-after": "10"},
            )

    def decide(self, body: Asked) -> Done:
        """Draw an action for a step of an episode. A retry gives the same action.

        Without an episode, one of one step begins; a retry with the same key gives the same
        decision.
        """
        if body.episode is None:
            return self.choose([body])[0]
        given = {name for name in body.__struct_fields__ if getattr(body, name) is not None}
        for name in sorted(given ^ {"episode", "step", "state"}):
            why = "is required" if name in ("step", "state") else "must be left out"
            raise Refusal(f"{name} {why} beside an episode", name)
        where: Any = (body.episode, body.step, body.state)
        (episode, step, state), (found, row) = where, self.played(*where)
        self._check_queue()
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
            self._note_steps(found, {step: (state, action)}, float(row[action]))
            self._finish(found, self.now, "taken")
            self._write()
            self.count("decided")
        return Done(episode, step, action, float(row[action]))

    def decide_batch(self, body: DecideBatchBody) -> Decisions:
        """Make many decisions: all of them are made and stored, or none."""
        return {"decisions": self.choose(body.decisions)}

    def _check_size(self, name: str, items: Sequence[Any]) -> None:
        """Raise `Refusal` if a batch is too long. name: what its items are."""
        if len(items) > self.limits.batch:
            why = f"a batch must have at most {self.limits.batch} {name}, got {len(items)}"
            raise Refusal(why, name, status=413)

    def _check_queue(self) -> None:
        """Raise `Refusal` if too many calls wait for the agent."""
        if self.runner.waiting >= self.limits.waiting:
            waits = f"{self.runner.waiting} calls wait for the agent"
            raise Refusal(waits, status=429, headers=SOON)

    def choose(self, asked: Sequence[Asked]) -> list[Done]:
        """Decide in new episodes of one step: all of them, or none.

        A known key returns its decision again, if it asks the same.
        """
        self._check_size("decisions", asked)
        for one in asked:
            if one.episode is not None or one.step is not None:
                why = "step needs an episode; a learner of one step begins one here"
                raise Refusal(why, "step" if one.episode is None else "episode")
            if one.features is not None and one.state is not None:
                raise Refusal("a decision must have features or a state, got both", "state")
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
        made = iter(self._choose_new(new) if new else [])
        return [
            self._chosen(*found[one.key][:3], created=False) if one.key in found else next(made)
            for one in asked
        ]

    def _chosen(self, number: int, action: int, probability: float, *, created: bool) -> Done:
        """The answer to a request for a decision."""
        names = getattr(self.problem, "names", None)
        name = msgspec.UNSET if names is None else names[action]
        return Done(number, 0, action, probability, name, created)

    def _choose_new(self, asked: Sequence[Asked]) -> list[Done]:
        """Decide, unless another process has used one of the keys just now."""
        agent, numbers = self.runner.agent, self._free(len(asked))
        seen = [self._checked(i, one, len(asked)) for i, one in enumerate(asked)]
        self._make_room(len(asked))
        model, share = getattr(agent, "published", None), getattr(agent, "holdout", 0.0)
        policy = getattr(agent, "reference", None)
        seq, version = self._next(len(asked)), self.runner.version
        rows = [
            (number, one.key, seq, version, self.now, None, model)
            for number, one in zip(numbers, asked, strict=True)
        ]
        if self._insert("episodes", *rows) < len(rows):
            self.all(
                "DELETE FROM episodes WHERE learner = ? AND number >= ? AND number <= ?",
                numbers[0], numbers[-1],
            )  # fmt: skip
            return self.choose(asked)
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
        self._begun("decided", len(asked))
        return [self._chosen(row[0], row[4], row[5], created=True) for row in decisions]

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

    def played(
        self, episode: int, step: int | None, state: int | None
    ) -> tuple[EpisodeState, Floats]:
        """An open episode and its policy (H, S, A), or that of a step, or of a state in it."""
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
        self.catch_up(every=True)
        if not state.exists and episode >= self.runner.agent.begun:
            raise Refusal(f"episode {episode} has not begun", outcome="unknown")
        return state

    # Feedback.

    def feedback(self, body: Table) -> Outcome:
        """Report one record. Records may arrive twice, late, and in any order."""
        return self.feed([body])[0]

    def feedback_batch(self, body: FeedbackBatchBody) -> Outcomes:
        """Report many records. Each has its own outcome; the valid ones are used."""
        return {"outcomes": self.feed(body.records)}

    def feed(self, given: Sequence[Any]) -> list[Outcome]:
        """Take feedback; returns an outcome for each record."""
        self._check_size("records", given)
        self._check_queue()
        named = [one.get("key") for one in given if isinstance(one, Mapping)]
        keys = {key for key in named if isinstance(key, str) and "\0" not in key}
        found = dict(
            self._select("SELECT key, number FROM episodes WHERE learner = ? AND key IN ({})", keys)
        )
        terms = (self.problem, self.config.scale, self.config.information)
        records = [read(one, found, self.now, *terms) for one in given]
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

    def _take(self, record: Any, state: EpisodeState, happened: float) -> Outcome:
        """The outcome of a record, whose facts are noted; those of earlier ones are known."""
        part = record.part
        kind, why, status = self._judged(record, state, happened)
        told = Outcome.of(kind, record.episode, part=part)
        if kind == "late":
            told.used = status == "used"
        if why:
            where = f"step {part}" if isinstance(part, int) else part
            told.why = f"episode {record.episode}, {where}: {why}"
        if status and state.exists:
            self._enter(state, record, happened, status)
            awaited = self._finish(state, happened, status)
            if awaited and kind == "taken":
                told.awaited = awaited
        return told

    def _judged(self, record: Any, state: EpisodeState, happened: float) -> tuple[str, str, str]:
        """What becomes of a record: the kind of its outcome, why, and the status of its rows."""
        if not state.exists and state.number >= self.runner.agent.begun:
            return "unknown", "the episode must be one that was begun", ""
        config, is_open, happened = self.config, state.closed is None, min(happened, self.now)
        past = self.is_past(state.number, state.began, happened)
        waits = is_open and record.is_outcome and None not in (config.default, config.grace)
        facts, known = record.facts(), state.known(used=waits and not past)
        if isinstance(record, Trajectory):
            facts, known = _named_steps(_steps(record)), known | _named_steps(state.decided)
            if self.problem.horizon > 1:  # of one step, the last state does not matter
                facts["end"] = int(record.states[-1])
        kind, why = compare(_named(facts), _named(known))
        if kind != "taken":
            return kind, why, ""
        if not is_open or (waits and past):
            return "late", WAITED if is_open else TOO_LATE, "late"
        return ("late", OVERDUE, "used") if past else ("taken", "", "taken")

    def _enter(self, state: EpisodeState, record: Any, happened: float, status: str) -> None:
        """Note the facts of a record; a whole cost function is an outcome by itself."""
        facts, pieces = record.facts(), self.problem.one_outcome
        if isinstance(record, Trajectory):
            self._note_steps(state, _steps(record))
            facts = {"end": int(record.states[-1])}
        whole = None if pieces or isinstance(record, Reward) else record
        self._note(state, facts, happened, status, whole)
        full = pieces and self.config.information == "full" and record.is_outcome
        if full and status != "late":
            self._note(state, {WHOLE: None}, happened, status, record)

    def _built(self, state: EpisodeState) -> Trajectory | None:
        """The path that decisions and the last state make, once it is complete."""
        H, S, _ = self.problem.shape
        end = 0 if S == 1 else int(state.known().get("end", UNKNOWN))
        noted = state.policy is None or "path" in state.facts
        if len(state.decided) < H or noted or (end == UNKNOWN and H > 1):
            return None
        states, actions = zip(*(state.decided[h] for h in range(H)), strict=True)
        return Trajectory(state.number, np.array([*states, end]), np.array(actions))

    def _finish(self, state: EpisodeState, happened: float, status: str) -> list[Any]:
        """Note outcome and path if they are complete, and close an episode to which nothing lacks.

        Returns what it needs before the agent can learn from it.
        """
        if not self.problem.one_outcome:
            return []
        if status != "late" and WHOLE not in state.facts:
            self._assemble(state, happened, status)
        path = self._built(state)
        if path is not None and status != "late":
            end = {} if path.states[-1] == UNKNOWN else {"end": int(path.states[-1])}
            self._note(state, end | path.facts(), happened, status, path)
        awaited = self._awaited(state)
        if not awaited and state.closed is None:
            self._close(state, "complete")
        return awaited

    def _assemble(
        self, state: EpisodeState, happened: float, status: str, default: float | None = None
    ) -> bool:
        """Note the outcome that facts and a default make; returns whether they do.

        Its value is the sum, None of a whole cost function.
        """
        information = self.config.information
        record = self.problem.assemble(state.number, state.known(), information, default)
        if record is not None:
            total = sum(record.facts().values()) if information == "bandit" else None
            self._note(state, {WHOLE: total}, happened, status, record)
        return record is not None

    def _write(self) -> None:
        """Write the noted outcomes and what became of their episodes, and tell the runner."""
        rows, states = self._rows, self._changed.values()
        if not states:
            return
        seq = self._next(max(len(rows), 1))
        self._insert("outcomes", *((*row, seq, i) for i, row in enumerate(rows)))
        whole = f" AND o.fact = '{WHOLE}'" if self.problem.one_outcome else ""
        told = [(s.closed, s.why and seq, s.why, self.name, s.number) for s in states]
        self.db.many(UPDATE.format(whole=whole), told)
        if self.learns:
            closed = [(one.number,) for one in states if one.why not in (None, "complete")]
            self.runner.take(defaultdict(list, outcomes=rows, closed=closed))
        self.discard()

    def _note_steps(
        self, state: EpisodeState, steps: Mapping[int, Any], probability: float | None = None
    ) -> None:
        """Note what was decided, or reported without a probability, so that requests must agree."""
        rows = [
            (state.number, h, _dumped(seen), "null", action, probability, 0.0, self.now, None)
            for h, (seen, action) in steps.items()
            if h not in state.decided
        ]
        self._insert("decisions", *rows)
        state.decided |= steps

    def forget(self, episode: Whole) -> Outcome:
        """Forget an episode: it will not report."""
        self._check_queue()
        state = self._begun_before(episode)
        if state.closed is not None:
            return Outcome.of("duplicate", episode, why=f"episode {episode} is closed already")
        self._close(state, "request")
        self._write()
        self.count("forgotten_by_request")
        return Outcome.of("taken", episode)

    # Changes and snapshots.

    def add_action(self, body: ActionBody | None = None) -> Done:
        """Add an action to a running learner. An existing name changes nothing."""
        problem, name = self._changeable, (body or {}).get("name")
        known = name is not None and name in (problem.names or ())
        action = problem.index("action", name) if known else problem.actions
        if action in self.runner.agent.retired:
            raise Refusal(f"{name} was retired; add it under another name", "action")
        return self.change(None if known else "add_action", action, {"name": name})

    def retire_action(self, action: Name) -> Done:
        """Retire an action, by name or number: it is no longer played, but its feedback counts.

        A name may contain slashes. Where actions have names, a number means the action with this
        name, if there is one.
        """
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
        agent = self.runner.agent
        if not (hasattr(agent, "retire") and hasattr(agent.problem, "with_action")):
            raise Refusal(
                "the actions of this learner are fixed: its tables have one place per action from "
                "the beginning on; linear_sampler, with a model per action, can add and retire "
                "them",
                "action",
            )
        return agent.problem

    def change(self, what: str | None, action: int, given: dict[str, Any]) -> Done:
        """Change an action of the agent by a call, if one is needed."""
        try:
            if what is not None:
                self.call(what, **given)
                self.publish()
        except ValueError as error:
            raise Refusal(str(error), "action") from None
        return Done(action=action, name=self.problem.name(action), changed=what is not None)

    def snapshot(self) -> None:
        """Store the agent, and delete what two snapshots cover."""
        self.runner.learn_all()
        content = saving.to_bytes(self.runner.agent)
        with self.db.transaction():
            kept = self._store("snapshots", content)
            self.all(
                "DELETE FROM policies WHERE learner = ? AND (learner, digest) NOT IN "
                "(SELECT learner, policy FROM episodes WHERE closed IS NULL AND policy IS NOT NULL)"
            )
            if self.limits.log is not None and len(kept) == KEPT:
                self._shorten(min(kept[-1], self.runner.seq - self.limits.log))
        self.runner.snapshot = self.runner.seq

    def _store(self, table: str, content: bytes) -> list[int]:
        """Write a snapshot or a model, and delete old ones; returns the numbers of what is left."""
        self._insert(table, (self._next(1), self.runner.version, self.now, content))
        newest = f"SELECT seq FROM {table} WHERE learner = ? ORDER BY seq DESC LIMIT {KEPT}"
        kept = [seq for (seq,) in self.all(newest)]
        self.all(f"DELETE FROM {table} WHERE learner = ? AND seq < ?", kept[-1])
        return kept

    def _shorten(self, before: int) -> None:
        """Delete the rows of episodes that were closed before a request, and old changes."""
        ended = "FROM episodes WHERE learner = ? AND ended <= ?"
        for old in (
            f"decisions WHERE (learner, number) IN (SELECT learner, number {ended})",
            f"outcomes WHERE (learner, number) IN (SELECT learner, number {ended})",
            "episodes WHERE learner = ? AND ended <= ?",
            "changes WHERE learner = ? AND seq <= ?",
        ):
            self.all(f"DELETE FROM {old}", before)
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


def _steps(path: Trajectory) -> dict[int, Any]:
    """The states and actions of a path by step."""
    return dict(enumerate(zip(path.states.tolist(), path.actions.tolist(), strict=False)))


def _named_steps(steps: Mapping[int, Any]) -> Facts:
    """States and actions by step as facts."""
    return {
        f"the {word} of step {h}": value
        for h, pair in steps.items()
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
