"""A learner of the server: opened from its storage, and opened again after a failure.

If an event cannot be written, the state in memory is ahead of the log. It is then discarded, and
the learner is read from its storage, exactly as after a crash; until that succeeds, requests get
503. A learner that another process runs is tried again every second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from belated.core.contract import Agent
from belated.core.rewards import Scale
from belated.service.episodes import Terms
from belated.service.errors import Refusal, unavailable
from belated.service.recovery import Restored, restore
from belated.service.session import Limits, Session
from belated.service.storage import Storage, StorageError, Taken
from belated.service.wire import LogError
from belated.service.worker import Pupil

RETRY = 1.0
"""Seconds between two attempts to open a learner."""
SEE_LOG = "it cannot be used now; the server's log says why"
"""The reason for clients; the real ones contain paths and addresses."""
logger = logging.getLogger("belated.service")


def rehearse(agent: Agent) -> None:
    """Play two episodes with a temporary agent, so that its kernels are compiled."""
    for _ in range(2):
        if agent.problem.states is not None:
            number = agent.begin_episode().number
        else:
            number = Pupil(agent).decide(agent.problem.blank(), None, 0.0).number
        for outcome in (False, True):
            record = agent.problem.example(number, agent.information, outcome=outcome)
            agent.observe([record] if record is not None and (outcome or agent.uses_paths) else [])
    agent.forget(agent.begin_episode().number)
    agent.diagnostics()


class Live:
    """A learner by name.

    Args:
        name: the name of the learner.
        terms, make: its terms, and a function that makes a fresh agent.
        open: opens its storage, or raises `StorageError`.
        limits: the limits of the server.
        rewards: the scale of rewards in records that state no range.

    Attributes:
        session: its session; None if it does not run here.
        why: why it is not open, for the log.
    """

    def __init__(
        self,
        name: str,
        terms: Terms,
        make: Callable[[], Agent],
        open: Callable[[], Storage],
        limits: Limits,
        rewards: Scale | None = None,
    ) -> None:
        self.name = name
        self.terms = terms
        self.limits = limits
        self.rewards = rewards
        self._make = make
        self._open = open
        self.session: Session | None = None
        self._address: str | None = None
        self._broken: asyncio.Future[str] | None = None
        self._task: asyncio.Task[None] | None = None
        self._rehearsed = False
        self.why = self._told = "it is being opened; its first start compiles for about a minute"

    @property
    def ready(self) -> bool:
        """Whether requests are accepted here."""
        return self.session is not None

    @property
    def elsewhere(self) -> bool:
        """Whether another process runs the learner."""
        return self._address is not None

    def refusal(self) -> Refusal:
        """The refusal of requests while the learner does not run here."""
        refusal = unavailable(f"learner {self.name}: {self._told}", RETRY)
        refusal.address = self._address or None
        return refusal

    def start(self) -> None:
        """Open it, and keep it open."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Drain and close."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        session, self.session = self.session, None
        self.why = self._told = "the server is stopping"
        if session is not None:
            await session.close(drain=True)

    async def _run(self) -> None:
        opened = False
        while True:
            opening = asyncio.create_task(asyncio.to_thread(self._opened))
            try:
                storage, restored = await asyncio.shield(opening)
            except asyncio.CancelledError:
                done = await asyncio.gather(opening, return_exceptions=True)
                if not isinstance(done[0], BaseException):
                    done[0][0].close()
                raise
            except Exception as error:
                self._refused(error)
                await asyncio.sleep(RETRY)
                continue
            self._address = None
            self._broken = asyncio.get_running_loop().create_future()
            self.session = Session(
                self.name, storage, restored, self.limits, self._break, self.rewards
            )
            again = " again" if opened else ""
            level = logging.WARNING if opened else logging.INFO
            logger.log(level, "learner %s: open%s at event %d", self.name, again, restored.number)
            opened = True
            self.why, self._told = await self._until_broken(self.session), SEE_LOG
            logger.error("learner %s: %s", self.name, self.why)
            session, self.session = self.session, None
            await asyncio.gather(session.close(drain=False), return_exceptions=True)
            await asyncio.sleep(RETRY)

    async def _until_broken(self, session: Session) -> str:
        assert self._broken is not None
        while True:
            done, _ = await asyncio.wait([self._broken], timeout=RETRY)
            if done:
                return self._broken.result()
            session.tick()

    def _break(self, why: str) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(why)

    def _opened(self) -> tuple[Storage, Restored]:
        """Open the storage and restore the learner; called in a thread."""
        if not self._rehearsed:
            rehearse(self._make())
            self._rehearsed = True
        storage = self._open()
        try:
            return storage, restore(storage, self.terms, self._make)
        except BaseException:
            storage.close()
            raise

    def _refused(self, error: Exception) -> None:
        self._address = error.address if isinstance(error, Taken) else None
        expected = isinstance(error, StorageError | LogError | ValueError)
        why = str(error) if expected else f"{type(error).__name__}: {error}"
        if why != self.why:
            logger.error("learner %s cannot be opened: %s", self.name, why, exc_info=not expected)
        self.why = why
        self._told = "another process drives it" if isinstance(error, Taken) else SEE_LOG
