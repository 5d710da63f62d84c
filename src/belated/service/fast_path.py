"""The learners of a server, and a fast path to them that bypasses the framework.

The framework takes longer than a learner. A well-formed request is answered here, by the same
functions that the documented routes call. All other requests are passed on unchanged, those with a
mistake too: the documented route explains what is wrong.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from belated.core.inbox import Outcome
from belated.service.errors import Refusal, busy
from belated.service.gate import NO_TOKEN, Rate, Token, Verb, holder
from belated.service.session import Session, Wanted
from belated.service.storage import StorageError
from belated.service.supervisor import Live
from belated.service.wire import LARGEST_WHOLE, LONGEST_KEY, Arrived, Reader, RecordError, parse

BEFORE = "/v1/learners/"
LONGEST, DIGITS = 63, 7
"""The largest number of characters of a name, and of digits of the length of a body."""
FIELDS = ("episode", "step", "state")
KNOWN = {"features", "state", "among", "key"}
STATUS = {
    "taken": 200,
    "duplicate": 200,
    "late": 200,
    "conflict": 409,
    "unknown": 404,
    "invalid": 422,
}
"""The HTTP status of the outcomes of a record."""
Read = Callable[[Any], tuple[Any, ...] | None]
"""A function that parses a body; None if it is not plain and well-formed."""


class Answer(JSONResponse):
    """A JSON response; numbers that are not finite become null."""

    def render(self, content: Any) -> bytes:
        """The bytes. Unpaired surrogates, which UTF-8 cannot encode, are escaped."""
        try:
            return to_json(content, inf_nan_mode="null")
        except ValueError:
            return json.dumps(_finite(content), separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


class Server:
    """The learners of a server, and their access control."""

    def __init__(
        self,
        learners: list[Live],
        tokens: tuple[Token, ...] = (),
        rate: Rate | None = None,
        batch: int = 1000,
    ) -> None:
        self.learners = {live.name: live for live in learners}
        self._tokens = tokens
        self._rate = rate
        self.batch = batch

    def knows(self, header: str) -> bool:
        """Whether an `Authorization` header is valid."""
        return holder(header, self._tokens) is not None

    def holder(self, request: Request) -> Token:
        """The holder of a request's token; raises `Refusal` if unknown or too frequent."""
        token = holder(request.headers.get("authorization"), self._tokens)
        if token is None:
            raise Refusal(401, NO_TOKEN)
        wait = self._rate.wait(token.name) if self._rate is not None else 0.0
        if wait:
            raise busy("too many requests", wait)
        return token

    def find(self, request: Request, name: str, verb: Verb) -> Session:
        """The session of a learner; raises `Refusal` if the token does not allow this."""
        token = self.holder(request)
        if not token.opens(name, verb):
            raise Refusal(403, f"this token does not allow {verb} of this learner")
        live = self.learners.get(name)
        if live is None:
            raise Refusal(404, "there is no such learner", outcome="unknown")
        if live.session is None:
            raise live.refusal()
        return live.session

    def check_batch(self, name: str, items: list[Any]) -> None:
        """Raise `Refusal` if a batch is too long. name: what its items are."""
        if len(items) > self.batch:
            why = f"a batch must have at most {self.batch} {name}, got {len(items)}"
            raise Refusal(413, why, field=name)


async def refused(request: Request, error: Exception) -> Response:
    """The HTTP response of a `Refusal`."""
    assert isinstance(error, Refusal)
    headers = {}
    if error.address is not None:
        query = request.scope["query_string"].decode("latin-1")
        path = quote(request.scope["path"]) + (f"?{query}" if query else "")
        headers["Location"] = error.address.rstrip("/") + path
        return Answer({"why": error.why}, 307, headers)
    if error.retry is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    content = {"why": error.why, "outcome": error.outcome, "field": error.field}
    return Answer({k: v for k, v in content.items() if v is not None}, error.status, headers)


async def not_stored(request: Request, error: Exception) -> Response:
    """The HTTP response of a `StorageError`; the reason is not for clients."""
    return Answer({"why": "not stored; the server's log says why"}, 503, {"Retry-After": "1"})


async def begun(server: Server, session: Session, key: str | None) -> Response:
    """A new episode, or the one of this key."""
    episode, created = await session.begin(key)
    return Answer({"episode": episode, "created": created})


async def decided(
    server: Server, session: Session, episode: int, step: int, state: int
) -> Response:
    """A decision in an episode that has begun."""
    action, chance = await session.decide(episode, step, state)
    return Answer({"episode": episode, "step": step, "action": action, "probability": chance})


async def chose(server: Server, session: Session, wanted: Wanted) -> Response:
    """A decision in a new episode."""
    (told,) = await _chosen(session, [wanted])
    return Answer(told)


async def chose_many(server: Server, session: Session, wanted: list[Wanted]) -> Response:
    """Decisions in new episodes: all of them, or none."""
    server.check_batch("decisions", wanted)
    return Answer({"decisions": await _chosen(session, wanted)})


async def _chosen(session: Session, wanted: list[Wanted]) -> list[dict[str, Any]]:
    found = await session.choose(wanted)
    names = getattr(session.books.terms.problem, "names", None)
    told = []
    for episode, action, probability, created in found:
        item = {"episode": episode, "step": 0, "action": action, "probability": probability}
        if names is not None:
            item["name"] = names[action]
        told.append({**item, "created": created})
    return told


async def fed(server: Server, session: Session, given: Mapping[str, Any]) -> Response:
    """What became of a record."""
    found = _parsed(given, session.reader())
    (outcome,) = await session.feed([found])
    said = told(outcome, given, found, session.books.awaited)
    return Answer(said, said["status"])


async def fed_many(server: Server, session: Session, given: list[Any]) -> Response:
    """What became of each of many records."""
    server.check_batch("records", given)
    reader = session.reader()
    found = [_parsed(record, reader) for record in given]
    outcomes = await session.feed(found)
    triples = zip(outcomes, given, found, strict=True)
    return Answer({"outcomes": [told(*triple, session.books.awaited) for triple in triples]})


def _parsed(given: object, reader: Reader) -> Arrived | RecordError:
    try:
        return parse(given, reader)
    except RecordError as error:
        return error


def told(
    outcome: Outcome,
    given: Any = None,
    record: Arrived | RecordError | None = None,
    awaited: Callable[[int], list[Any]] | None = None,
) -> dict[str, Any]:
    """The JSON of an outcome.

    given: the record as received. record: as parsed. awaited: what the episode waits for.
    """
    said: dict[str, Any] = {"outcome": outcome.kind, "status": STATUS[outcome.kind]}
    if outcome.episode is not None:
        said["episode"] = outcome.episode
    if outcome.kind == "invalid":
        field = record.field if isinstance(record, RecordError) else outcome.part
        if isinstance(field, int):  # the step of a single cost
            field = "step"
        said["field"] = "rewards" if field == "costs" and "rewards" in given else field
    elif outcome.part is not None:
        said["part"] = outcome.part
    if outcome.kind == "taken":
        left = [] if awaited is None or outcome.episode is None else awaited(outcome.episode)
        if left:
            said["awaited"] = left
    elif outcome.why:
        said["why"] = outcome.why
    if outcome.kind == "late":
        said["used"] = outcome.used
    return said


class Quick:
    """Answers well-formed requests.

    Args:
        app: the application for all other requests.
        server: the server with its learners.
    """

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        name, what = _asked(scope)
        if what not in WAYS:
            await self._app(scope, receive, send)
            return
        came = [await receive()]
        while came[-1].get("more_body"):
            came.append(await receive())
        given = _loaded(b"".join(message.get("body", b"") for message in came))
        for verb, read, answered in WAYS[what]:
            said = read(given)
            if said is not None:
                answer = await self._answer(Request(scope), name, verb, answered, said)
                await answer(scope, receive, send)
                return
        left = deque(came)

        async def again() -> Message:
            return left.popleft() if left else await receive()

        await self._app(scope, again, send)

    async def _answer(
        self,
        request: Request,
        name: str,
        verb: Verb,
        answered: Callable[..., Awaitable[Response]],
        said: tuple[Any, ...],
    ) -> Response:
        try:
            return await answered(self._server, self._server.find(request, name, verb), *said)
        except Refusal as error:
            return await refused(request, error)
        except StorageError as error:
            return await not_stored(request, error)


def _asked(scope: Scope) -> tuple[str, str]:
    """The learner and the operation of a request with a short body of known length; or nothing."""
    nothing = "", ""
    if scope["type"] != "http" or scope["method"] != "POST":
        return nothing
    path: str = scope["path"]
    if not path.startswith(BEFORE):
        return nothing
    name, _, what = path[len(BEFORE) :].partition("/")
    if not 1 <= len(name) <= LONGEST:
        return nothing
    lengths = [value for header, value in scope["headers"] if header == b"content-length"]
    return (name, what) if lengths and len(lengths[0]) <= DIGITS else nothing


def _loaded(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        return None


def numbers(given: Any) -> tuple[int, ...] | None:
    """Episode, step and state of a body that contains exactly these."""
    if type(given) is not dict or len(given) != len(FIELDS):
        return None
    found: tuple[Any, ...] = tuple(given.get(name) for name in FIELDS)
    if any(type(number) is not int or not 0 <= number <= LARGEST_WHOLE for number in found):
        return None
    return found


def key(given: Any) -> tuple[str | None] | None:
    """The key of a body that contains at most a plain key."""
    if type(given) is not dict or given.keys() - {"key"}:
        return None
    found = given.get("key")
    return (found,) if found is None or _is_key(found) else None


def wanted(given: Any) -> tuple[Wanted] | None:
    """The decision that a body requests, if it has no episode and no unknown field."""
    if type(given) is not dict or given.keys() - KNOWN:
        return None
    among, found, state = given.get("among"), given.get("key"), given.get("state")
    if among is not None and (
        type(among) is not list or any(type(action) not in (int, str) for action in among)
    ):
        return None
    if not (found is None or _is_key(found)):
        return None
    if state is None:
        return (Wanted(given.get("features"), among, found),)
    if type(state) is not int or not 0 <= state <= LARGEST_WHOLE or "features" in given:
        return None
    return (Wanted(state, among, found, "state"),)


def wanted_many(given: Any) -> tuple[list[Wanted]] | None:
    """The decisions of a body that contains only these."""
    items = _only("decisions", given)
    found = None if items is None else [wanted(item) for item in items]
    if found is None or None in found:
        return None
    return ([one[0] for one in found if one is not None],)


def record(given: Any) -> tuple[Mapping[str, Any]] | None:
    """The record of a body that is an object."""
    return (given,) if type(given) is dict else None


def records(given: Any) -> tuple[list[Any]] | None:
    """The records of a body that contains only these."""
    items = _only("records", given)
    return None if items is None else (items,)


def _only(name: str, given: Any) -> list[Any] | None:
    """The list of a body that contains only this list."""
    if type(given) is not dict or given.keys() != {name} or type(given[name]) is not list:
        return None
    return list(given[name])


def _is_key(found: Any) -> bool:
    return type(found) is str and 1 <= len(found) <= LONGEST_KEY and found.isascii()


WAYS: dict[str, tuple[tuple[Verb, Read, Callable[..., Awaitable[Response]]], ...]] = {
    "episodes": (("begin", key, begun),),
    "decide": (("begin", numbers, decided), ("begin", wanted, chose)),
    "decide/batch": (("begin", wanted_many, chose_many),),
    "feedback": (("feedback", record, fed),),
    "feedback/batch": (("feedback", records, fed_many),),
}
"""The operations of a POST: the verb that each needs, the parser of its body, and the function."""
