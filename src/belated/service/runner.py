"""An agent and the calls that wait for it, made from the rows of the tables, now or at a start.

Rows say what was decided and what was reported. Calls for the agent follow from the rows alone,
whether these are written now or read at a start, so a learner that starts from its tables is the
learner that wrote them. A decision does not wait for calls: its row contains the number of calls
that the agent had learned from, and at a start the agent learns from as many before it decides. A
start takes the newest whole snapshot, then the rows after it.
"""

import hashlib
import json
import logging
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from belated.config.part import join
from belated.core import checks, saving
from belated.core.arrays import Floats, frozen
from belated.core.contract import Agent, Deciding, Decision, check_is_agent
from belated.linear.choice import Choice
from belated.linear.reward import EVENT, Reward
from belated.service.config import LearnerConfig
from belated.service.tables import StorageError, Tables

WAY_OUT = (
    "put it back, or give the changed learner another name; it can begin with what this one has "
    "learned (belated extract writes a file for start)"
)
NEWEST = """
SELECT max(seq), max(began) FROM episodes WHERE learner = ?
UNION ALL SELECT max(ended), max(closed) FROM episodes WHERE learner = ?
UNION ALL SELECT max(seq), max(at) FROM outcomes WHERE learner = ?
UNION ALL SELECT max(seq), max(at) FROM changes WHERE learner = ?
UNION ALL SELECT max(seq), max(at) FROM snapshots WHERE learner = ?
"""
"""The last number and the latest time of each table."""
AGENTS = """
SELECT seq, version, content FROM snapshots WHERE learner = ? AND seq <= ?
UNION ALL SELECT 0, 0, agent FROM learners WHERE learner = ? AND shortened = 0 ORDER BY 1 DESC
"""
"""The agents from which rows can be repeated: the snapshots, and that of the beginning."""
logger = logging.getLogger("belated.service")
CHUNK = 64
"""The largest number of records of one call, so that no call takes long."""
SETTINGS = ("floor", "holdout")
"""The settings of an agent that may change while it learns."""
WHOLE = "outcome"
"""The fact of a whole outcome, made from the reported ones, or from the default in their place."""
DEFAULT = "default"
"""The status of an outcome that was learned in place of a report."""
WINDOW = 5_000
"""The number of rows that are read at once, and more if a change has more."""
OUTCOMES = "number, fact, value, text, body, at, happened, status"
Rows = defaultdict[str, list[Any]]
"""The rows of one request by what they tell: begun, changes, closed, outcomes."""


class OutcomeRow(NamedTuple):
    """A row of `outcomes`. status: taken, used (though late), late (and not used) or default."""

    number: int
    fact: str
    value: float | None
    text: str | None
    body: str | None
    at: float
    happened: float
    status: str

    @property
    def key(self) -> str | int:
        """The key of the fact among those of a record: a step, or a word."""
        return int(self.fact[5:]) if self.fact.startswith("step ") else self.fact


def digest(policy: Floats) -> str:
    """A short digest of a policy."""
    return hashlib.blake2b(policy.tobytes(), digest_size=8).hexdigest()


class AgentRunner:
    """An agent and the calls that wait for it.

    Attributes:
        version: the number of calls that the agent has learned from.
        seq: the number of the last row.
        snapshot: that at which the newest snapshot was made, 0 if there is none.
        differing: the number of decisions that came out otherwise when rows were read again.
        dated: whether the agent gets the times at which records arrived.
        decide: begins an episode of one step and decides in it; the method of agents.
    """

    def __init__(self, agent: Agent, version: int = 0, seq: int = 0) -> None:
        self.agent: Any = agent
        self.version = version
        self.seq, self.differing = seq, 0
        self.snapshot: float = seq
        self._calls: deque[partial[None]] = deque()
        self.decide: Callable[..., Decision] = getattr(agent, "decide", None) or partial(
            Deciding.decide, agent
        )
        self.dated = bool(getattr(agent, "reads_delays", False))

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return len(self._calls)

    @property
    def since(self) -> float:
        """The number of rows after the newest snapshot."""
        return self.seq - self.snapshot

    # What the rows of a request mean for the agent, in the order in which they happened.

    def begin(self) -> tuple[int, Floats]:
        """Begin the next episode, with its policy."""
        episode = self.agent.begin_episode()
        return episode.number, frozen(np.ascontiguousarray(episode.played, dtype=np.float64))

    def _record(self, row: OutcomeRow) -> Any:
        """The record that the agent gets with a row; None while others of its pieces are missing.

        Of a learner of decisions, a row is a whole reward; otherwise the row that completes a
        record has it as its body.
        """
        problem = self.agent.problem
        if row.body is not None:
            made = problem.read(json.loads(row.body))
        elif isinstance(problem, Choice):
            event = None if row.fact == EVENT else row.fact[1:]
            made = Reward(row.number, row.value or 0.0, event, row.at if self.dated else None)
        else:
            return None
        return made.dated(row.at) if self.dated and row.status != DEFAULT else made

    # What the agent does when nobody waits for it.

    def learn(self) -> None:
        """Pass on the oldest call."""
        self.version += 1
        self._calls.popleft()()

    def _forget(self, number: int) -> None:
        if self.agent.is_open(number):
            self.agent.forget(number)

    def _observe(self, records: list[Any]) -> None:
        """Let the agent learn from the records of episodes that it still has."""
        kept = [record for record in records if self.agent.is_open(record.episode)]
        came = [record.at for record in kept if record.at is not None]
        self.agent.observe(kept, now=max(came, default=None))

    def learn_all(self) -> None:
        """Pass on all calls."""
        self.learn_up_to(self.version + self.waiting)

    def learn_up_to(self, version: int) -> None:
        """Pass on calls until the agent has learned from this many."""
        if version > self.version + self.waiting:
            raise ValueError(f"version {version} was decided with more than there was to learn")
        while self.version < version:
            self.learn()

    # The same from the rows of the tables.

    def repeat(self, db: Any, learner: str, last: int) -> None:
        """Repeat what was done after the newest row, up to another one."""
        for low in range(self.seq, last, WINDOW):
            found: dict[int, Rows] = defaultdict(lambda: defaultdict(list))
            for kind, statement in STATEMENTS.items():
                for seq, *row in db.all(statement, learner, low, min(low + WINDOW, last)):
                    found[seq][kind].append(OutcomeRow(*row) if kind == "outcomes" else row)
            for seq, rows in sorted(found.items()):
                try:
                    self.take(rows)
                except ValueError as error:
                    raise StorageError(f"row {seq} cannot be repeated: {error}") from None
        self.seq = last

    def take(self, rows: Rows) -> None:
        """Do what a request did to the agent, from its rows, which are now written or read."""
        for number, version, at, policy, model, *decision in rows["begun"]:
            if model is None:
                self.learn_up_to(version)
                self._begin_again(number, at, policy, decision)
            else:
                x, _, *made, known = decision
                self._calls.append(
                    partial(self.agent.note, number, json.loads(x), *made, at, json.loads(known))
                )
        for what, body, version in rows["changes"]:
            self.learn_up_to(version)
            getattr(self.agent, what)(**json.loads(body))
        used = [self._record(row) for row in rows["outcomes"] if row.status != "late"]
        told = [r for r in used if r is not None and (r.is_outcome or self.agent.uses_paths)]
        for i in range(0, len(told), CHUNK):
            self._calls.append(partial(self._observe, told[i : i + CHUNK]))
        self._calls += [partial(self._forget, number) for (number,) in rows["closed"]]

    def _begin_again(self, number: int, at: float, policy: str | None, decision: Any) -> None:
        if policy is not None:
            found, made = self.begin()
            self.differing += digest(made) != policy
        else:
            observation, allowed, action, probability, _ = decision
            drawn = self.decide(json.loads(observation), among=json.loads(allowed), now=at)
            found = drawn.number
            self.differing += (drawn.action, drawn.probability) != (action, probability)
        if found != number:
            raise ValueError(f"episode {number} of the tables began as episode {found}")


STATEMENTS = {
    "begun": (
        "SELECT e.seq, e.number, e.version, e.began, e.policy, e.model, d.observation, d.allowed, "
        "d.action, d.probability, d.known FROM episodes e LEFT JOIN decisions d "
        "ON d.learner = e.learner AND d.number = e.number AND d.step = 0 "
        "WHERE e.learner = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.number"
    ),
    "outcomes": (
        f"SELECT seq, {OUTCOMES} FROM outcomes "
        "WHERE learner = ? AND seq > ? AND seq <= ? ORDER BY seq, place"
    ),
    "closed": (
        "SELECT ended, number FROM episodes WHERE learner = ? AND ended > ? AND ended <= ? "
        "AND why <> 'complete' ORDER BY number"
    ),
    "changes": (
        "SELECT seq, what, body, version FROM changes WHERE learner = ? AND seq > ? AND seq <= ?"
    ),
}
"""What rows tell; each begins with its number."""


def restore(db: Tables, config: LearnerConfig, *, snapshots: bool = True) -> AgentRunner:
    """The learner after its last row. snapshots: whether to start from the newest one."""
    as_made(db, config)
    runner = _newest(db, config.name, math.inf if snapshots else 0)
    runner.repeat(db, config.name, newest(db, config.name)[0])
    if runner.differing:
        logger.warning(
            "%d decisions differ from those handed out: another machine or other versions?",
            runner.differing,
        )
    return runner


def as_made(db: Tables, config: LearnerConfig) -> Agent:
    """The agent with which a learner was made; one that was not made is made now.

    Raises `StorageError` if it was made with other terms: the rows are not valid for others. Terms
    that the row does not have may differ.
    """
    fresh = config.fresh()
    now = config.terms(fresh)
    db.all(
        "INSERT INTO learners VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
        config.name, json.dumps(now), time.time(), saving.to_bytes(fresh), fresh.begun,
    )  # fmt: skip
    ((terms, content),) = db.all("SELECT terms, agent FROM learners WHERE learner = ?", config.name)
    first: Agent = saving.from_bytes(bytes(content), "a new learner")
    free: tuple[str, ...] = ()
    if _may_change(fresh):
        free = ("actions", *SETTINGS)
        listed = fresh.problem.actions_listed
        try:
            if listed != first.problem.actions_listed:
                first.problem.with_actions(listed)
        except ValueError as error:
            raise StorageError(f"{error}; {WAY_OUT}") from None
    given = _by_place(now)
    for place, before in _by_place(json.loads(terms)).items():
        if before != given.get(place) and place.rpartition(".")[2] not in free:
            raise StorageError(
                f"{place.partition('.')[0]} must stay as it was when the learner was made: "
                f"{place} was {checks.show(before)}, got {checks.show(given.get(place))}; "
                f"{WAY_OUT}"
            )
    return first


def newest(db: Tables, learner: str) -> tuple[int, float]:
    """The last request of a learner and its latest time."""
    last, latest = zip(*db.all(NEWEST, *[learner] * NEWEST.count("?")), strict=True)
    return max(filter(None, last), default=0), max(filter(None, latest), default=0.0)


def _by_place(terms: Any, place: str = "") -> dict[str, Any]:
    """The values inside nested tables by their places, such as `agent.floor`."""
    if not isinstance(terms, dict):
        return {place: terms}
    inside = [_by_place(value, join(place, name)) for name, value in terms.items()]
    return {name: value for one in inside for name, value in one.items()}


def _may_change(agent: Agent) -> bool:
    return hasattr(agent, "change") and not agent.begun


def wanted(agent: Any, given: Any) -> list[tuple[str, dict[str, Any]]]:
    """The calls that make the current learner the configured one.

    Actions that a request has added stay, whether or not the configuration lists them.
    """
    if not _may_change(given):
        return []
    before, listed = (
        list(one.problem.names or [None] * (one.problem.actions or 0)) for one in (agent, given)
    )
    listed += before[len(listed) :]
    change = {n: getattr(given, n) for n in SETTINGS if getattr(given, n) != getattr(agent, n)}
    if listed != before and given.problem.names:
        change["names"] = listed
    calls: list[Any] = [("add_action", {"name": name}) for name in listed[len(before) :]]
    if change:
        calls.append(("change", change))
    return calls


def _newest(db: Tables, learner: str, last: float) -> AgentRunner:
    """The newest agent up to a number that can be read."""
    for seq, version, content in db.all(AGENTS, learner, last, learner):
        try:
            agent = saving.from_bytes(bytes(content), "a snapshot")
            check_is_agent("agent", agent)
            return AgentRunner(agent, version, seq)
        except ValueError as error:
            logger.warning("snapshot %d is left out: %s", seq, error)
    raise StorageError("old rows were deleted, so a start needs a whole snapshot")
