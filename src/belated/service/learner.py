"""A learner of the server and its thread: opened from its tables, and opened again after a failure.

The requests that have come since the last commit are handled in one transaction, and answered when
it is on disk; then the agent learns for a few milliseconds, or for as long as nobody asks. The
thread opens, learns, stores snapshots and waits for slow commits. A transaction of SQLite that is
expected to be short is made in the event loop: two threads that wake each other take longer. If
something cannot be written, nothing of it is acknowledged: the state in memory is discarded, and
the learner is read from its tables, exactly as after a crash. A learner that another process runs
is tried again every second; in the meantime, decisions are made here where they can be (`decider`).
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from belated.core.contract import Agent
from belated.service.config import LearnerConfig, Limits
from belated.service.decider import can_share, opened
from belated.service.runner import AgentRunner
from belated.service.session import Session
from belated.service.tables import TAKEN, StorageError, Tables
from belated.service.wire import SOON, Refusal

RETRY = 1.0
"""Seconds between two attempts to open a learner, and between two checks of its storage."""
LEARN = 0.005
"""Seconds for which the agent learns between two commits while requests wait."""
GROUP = 500
"""The largest number of requests of one commit."""
SHARE = 0.5
"""How long a group waits for more requests, as a share of the time of the last commit."""
LONGEST = 0.002
"""The largest number of seconds for which it waits."""
SHORT = 0.005
"""The largest number of seconds of a transaction after which the next one counts as short."""
ASKED = 10_000
"""The largest number of requests that wait."""
FEW = 16_000
"""The largest number of bytes of requests that the event loop handles between two answers."""
STILL = 10.0
"""Seconds for which rows wait for the process that learns before readyz and the page say so."""
SEE_LOG = "it cannot be used now; the server's log says why"
"""The reason for clients; the real ones contain paths and addresses."""
logger = logging.getLogger("belated.service")
Result = TypeVar("Result")


Job = tuple[Callable[[Session], Any], asyncio.Future[Any], int]
"""A request: what to do with the session, where the result goes, and the size of its body."""
Results = list[tuple[asyncio.Future[Any], Any]]
"""Where results go, and what they are."""


def rehearse(agent: Agent) -> None:
    """Play two episodes with a temporary agent, so that its kernels are compiled."""
    for _ in range(2):
        made: Any = agent.begin_episode() if agent.problem.states is not None else None
        made = made or AgentRunner(agent).decide(agent.problem.example_observation(), now=0.0)
        for outcome in (False, True):
            record = agent.problem.example(made.number, agent.information, outcome=outcome)
            agent.observe([record] if record is not None and (outcome or agent.uses_paths) else [])
    agent.forget(agent.begin_episode().number)
    agent.diagnostics()


class Learner:
    """A learner by name.

    Args:
        config: the learner.
        open: opens its tables, or raises `StorageError`; its arguments say whether to create them,
            and whether to write beside another process.
        limits: the limits of the server.

    Attributes:
        session: its session, which belongs to the thread; None if it does not run here.
        address: of the process that runs it instead.
        why: why it is not open, for the log.
    """

    def __init__(self, config: LearnerConfig, open: Callable[..., Tables], limits: Limits) -> None:
        self.name = config.name
        self.config = config
        self.limits = limits
        self.session: Session | None = None
        self._open = open
        self.address: str | None = None
        self._jobs: deque[Job] = deque()
        self._woken = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=config.name)
        self._stopping = self._opened = self._rehearsed = self._quick = False
        self._patience, self._alone = 0.0, 0
        self.why = self._told = "it is being opened; its first start compiles for about a minute"

    @property
    def ready(self) -> bool:
        """Whether requests are accepted here."""
        return self.session is not None

    @property
    def still(self) -> bool:
        """Whether decisions are made here and the process that learns does not take them."""
        return self.session is not None and self.session.still > STILL

    # For the event loop.

    def start(self) -> None:
        """Open the learner, and keep it open."""
        self._loop = asyncio.get_running_loop()
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Answer what was asked, learn everything, store a snapshot and close."""
        self._stopping = True
        self._woken.set()
        await self._running
        self._thread.shutdown()

    def opened(self, *, decides: bool = False) -> Session:
        """The session; raises `Refusal` while the learner does not run here.

        decides: whether a session that only decides and writes will do.
        """
        session = self.session
        if session is None or not (session.learns or decides):
            why = f"learner {self.name}: {self._told}"
            address = self.address if session is None else session.address
            raise Refusal(why, status=503, address=address, headers=SOON)
        return session

    async def ask(
        self,
        work: Callable[[Session], Result],
        size: int = 0,
        *,
        decides: bool = False,
    ) -> Result:
        """The result of a request, once it is on disk.

        size: of its body. decides: whether a session that only decides and writes can do it.
        """
        self.opened(decides=decides)
        if len(self._jobs) >= ASKED:
            raise Refusal(f"{ASKED} requests wait", status=429, headers=SOON)
        future: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.append((work, future, size))
        self._woken.set()
        return await future

    async def _run(self) -> None:
        while not self._stopping:
            try:
                with contextlib.closing(await self._aside(self._prepared)) as tables:
                    session = await self._aside(opened, tables, self.config, self.limits)
                    self.session, self._opened = session, True
                    self.why, self.address = "", None
                    self._told = SEE_LOG if session.learns else TAKEN
                    logger.info("learner %s: open; it learns here: %s", self.name, session.learns)
                    await self._serve(session)
            except Exception as error:
                what = "cannot be opened" if self.session is None else "is closed"
                self._note_failure(what, error)
            self.session = None
            closed = StorageError("the learner was closed")
            _settle([(future, closed) for _, future, _ in self._jobs])
            self._jobs.clear()
            await self._pause()

    async def _aside(self, function: Callable[..., Result], *given: Any) -> Result:
        """The result of a function that the thread calls."""
        return await self._loop.run_in_executor(self._thread, function, *given)

    async def _pause(self) -> None:
        """Wait for the next request, or for a while."""
        self._woken.clear()
        if not self._stopping:
            timer = self._loop.call_later(RETRY, self._woken.set)
            await self._woken.wait()
            timer.cancel()

    def _prepared(self) -> Tables:
        """The tables, once everything is compiled."""
        if not self._rehearsed:
            rehearse(self.config.fresh())
            self._rehearsed = True
        return self._open(not self._opened, can_share(self.config))

    def _note_failure(self, what: str, error: Exception) -> None:
        """Write to the log, once, why the learner does not run."""
        taken, self.address = getattr(error, "taken", False), getattr(error, "address", None)
        expected = isinstance(error, StorageError | ValueError)
        why = str(error) if expected else f"{type(error).__name__}: {error}"
        if why != self.why:
            level, word = (logging.INFO, "waits") if taken else (logging.ERROR, what)
            logger.log(level, "learner %s %s: %s", self.name, word, why, exc_info=not expected)
        self.why, self._told = why, TAKEN if taken else SEE_LOG

    async def _serve(self, session: Session) -> None:
        """Handle requests, until the server stops or the learner must be opened again.

        Clients that have shared a commit ask again at about the same time. So after a commit of
        several requests, the first one waits for the others, which then share one again. Those of
        a group that another process has hindered come one by one.
        """
        runner = session.runner
        again = await self._aside(session.tend)
        while not again and (self._jobs or not self._stopping):
            if not (self._jobs or runner.waiting):
                await self._pause()
            if self._patience:
                await asyncio.sleep(self._patience)
            size, self._alone = 1 if self._alone else GROUP, max(self._alone - 1, 0)
            jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), size))]
            few = sum(size for *_, size in jobs) <= FEW and runner.since < self.limits.snapshot
            if self._quick and few and not runner.waiting:
                _settle(self._handle(session, jobs))
                if session.runner.waiting:
                    await self._aside(self._learn, session)
            else:
                again = await self._aside(self._work, session, jobs)
        if runner.seq != runner.snapshot:
            await self._aside(session.snapshot)

    # The thread.

    def _work(self, session: Session, jobs: list[Job]) -> bool:
        """Handle requests and learn; returns whether to open the learner again."""
        if jobs or not session.runner.waiting:
            self._loop.call_soon_threadsafe(_settle, self._handle(session, jobs))
        self._learn(session, until_asked=not jobs)
        runner, limit = session.runner, self.limits.snapshot
        if runner.since >= limit * (2 if runner.waiting else 1):
            session.snapshot()  # which is due when all is learned, or long ago
        return session.tend()

    def _handle(self, session: Session, jobs: list[Job]) -> Results:
        """Handle requests in one transaction; returns their results when it is on disk.

        Without requests too: then it also finds out whether the tables are still ours.
        """
        done: Results = []
        began = time.monotonic()
        try:
            with session.db.transaction():
                session.start()
                for work, future, _ in jobs:
                    try:
                        done.append((future, work(session)))
                    except Refusal as error:
                        session.discard()
                        done.append((future, error))
        except Exception as error:
            self._jobs.extendleft(reversed(jobs))
            if session.learns or not getattr(error, "busy", False):
                raise  # and they are refused
            session.rolled_back()  # nothing was written; another process has locked something
            self._jobs.rotate(-1 if len(jobs) == 1 else 0)
            self._alone = max(self._alone, len(jobs) - 1)
            return []
        took = time.monotonic() - began
        self._patience = min(SHARE * took, LONGEST) if len(jobs) > 1 else 0.0
        self._quick = took < SHORT and not session.db.shared
        return done

    def _learn(self, session: Session, *, until_asked: bool = False) -> None:
        """Let the agent learn, until somebody asks or for a while."""
        runner, end = session.runner, time.monotonic() + LEARN
        while runner.waiting and not (self._jobs if until_asked else time.monotonic() > end):
            runner.learn()


def _settle(done: Results) -> None:
    for future, result in done:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
