"""A client of the learner service, with and without `async`.

    with Client("http://127.0.0.1:8571", "shop", buffer="shop.buffer") as shop:
        episode = shop.begin()
        action, probability = shop.decide(episode, step=0, state=0)
        ...
        shop.feedback([{"episode": episode, "costs": [0.2]}])     days later, perhaps twice

Everything is retried with growing pauses, because everything may be: episodes have keys, and a
record that comes twice is counted once. With a buffer, feedback is on the client's own disk before
it is sent, and is sent when the server can be reached.

Each call is a generator that says what to send and how long to wait. `Client` and `AsyncClient` do
what it says.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import sqlite3
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import httpx
import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.tabular.records import Costs, StepCost, Trajectory

BATCH = 500
"""Records of one request."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
AGAIN = (429, 502, 503, 504)
"""Answers after which the same request may work later."""
MOST_REDIRECTIONS = 5

Record = Trajectory | Costs | StepCost | Mapping[str, Any]
Result = TypeVar("Result")


class ServiceError(Exception):
    """The service refuses a request, or could not be reached in time.

    status: what HTTP says; None if there was no answer.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Send:
    """To be sent. request: the arguments of httpx."""

    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class _Done:
    result: Any


_Call = Generator[_Send | _Pause, Any, Result]


def _next(call: _Call[Any], answer: Any = None) -> _Send | _Pause | _Done:
    """What a call wants done, after the answer to what it wanted before."""
    try:
        return call.send(answer)
    except StopIteration as end:
        return _Done(end.value)


class _Calls:
    """What is sent, without sending it; arguments as of `Client`."""

    _Web: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        url: str,
        learner: str,
        *,
        token: str | None = None,
        patience: float = 30.0,
        timeout: float = 10.0,
        buffer: str | os.PathLike[str] | None = None,
        transport: Any = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url must start with http:// or https://, got {checks.show(url)}")
        self._base = url.rstrip("/")
        self._path = f"/v1/learners/{learner}"
        self._patience = checks.real("patience", patience, 0.0)
        self._timeout = checks.real("timeout", timeout, 0.0, above=True)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._web = self._Web(headers=headers, transport=transport)
        self._buffer = None if buffer is None else Buffer(buffer)
        self._rng = random.Random()

    def _exchange(
        self, method: str, path: str, body: Any = None, patience: float | None = None
    ) -> _Call[httpx.Response]:
        """One request, until there is an answer to keep."""
        end = time.monotonic() + (self._patience if patience is None else patience)
        pause, redirected = FIRST_PAUSE, 0
        url = self._base + self._path + path
        asked = {"method": method, "json": body, "timeout": self._timeout}
        while True:
            answer = yield _Send({"url": url, **asked})
            wait = self._rng.uniform(0.5, 1.0) * pause
            pause = min(2 * pause, LONGEST_PAUSE)
            if isinstance(answer, httpx.Response):
                if answer.status_code == 307 and redirected < MOST_REDIRECTIONS:
                    redirected += 1
                    url = _redirected(answer, url)
                    continue
                if answer.status_code not in AGAIN:
                    return answer
                why, status = _why(answer), answer.status_code
                after = answer.headers.get("retry-after", "")
                wait = max(wait, float(after)) if after.isdigit() else wait
            else:
                why, status = f"{type(answer).__name__}: {answer}", None
            redirected, url = 0, self._base + self._path + path
            if time.monotonic() + wait > end:
                raise ServiceError(why, status)
            yield _Pause(wait)

    def _asked(self, method: str, path: str, body: Any = None) -> _Call[httpx.Response]:
        """The same for an answer that must be a success."""
        answer = yield from self._exchange(method, path, body)
        if answer.status_code >= 300:
            raise ServiceError(_why(answer), answer.status_code)
        return answer

    def _begin(self, key: str | None) -> _Call[int]:
        given = {"key": uuid.uuid4().hex if key is None else key}
        answer = yield from self._asked("POST", "/episodes", given)
        return int(answer.json()["episode"])

    def _decide(self, episode: int, step: int, state: int) -> _Call[tuple[int, float]]:
        body = {"episode": int(episode), "step": int(step), "state": int(state)}
        told = (yield from self._asked("POST", "/decide", body)).json()
        return int(told["action"]), float(told["probability"])

    def _policy(self, episode: int) -> _Call[Floats]:
        path = f"/episodes/{int(episode)}/policy?format=npy"
        answer = yield from self._asked("GET", path)
        policy: Floats = np.load(io.BytesIO(answer.content), allow_pickle=False)
        return policy

    def _feedback(self, records: Iterable[Record]) -> _Call[list[dict[str, Any]] | None]:
        rows = [_written(record) for record in records]
        if self._buffer is None:
            outcomes = []
            for i in range(0, len(rows), BATCH):
                outcomes += yield from self._batch(rows[i : i + BATCH], self._patience)
            return outcomes
        self._buffer.add(rows)
        try:
            return (yield from self._flush(0.0))[-len(rows) :]
        except ServiceError as error:
            if error.status is None or error.status in AGAIN:
                return None
            raise

    def _flush(self, patience: float | None = None) -> _Call[list[dict[str, Any]]]:
        outcomes: list[dict[str, Any]] = []
        while self._buffer is not None and (found := self._buffer.first(BATCH)):
            numbers, rows = zip(*found, strict=True)
            outcomes += yield from self._batch(list(rows), patience)
            self._buffer.remove(numbers[-1])
        return outcomes

    def _batch(
        self, rows: list[dict[str, Any]], patience: float | None
    ) -> _Call[list[dict[str, Any]]]:
        answer = yield from self._exchange("POST", "/feedback/batch", {"records": rows}, patience)
        if answer.status_code == 413 and len(rows) > 1:  # this server takes less at once
            half = len(rows) // 2
            first = yield from self._batch(rows[:half], patience)
            return first + (yield from self._batch(rows[half:], patience))
        if answer.status_code >= 300:
            raise ServiceError(_why(answer), answer.status_code)
        found: list[dict[str, Any]] = answer.json()["outcomes"]
        return found

    def _forget(self, episode: int) -> _Call[dict[str, Any]]:
        answer = yield from self._asked("DELETE", f"/episodes/{int(episode)}")
        told: dict[str, Any] = answer.json()
        return told

    def _status(self) -> _Call[dict[str, Any]]:
        told: dict[str, Any] = (yield from self._asked("GET", "")).json()
        return told

    @property
    def undelivered(self) -> int:
        """Records in the buffer."""
        return 0 if self._buffer is None else len(self._buffer)


class Client(_Calls):
    """A client without `async`; a context manager.

    Args:
        url: of the server.
        learner: its name there.
        token: if the server needs one.
        patience: seconds after which a request that keeps failing is given up.
        timeout: seconds that one attempt may take.
        buffer: a file for feedback that is not delivered; None: feedback is retried like all else.
        transport: of httpx, for instance one with a certificate of your own; None: the usual one.
    """

    _Web = httpx.Client

    def _run(self, call: _Call[Result]) -> Result:
        step = _next(call)
        while not isinstance(step, _Done):
            step = _next(call, self._do(step))
        return step.result  # type: ignore[no-any-return]

    def _do(self, step: _Send | _Pause) -> Any:
        if isinstance(step, _Pause):
            return time.sleep(step.seconds)
        try:
            return self._web.request(**step.request)
        except httpx.TransportError as error:
            return error

    def begin(self, key: str | None = None) -> int:
        """Begin an episode; with the same key again, the same one. Returns its number."""
        return self._run(self._begin(key))

    def decide(self, episode: int, step: int, state: int) -> tuple[int, float]:
        """An action and its probability; the same ones if asked again."""
        return self._run(self._decide(episode, step, state))

    def policy(self, episode: int) -> Floats:
        """The policy (H, S, A) of an open episode."""
        return self._run(self._policy(episode))

    def feedback(self, records: Iterable[Record]) -> list[dict[str, Any]] | None:
        """Hand in records; an outcome each. None: they are in the buffer, for later."""
        return self._run(self._feedback(records))

    def flush(self) -> list[dict[str, Any]]:
        """Send what is in the buffer."""
        return self._run(self._flush())

    def forget(self, episode: int) -> dict[str, Any]:
        """Let go of an episode."""
        return self._run(self._forget(episode))

    def status(self) -> dict[str, Any]:
        """How the learner is doing."""
        return self._run(self._status())

    def close(self) -> None:
        """Close the connections."""
        self._web.close()
        if self._buffer is not None:
            self._buffer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_Calls):
    """The same with `async`: an asynchronous context manager. Arguments as of `Client`."""

    _Web = httpx.AsyncClient

    async def _run(self, call: _Call[Result]) -> Result:
        step = _next(call)
        while not isinstance(step, _Done):
            step = _next(call, await self._do(step))
        return step.result  # type: ignore[no-any-return]

    async def _do(self, step: _Send | _Pause) -> Any:
        if isinstance(step, _Pause):
            return await asyncio.sleep(step.seconds)
        try:
            return await self._web.request(**step.request)
        except httpx.TransportError as error:
            return error

    async def begin(self, key: str | None = None) -> int:
        """See `Client`."""
        return await self._run(self._begin(key))

    async def decide(self, episode: int, step: int, state: int) -> tuple[int, float]:
        """See `Client`."""
        return await self._run(self._decide(episode, step, state))

    async def policy(self, episode: int) -> Floats:
        """See `Client`."""
        return await self._run(self._policy(episode))

    async def feedback(self, records: Iterable[Record]) -> list[dict[str, Any]] | None:
        """See `Client`."""
        return await self._run(self._feedback(records))

    async def flush(self) -> list[dict[str, Any]]:
        """See `Client`."""
        return await self._run(self._flush())

    async def forget(self, episode: int) -> dict[str, Any]:
        """See `Client`."""
        return await self._run(self._forget(episode))

    async def status(self) -> dict[str, Any]:
        """See `Client`."""
        return await self._run(self._status())

    async def close(self) -> None:
        """See `Client`."""
        await self._web.aclose()
        if self._buffer is not None:
            self._buffer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class Buffer:
    """Records on disk, oldest first."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records "
            "(number INTEGER PRIMARY KEY AUTOINCREMENT, written TEXT NOT NULL)"
        )

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put records at the end; they are on disk when this returns."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(
            "INSERT INTO records (written) VALUES (?)", [(json.dumps(row),) for row in rows]
        )
        self._db.execute("COMMIT")

    def first(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """The oldest records and their numbers."""
        found = self._db.execute(
            "SELECT number, written FROM records ORDER BY number LIMIT ?", (count,)
        )
        return [(number, json.loads(written)) for number, written in found]

    def remove(self, number: int) -> None:
        """Take out the records up to this number."""
        self._db.execute("DELETE FROM records WHERE number <= ?", (number,))

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM records").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _written(record: Record) -> dict[str, Any]:
    """A record as JSON."""
    if isinstance(record, Trajectory | Costs | StepCost):
        return record.to_json()
    return dict(record)


def _redirected(answer: httpx.Response, url: str) -> str:
    """Where a redirection leads. A token that was sent over TLS is not sent without."""
    if answer.next_request is None:
        return url
    found = answer.next_request.url
    if url.startswith("https://") and found.scheme != "https":
        raise ServiceError(f"redirected from https to {checks.show(str(found))}", 307)
    return str(found)


def _why(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["why"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {answer.status_code}"
