"""A client of the learner service, with and without `async`.

    with Client("http://127.0.0.1:8571", "shop", buffer="shop.buffer") as shop:
        episode = shop.begin()
        action, probability = shop.decide(episode, step=0, state=0)
        ...
        shop.feedback([{"episode": episode, "costs": [0.2]}])     days later, perhaps twice

    with Client("http://127.0.0.1:8571", "mail") as mail:         a learner of one step
        made = mail.decide(features={"age": 34, "country": "DK"}, key="visitor 7")
        mail.feedback([{"key": "visitor 7", "reward": 12.5, "event": "order-17"}])

Every request is retried with growing pauses. This is safe: episodes have keys, and a record that
arrives twice is counted once. With a buffer, feedback is written to the client's disk before it is
sent, and is sent when the server can be reached. A record that the server refuses is set aside
there with the reason, so that nothing is lost and it does not block the records behind it. A buffer
belongs to one learner of one server.

The calls are written once, with `async`. `Client` runs them over connections that never wait for an
event loop, so each of them ends in one step.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import itertools
import json
import os
import random
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast, overload
from urllib.parse import quote

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.tabular.records import Costs, StepCost, Trajectory

try:
    import httpx
except ModuleNotFoundError as error:
    needed = f"belated.client needs {error.name}: pip install 'belated[client]'"
    raise ModuleNotFoundError(needed, name=error.name) from None

BATCH = 500
"""The largest number of records in one request."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
UNDELIVERABLE = "undeliverable"
"""The outcome of a record that the server does not even read."""
ARGUMENTS = {
    "url": (
        r"https?://([^/?#@\s]+@)?([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?(/[^?#\s]*)?",
        "url must start with http:// or https://, then a host, got {}",
    ),
    "learner": (
        r"[a-z0-9][a-z0-9-]{0,62}",
        "learner must be the name of one, 1 to 63 lower-case letters, digits and dashes, got {}",
    ),
    "token": (r"[!-~]+", "token must be ASCII characters without spaces"),
}
"""What the texts among the arguments of a client must be."""
REFUSED = (UNDELIVERABLE, "invalid", "unknown", "conflict")
"""The outcomes of records that no repetition can change."""
AGAIN = (None, 429, 502, 503, 504)
"""Status codes after which the same request may succeed later; None: there was no answer."""
NEVER = (400, 413, 422)
"""Status codes that mean, for a record sent alone, that the server will never accept it."""
MOST_REDIRECTIONS = 5
TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS records
    (number INTEGER PRIMARY KEY AUTOINCREMENT, written TEXT NOT NULL, why TEXT);
CREATE INDEX IF NOT EXISTS waiting ON records (number) WHERE why IS NULL;
CREATE TABLE IF NOT EXISTS owner (address TEXT PRIMARY KEY);
"""
"""The tables of a buffer. why: the reason why a record was set aside; NULL of one that waits."""
Rows = list[tuple[int, str]]
"""The numbers and texts of records in a buffer."""
Table = dict[str, Any]
Given = Mapping[str, Any]
Record = Trajectory | Costs | StepCost | Given
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


@dataclass(frozen=True, slots=True)
class ServedDecision:
    """A decision of one step.

    Attributes:
        action: the number of the action to play.
        probability: the probability of that action.
        episode: the number of the decision; feedback may name it instead of the key.
        key: the key of the decision, which feedback may name.
        name: the name of the action, if actions have names.
        created: False if the key was used before.
    """

    action: int
    probability: float
    episode: int
    key: str
    name: str | None = None
    created: bool = True


class ServiceError(Exception):
    """The service refused a request, or could not be reached in time.

    status: the HTTP status code; None if there was no response. after: the number of seconds after
    which the server asks for a repetition.
    """

    def __init__(self, why: str, status: int | None = None, after: float = 0.0) -> None:
        super().__init__(why)
        self.status, self.after = status, after


def _table(answer: httpx.Response) -> Table:
    return dict.copy(answer.json())


class _Connected:
    """What both clients do, whether or not their connections wait for an event loop."""

    _connections: ClassVar[Callable[..., Any]] = httpx.AsyncClient
    _sleep: ClassVar[Callable[[float], Any]] = asyncio.sleep

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
        given = {"url": url, "learner": learner, "token": "-" if token is None else token}
        for name, (pattern, wrong) in ARGUMENTS.items():
            if not (isinstance(given[name], str) and re.fullmatch(pattern, given[name])):
                raise ValueError(wrong.format(checks.show(given[name])))
        self._base = f"{url.rstrip('/')}/v1/learners/{learner}"
        self._patience = checks.real("patience", patience, 0.0)
        checks.real("timeout", timeout, 0.0, above=True)
        known = {} if token is None else {"Authorization": f"Bearer {token}"}
        headers = {"Content-Type": "application/json", **known}
        self._web = self._connections(headers=headers, timeout=timeout, transport=transport)
        self._buffer = None if buffer is None else Buffer(buffer, self._base)

    @property
    def undelivered(self) -> int:
        """The number of records in the buffer that are not sent yet."""
        return 0 if self._buffer is None else len(self._buffer)

    @property
    def set_aside(self) -> list[tuple[Table, str]]:
        """The records that the server has refused, and why; they stay in the buffer."""
        return [] if self._buffer is None else self._buffer.refused()

    async def _told(
        self,
        method: str,
        path: str,
        body: Any = None,
        read: Callable[[httpx.Response], Result] = _table,  # type: ignore[assignment]
        patience: float | None = None,
    ) -> Result:
        """What a function reads in the final answer to a request; raises `ServiceError`."""
        end = time.monotonic() + (self._patience if patience is None else patience)
        text = body if body is None or isinstance(body, str) else _dumped("a decision", body)
        pause = FIRST_PAUSE
        while True:
            try:
                return _read(await self._answer(method, self._base + path, text), read)
            except ServiceError as error:
                wait = max(random.uniform(0.5, 1.0) * pause, error.after)
                if error.status not in AGAIN or time.monotonic() + wait > end:
                    raise
            pause = min(2 * pause, LONGEST_PAUSE)
            await _done(type(self)._sleep, wait)

    async def _answer(self, method: str, url: str, text: str | None) -> httpx.Response:
        """The answer of the server that a request is redirected to; the token goes with it.

        Servers that have just lost a learner may name one another for a moment.
        """
        for _ in range(MOST_REDIRECTIONS):
            try:
                answer: httpx.Response = await _done(self._web.request, method, url, content=text)
            except httpx.TransportError as error:
                raise ServiceError(f"{type(error).__name__}: {error}") from None
            if answer.status_code != 307 or answer.next_request is None:
                return answer
            onward = answer.next_request.url
            if url.startswith("https://") and onward.scheme != "https":
                raise ServiceError(f"redirected from https to {checks.show(str(onward))}", 307)
            url = str(onward)
        raise ServiceError(f"redirected {MOST_REDIRECTIONS} times: no server drives the learner")

    async def _flush(self, buffer: Buffer, own: Rows, patience: float) -> list[Table]:
        """Send the records that no other call is sending, then those of this call."""
        outcomes: list[Table] = []
        rows = own
        try:
            for rows in itertools.chain(iter(partial(buffer.claim, BATCH), []), _portions(own)):
                told = await self._batch([text for _, text in rows], patience)
                buffer.settle(rows, told)
                outcomes += told
        finally:
            buffer.release([*rows, *own])
        return outcomes

    async def _batch(self, texts: Sequence[str], patience: float) -> list[Table]:
        """The outcomes of a batch; one that is refused as a whole is split."""
        body = f'{{"records": [{", ".join(texts)}]}}'
        try:
            return await self._told(
                "POST", "/feedback/batch", body, partial(_outcomes, texts), patience
            )
        except ServiceError as error:
            if error.status not in NEVER or not texts:
                raise
            if len(texts) == 1:
                return [{"outcome": UNDELIVERABLE, "status": error.status, "why": str(error)}]
        half = len(texts) // 2  # too large for this server, or with a bad record
        first = await self._batch(texts[:half], patience)
        return first + await self._batch(texts[half:], patience)


async def _done(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, which is awaited where it must be."""
    result = call(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


class AsyncClient(_Connected, contextlib.AbstractAsyncContextManager["AsyncClient"]):
    """`Client` with `async`: an asynchronous context manager with the same arguments."""

    async def begin(self, key: str | None = None) -> int:
        """Begin an episode and return its number; a known key returns the same episode again."""
        return await self._told(
            "POST", "/episodes", _asked_for({"key": key}), lambda told: int(told.json()["episode"])
        )

    @overload
    async def decide(self, episode: int, step: int, state: int) -> tuple[int, float]: ...
    @overload
    async def decide(
        self,
        *,
        state: int | None = ...,
        features: Any = ...,
        among: Any = ...,
        key: str | None = ...,
    ) -> ServedDecision: ...
    async def decide(
        self,
        episode: int | None = None,
        step: int | None = None,
        state: int | None = None,
        *,
        features: Any = None,
        among: Any = None,
        key: str | None = None,
    ) -> tuple[int, float] | ServedDecision:
        """Decide at a step of an episode, or begin an episode of one step and decide in it.

        Args:
            episode: the number of an episode that was begun; None begins one.
            step: the step of the episode, counted from 0.
            state: the state at this step.
            features: the features, for a learner without states.
            among: the allowed actions, by number or name.
            key: your own key, for feedback; the same key again gives the same decision.

        Returns:
            Action and probability, the same if repeated; a `ServedDecision` in a new episode.
        """
        where = {"episode": episode, "step": step, "state": state}
        body = _asked_for({**where, "features": features, "among": among, "key": key})
        return await self._told(
            "POST", "/decide", body, lambda answer: _decision(body, answer.json())
        )

    async def decide_many(self, asked: Iterable[Given]) -> list[ServedDecision]:
        """Make many decisions: each item holds keyword arguments of `decide`.

        Up to 500 decisions are one request, in which all are made or none.
        """
        found: list[ServedDecision] = []
        for some in _portions([_asked_for(one) for one in asked]):
            read = partial(_decisions, some)
            found += await self._told("POST", "/decide/batch", {"decisions": some}, read)
        return found

    async def policy(self, episode: int) -> Floats:
        """The policy (H, S, A) of an open episode."""
        path = f"/episodes/{checks.integer('episode', episode, 0)}/policy?format=npy"
        return await self._told("GET", path, read=_array)

    async def feedback(self, records: Iterable[Record]) -> list[Table] | None:
        """Send records and return one outcome each; None: they wait in the buffer.

        Without records, the learner hears that nothing has arrived until now. A record that the
        server does not read, because of its size, has the outcome "undeliverable". With a buffer,
        it is set aside there, and so is one that is invalid, unknown or in conflict.
        """
        texts = [_text(record) for record in records]  # raises before anything is sent
        if self._buffer is None or not texts:
            return [
                one
                for some in _portions(texts) or [[]]
                for one in await self._batch(some, self._patience)
            ]
        own = self._buffer.add(texts)
        try:
            return (await self._flush(self._buffer, own, 0.0))[-len(own) :]
        except ServiceError as error:
            if error.status not in AGAIN:
                raise
            return None

    async def flush(self) -> list[Table]:
        """Send the records in the buffer."""
        return [] if self._buffer is None else await self._flush(self._buffer, [], self._patience)

    async def forget(self, episode: int) -> Table:
        """Discard an episode."""
        return await self._told("DELETE", f"/episodes/{checks.integer('episode', episode, 0)}")

    async def status(self) -> Table:
        """The status of the learner."""
        return await self._told("GET", "")

    async def report(self) -> Table:
        """The leading action, outcomes per day, delays, and warnings as text."""
        return await self._told("GET", "/report")

    async def add_action(self, name: str | None = None) -> Table:
        """Add an action to the learner, by its name where actions have names."""
        return await self._told("POST", "/actions", {"name": name})

    async def retire(self, action: int | str) -> Table:
        """Stop playing an action."""
        name = quote(str(action), safe="").replace(".", "%2E")  # ".." would be another address
        return await self._told("DELETE", f"/actions/{name}")

    async def close(self) -> None:
        """Close the connections."""
        await _done(getattr(self._web, "aclose", None) or self._web.close)
        if self._buffer is not None:
            self._buffer.close()

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _finished(
    method: Callable[Concatenate[AsyncClient, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Client, Parameters], Result]:
    """A method of `AsyncClient` for `Client`: it is finished when it returns."""

    @wraps(method)
    def finished(self: Client, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            method(cast("Any", self), *args, **kwargs).send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("a client without async must not wait for an event loop")

    return finished


class Client(_Connected, contextlib.AbstractContextManager["Client"]):
    """A client without `async`; a context manager.

    Args:
        url: the address of the server.
        learner: the name of the learner there.
        token: the token, if the server needs one.
        patience: seconds after which a request that keeps failing is given up.
        timeout: seconds that one attempt may take.
        buffer: a file for feedback that is not delivered; None: feedback is only retried, like
            other requests.
        transport: a transport of httpx, such as one with your own certificate; None: the default.
    """

    _connections = httpx.Client
    _sleep = time.sleep

    begin = _finished(AsyncClient.begin)
    decide = _finished(AsyncClient.decide)
    decide_many = _finished(AsyncClient.decide_many)
    policy = _finished(AsyncClient.policy)
    feedback = _finished(AsyncClient.feedback)
    flush = _finished(AsyncClient.flush)
    forget = _finished(AsyncClient.forget)
    status = _finished(AsyncClient.status)
    report = _finished(AsyncClient.report)
    add_action = _finished(AsyncClient.add_action)
    retire = _finished(AsyncClient.retire)
    close = _finished(AsyncClient.close)

    def __exit__(self, *error: object) -> None:
        self.close()


class Buffer:
    """Records on disk, oldest first; threads and processes may share it.

    A record that is being sent is claimed, so that no other call of this process sends it too.

    Args:
        path: the file.
        owner: the address of the learner to which the records belong.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self._lock = threading.RLock()
        self._claimed: set[int] = set()
        self._path, self._name = path, f"buffer {checks.show(str(path))}"
        try:
            self._db = sqlite3.connect(path, check_same_thread=False)
            self._db.text_factory = partial(str, encoding="utf-8", errors="replace")
            self._db.executescript(TABLES)
            self._file = os.stat(path)
            self._all("INSERT INTO owner SELECT ? WHERE NOT EXISTS (SELECT 1 FROM owner)", owner)
            ((found, damage),) = self._all(
                "SELECT address, (SELECT quick_check FROM pragma_quick_check(1)) FROM owner"
            )
            if damage != "ok":
                raise ValueError(f"it is damaged: {' '.join(damage.split())}")
            if found != owner:
                raise ValueError(f"its records belong to {found}, not to {owner}")
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            self.close()
            raise ValueError(f"{self._name} cannot be used: {error}") from None

    def _all(self, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement; what it writes is on disk then, in a file that has a name."""
        with self._lock, self._db:
            found = self._db.execute(statement, values).fetchall()
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._path), self._file):
                return found
        raise OSError(
            f"{self._name} was deleted or replaced while the client was open, so its records may "
            "be lost; open a client anew"
        )

    def add(self, texts: Sequence[str]) -> Rows:
        """Append records and claim them; they are on disk when this returns."""
        with self._lock:
            rows = sorted(
                self._all(
                    "INSERT INTO records (written) SELECT value FROM json_each(?) "
                    "RETURNING number, written",
                    json.dumps(texts),
                )
            )
            self._claimed.update(dict(rows))
        return rows

    def claim(self, count: int) -> Rows:
        """Claim the oldest records that are not claimed; returns their numbers and texts."""
        with self._lock:
            free = self._all(
                "SELECT number, written FROM records WHERE why IS NULL "
                "AND number NOT IN (SELECT value FROM json_each(?)) ORDER BY number LIMIT ?",
                json.dumps([*self._claimed]), count,
            )  # fmt: skip
            self._claimed.update(dict(free))
        return free

    def release(self, rows: Rows) -> None:
        """Allow another call to send these records."""
        with self._lock:
            self._claimed.difference_update(dict(rows))

    def settle(self, rows: Rows, outcomes: Sequence[Table]) -> None:
        """Remove records by their outcomes; those that were refused are set aside with a reason."""
        refused = {
            number: str(one.get("why"))
            for (number, _), one in zip(rows, outcomes, strict=True)
            if one["outcome"] in REFUSED
        }
        self._all(
            "UPDATE records SET why = value FROM json_each(?) WHERE number = key",
            json.dumps(refused),
        )
        self._all(
            "DELETE FROM records WHERE why IS NULL AND number IN (SELECT value FROM json_each(?))",
            json.dumps([*dict(rows)]),
        )
        self.release(rows)

    def refused(self) -> list[tuple[Table, str]]:
        """The records that were set aside, and why."""
        found = self._all(
            "SELECT CASE WHEN json_valid(written) THEN written ELSE json_object('damaged', written)"
            " END, why FROM records WHERE why IS NOT NULL ORDER BY number"
        )
        return [(json.loads(written), why) for written, why in found]

    def __len__(self) -> int:
        return int(self._all("SELECT count(*) FROM records WHERE why IS NULL")[0][0])

    def close(self) -> None:
        """Close the file, if it is open."""
        with contextlib.suppress(AttributeError):
            self._db.close()


def _portions(items: list[Any]) -> list[list[Any]]:
    """The items in portions of at most one request."""
    return [items[i : i + BATCH] for i in range(0, len(items), BATCH)]


def _text(record: Record) -> str:
    """A record as JSON."""
    given = record.to_json() if isinstance(record, Trajectory | Costs | StepCost) else record
    if not isinstance(given, Mapping):
        raise ValueError(f"a record must be a record or a mapping, got {checks.show(record)}")
    return _dumped("a record", dict(given))


def _asked_for(given: Given) -> Table:
    """The body of a request for a decision; in a new episode, a key prevents a second one."""
    body = {name: value for name, value in dict(given).items() if value is not None}
    return body if "episode" in body else {"key": uuid.uuid4().hex, **body}


def _decision(asked: Given, told: Given) -> Any:
    """The decision in an answer: action and probability alone if the episode was known."""
    drawn = int(told["action"]), float(told["probability"])
    if "episode" in asked:
        return drawn
    name, created = told.get("name"), told.get("created", True)
    return ServedDecision(*drawn, int(told["episode"]), asked["key"], name, created)


def _decisions(asked: Sequence[Given], answer: httpx.Response) -> list[ServedDecision]:
    return [_decision(*pair) for pair in zip(asked, answer.json()["decisions"], strict=True)]


def _outcomes(texts: Sequence[str], answer: httpx.Response) -> list[Table]:
    told = zip(answer.json()["outcomes"], texts, strict=True)
    return [{**one, "outcome": str(one["outcome"])} for one, _ in told]


def _array(answer: httpx.Response) -> Floats:
    return np.asarray(np.lib.format.read_array(io.BytesIO(answer.content)))


def _dumped(what: str, value: Any) -> str:
    """A value as JSON; NumPy's numbers and arrays are written as numbers and lists."""
    try:
        return json.dumps(value, allow_nan=False, default=lambda array: array.tolist())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{what} must have finite numbers, texts and lists only, got {checks.show(value)}: "
            f"{error}"
        ) from None


def _read(answer: httpx.Response, read: Callable[[httpx.Response], Result]) -> Result:
    """What a function reads in an answer; a `ServiceError` says what was answered instead."""
    status, told = answer.status_code, answer.headers.get("retry-after", "")
    after = float(told) if told.isdecimal() else 0.0
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
        if answer.is_success:
            return read(answer)
        raise ServiceError(str(answer.json()["why"]), status, after)
    got = f"{checks.show(answer.text[:80])} with status {status}"
    raise ServiceError(f"the answer is not that of a learner, got {got}", status, after)
