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

import math
import time
from typing import Any

from belated.core.contract import Decision
from belated.linear.model import Model, choose
from belated.service.config import LearnerConfig, Limits
from belated.service.runner import AgentRunner, as_made, restore
from belated.service.session import Session
from belated.service.tables import LOCK, TAKEN, Tables
from belated.service.wire import SOON, Refusal

BLOCK = 1000
"""The number of numbers that a decider leases at once."""
FAR = 100_000
"""The number of numbers that others may lease before a decider gives up an old block."""
MOST = 2000
"""The largest number of rows of a kind that are taken at once."""
PUBLISHED = 1.0
"""Seconds between two models, and between two looks at what the other processes do."""
NO_MODEL = "no model has been published yet; the process that learns does it within seconds"
TEND = (
    f"SELECT pg_try_advisory_lock({LOCK}), address, leased, (SELECT min(began) FROM episodes e "
    "WHERE e.learner = l.learner AND e.seq IS NULL) "
    "FROM learners l LEFT JOIN drivers USING (learner) WHERE learner = ?"
)
"""Whether the lock of the learner was free, the address of who has it, the numbers that are used or
leased, and since when rows wait."""
TAKE = (
    "WITH new AS MATERIALIZED (SELECT learner, number FROM episodes WHERE learner = ? "
    f"AND seq IS NULL ORDER BY began, number LIMIT {MOST} FOR UPDATE SKIP LOCKED) "
    "UPDATE episodes e SET seq = ? FROM new WHERE e.learner = new.learner "
    "AND e.number = new.number RETURNING 1",
    "WITH new AS MATERIALIZED (SELECT o.learner, o.number, o.fact, "
    "row_number() OVER (ORDER BY o.at, o.number, o.place, o.fact) AS place "
    "FROM outcomes o JOIN episodes e ON e.learner = o.learner AND e.number = o.number "
    f"WHERE o.learner = ? AND o.seq IS NULL AND e.seq IS NOT NULL ORDER BY place LIMIT {MOST}) "
    "UPDATE outcomes o SET seq = ?, place = new.place FROM new WHERE o.learner = new.learner "
    "AND o.number = new.number AND o.fact = new.fact RETURNING 1",
)
"""How rows without a number get one; those of an episode after the episode itself."""
LEASE = (
    "WITH mine AS (SELECT CAST(? AS TEXT) AS learner, CAST(? AS BIGINT) AS size), "
    "block AS (UPDATE learners l SET leased = size + greatest(leased, (SELECT max(number) + 1 "
    "FROM episodes e WHERE e.learner = l.learner)) FROM mine WHERE l.learner = mine.learner "
    "RETURNING l.learner, leased, size) "
    "INSERT INTO leases SELECT learner, leased - size, leased, pid, "
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
    agent: Any = PublishedAgent(as_made(db, config))
    return Decider(db, config, limits, AgentRunner(agent))


class Holder(Session):
    """The session that learns, beside deciders.

    Attributes:
        shared: whether a decider has a lease.
    """

    _time, _published, shared = 0.0, (-1, -1), False

    def catch_up(self, *, every: bool = False) -> None:
        """See `Session`: reserve the numbers that are leased, and take the rows of deciders."""
        ((leased, self.shared),) = self.all(
            "SELECT leased, EXISTS (SELECT 1 FROM leases b WHERE b.learner = l.learner) "
            "FROM learners l WHERE learner = ? FOR SHARE"
        )  # so that nobody leases before the commit
        if leased > self.runner.agent.begun:
            self.call("reserve", end=leased)
        while self.shared and (every or self.runner.waiting < self.limits.waiting):
            seq = self.runner.seq + 1
            begun, heard = (len(self.all(statement, seq)) for statement in TAKE)
            if not begun + heard:
                break
            self.runner.repeat(self.db, self.name, seq)
            self.runner.seq += begun + heard
            self._open += begun
            self.count("decided", begun)
            self.count("taken", heard)

    def tend(self) -> bool:
        """See `Session`: publish a model once in a while, if there is something new."""
        due = time.monotonic() >= self._time + PUBLISHED
        if self.shared and due and self._published != (self.runner.seq, self.runner.version):
            with self.db.transaction():
                self.publish()
        return False

    def publish(self) -> None:
        """See `Session`."""
        self._store("models", self.call("model").to_bytes())
        self._published = self.runner.seq, self.runner.version  # what it was made from
        self._time = time.monotonic()

    def snapshot(self) -> None:
        """See `Session`: before that, the numbers of ended deciders are released."""
        self.runner.learn_all()
        with self.db.transaction():
            self.catch_up()  # nobody leases from here on, and what is released has been learned
            self.runner.learn_all()
            self.all(END)
            for first, past in self.all(RELEASE):
                self.call("release", first=first, end=past)
        super().snapshot()


class PublishedAgent:
    """An agent that decides from published models, and learns nothing; it is like its model.

    Attributes:
        model: the newest model; before the first one, the agent as the learner was made.
        published: its version; 0 before the first one.
        numbers: those of the next decisions.
        begun: every decision below this number was made, or is reserved.
    """

    begun, published, reads_delays = 0, 0, True

    def __init__(self, agent: Any) -> None:
        self.model, self._seed = agent, agent.seed
        self.numbers = range(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def take(self, version: int, content: bytes) -> None:
        """Decide from another model."""
        self.model, self.published = Model.from_bytes(content), version

    def decide(self, x: object, among: Any = None, now: float | None = None) -> Decision:
        """The decision with the next number."""
        number, self.numbers = self.numbers[0], self.numbers[1:]
        return choose(self.model, x, self._seed, number, among)

    def foreseen(self, among: Any, made: Decision) -> tuple[float, ...]:
        """What the model says of the probabilities of a decision before its features are seen."""
        models = self.model.available(1, among)
        return self.model.foreseen(models, made.probabilities)  # type: ignore[no-any-return]


class Decider(Session):
    """A session that decides and writes, for a learner that another process has."""

    learns = False

    def _prepare(self) -> None:
        self._time, self._open = 0.0, -math.inf  # the process that learns counts what is open
        self._lease(0)

    def _lease(self, count: int) -> None:
        """Take a block of numbers, and give up the one before."""
        self.all("UPDATE leases SET process = 0 WHERE learner = ? AND process = pg_backend_pid()")
        self.all("SELECT 1 FROM learners WHERE learner = ? FOR UPDATE")
        (block,) = self.all(LEASE, max(count, BLOCK))
        self.runner.agent.numbers = range(*block)

    def call(self, what: str, **given: Any) -> Any:
        """See `Session`: only the process that learns can do that."""
        why = f"learner {self.name}: {TAKEN}"
        raise Refusal(why, status=503, address=self.address, headers=SOON)

    def catch_up(self, *, every: bool = False) -> None:
        """See `Session`: read the newest model."""
        for seq, content in self.all(
            "SELECT seq, content FROM models WHERE learner = ? AND seq > ? "
            "ORDER BY seq DESC LIMIT 1",
            self.runner.agent.published,
        ):
            self.runner.agent.take(seq, bytes(content))

    def tend(self) -> bool:
        """See `Session`: whether nobody learns, so that this process can."""
        if time.monotonic() < self._time + PUBLISHED:
            return False
        self._time = time.monotonic()
        agent = self.runner.agent
        ((free, self.address, agent.begun, waits),) = self.all(TEND, self.name)
        self.still = 0.0 if waits is None else self.clock() - waits
        if agent.begun - agent.numbers.stop > FAR:
            with self.db.transaction():
                self._lease(0)
        return bool(free)

    def _free(self, count: int) -> range:
        """See `Session`."""
        if not self.runner.agent.published:
            raise Refusal(NO_MODEL, status=503, address=self.address, headers=SOON)
        if len(self.runner.agent.numbers) < count:
            self._lease(count)
        numbers: range = self.runner.agent.numbers[:count]
        return numbers

    def rolled_back(self) -> None:
        """Forget the block of numbers: it may have been that of the transaction."""
        self.runner.agent.numbers = range(0)
