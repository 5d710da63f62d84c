"""An agent, and the calls that wait for it, made from the rows of the tables.

Rows say what was decided and what was reported. Calls for the agent follow from the rows alone,
whether these are written now or read at a start, so a learner that starts from its tables is the
learner that wrote them. A decision does not wait for calls: its row contains the number of calls
that the agent had learned from, and at a start the agent learns from as many before it decides.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from belated.core.arrays import Floats, frozen
from belated.core.contract import Agent, Deciding
from belated.core.records import Decision
from belated.linear.choice import Choice

CHUNK = 64
"""The largest number of records of one call, so that no call takes long."""
SETTINGS = ("floor", "holdout")
"""The settings of an agent that may change while it learns."""
DEFAULT = "default"
"""The fact of a default that was learned in place of a report, and the status of its row."""
NO_EVENT = "event"
"""The fact of a reward without an event; those of named events begin with "="."""
WINDOW = 5_000
"""The number of requests whose rows are read at once."""
OUTCOMES = "number, fact, value, text, body, at, happened, status, seq, place"
ELSEWHERE = ("reserve", "release", "model")
"""Calls for an agent whose decisions are made in several processes; see `decider`."""
Call = partial[None] | tuple[Any, ...] | int | float
"""A call for the agent: its `note` of a decision of another process, records to observe, an episode
to forget, or the time (a float)."""
Rows = dict[str, list[tuple[Any, ...]]]
"""The rows of one request by what they tell: begun, outcomes, expired, changes."""


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
    seq: int | None
    place: int

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
        seq: the last request that has changed something.
        snapshot: the request after which the newest snapshot was made, 0 if there is none.
        since: the number of rows after it.
        differing: the number of decisions that came out otherwise when rows were read again.
    """

    def __init__(self, agent: Agent, version: int = 0, seq: int = 0) -> None:
        self.agent: Any = agent
        self.version = version
        self.seq = self.snapshot = seq
        self.since = self.differing = 0
        self._calls: deque[Call] = deque()
        self._decide = getattr(agent, "decide", None) or partial(Deciding.decide, agent)
        self._takes_time = "now" in inspect.signature(agent.observe).parameters
        self._dated = bool(getattr(agent, "reads_delays", False))

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return len(self._calls)

    # What the rows of a request mean for the agent, in the order in which they happened.

    def begin(self) -> tuple[int, Floats]:
        """Begin the next episode, with its policy."""
        episode = self.agent.begin_episode()
        return episode.number, frozen(np.ascontiguousarray(episode.played, dtype=np.float64))

    def decide(self, observation: Any, among: Any, now: float) -> Decision:
        """Begin an episode of one step and decide in it."""
        made: Decision = self._decide(observation, among=among, now=now)
        return made

    def change(self, body: Mapping[str, Any]) -> None:
        """Change actions or settings; `ValueError`, and no change, if that is impossible."""
        agent, actions, retire, settings = self.agent, *map(body.get, NO_CHANGE)
        wanted = {"add_action": actions, "retire": retire, "change": actions or settings or None}
        for name, asked in wanted.items():
            if asked is not None and not hasattr(agent, name):
                raise ValueError(
                    f"{type(agent).__name__} has no {name}; linear_sampler and agents of your own "
                    "with add_action, retire and change can add and retire actions"
                )
        if actions is not None:
            agent.problem.with_actions(actions)  # raises an error before anything has changed
            names = actions if isinstance(actions, list) else [None] * actions
            for added in names[agent.problem.actions :]:
                agent.add_action(added)
            if isinstance(actions, list):
                agent.change(names=actions)
        if retire is not None:
            agent.retire(retire)
        if settings:
            agent.change(**settings)

    def expire(self, number: int, default: OutcomeRow | None) -> None:
        """Queue the default of an episode past its deadline, if any, and forget the episode."""
        if default is not None:
            self._calls.append((self._record(default),))
        self._calls.append(number)

    def forget(self, number: int) -> None:
        """Queue that an episode will not report."""
        self._calls.append(number)

    def tell_time(self, at: float) -> None:
        """Queue that nothing has arrived until now."""
        if self._dated:
            self._calls.append(at)

    def observe(self, rows: Iterable[OutcomeRow]) -> None:
        """Queue what the outcomes of one request report, unless another process is to learn it."""
        made = [
            self._record(row)
            for row in rows
            if row.status in ("taken", "used") and row.seq is not None
        ]
        records = [
            record
            for record in made
            if record is not None and (record.is_outcome or self.agent.uses_paths)
        ]
        for i in range(0, len(records), CHUNK):
            self._calls.append(tuple(records[i : i + CHUNK]))

    def _record(self, row: OutcomeRow) -> Any:
        """The record that the agent gets with a row; None while others of its pieces are missing.

        Of a learner of decisions, a row is a whole reward; otherwise the row that completes a
        record has it as its body.
        """
        problem = self.agent.problem
        if row.body is not None:
            made = problem.read(json.loads(row.body))
        elif isinstance(problem, Choice):
            told = {"episode": row.number, "reward": row.value}
            event = {} if row.fact == NO_EVENT else {"event": row.fact[1:]}
            made = problem.read({**told, **event, **({"at": row.at} if self._dated else {})})
        else:
            return None
        return made.dated(row.at) if self._dated and row.status != DEFAULT else made

    # What the agent does when nobody waits for it.

    def learn(self) -> None:
        """Pass on the oldest call."""
        call = self._calls.popleft()
        self.version += 1
        if isinstance(call, partial):
            call()
            return
        if isinstance(call, int):
            if self.agent.is_open(call):
                self.agent.forget(call)
            return
        if isinstance(call, float):
            records, came = [], [call]
        else:
            records = [record for record in call if self.agent.is_open(record.episode)]
            came = [record.at for record in records if record.at is not None]
        if came and self._takes_time:
            self.agent.observe(records, now=max(came))
        elif not isinstance(call, float):
            self.agent.observe(records)

    def learn_all(self) -> None:
        """Pass on all calls."""
        while self._calls:
            self.learn()

    def learn_up_to(self, version: int) -> None:
        """Pass on calls until the agent has learned from this many."""
        if version > self.version + self.waiting:
            raise ValueError(f"version {version} was decided with more than there was to learn")
        while self.version < version:
            self.learn()

    # The same from the rows of the tables.

    def take(self, rows: Rows) -> None:
        """Repeat what a request did, from its rows."""
        self.since += sum(len(rows[kind]) for kind in ("begun", "outcomes", "changes"))
        for number, version, at, policy, model, *decision in rows["begun"]:
            if model is None:
                self.learn_up_to(version)
                self._begin_again(number, at, policy, decision)
            else:
                observation, _, *made = decision
                note = partial(self.agent.note, number, json.loads(observation), *made, at)
                self._calls.append(note)
        for what, body, version, _ in rows["changes"]:
            if what == "change":
                self.learn_up_to(version)
                self.change(json.loads(body))
            elif what in ELSEWHERE:
                self.learn_up_to(version)
                getattr(self.agent, what)(*json.loads(body))
        outcomes = [OutcomeRow(*row) for row in rows["outcomes"]]
        defaults = {row.number: row for row in outcomes if row.status == DEFAULT}
        for (number,) in rows["expired"]:
            self.expire(number, defaults.get(number))
        self.observe(outcomes)
        for what, body, _, at in rows["changes"]:
            if what == "forget":
                self.forget(int(body))
            elif what == "time":
                self.tell_time(at)

    def _begin_again(self, number: int, at: float, policy: str | None, decision: Any) -> None:
        if policy is not None:
            found, made = self.begin()
            self.differing += digest(made) != policy
        else:
            observation, allowed, action, probability = decision
            drawn = self.decide(json.loads(observation), json.loads(allowed), at)
            found = drawn.number
            self.differing += (drawn.action, drawn.probability) != (action, probability)
        if found != number:
            raise ValueError(f"episode {number} of the tables began as episode {found}")


NO_CHANGE: dict[str, Any] = {"actions": None, "retire": None, "settings": {}}
"""A change of an agent that changes nothing: all future actions, one to retire, and settings."""
STATEMENTS = {
    "begun": (
        "SELECT e.seq, e.number, e.version, e.began, e.policy, e.model, d.observation, d.allowed, "
        "d.action, d.probability FROM episodes e LEFT JOIN decisions d "
        "ON d.learner = e.learner AND d.number = e.number AND d.step = 0 "
        "WHERE e.learner = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.number"
    ),
    "outcomes": (
        f"SELECT seq, {OUTCOMES} FROM outcomes "
        "WHERE learner = ? AND seq > ? AND seq <= ? ORDER BY seq, place"
    ),
    "expired": (
        "SELECT ended, number FROM episodes WHERE learner = ? AND ended > ? AND ended <= ? "
        "AND why IN ('forgotten', 'default', 'expired') ORDER BY ended, number"
    ),
    "changes": (
        "SELECT seq, what, body, version, at FROM changes "
        "WHERE learner = ? AND seq > ? AND seq <= ?"
    ),
}
"""The rows of requests; each begins with the number of its request."""


def requests(db: Any, learner: str, after: int, last: int) -> Iterator[tuple[int, Rows]]:
    """The requests after one and their rows, in order."""
    for low in range(after, last, WINDOW):
        found: dict[int, Rows] = defaultdict(lambda: defaultdict(list))
        for kind, statement in STATEMENTS.items():
            for seq, *row in db.all(statement, learner, low, min(low + WINDOW, last)):
                found[seq][kind].append(tuple(row))
        yield from sorted(found.items())
