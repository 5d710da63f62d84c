"""Group commit: whatever has come while the last group was being written is the next group.

A commit costs a few milliseconds whatever it holds. So one thread commits, and all requests that
wait share the cost. The log keeps the order in which events were appended: if an event is on disk,
so are all before it. The same thread writes snapshots and deletes what is old, a little after each
group, so that no event waits long for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator

from belated.service.events import FORMAT, Event, checksum, write
from belated.service.snapshot import Piece
from belated.service.storage import Row, Storage, StorageError

IDLE = 1.0
"""Seconds without events after which the storage is checked."""
Snapshot = tuple[int, Iterator[Piece]]


class Committer:
    """Writes the events of a session. `append` and `durable` belong to the event loop.

    Args:
        storage: where events go; used by the thread only, from `start` on.
        number: of the last event that is stored, and its checksum.
        failed: called in the event loop, once, if something cannot be written.
        log: events that are kept at least; None: all.
    """

    def __init__(
        self,
        storage: Storage,
        number: int,
        last: int,
        failed: Callable[[str], None],
        log: int | None = None,
    ) -> None:
        self.number = number
        self._checksum = last
        self._storage = storage
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._pending: list[Row] = []
        self._log = log
        self._snapshot: Snapshot | None = None  # the newest that is not being written
        self._writing: Snapshot | None = None
        self._untidy = True
        self._next: asyncio.Future[None] | None = None  # of those pending
        self._current: asyncio.Future[None] | None = None  # of those being written
        self._proof: asyncio.Future[None] | None = None  # that the learner is still ours
        self._ended = False
        self._stopping = False
        self.broken: str | None = None
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)
        self._thread.start()

    def append(self, event: Event) -> int:
        """Put an event at the end of the log; returns its number."""
        written = write(event)
        self.number += 1
        self._checksum = checksum(self._checksum, written)
        row = Row(self.number, FORMAT, written, self._checksum)
        with self._wake:
            self._pending.append(row)
            if self._next is None:
                self._next = self._loop.create_future()
                self._next.add_done_callback(_seen)
            self._wake.notify()
        return self.number

    @property
    def last(self) -> int:
        """Checksum of the last event."""
        return self._checksum

    @property
    def waiting(self) -> int:
        """Events that are not on disk yet, without those being written."""
        return len(self._pending)

    async def durable(self) -> None:
        """Wait until everything appended so far is on disk."""
        with self._wake:
            if self.broken is not None:
                raise StorageError(self.broken)
            future = self._next or self._current
            if future is None:
                return
        await asyncio.shield(future)  # a client that gives up must not stop the others

    async def proven(self) -> None:
        """Wait until the storage has confirmed, after this call, that the learner is ours.

        What is not known here may be known to a process that has taken over meanwhile.
        """
        with self._wake:
            if self.broken is not None or self._ended:
                raise StorageError(self.broken or "the learner was closed")
            if self._proof is None:
                self._proof = self._loop.create_future()
                self._proof.add_done_callback(_seen)
            future = self._proof
            self._wake.notify()
        await asyncio.shield(future)

    def keep(self, number: int, pieces: Iterator[Piece]) -> None:
        """Store a snapshot after the events that it covers; any thread may call this."""
        with self._wake:
            self._snapshot = (number, pieces)
            self._wake.notify()

    def stop(self) -> None:
        """Write what is pending and end; blocks."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                busy = self._pending or self._snapshot or self._writing or self._stopping
                if not (busy or self._untidy or self._proof):
                    self._wake.wait(IDLE)
                rows, self._pending = self._pending, []
                if self._writing is None:
                    self._writing, self._snapshot = self._snapshot, None
                proof, self._proof = self._proof, None
                if not (rows or proof) and self._writing is None and self._stopping:
                    self._ended = True
                    return
                done, self._current, self._next = self._next, self._next, None
            try:
                if rows:
                    self._storage.append(rows)
                with self._wake:
                    self._current = None
                self._tell(done, None)
                if proof or not rows:
                    self._storage.check()
                self._tell(proof, None)
                if self._untidy:
                    self._untidy = self._storage.tidy(self._log)
                if self._writing is not None:
                    number, pieces = self._writing
                    place, content, last = next(pieces)
                    self._storage.add_piece(number, place, content, last=last)
                    if last:
                        self._writing, self._untidy = None, True
            except Exception as error:  # whatever it is, nothing more may be acknowledged
                why = str(error) or type(error).__name__
                with self._wake:
                    self.broken = why
                    waiting = (done, self._next, proof, self._proof)
                    self._next = self._current = self._proof = None
                    self._pending = []
                for future in waiting:
                    self._tell(future, why)
                self._call(functools.partial(self._failed, why))
                return

    def _tell(self, future: asyncio.Future[None] | None, why: str | None) -> None:
        if future is not None:
            self._call(lambda: _settle(future, why))

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(function)


def _settle(future: asyncio.Future[None], why: str | None) -> None:
    if future.done():
        return
    if why is None:
        future.set_result(None)
    else:
        future.set_exception(StorageError(why))


def _seen(future: asyncio.Future[None]) -> None:
    """Mark an error as read, since there may be nobody who waits."""
    if not future.cancelled():
        future.exception()
