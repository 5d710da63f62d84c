"""The HTTP interface: one table of operations, which OpenAPI and the routes are made from.

The application speaks ASGI itself: a request is checked, read, routed by the parts of its path, and
answered by one function. The layers of a framework, which did the same, took a noticeable part of
the processor time of a decision (benchmarks/SERVICE.md).

A request with a body must be authenticated: nothing of an unknown client is kept. The bytes of a
body are counted as they arrive, whatever its stated length, and are not decompressed. A POST must
state that it is JSON, and the `Host` must be one of ours, so that a web page in a browser on the
same machine cannot use the server without the user's knowledge.

After the answer to a request that is rejected before it is read, the rest of its body is received
and dropped, up to a limit. A connection that is closed over unread bytes is reset, and the reset
can overtake the answer: the client would then see a broken connection, and not the reason.
"""

import asyncio
import functools
import hmac
import io
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, cast, get_type_hints
from urllib.parse import parse_qsl

import msgspec
import numpy as np
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from belated import __version__
from belated.service import export, page, wire
from belated.service.config import ANYBODY, EVERY, Config, Token, Verb, hashed
from belated.service.learner import Learner
from belated.service.report import episodes, look, measured, report, status
from belated.service.session import Session
from belated.service.tables import StorageError
from belated.service.wire import SOON, Refusal, Table

Headers = Mapping[bytes, bytes]
Send = Callable[[Any], Awaitable[None]]
BODY = "http.response.body"
EXPORTS = {
    "csv": ("text/csv; charset=utf-8", export.as_csv),
    "parquet": ("application/vnd.apache.parquet", export.as_parquet),
}
"""How the decision log is written, and the types of content."""
LONGEST_JSON = 100_000
"""The largest policy that is written as JSON, during which other requests wait."""
MOST_DROPPED = 2**24
"""The largest number of bytes of a rejected request that are received."""
LONGEST_DROPPING = 10.0
"""The largest number of seconds for which they are received."""
PORT = re.compile(rb":\d*$")
PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*?)`$")
FIELD = re.compile(r"field `(.*?)`")
REFUSED = (
    "307 another server answers, 400 no text, 401 no token, 403 not allowed, 404 unknown, "
    "409 conflict, 410 closed, 413 too large, 415 no plain JSON, 421 host not allowed, "
    "422 invalid, 429 later, 503 not now"
)
"""The statuses of refusals and what they mean."""
NOT_STORED = "not stored; the server's log says why, or it is stopping"
EXAMPLES = msgspec.json.decode(page.whole("examples.json"))
"""Records for the description."""
METRICS = msgspec.json.decode(page.whole("metrics.json"))
"""What the metrics are: their kinds, their labels besides the learner, and their meanings."""
FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
"""The kinds of metrics; what only grows is a counter."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any kind. pieces: of its content, made one by one, before the rest of it."""

    content: bytes
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Iterator[bytes] | None = None

    async def send(self, send: Send, *, ends: bool = True) -> None:
        """Send the answer. ends: whether it is the end of the response."""
        told = {"content-type": self.kind, **self.headers}
        if self.pieces is None:
            told["content-length"] = str(len(self.content))
        head = [(name.encode(), value.encode()) for name, value in told.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": head})
        while self.pieces and (piece := await asyncio.to_thread(next, self.pieces, b"")):
            await send({"type": BODY, "body": piece, "more_body": True})
        await send({"type": BODY, "body": self.content, "more_body": not ends})


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON; numbers that are not finite become null."""
    return Answer(msgspec.json.encode(value), status, headers=headers)


def policy(
    session: Session,
    episode: wire.Whole,
    step: wire.Whole | None = None,
    state: wire.Whole | None = None,
    format: Literal["json", "npy"] = "json",
) -> Any:
    """The policy of an open episode: (H, S, A), one step (S, A), or one row (A,)."""
    _, found = session.played(episode, step, state)
    if format == "npy":
        made = io.BytesIO()
        np.save(made, found, allow_pickle=False)
        return Answer(made.getvalue(), kind="application/x-npy")
    if found.size > LONGEST_JSON:
        why = f"a policy of {found.size} numbers is too long for JSON; take npy, or one step"
        raise Refusal(why, "format", status=413)
    return {"episode": episode, "policy": found.tolist()}


def snapshot(session: Session) -> Any:
    """Write a snapshot soon, so that the next start is fast."""
    session.runner.snapshot = -math.inf
    return {"asked": True}


def decisions(session: Session, format: Literal["csv", "parquet"] = "csv") -> Any:
    """The decision log with propensities, as a table; see the documentation for its columns.

    It contains the features of every visitor, so it needs the verb `admin`.
    """
    kind, written = EXPORTS[format]
    return Answer(b"", kind=kind, pieces=written(session))


async def looked(learner: Learner, function: Callable[..., Any], size: int = 0) -> Any:
    """What a function says of the session and of the agent at this moment."""
    seen = await learner.ask(look)
    try:
        return await asyncio.to_thread(function, learner.opened(), seen)
    except ValueError as error:
        raise Refusal(str(error)) from None


async def beside(learner: Learner, function: Callable[..., Any], size: int) -> Any:
    """What a function says of the tables, while requests are handled."""
    return await asyncio.to_thread(function, learner.opened())


async def healthz(seen: list[Learner]) -> Any:
    """Whether the process answers."""
    return {"ok": True}


async def readyz(seen: list[Learner]) -> Any:
    """Whether every learner runs, here or on another server; `still`: those that do not learn."""
    ready = all(one.ready or one.address is not None for one in seen)
    still = [one.name for one in seen if one.still]
    told = {"ready": ready, "still": still} if still else {"ready": ready}
    return as_json(told, 200 if ready else 503)


async def metrics(seen: list[Learner]) -> Any:
    """Metrics for Prometheus, of the learners that the token may read."""
    if not seen:
        raise Refusal("this token does not allow read", status=403)
    families = {
        name: FAMILIES[kind](f"belated_{name}", about, labels=["learner", *labels])
        for name, (kind, labels, about) in METRICS.items()
    }
    for learner in seen:
        found: Table = {"ready": 0}  # all that is said of a learner that does not run here
        with suppress(Refusal, StorageError):
            found = await looked(learner, measured)
        for name, value in found.items():
            for label, number in value.items() if isinstance(value, dict) else [("", value)]:
                families[name].add_metric(filter(None, [learner.name, label]), float(number))
    told = generate_latest(cast(Any, SimpleNamespace(collect=families.values)))
    return Answer(told, kind="text/plain; version=0.0.4; charset=utf-8")


async def learners(seen: list[Learner]) -> Any:
    """The learners that the token may see."""
    return {
        "learners": [{"name": one.name, "ready": one.ready, "still": one.still} for one in seen]
    }


async def description(seen: list[Learner]) -> Any:
    """The interface as OpenAPI, from the operations and the types of their arguments."""
    shown = [one for one in OPERATIONS if one.shown]
    types = [kind for one in shown for kind in one.types.values()]
    kinds = dict.fromkeys([*types, wire.Refused, wire.Name])
    found, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(kinds, found, strict=True))
    paths: dict[str, Table] = {}
    for one in shown:
        method, path = one.route.split()
        paths.setdefault(path, {})[method.lower()] = _described(one, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "belated",
            "version": __version__,
            "description": "Hand out decisions, take feedback whenever it comes.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


async def page_(seen: list[Learner]) -> Any:
    """The page."""
    return Answer(page.HTML.encode(), kind="text/html; charset=utf-8", headers=page.HEADERS)


async def docs(seen: list[Learner]) -> Any:
    """The description for people."""
    return Answer(page.DOCS.encode(), kind="text/html; charset=utf-8", headers=page.HEADERS)


INSIDE = ("seen", "session")
"""The arguments of functions that are not those of a request."""


@dataclass(frozen=True)
class Operation:
    """An operation: its route, which is a method and a path, and what it needs.

    Its function has the session of the learner in the route as its first argument, without one all
    learners that the client may see. The types of the others are those of the parameters in the
    path and after the question mark, and of the body; the type that it returns is that of the
    answer.

    verb: the right that it needs, and its chapter in the description; None if everybody may ask.
    good: the status of success. by: asks the learner for what it returns. shown: whether it is
    described.
    """

    route: str
    function: Callable[..., Any]
    verb: Verb | None
    good: int = 200
    by: Callable[..., Awaitable[Any]] = Learner.ask
    shown: bool = True

    @functools.cached_property
    def types(self) -> Table:
        """The types of the arguments from outside, and of the answer, by name."""
        types = get_type_hints(self.function, include_extras=True)
        return {name: kind for name, kind in types.items() if name not in INSIDE}

    @functools.cached_property
    def needs_body(self) -> bool:
        """Whether an empty body is refused."""
        return "body" in self.types and not self.function.__defaults__

    def decoded(self, content: bytes) -> Any:
        """A body; raises `Refusal` that names the wrong field."""
        try:
            return msgspec.json.decode(content.decode(), type=self.types["body"])
        except msgspec.ValidationError as error:
            said = str(error)
            found = [each[1] for each in (PLACE.search(said), FIELD.search(said)) if each]
            where = ".".join(filter(None, found))[:80] or "body"
            raise Refusal(f"{where}: {PLACE.sub('', said)}", where) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            status = 400 if isinstance(error, UnicodeDecodeError) else 422
            raise Refusal(f"body: {error}", "body", "invalid", status) from None

    def arguments(self, texts: dict[str, str], content: bytes) -> Table:
        """The arguments of a request by name; raises `Refusal` that names a wrong one."""
        found = {}
        for name in texts.keys() & self.types.keys() - {"body", "return"}:
            try:
                found[name] = msgspec.convert(texts[name], self.types[name], strict=False)
            except msgspec.ValidationError as error:
                raise Refusal(f"{name}: {error}", name) from None
        if self.needs_body or (content and "body" in self.types):
            found["body"] = self.decoded(content)
        return found

    async def answer(self, asked: Any, texts: dict[str, str], content: bytes) -> Answer:
        """The answer to a request. asked: the learner, or the learners that are seen."""
        function = functools.partial(self.function, **self.arguments(texts, content))
        seen = isinstance(asked, list)
        told = await (function(asked) if seen else self.by(asked, function, len(content)))
        if isinstance(told, Answer):
            return told
        return as_json(told, getattr(told, "status", self.good))


ANY = functools.partial(Learner.ask, decides=True)
"""Asks a session that decides and writes, whether or not it learns."""
OPERATIONS = (
    Operation("POST /v1/learners/{name}/decide", Session.decide, "begin", by=ANY),
    Operation("POST /v1/learners/{name}/decide/batch", Session.decide_batch, "begin", by=ANY),
    Operation("POST /v1/learners/{name}/episodes", Session.begin, "begin"),
    Operation("GET /v1/learners/{name}/episodes/{episode}/policy", policy, "begin"),
    Operation("POST /v1/learners/{name}/feedback", Session.feedback, "feedback", by=ANY),
    Operation(
        "POST /v1/learners/{name}/feedback/batch", Session.feedback_batch, "feedback", by=ANY
    ),
    Operation("DELETE /v1/learners/{name}/episodes/{episode}", Session.forget, "feedback"),
    Operation("POST /v1/learners/{name}/actions", Session.add_action, "admin"),
    Operation("DELETE /v1/learners/{name}/actions/{action}", Session.retire_action, "admin"),
    Operation("POST /v1/learners/{name}/snapshot", snapshot, "admin", good=202),
    Operation("GET /v1/learners/{name}", status, "read", by=looked),
    Operation("GET /v1/learners/{name}/report", report, "read", by=looked),
    Operation("GET /v1/learners/{name}/decisions", decisions, "admin", by=beside),
    Operation("GET /v1/learners/{name}/evaluation", export.evaluation, "read", by=looked),
    Operation("GET /v1/learners/{name}/episodes", episodes, "read", by=beside),
    Operation("GET /v1/learners", learners, "read"),
    Operation("GET /healthz", healthz, None),
    Operation("GET /readyz", readyz, None),
    Operation("GET /metrics", metrics, "read"),
    Operation("GET /openapi.json", description, None, shown=False),
    Operation("GET /docs", docs, None, shown=False),
    Operation("GET /", page_, None, shown=False),
)
ROUTES: dict[re.Pattern[str], dict[str, Operation]] = {}
for one in OPERATIONS:
    method, path = one.route.split()
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]*)", path)
    pattern = pattern.replace("<action>[^/]*", "<action>.*")  # with slashes
    ROUTES.setdefault(re.compile(pattern, re.DOTALL), {})[method] = one


def _described(one: Operation, path: str, schemas: dict[Any, Any]) -> Table:
    """One operation. schemas: by type."""
    inside = re.findall(r"\{(\w+)", path)
    kinds = {**dict.fromkeys(inside, wire.Name), **one.types}
    body, answer = kinds.pop("body", None), kinds.pop("return")
    parameters = [
        {
            "name": n,
            "in": "path" if n in inside else "query",
            "schema": schemas[kind],
            "required": n in inside,
        }
        for n, kind in kinds.items()
    ]
    success = {} if answer is Any else _content(schemas[answer])
    refused = {"description": REFUSED, **_content(schemas[wire.Refused])}
    told = {
        "summary": (one.function.__doc__ or "").partition("\n")[0],
        "operationId": one.function.__name__.rstrip("_"),
        "tags": [one.verb or "other"],
        "parameters": parameters,
        "responses": {str(one.good): {"description": "success", **success}, "default": refused},
    }
    if body is None:
        return told
    examples = {"examples": EXAMPLES} if one.function is Session.feedback else {}
    asked = {"required": one.needs_body, **_content(schemas[body], **examples)}
    return {**told, "requestBody": asked}


def _content(schema: Any, **more: Any) -> Table:
    return {"content": {"application/json": {"schema": schema, **more}}}


class Service:
    """The application: the learners of a server, for the holders of its tokens."""

    def __init__(self, learners: list[Learner], config: Config) -> None:
        self.learners = {learner.name: learner for learner in learners}
        self._tokens, self._most = config.tokens, config.limits.body
        self._hosts = {host.encode() for host in config.allowed_hosts}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the learners."""
        for learner in self.learners.values():
            learner.start()
        yield
        for learner in self.learners.values():
            await learner.stop()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or follow the life of the server (ASGI)."""
        if scope["type"] == "lifespan":
            await receive()
            async with self.running():
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body: list[bytes] | None = None
        try:
            operation, asked, texts = self._admitted(scope, dict(scope["headers"]))
            body = [piece async for piece in _pieces(receive, self._most)]
            answer = await operation.answer(asked, texts, b"".join(body))
        except Refusal as error:
            answer = _refused(error, scope)
        except (StorageError, asyncio.CancelledError):  # or the server stops before the end
            answer = _refused(Refusal(NOT_STORED, status=503, headers=SOON), scope)
        if body is None:
            await _reject(answer, receive, send)
        else:
            await answer.send(send)

    def _admitted(self, scope: Any, headers: Headers) -> tuple[Operation, Any, dict[str, str]]:
        """What a request asks for: an operation, for whom it is called, and its arguments as texts.

        Raises `Refusal` by what the head of the request says.
        """
        if self._hosts and PORT.sub(b"", headers.get(b"host", b"").lower()) not in self._hosts:
            raise Refusal("host not allowed", status=421)
        matches = filter(None, (each.fullmatch(scope["path"]) for each in ROUTES))
        match = next(matches, None)
        operations = ROUTES[match.re] if match else {}
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = operations.get(method)
        is_open = operation is not None and operation.verb is None
        token = ANYBODY if is_open else self._holder(headers)
        if match is None:
            raise Refusal("Not Found", status=404)
        if operation is None:
            allow = {"allow": ", ".join(operations)}
            raise Refusal("Method Not Allowed", status=405, headers=allow)
        if int(headers.get(b"content-length", b"0")) > self._most:  # digits, by the parser
            raise _too_large(self._most)
        if method != "GET":
            _check_content(headers, method)
        asks, texts = scope["query_string"].decode("latin-1"), match.groupdict()
        query = dict(parse_qsl(asks, keep_blank_values=True)) if asks else {}
        asked: Any
        if "name" not in texts:
            asked = [one for one in self.learners.values() if _allows(token, one.name, "read")]
        elif not _allows(token, texts["name"], operation.verb):
            raise Refusal(f"this token does not allow {operation.verb} of this learner", status=403)
        elif texts["name"] not in self.learners:
            raise Refusal("there is no such learner", outcome="unknown")
        else:
            asked = self.learners[texts["name"]]
        return operation, asked, {**query, **texts}

    def _holder(self, headers: Headers) -> Token:
        """The token of an `Authorization: Bearer ...` header; raises `Refusal` without one.

        It is compared with every hash, each in constant time.
        """
        if not self._tokens:
            return ANYBODY
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        mine = hashed(given.strip())
        found = [token for token in self._tokens if hmac.compare_digest(mine, token.sha256)]
        if not found or scheme.lower() != "bearer":
            needs = {"www-authenticate": "Bearer"}
            raise Refusal("a token is needed: Authorization: Bearer ...", status=401, headers=needs)
        return found[-1]


def _allows(token: Token, learner: str, verb: str | None) -> bool:
    """Whether the holder of a token may do this to a learner."""
    return verb in token.verbs and (EVERY in token.learners or learner in token.learners)


def _check_content(headers: Headers, method: str) -> None:
    """Check that a body, which only a POST must have, is plain JSON."""
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/json" and (kind or method == "POST"):
        raise Refusal("Content-Type must be application/json", status=415)
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Refusal("compressed bodies are not accepted", status=415)


async def _pieces(receive: Any, most: int) -> AsyncIterator[bytes]:
    """The pieces of a body; raises `Refusal` as soon as they are longer in all than this."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal("the client has gone", status=400)
        more = message.get("more_body", False)
        size += len(message.get("body", b""))
        if size > most:
            raise _too_large(most)
        yield message.get("body", b"")


def _too_large(most: int) -> Refusal:
    return Refusal(f"a body must have at most {most} bytes", status=413)


def _refused(error: Refusal, scope: Any) -> Answer:
    """The answer to a refused request; another server can answer it if there is an address."""
    if error.address is None:
        return as_json(error.told, error.status, **error.headers)
    onward = b"?".join(filter(None, [scope["raw_path"], scope["query_string"]]))
    location = error.address.rstrip("/") + onward.decode("latin-1")
    return as_json(error.told, 307, location=location)


async def _reject(answer: Answer, receive: Any, send: Any) -> None:
    """Answer a request, and close the connection after receiving the rest of its body."""
    answer.headers["connection"] = "close"
    await answer.send(send, ends=False)
    with suppress(TimeoutError, Refusal):  # the client is slow on purpose, or has gone
        async with asyncio.timeout(LONGEST_DROPPING):
            async for _ in _pieces(receive, MOST_DROPPED):
                pass
    await send({"type": BODY, "body": b""})
