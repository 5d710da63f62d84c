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

Each call is a generator that yields what to send and how long to wait; `Client` and `AsyncClient`
carry this out.
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import os
import random
import re
import sqlite3
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, overload
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
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""The names that learners may have."""
REFUSED = (UNDELIVERABLE, "invalid", "unknown", "conflict")
"""The outcomes of records that no repetition can change."""
AGAIN = (429, 502, 503, 504)
"""Status codes after which the same request may succeed later."""
NEVER = (400, 413, 422)
"""Status codes that mean, for a record sent alone, that the server will never accept it."""
MOST_REDIRECTIONS = 5

Record = Trajectory | Costs | StepCost | Mapping[str, Any]
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

    status: the HTTP status code; None if there was no response.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Send:
    """A request to send. request: the arguments for httpx."""

    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class _Done:
    result: Any


_Call = Generator[_Send | _Pause, Any, Result]


def _next(call: _Call[Any], answer: Any = None) -> _Send | _Pause | _Done:
    """The next step of a call, given the result of its previous step."""
    try:
        return call.send(answer)
    except StopIteration as end:
        return _Done(end.value)


class _Calls(ABC):
    """The requests of a client, without the transport; arguments as for `Client`."""

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
        if not NAME.fullmatch(learner):
            raise ValueError(
                "learner must be the name of one, 1 to 63 lower-case letters, digits and dashes, "
                f"got {checks.show(learner)}"
            )
        self._base = url.rstrip("/")
        self._path = f"/v1/learners/{learner}"
        self._patience = checks.real("patience", patience, 0.0)
        self._timeout = checks.real("timeout", timeout, 0.0, above=True)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._web = self._Web(headers=headers, transport=transport)
        self._buffer = None if buffer is None else Buffer(buffer, f"{self._base}{self._path}")
        self._rng = random.Random()

    async def _carry_out(self, call: _Call[Result]) -> Result:
        """Carry out the steps of a call until it is done."""
        with closing(call):
            step = _next(call)
            while not isinstance(step, _Done):
                step = _next(call, await self._do(step))
        return step.result  # type: ignore[no-any-return]

    async def _do(self, step: _Send | _Pause) -> Any:
        if isinstance(step, _Pause):
            return await self._sleep(step.seconds)
        try:
            return await self._send(step.request)
        except httpx.TransportError as error:
            return error

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...

    @abstractmethod
    async def _send(self, request: dict[str, Any]) -> Any: ...

    def _exchange(
        self, method: str, path: str, body: Any = None, patience: float | None = None
    ) -> _Call[httpx.Response]:
        """Send one request, and retry it until the answer is final."""
        end = time.monotonic() + (self._patience if patience is None else patience)
        pause, redirected = FIRST_PAUSE, 0
        url = self._base + self._path + path
        asked: dict[str, Any] = {"method": method, "timeout": self._timeout}
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
            asked |= {"content": text.encode(), "headers": {"Content-Type": "application/json"}}
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
        """The same, but an answer other than success raises `ServiceError`."""
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

    def _decide_or_choose(
        self, episode: int | None, step: int | None, asked: Mapping[str, Any]
    ) -> _Call[tuple[int, float] | ServedDecision]:
        """A decision at a step of an episode, or in a new episode of one step."""
        if episode is None:
            return (yield from self._choose_one(asked))
        where = _given("step", step), _given("state", asked["state"])
        return (yield from self._decide(episode, *where))

    def _choose(self, asked: Iterable[Mapping[str, Any]]) -> _Call[list[ServedDecision]]:
        bodies = [_asked_for(one) for one in asked]
        found: list[Any] = []
        for some in _portions(bodies):
            body = _dumped("a decision", {"decisions": some})
            answer = yield from self._asked("POST", "/decide/batch", body)
            found += answer.json()["decisions"]
        return [_decision(told, body["key"]) for told, body in zip(found, bodies, strict=True)]

    def _choose_one(self, asked: Mapping[str, Any]) -> _Call[ServedDecision]:
        body = _asked_for(asked)
        answer = yield from self._asked("POST", "/decide", _dumped("a decision", body))
        return _decision(answer.json(), body["key"])

    def _policy(self, episode: int) -> _Call[Floats]:
        path = f"/episodes/{int(episode)}/policy?format=npy"
        answer = yield from self._asked("GET", path)
        policy: Floats = np.load(io.BytesIO(answer.content), allow_pickle=False)
        return policy

    def _feedback(self, records: Iterable[Record]) -> _Call[list[dict[str, Any]] | None]:
        texts = [_text(record) for record in records]  # raises before anything is sent
        if self._buffer is None:
            outcomes = []
            for some in _portions(texts):
                outcomes += yield from self._batch(some, self._patience)
            if not texts:
                yield from self._batch([], self._patience)
            return outcomes
        own = self._buffer.add(texts)
        try:
            yield from self._flush(0.0)
            if not texts:
                return (yield from self._batch([], 0.0))
            return (yield from self._deliver(list(zip(own, texts, strict=True)), 0.0))
        except ServiceError as error:
            if error.status is None or error.status in AGAIN:
                return None
            raise
        finally:
            self._buffer.release(own)

    def _flush(self, patience: float | None = None) -> _Call[list[dict[str, Any]]]:
        """Send the records that no other call is sending."""
        outcomes: list[dict[str, Any]] = []
        while self._buffer is not None and (found := self._buffer.claim(BATCH)):
            try:
                outcomes += yield from self._deliver(found, patience)
            finally:
                self._buffer.release([number for number, _ in found])
        return outcomes

    def _deliver(
        self, rows: Sequence[tuple[int, str]], patience: float | None
    ) -> _Call[list[dict[str, Any]]]:
        """Send records of the buffer, and remove those delivered or undeliverable."""
        outcomes: list[dict[str, Any]] = []
        for some in _portions(rows):
            told = yield from self._batch([text for _, text in some], patience, alone=True)
            assert self._buffer is not None
            for (number, _), outcome in zip(some, told, strict=True):
                if outcome["outcome"] in REFUSED:
                    self._buffer.set_aside(number, outcome["why"])
            self._buffer.remove([number for number, _ in some])
            outcomes += told
        return outcomes

    def _batch(
        self, texts: Sequence[str], patience: float | None, *, alone: bool = False
    ) -> _Call[list[dict[str, Any]]]:
        """The outcomes of a batch. alone: whether to split a batch that is refused as a whole."""
        body = f'{{"records": [{", ".join(texts)}]}}'
        answer = yield from self._exchange("POST", "/feedback/batch", body, patience)
        if len(texts) > 1 and (
            answer.status_code == 413 or (alone and answer.status_code in NEVER)
        ):  # the batch is too large for this server, or contains a bad record
            half = len(texts) // 2
            first = yield from self._batch(texts[:half], patience, alone=alone)
            return first + (yield from self._batch(texts[half:], patience, alone=alone))
        if alone and len(texts) == 1 and answer.status_code in NEVER:
            status = answer.status_code
            return [{"outcome": UNDELIVERABLE, "status": status, "why": _why(answer)}]
        if answer.status_code >= 300:
            raise ServiceError(_why(answer), answer.status_code)
        found: list[dict[str, Any]] = answer.json()["outcomes"]
        return found

    def _forget(self, episode: int) -> _Call[dict[str, Any]]:
        return (yield from self._told("DELETE", f"/episodes/{int(episode)}"))

    def _told(self, method: str, path: str, body: Any = None) -> _Call[dict[str, Any]]:
        """The JSON of an answer."""
        told: dict[str, Any] = (yield from self._asked(method, path, body)).json()
        return told

    def _status(self) -> _Call[dict[str, Any]]:
        return self._told("GET", "")

    def _report(self) -> _Call[dict[str, Any]]:
        return self._told("GET", "/report")

    def _add_action(self, name: str | None) -> _Call[dict[str, Any]]:
        return self._told("POST", "/actions", {"name": name})

    def _retire(self, action: int | str) -> _Call[dict[str, Any]]:
        return self._told("DELETE", f"/actions/{quote(str(action), safe='')}")

    @property
    def undelivered(self) -> int:
        """The number of records in the buffer that are not sent yet."""
        return 0 if self._buffer is None else len(self._buffer)

    @property
    def set_aside(self) -> list[tuple[dict[str, Any], str]]:
        """The records that the server has refused, and why; they stay in the buffer."""
        return [] if self._buffer is None else self._buffer.refused()


class Client(_Calls):
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

    _Web = httpx.Client

    def _run(self, call: _Call[Result]) -> Result:
        """Carry out a call. The coroutine never waits for an event loop, so one `send` runs it."""
        try:
            self._carry_out(call).send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("a client without async must not wait for an event loop")

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _send(self, request: dict[str, Any]) -> Any:
        return self._web.request(**request)

    def begin(self, key: str | None = None) -> int:
        """Begin an episode and return its number; a known key returns the same episode again."""
        return self._run(self._begin(key))

    @overload
    def decide(self, episode: int, step: int, state: int) -> tuple[int, float]: ...
    @overload
    def decide(
        self,
        *,
        state: int | None = ...,
        features: Any = ...,
        among: Any = ...,
        key: str | None = ...,
    ) -> ServedDecision: ...
    def decide(
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
        asked = {"state": state, "features": features, "among": among, "key": key}
        return self._run(self._decide_or_choose(episode, step, asked))

    def decide_many(self, asked: Iterable[Mapping[str, Any]]) -> list[ServedDecision]:
        """Make many decisions: each item holds keyword arguments of `decide`.

        Up to 500 decisions are one request, in which all are made or none.
        """
        return self._run(self._choose(asked))

    def policy(self, episode: int) -> Floats:
        """The policy (H, S, A) of an open episode."""
        return self._run(self._policy(episode))

    def feedback(self, records: Iterable[Record]) -> list[dict[str, Any]] | None:
        """Send records and return one outcome each; None: they wait in the buffer.

        Without records, the learner hears that nothing has arrived until now. With a buffer, a
        record that is invalid, unknown or in conflict is set aside there, and so is one that the
        server does not read because of its size ("undeliverable").
        """
        return self._run(self._feedback(records))

    def flush(self) -> list[dict[str, Any]]:
        """Send the records in the buffer."""
        return self._run(self._flush())

    def forget(self, episode: int) -> dict[str, Any]:
        """Discard an episode."""
        return self._run(self._forget(episode))

    def status(self) -> dict[str, Any]:
        """The status of the learner."""
        return self._run(self._status())

    def report(self) -> dict[str, Any]:
        """The leading action, outcomes per day, delays, and warnings as text."""
        return self._run(self._report())

    def add_action(self, name: str | None = None) -> dict[str, Any]:
        """Add an action to the learner, by its name where actions have names."""
        return self._run(self._add_action(name))

    def retire(self, action: int | str) -> dict[str, Any]:
        """Stop playing an action."""
        return self._run(self._retire(action))

    def close(self) -> None:
        """Close the connections."""
        self._web.close()
        if self._buffer is not None:
            self._buffer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _awaited(
    method: Callable[Concatenate[Client, Parameters], Result],
) -> Callable[Concatenate[AsyncClient, Parameters], Coroutine[Any, Any, Result]]:
    """A method of `Client` for `AsyncClient`, whose `_run` returns a coroutine to await."""
    call: Any = method

    @functools.wraps(method)
    async def awaited(
        self: AsyncClient, /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        result: Result = await call(self, *args, **kwargs)
        return result

    return awaited


class AsyncClient(_Calls):
    """`Client` with `async`: an asynchronous context manager with the same arguments."""

    _Web = httpx.AsyncClient

    async def _run(self, call: _Call[Result]) -> Result:
        return await self._carry_out(call)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _send(self, request: dict[str, Any]) -> Any:
        return await self._web.request(**request)

    begin = _awaited(Client.begin)
    decide = _awaited(Client.decide)
    decide_many = _awaited(Client.decide_many)
    policy = _awaited(Client.policy)
    feedback = _awaited(Client.feedback)
    flush = _awaited(Client.flush)
    forget = _awaited(Client.forget)
    status = _awaited(Client.status)
    report = _awaited(Client.report)
    add_action = _awaited(Client.add_action)
    retire = _awaited(Client.retire)

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
    """Records on disk, oldest first; threads and processes may share it.

    A record that is being sent is claimed, so that no other call of this process sends it too.
    owner: the address of the learner to which the records belong.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self._lock = threading.Lock()
        self._claimed: set[int] = set()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._open(owner)
        except (sqlite3.Error, ValueError) as error:
            self._db.close()
            raise ValueError(f"buffer {checks.show(str(path))} cannot be used: {error}") from None

    def _open(self, owner: str) -> None:
        """Make the tables, and check whose records they have."""
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records "
            "(number INTEGER PRIMARY KEY AUTOINCREMENT, written TEXT NOT NULL)"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS set_aside "
            "(number INTEGER PRIMARY KEY, written TEXT NOT NULL, why TEXT NOT NULL)"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS owner (address TEXT PRIMARY KEY)")
        with self._transaction():
            found = self._db.execute("SELECT address FROM owner").fetchone()
            if found is None:
                self._db.execute("INSERT INTO owner VALUES (?)", (owner,))
            elif found[0] != owner:
                raise ValueError(f"its records belong to {found[0]}, not to {owner}")

    def add(self, texts: Sequence[str]) -> list[int]:
        """Append records and claim them; they are on disk when this returns."""
        with self._transaction():
            numbers = [
                self._db.execute("INSERT INTO records (written) VALUES (?)", (text,)).lastrowid
                for text in texts
            ]
            self._claimed.update(numbers)  # type: ignore[arg-type]
        return numbers  # type: ignore[return-value]

    def claim(self, count: int) -> list[tuple[int, str]]:
        """Claim the oldest records that are not claimed; returns their numbers and texts."""
        with self._lock:
            found = self._db.execute(
                "SELECT number, written FROM records ORDER BY number LIMIT ?",
                (count + len(self._claimed),),
            )
            free = [row for row in found.fetchall() if row[0] not in self._claimed][:count]
            self._claimed.update(number for number, _ in free)
        return free

    def release(self, numbers: Iterable[int]) -> None:
        """Allow another call to send these records."""
        with self._lock:
            self._claimed.difference_update(numbers)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove records."""
        with self._transaction():
            self._db.executemany("DELETE FROM records WHERE number = ?", [(n,) for n in numbers])

    def set_aside(self, number: int, why: str) -> None:
        """Move a record to those that are set aside."""
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO set_aside "
                "SELECT number, written, ? FROM records WHERE number = ?",
                (why, number),
            )
            self._db.execute("DELETE FROM records WHERE number = ?", (number,))

    def refused(self) -> list[tuple[dict[str, Any], str]]:
        """The records that were set aside, and why."""
        with self._lock:
            found = self._db.execute("SELECT written, why FROM set_aside ORDER BY number")
            return [(json.loads(written), why) for written, why in found.fetchall()]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction, used by one thread at a time."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM records").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()


Item = TypeVar("Item")


def _portions(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in portions of at most one request."""
    return (items[i : i + BATCH] for i in range(0, len(items), BATCH))


def _text(record: Record) -> str:
    """A record as JSON; NumPy's numbers and arrays are written as numbers and lists."""
    given = record.to_json() if isinstance(record, Trajectory | Costs | StepCost) else record
    if not isinstance(given, Mapping):
        raise ValueError(f"a record must be a record or a mapping, got {checks.show(record)}")
    return _dumped("a record", dict(given))


def _asked_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request for a decision; its key prevents a second decision on retry."""
    names = ("features", "state", "among", "key")
    for name in given:
        checks.choice("what a decision is asked with", name, names)
    body = {name: given[name] for name in names if given.get(name) is not None}
    return {"key": uuid.uuid4().hex, **body}


def _given(name: str, value: int | None) -> int:
    if value is None:
        raise ValueError(f"{name} must be given beside an episode, got None")
    return value


def _decision(told: Mapping[str, Any], key: str) -> ServedDecision:
    names = ("action", "probability", "episode", "name", "created")
    return ServedDecision(key=key, **{name: told[name] for name in names if name in told})


def _dumped(what: str, value: Any) -> str:
    """A value as JSON; NumPy's numbers and arrays are written as numbers and lists."""
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{what} must have finite numbers, texts and lists only, got {checks.show(value)}: "
            f"{error}"
        ) from None


def _plain(value: object) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _redirected(answer: httpx.Response, url: str) -> str:
    """The target of a redirection; a redirection from https to http is refused."""
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
