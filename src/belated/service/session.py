"""One learner in normal operation: every request becomes one event, or none.

All methods belong to the event loop, so events have one order. A request is answered when its event
is on disk; a request that changes nothing, such as a duplicate, when the event that it repeats is.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.core.inbox import Outcome
from belated.core.records import Episode
from belated.core.rewards import Scale
from belated.service import snapshot
from belated.service.episodes import Books, Call, digest
from belated.service.errors import Refusal, busy
from belated.service.recovery import Restored, described, happen
from belated.service.report import Look, look
from belated.service.storage import Committer, Row, Storage, StorageError
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
    Made,
    Reader,
    RecordError,
    Tick,
    weight,
)
from belated.service.worker import Learning, Pupil
from belated.tabular.records import Trajectory

WITHOUT_STATES = "this learner has no states; POST /decide with what is known begins and decides"
Result = TypeVar("Result")
X = re.compile(r"^x\b")
"""The library's name of an observation at the beginning of an error message."""
ASKED = EVENTS = 10_000
"""The largest numbers of requested episodes, and of events that are not on disk yet."""
MINUTES = 60
"""The number of minutes for which arrivals are counted."""
LOOKING = 20
"""A look at the agent is kept for this multiple of the time that it took."""
SOON = 0.1
"""A look that takes fewer seconds is not kept."""
WAIT = 60.0
"""Seconds after which a request that waits for a look is refused."""


class Clock:
    """The time in seconds. It never decreases, and ignores steps of the system's clock.

    Args:
        after: the latest time in the log.
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A requested decision. field: the name of the observation in the request."""

    observation: Any = None
    among: Any = None
    key: str | None = None
    field: str = "features"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    Attributes:
        body: the largest request, in bytes.
        batch: the largest number of records in a request.
        rate: the average number of requests per second and holder of a token.
        burst: the number of requests that may arrive at once.
        open: the largest number of open episodes of a learner.
        waiting: the largest number of calls that wait for an agent.
        snapshot: the number of events between two snapshots; a batch counts as its number of
            decisions or records.
        log: the number of events of a learner to keep, in addition to those not covered by two
            snapshots; without it, all.
    """

    body: int = 2_000_000
    batch: int = 1_000
    rate: float = 10_000.0
    burst: float = 20_000.0
    open: int = 100_000
    waiting: int = 10_000
    snapshot: int = 20_000
    log: int | None = None

    def __post_init__(self) -> None:
        for name in ("body", "batch", "open", "waiting", "snapshot"):
            checks.integer(f"limits.{name}", getattr(self, name), 1)
        if self.log is not None:
            checks.integer("limits.log", self.log, 0)
        for name in ("rate", "burst"):
            checks.real(f"limits.{name}", getattr(self, name), 1.0)
        if self.batch > self.waiting:
            raise ValueError(
                f"limits.batch must be at most limits.waiting = {self.waiting}, got {self.batch}"
            )


class Session:
    """A learner that runs here. scale: of rewards in records that state no range."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        restored: Restored,
        limits: Limits,
        failed: Callable[[str], None],
        scale: Scale | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.scale = scale
        self.books = restored.books
        self.limits = limits
        self.clock = clock or Clock(restored.books.now)
        self.counts: Counter[str] = Counter()
        self.arrivals: deque[tuple[int, Counter[str]]] = deque(maxlen=MINUTES)
        self.differing = restored.differing
        self._pupil = restored.pupil
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._rng = np.random.default_rng()
        self._beginning: dict[str, asyncio.Future[int]] = {}
        self._choosing: dict[str, asyncio.Future[dict[str, int]]] = {}
        self._coming: dict[asyncio.Future[Any], int] = {}  # with the number of requested episodes
        self._snapshot = restored.snapshot
        self._since = restored.since
        self._looked: tuple[float, float, Any, Look | None] = (0.0, 0.0, None, None)
        self._writing: threading.Thread | None = None
        at = (restored.number, restored.checksum)
        self.committer = Committer(storage, *at, failed, limits.log)
        if restored.number == 0:
            terms = described(self.books.terms, restored.pupil.agent)
            self.committer.append(Made(self.clock(), terms))
        elif restored.wanted is not None:
            event = replace(restored.wanted, at=self.clock())
            happen(restored, event)
            self.committer.append(event)
        self.learning = Learning(restored.pupil, self._capture, self._agent_failed)

    def reader(self) -> Reader:
        """The reader of the learner's records."""
        return Reader(self.books.terms.problem, self.scale, self.books.keys)

    async def begin(self, key: str | None) -> tuple[int, bool]:
        """Begin an episode, or find that of a known key. Returns whether it is new."""
        if key is not None:
            if key in self.books.keys:
                number = self.books.keys[key]  # it may be dropped while waiting for the disk
                await self.committer.durable()
                return number, False
            if key in self._beginning:
                return await self._handed(self._beginning[key]), False
        if self.books.terms.problem.states is None:
            raise Refusal(422, WITHOUT_STATES, outcome="invalid")
        self._check_open(1)
        future: asyncio.Future[int] = self._loop.create_future()
        self._coming[future] = 1
        if key is not None:
            self._beginning[key] = future

        def ask(pupil: Pupil) -> None:
            number, policy = pupil.begin()
            learned = pupil.learned
            self._call(lambda: self._begun(key, future, number, policy, learned))

        self.learning.ask(ask)
        return await self._handed(future), True

    def _check_open(self, more: int) -> None:
        """Raise `Refusal` if there would be too many episodes."""
        self._check_room(0)
        coming = sum(self._coming.values())
        if len(self.books.open) + coming + more > self.limits.open:
            raise busy(f"{self.limits.open} episodes are open; close some, or set a deadline", 10)
        if coming and coming + more > ASKED:
            raise busy(f"{coming} episodes are being begun")

    async def choose(self, asked: Sequence[Wanted]) -> list[tuple[int, int, float, bool]]:
        """Decide in new episodes of one step: all of them, in one event, or none.

        Returns number, action, probability and whether it is new, for each decision. A known key
        returns its decision again.
        """
        problem = self.books.terms.problem
        if problem.horizon != 1:
            why = f"a decision in one request needs a learner of one step, got {problem.horizon}"
            raise Refusal(422, why, outcome="invalid", field="episode")
        keys = [one.key for one in asked if one.key is not None]
        if len(set(keys)) < len(keys):
            raise Refusal(422, "keys of a batch must differ", outcome="invalid", field="key")
        while waiting := [self._choosing[key] for key in keys if key in self._choosing]:
            await asyncio.shield(waiting[0])
        old = {key: self.books.keys[key] for key in keys if key in self.books.keys}
        found = {key: (number, *self._chosen(key, number)) for key, number in old.items()}
        new = [one for one in asked if one.key not in found]
        made = iter(await self._choose_new(new) if new else ())
        answers = [
            (*found[one.key], False) if one.key in found else (*next(made), True) for one in asked
        ]
        await self.committer.durable()
        return answers

    def _chosen(self, key: str, number: int) -> tuple[int, float]:
        if number not in self.books.chosen:
            why = f"key {key!r} is that of an episode that was begun without a decision"
            raise Refusal(409, why, outcome="conflict", field="key")
        return self.books.chosen[number]

    async def _choose_new(self, asked: Sequence[Wanted]) -> list[tuple[int, int, float]]:
        self._check_open(len(asked))
        now = self._tick()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._coming[future] = len(asked)
        keys = [one.key for one in asked if one.key is not None]
        self._choosing.update(dict.fromkeys(keys, future))

        def ask(pupil: Pupil) -> None:
            made: list[Drawn] = []
            seen, error = _checked(pupil, asked)
            for one, observation in () if error else zip(asked, seen, strict=True):
                found = pupil.decide(observation, one.among, now)
                told = (one.key, one.observation, one.among, found.action, found.probability)
                made.append(Drawn(found.number, *told, pupil.holdout(found)))
            event = Chosen(0.0, now, pupil.learned, tuple(made))
            self._call(lambda: self._entered(keys, future, event, error))

        self.learning.ask(ask)
        choices: tuple[Drawn, ...] = await asyncio.shield(future)
        return [(one.episode, one.action, one.probability) for one in choices]

    def _entered(
        self,
        keys: Sequence[str],
        future: asyncio.Future[Any],
        event: Chosen,
        error: Refusal | None,
    ) -> None:
        """Enter the agent's decisions, in their order."""
        self._coming.pop(future, None)
        for key in keys:
            self._choosing.pop(key, None)
        try:
            if error is not None:
                raise error
            self._happen(replace(event, at=self._tick()))
            self._count("decided", len(event.choices))
            future.set_result(event.choices)
        except Exception as refused:
            _give_up(future, refused)

    async def _handed(self, future: asyncio.Future[int]) -> int:
        number = await asyncio.shield(future)
        await self.committer.durable()
        return number

    def _begun(
        self,
        key: str | None,
        future: asyncio.Future[int],
        number: int,
        policy: Floats,
        learned: int,
    ) -> None:
        """Enter an episode that the agent has begun, in the agent's order."""
        self._coming.pop(future, None)
        if key is not None:
            self._beginning.pop(key, None)
        try:
            now = self._tick()
            self._happen(Begun(now, number, learned, key, digest(policy)), policy)
            self._count("begun")
            future.set_result(number)
        except Exception as error:
            _give_up(future, error)

    async def decide(self, episode: int, step: int, state: int) -> tuple[int, float]:
        """Draw an action, or repeat the earlier one. Returns the action and its probability."""
        problem = self.books.terms.problem
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
        now = self._tick()
        policy = await self.policy(episode)
        known = self.books.open[episode].decided.get(step)
        if known is None:
            self._check_room(1)
            action, probability = Episode(episode, policy).act(step, state, self._rng)
            self._happen(Decided(now, episode, step, state, action, probability))
            self._count("decided")
        elif known[0] != state:
            why = f"step {step} of episode {episode} was decided in state {known[0]}, got {state}"
            raise Refusal(409, why, outcome="conflict", field="state")
        else:
            action = known[1]
            probability = float(policy[step, state, action])
        await self.committer.durable()
        return action, probability

    async def policy(self, episode: int) -> Floats:
        """The policy (H, S, A) of an open episode."""
        if episode >= self.books.begun:
            await self.committer.proven()
            raise Refusal(404, f"episode {episode} has not begun", outcome="unknown")
        entry = self.books.open.get(episode)
        if entry is None or entry.policy is None:
            raise Refusal(410, f"episode {episode} is closed", outcome="late")
        return entry.policy

    async def feed(self, given: Sequence[Arrived | RecordError]) -> list[Outcome]:
        """Accept feedback; returns an outcome for each record."""
        self._check_room(len(given))
        now = self._tick()
        outcomes: list[Outcome] = []
        for some in _one_place_each(given):
            outcomes += self._fed(now, some)
        for outcome in outcomes:
            self._count(outcome.kind)
            self.counts["late_used"] += outcome.kind == "late" and outcome.used
        if any(outcome.kind == "unknown" for outcome in outcomes):
            await self.committer.proven()
        await self.committer.durable()
        return outcomes

    def _fed(self, now: float, given: Sequence[Arrived | RecordError]) -> list[Outcome]:
        """Apply feedback at a time for which deadlines have been applied."""
        known: list[Outcome | None] = [
            Outcome(record.kind, record.episode, record.field, str(record))
            if isinstance(record, RecordError)
            else self.books.contradiction(record)
            for record in given
        ]
        asked = [r for r, outcome in zip(given, known, strict=True) if outcome is None]
        tells = bool(asked) or (not given and self.books.terms.dated)  # no records: only the time
        found = iter(self._applied(Fed(now, tuple(asked))) if tells else ())
        outcomes = [next(found) if outcome is None else outcome for outcome in known]
        kept = [
            record
            for record, outcome in zip(given, outcomes, strict=True)
            if outcome.kind in ("taken", "late") and not isinstance(record, RecordError)
        ]
        if kept or (tells and not given):
            self._append(Fed(now, tuple(kept)))
        self._check_told()
        return outcomes

    def rows(self) -> Iterator[Row]:
        """All events on disk; any thread may call this."""
        return self._storage.beside()

    @property
    def holdout(self) -> float:
        """The share of decisions that play uniformly."""
        share: float = getattr(self._pupil.agent, "holdout", 0.0)
        return share

    async def look(self) -> Look:
        """The current state of the agent; an older one if computing it takes long."""
        now = (self._pupil.learned, self.books.begun)
        at, seconds, known, seen = self._looked
        if seen is not None and (known == now or time.monotonic() - at < LOOKING * seconds):
            return seen
        future: asyncio.Future[Look] = self._loop.create_future()

        def ask(pupil: Pupil) -> None:
            began = time.monotonic()
            seen = look(pupil.agent)
            took = time.monotonic() - began
            self._looked = (began + took, took if took > SOON else 0.0, now, seen)
            self._call(lambda: _settle(future, seen))

        self.learning.ask(ask)
        return await asyncio.wait_for(future, WAIT)

    async def change(
        self,
        actions: Callable[[Any], Any] = lambda agent: None,
        retire: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Changed | None:
        """Change the learner; None if nothing changes.

        Args:
            actions: a function from the agent to all future actions, or None.
            retire: an action to play no more.
            settings: new settings of the agent and of the books, by name.
        """
        self._check_room(1)
        future: asyncio.Future[Changed | None] = self._loop.create_future()
        self._coming[future] = 0
        given = dict(settings or {})

        def ask(pupil: Pupil) -> None:
            error, event = None, None
            try:
                wanted = actions(pupil.agent)
                known = retire in getattr(pupil.agent, "retired", ())
                if wanted is not None or given or (retire is not None and not known):
                    pupil.change(wanted, None if known else retire, given)
                    event = Changed(0.0, pupil.learned, wanted, None if known else retire, given)
            except ValueError as wrong:
                error = Refusal(422, str(wrong), outcome="invalid", field="action")
            self._call(lambda: self._changed(future, event, error))

        self.learning.ask(ask)
        event = await asyncio.shield(future)
        await self.committer.durable()
        return event

    def _changed(
        self, future: asyncio.Future[Changed | None], event: Changed | None, error: Refusal | None
    ) -> None:
        self._coming.pop(future, None)
        try:
            if error is not None:
                raise error
            if event is not None:
                self._happen(replace(event, at=self._tick()))
                self._looked = (0.0, 0.0, None, None)  # a look from before is of another learner
            _settle(future, event)
        except Exception as refused:
            _give_up(future, refused)

    async def forget(self, episode: int) -> Outcome:
        """Discard an episode."""
        now = self._tick()
        if episode >= self.books.begun:
            await self.committer.proven()
            raise Refusal(404, f"episode {episode} has not begun", outcome="unknown")
        was_open = self.books.is_open(episode)
        if was_open:
            self._check_room(1)
            self._happen(Forgotten(now, episode))
            self._count("forgotten_by_request")
        await self.committer.durable()
        if was_open:
            return Outcome("taken", episode, None, used=True)
        return Outcome("duplicate", episode, None, f"episode {episode} is closed already")

    def _check_room(self, records: int) -> None:
        """Raise `Refusal` if a queue would become too long."""
        if self.learning.waiting + records > self.limits.waiting:
            raise busy(f"{self.learning.waiting} calls wait for the agent")
        if self.committer.waiting >= EVENTS:
            raise busy(f"{self.committer.waiting} events wait for the disk")

    def _tick(self) -> float:
        """Apply the deadlines that have passed.

        Returns the time, for the event that follows. With a second reading of the clock, a deadline
        could pass in between, without an event in the log.
        """
        now = self.clock()
        if self.books.passed(now):
            self._happen(Tick(now))
        return now

    def _check_told(self) -> None:
        """Fail if the books have calls for the agent that no event of the log explains."""
        if self.books.untold:
            why = "the books are ahead of the log"
            self._failed(why)
            raise StorageError(why)

    def tick(self) -> None:
        """The same without a request."""
        if self.committer.broken is None:
            self._tick()

    def _happen(self, event: Event, policy: Floats | None = None) -> None:
        self._applied(event, policy)
        self._append(event)

    def _applied(self, event: Event, policy: Floats | None = None) -> list[Outcome]:
        """Apply the event to the books. If that fails, they are wrong and are discarded."""
        try:
            return self.books.apply(event, policy)
        except Exception as error:
            logging.getLogger("belated.service").exception("an event failed: %s", event)
            why = f"an event failed: {type(error).__name__}: {error}"
            self._failed(why)
            raise StorageError(why) from None

    def _append(self, event: Event) -> None:
        """Log an event that was applied, and pass its calls to the agent."""
        number = self.committer.append(event)
        self.learning.add(self.books.calls())
        self._since += weight(event)
        if self._since >= self.limits.snapshot:
            self._snapshot, self._since = number, 0
            self.learning.snapshot()

    def _count(self, kind: str, more: int = 1) -> None:
        self.counts[kind] += more
        minute = int(self.clock() // 60)
        if not self.arrivals or self.arrivals[-1][0] != minute:
            self.arrivals.append((minute, Counter()))
        self.arrivals[-1][1][kind] += more

    def _capture(self) -> None:
        """Make a snapshot, in the thread that learns.

        The event loop copies the books between two events, and this thread copies the agent.
        Encoding them takes longer and has its own thread, so that the two can continue.
        """
        if self._writing is not None:
            self._writing.join()  # the previous snapshot, which is rarely still being written
        done = threading.Event()
        found: list[tuple[int, int, Books, list[Call]]] = []

        def look() -> None:
            try:
                self._check_told()
                at = self.committer.number, self.committer.last
                found.append((*at, copy.copy(self.books), list(self._pupil.waiting)))
            except StorageError:
                logging.getLogger("belated.service").exception("no snapshot is made")
            finally:
                done.set()

        self._loop.call_soon_threadsafe(look)
        done.wait()
        if not found:
            return  # the learner has failed, and is read from its log again
        moment = self._moment(*found[0])
        self._writing = threading.Thread(
            target=self._write, args=(moment,), name="snapshot", daemon=True
        )
        self._writing.start()

    def _moment(
        self, number: int, checksum: int, books: Books, waiting: list[Call]
    ) -> snapshot.Moment:
        pupil = self._pupil
        agent = stored.kept(pupil.agent)
        return snapshot.Moment(number, checksum, books, waiting, agent, pupil.learned, pupil.unused)

    def _write(self, moment: snapshot.Moment) -> None:
        """Encode a snapshot and pass it to the committer."""
        try:
            self.committer.keep(moment.number, snapshot.write(moment))
        except Exception as error:
            logging.getLogger("belated.service").exception("a snapshot failed")
            self._agent_failed(f"a snapshot failed: {type(error).__name__}: {error}")

    def _agent_failed(self, why: str) -> None:
        self._call(lambda: self._failed(why))

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function in the event loop from a thread, unless the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def _written(self) -> None:
        """Wait until no snapshot is being encoded."""
        if self._writing is not None:
            await asyncio.to_thread(self._writing.join)

    async def close(self, *, drain: bool) -> None:
        """Stop: finish learning and writing and store a snapshot, or drop everything."""
        if drain and self.committer.broken is None:
            await asyncio.to_thread(self.learning.stop, drain=True)
            await self._written()
            number = self.committer.number
            if number != self._snapshot:
                waiting = list(self._pupil.waiting)
                moment = self._moment(number, self.committer.last, self.books, waiting)
                await asyncio.to_thread(self._write, moment)
        else:
            await asyncio.to_thread(self.learning.stop, drain=False)
            await self._written()
        await asyncio.to_thread(self.committer.stop)
        for future in self._coming:
            _give_up(future, StorageError("the learner was closed"))
        self._storage.close()


def _give_up(future: asyncio.Future[Any], error: Exception) -> None:
    """Set the error of a future that is not done."""
    if not future.done():
        future.add_done_callback(lambda done: done.exception())
        future.set_exception(error)


def _settle(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _one_place_each(
    given: Sequence[Arrived | RecordError],
) -> Iterator[Sequence[Arrived | RecordError]]:
    """Batches in which no episode has two records of its path.

    So the first of two is known when the second one is checked.
    """
    start, seen = 0, set[int]()
    for i, record in enumerate(given):
        if isinstance(record, Trajectory | End):
            if record.episode in seen:
                yield given[start:i]
                start, seen = i, set()
            seen.add(record.episode)
    yield given[start:]


def _checked(pupil: Pupil, asked: Sequence[Wanted]) -> tuple[list[Any], Refusal | None]:
    """Observations for the agent, and the refusal of an invalid decision; nothing changes."""
    seen: list[Any] = []
    for i, one in enumerate(asked):
        try:
            seen.append(pupil.check(one.observation, one.among))
        except ValueError as error:
            where = f"decision {i}: " if len(asked) > 1 else ""
            why = f"{where}{X.sub(one.field, str(error))}"
            field = "among" if str(error).startswith("among") else one.field
            return seen, Refusal(422, why, outcome="invalid", field=field)
    return seen, None
