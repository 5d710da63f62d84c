"""Many processes decide for a learner, and one learns: the sessions of both, in PostgreSQL.

    Holder    has the learner's lock: takes the rows of the others in one order, and publishes
    Decider   decides from the newest model, and writes rows without a number (`seq`)

A decision is a function of a model, the features, the seed and its number. The numbers of a decider
come from a block that it has leased. In the transaction that gives a number to a row, the holder
repeats it exactly as a start does, so that the tables say the same in either case. A lease ends
with the connection of its decider; its unused numbers stay gaps.

The row of a lease counter, `learners.leased`, is locked by whoever takes a new number. The row of
an episode is locked by whoever reports on it or closes it, and before an episode is closed its
rows are taken: what was acknowledged as taken in time is learned in time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from belated.core.contract import Decision
from belated.linear.model import Model, choose
from belated.service.config import LearnerConfig, Limits
from belated.service.runner import AgentRunner, as_made, restore
from belated.service.session import KEPT, Session
from belated.service.tables import LOCK, Tables
from belated.service.wire import SOON, Asked, Done, Refusal

BLOCK = 1000
"""The number of numbers that a decider leases at once."""
FAR = 100_000
"""The number of numbers that others may lease before a decider gives up an old block."""
MOST = 2000
"""The largest number of rows of a kind that are taken at once."""
PUBLISHED = 1.0
"""Seconds between two models, and between two looks at what the other processes do."""
NO_MODEL = "no model has been published yet; the process that learns does it within seconds"
TAKE_BEGUN = (
    "WITH new AS MATERIALIZED (SELECT number FROM episodes WHERE learner = ? AND seq IS NULL "
    f"ORDER BY began, number LIMIT {MOST} FOR UPDATE SKIP LOCKED) "
    "UPDATE episodes e SET seq = ? FROM new WHERE e.learner = ? AND e.number = new.number "
    "RETURNING 1"
)
TAKE_OUTCOMES = (
    "WITH new AS MATERIALIZED (SELECT o.number, o.fact, "
    "row_number() OVER (ORDER BY o.at, o.number, o.place, o.fact) AS place "
    "FROM outcomes o JOIN episodes e ON e.learner = o.learner AND e.number = o.number "
    f"WHERE o.learner = ? AND o.seq IS NULL AND e.seq IS NOT NULL ORDER BY 3 LIMIT {MOST}) "
    "UPDATE outcomes o SET seq = ?, place = new.place FROM new "
    "WHERE o.learner = ? AND o.number = new.number AND o.fact = new.fact RETURNING 1"
)
"""How rows without a number get one; those of an episode after the episode itself."""
LEASE = (
    "WITH block AS (UPDATE learners l SET leased = ? + greatest(leased, (SELECT max(number) + 1 "
    "FROM episodes e WHERE e.learner = l.learner)) WHERE learner = ? RETURNING learner, leased) "
    "INSERT INTO leases SELECT learner, leased - ?, leased, pid, "
    "extract(epoch FROM backend_start)::float8 FROM block, pg_stat_activity "
    "WHERE pid = pg_backend_pid() RETURNING first, past"
)
"""How a process takes the numbers after all that are leased or used, when the row of the learner is
locked: what others have used before is seen."""
END = (
    "UPDATE leases SET process = 0 WHERE learner = ? AND NOT EXISTS (SELECT 1 "
    "FROM pg_stat_activity WHERE pid = process "
    "AND extract(epoch FROM backend_start)::float8 = started)"
)
RELEASE = (
    "DELETE FROM leases l WHERE learner = ? AND process = 0 AND NOT EXISTS "
    "(SELECT 1 FROM episodes e WHERE e.learner = l.learner AND e.number >= first "
    "AND e.number < past AND e.seq IS NULL) RETURNING first, past"
)
"""How the leases of ended processes end, and those of which all rows are taken are deleted. These
are two statements, so that the second one sees all that an ended process has written."""


def can_share(config: LearnerConfig) -> bool:
    """Whether several processes may decide: the agent can reserve numbers; ages use the clock."""
    return hasattr(config.fresh(), "reserve") and (config.deadline is None or config.timed)


def opened(db: Tables, config: LearnerConfig, limits: Limits) -> Session:
    """The session of a process."""
    if db.taken is None:
        kind = Holder if db.shared and can_share(config) else Session
        return kind(db, config, limits, restore(db, config))
    agent: Any = PublishedAgent(as_made(db, config)[0])
    return Decider(db, config, limits, AgentRunner(agent))


class Holder(Session):
    """The session that learns, beside deciders.

    Attributes:
        shared: whether a decider has a lease.
    """

    _order, _lock = "began, number", " ORDER BY number FOR UPDATE"

    def _prepare(self) -> None:
        super()._prepare()
        self._time, self._published = 0.0, (-1, -1)
        self._look_for_leases()

    def _look_for_leases(self) -> None:
        leases = self.db.all("SELECT 1 FROM leases WHERE learner = ? LIMIT 1", self.name)
        self.shared = bool(leases)

    def catch_up(self, *, every: bool = False) -> int:
        """See `Session`: reserve the numbers that are leased, and take the rows of deciders."""
        self.now = max(self.now, self.clock())
        ((leased,),) = self.db.all(
            "SELECT leased FROM learners WHERE learner = ? FOR SHARE", self.name
        )  # so that nobody leases before the commit
        if leased > self.runner.agent.begun:
            self.call("reserve", end=leased)
            self.shared = True
        room = every or self.runner.waiting < self.limits.waiting
        return self._take_rows() if self.shared and room else 0

    def _take_rows(self) -> int:
        """Give the rows of deciders a number, and repeat what they did."""
        name, db = self.name, self.db
        seq = self.runner.seq + 1
        begun = len(db.all(TAKE_BEGUN, name, seq, name))
        heard = len(db.all(TAKE_OUTCOMES, name, seq, name))
        if begun or heard:
            self.runner.repeat(db, name, seq)
            self.next_request()
            self._open += begun
            self._oldest = self._first_open()
            self.count("decided", begun)
            self.count("taken", heard)
        return begun + heard

    def change(self, what: str | None, action: int, given: dict[str, Any]) -> Done:
        """See `Session`: no decision after the answer is made from an older model."""
        made = super().change(what, action, given)
        if made.changed:
            self._publish()
        return made

    def tend(self) -> bool:
        """See `Session`: publish a model once in a while, if there is something new."""
        due = time.monotonic() >= self._time + PUBLISHED
        if self.shared and due and self._published != (self.runner.seq, self.runner.version):
            with self.db.transaction():
                self._publish()
        return False

    def _publish(self) -> None:
        content, name = self.call("model").to_bytes(), self.name
        self.db.all(
            "INSERT INTO models VALUES (?, ?, ?, ?)", name, self.runner.seq, self.now, content
        )
        self.db.all(
            "DELETE FROM models WHERE learner = ? AND version NOT IN (SELECT version "
            "FROM models WHERE learner = ? ORDER BY version DESC LIMIT ?)",
            name, name, KEPT,
        )  # fmt: skip
        self._published = self.runner.seq, self.runner.version  # what it was made from
        self._time = time.monotonic()

    def snapshot(self) -> None:
        """See `Session`: before that, the numbers of ended deciders are released."""
        with self.db.transaction():
            self.catch_up_all()
        self.runner.learn_all()
        with self.db.transaction():
            self.db.all(END, self.name)
            for first, past in self.db.all(RELEASE, self.name):
                self.call("release", first=first, end=past)
            self._look_for_leases()
        super().snapshot()


class PublishedAgent:
    """An agent that decides from published models, and learns nothing.

    Attributes:
        model: the newest model; None if there is none.
        published: its version.
        numbers: those of the next decisions.
        begun: every decision below this number was made, whether or not its row is left.
    """

    holdout, begun, published = 0.0, 0, 0

    def __init__(self, agent: Any) -> None:
        self.problem, self._seed = agent.problem, agent.seed
        self.model: Any = None
        self.numbers = range(0)

    def take(self, version: int, content: bytes) -> None:
        """Decide from another model."""
        self.model, self.published = Model.from_bytes(content), version
        self.problem, self.holdout = self.model.problem, self.model.holdout
        self.reference = self.model.reference

    def check_observation(self, x: object, among: object) -> None:
        """Raise `ValueError` if no decision is possible there."""
        self.model.check_observation(x, among)

    def decide(self, x: object, among: Any = None, now: float | None = None) -> Decision:
        """The decision with the next number."""
        number, self.numbers = self.numbers[0], self.numbers[1:]
        return choose(self.model, x, self._seed, number, among)

    def foreseen(self, among: Any, made: Decision) -> tuple[float, ...]:
        """What the model says of the probabilities of a decision before its features are seen."""
        models = self.model.available(1, among)
        return self.model.foreseen(models, made.probabilities)  # type: ignore[no-any-return]

    def observe(self, records: Iterable[Any]) -> None:
        """Nothing: the process that learns reads the rows."""


class Decider(Session):
    """A session that decides and writes, for a learner that another process has."""

    learns = False
    _lock = Holder._lock

    def _prepare(self) -> None:
        self.address = None if self.db.taken is None else self.db.taken.address
        self._time, self._open = 0.0, -math.inf  # the process that learns counts what is open
        self._oldest = None
        self._lease(0)

    def _lease(self, count: int) -> None:
        """Take a block of numbers, and give up the one before."""
        self.db.all(
            "UPDATE leases SET process = 0 WHERE learner = ? AND process = pg_backend_pid()",
            self.name,
        )
        self.db.all("SELECT 1 FROM learners WHERE learner = ? FOR UPDATE", self.name)
        size = max(count, BLOCK)
        (block,) = self.db.all(LEASE, size, self.name, size)
        self.runner.agent.numbers = range(*block)

    def catch_up(self, *, every: bool = False) -> int:
        """See `Session`: read the newest model."""
        for version, content in self.db.all(
            "SELECT version, content FROM models WHERE learner = ? AND version > ? "
            "ORDER BY version DESC LIMIT 1",
            self.name, self.runner.agent.published,
        ):  # fmt: skip
            self.runner.agent.take(version, bytes(content))
        return 0

    def tend(self) -> bool:
        """See `Session`: whether nobody learns, so that this process can."""
        if time.monotonic() < self._time + PUBLISHED:
            return False
        self._time = time.monotonic()
        db, name, agent = self.db, self.name, self.runner.agent
        ((free, leased, shortened, waits),) = db.all(
            f"SELECT pg_try_advisory_lock({LOCK}), leased, shortened, (SELECT min(began) "
            "FROM episodes e WHERE e.learner = l.learner AND e.seq IS NULL) "
            "FROM learners l WHERE learner = ?",
            name, name,
        )  # fmt: skip
        found = db.all("SELECT address FROM drivers WHERE learner = ?", name)
        self.address = found[0][0] if found else None
        self.still = 0.0 if waits is None else self.clock() - waits
        agent.begun = leased if shortened else 0
        if leased - agent.numbers.stop > FAR:
            with db.transaction():
                self._lease(0)
        return bool(free)

    def choose(self, asked: Sequence[Asked]) -> list[Done]:
        """See `Session`."""
        if self.runner.agent.model is None:
            raise Refusal(NO_MODEL, status=503, address=self.address, headers=SOON)
        return super().choose(asked)

    def snapshot(self) -> None:
        """Nothing: the process that learns stores the agent."""
        self.runner.since = 0

    def _free(self, count: int) -> range:
        if len(self.runner.agent.numbers) < count:
            self._lease(count)
        numbers: range = self.runner.agent.numbers[:count]
        return numbers

    def rolled_back(self) -> None:
        """Forget the block of numbers: it may have been that of the transaction."""
        self.runner.agent.numbers = range(0)
