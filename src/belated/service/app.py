"""The HTTP interface: one table of operations, which OpenAPI and the routes are made from.

The application speaks ASGI itself: a request is checked by the gate, read, routed by the parts of
its path, and answered by one function. The layers of a framework, which did the same, took a
noticeable part of the processor time of a decision (benchmarks/SERVICE.md).

After the answer to a request that the gate rejects, the rest of its body is received and dropped,
up to a limit. A connection that is closed over unread bytes is reset, and the reset can overtake
the answer: the client would then see a broken connection, and not the reason.
"""

from __future__ import annotations

import asyncio
import io
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote

import msgspec
import numpy as np

from belated import __version__
from belated.service import export, page, wire
from belated.service.gate import ANYBODY, Gate, Headers, Token, Verb
from belated.service.learner import Learner
from belated.service.report import described, look, metrics, open_episodes, report
from belated.service.session import Session
from belated.service.tables import StorageError
from belated.service.wire import PARAMETERS, Refusal

LONGEST_JSON = 100_000
"""The largest policy that is written as JSON, during which other requests wait."""
MOST_DROPPED = 2**24
"""The largest number of bytes of a rejected request that are received."""
LONGEST_DROPPING = 10.0
"""The largest number of seconds for which they are received."""
BASE = ["", "v1", "learners"]
"""The parts of a path before the name of a learner."""
PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*?)`$")
FIELD = re.compile(r"field `(.*?)`")
NOT_STORED = "not stored; the server's log says why"
"""The reason for clients; the real ones contain paths and addresses."""
COMMON = (307, 400, 401, 403, 404, 413, 415, 421, 422, 429, 503)
"""The statuses of refusals that every operation on a learner may have."""
PLAIN = (401, 403, 421, 503)
"""Those of operations on the whole service."""
EXAMPLES = {
    "reward": {
        "summary": "a reward of a decision, by its key",
        "value": {"key": "visitor 7", "reward": 12.5, "event": "order-17"},
    },
    "cost": {"summary": "of one step", "value": {"episode": 0, "step": 0, "cost": 0.25}},
    "costs": {"summary": "the costs of all steps", "value": {"episode": 0, "costs": [0.25]}},
    "path": {
        "summary": "where the episode went",
        "value": {"episode": 0, "path": {"states": [0, 0], "actions": [1]}},
    },
    "end": {"summary": "the last state", "value": {"episode": 0, "end": 0}},
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any kind. content: its bytes, or pieces of them that are made one by one."""

    content: bytes | Iterable[bytes]
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    async def send(self, send: Callable[[Any], Awaitable[None]], *, ends: bool = True) -> None:
        """Send the answer. ends: whether it is the end of the response."""
        told = {"content-type": self.kind, **self.headers}
        if isinstance(self.content, bytes):
            told["content-length"] = str(len(self.content))
        head = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": head})
        if isinstance(self.content, bytes):
            body = {"type": "http.response.body", "body": self.content, "more_body": not ends}
            await send(body)
            return
        pieces = iter(self.content)
        while piece := await asyncio.to_thread(next, pieces, b""):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON; numbers that are not finite become null."""
    return Answer(msgspec.json.encode(value), status, headers=headers)


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        service: the service.
        token: the rights of the client.
        given: the parameters in the path and after the question mark.
        body: decoded, if the operation has one.
    """

    service: Service
    token: Token
    given: dict[str, Any]
    body: Any = None

    @property
    def learner(self) -> Learner:
        """The learner."""
        return self.service.learners[self.given["name"]]

    @property
    def session(self) -> Session:
        """The session of the learner; raises `Refusal` while it does not run here."""
        return self.learner.opened()

    def batch(self, name: str) -> list[Any]:
        """The items of a batch; raises `Refusal` if it is too long. name: what they are."""
        items, most = getattr(self.body, name), self.learner.limits.batch
        if len(items) > most:
            why = f"a batch must have at most {most} {name}, got {len(items)}"
            raise Refusal(why, name, None, 413)
        return list(items)

    async def look(self, function: Callable[..., Any], *more: Any) -> Any:
        """What a function says of the session and of the agent at this moment."""
        seen = await self.learner.ask(look)
        return await asyncio.to_thread(function, self.session, seen, *more)


async def begin(request: Request) -> Any:
    """Begin an episode. A retry with the same key returns the same episode."""
    key = getattr(request.body, "key", None)
    return await request.learner.ask(lambda session: session.begin(key), 0)


async def decide(request: Request) -> Any:
    """Draw an action for a step of an episode. A retry gives the same action.

    Without an episode, one of one step begins; a retry with the same key gives the same decision.
    """
    body = request.body
    if body.episode is None:
        return (await _chosen(request, [body]))[0]
    for name in ("features", "among", "key", "step", "state"):
        wanted = name in ("step", "state")
        if (getattr(body, name) is not None) != wanted:
            why = "is required" if wanted else "must be left out beside an episode"
            raise Refusal(f"{name} {why}", name)
    asked = (body.episode, body.step, body.state)
    return await request.learner.ask(lambda session: session.decide(*asked), 1)


async def decide_batch(request: Request) -> Any:
    """Make many decisions: all of them are made and stored, or none."""
    return {"decisions": await _chosen(request, request.batch("decisions"))}


async def _chosen(request: Request, asked: list[Any]) -> Any:
    for one in asked:
        if one.episode is not None or one.step is not None:
            why = "step needs an episode; a learner of one step begins one here"
            raise Refusal(why, "step" if one.episode is None else "episode")
        if one.features is not None and one.state is not None:
            raise Refusal("a decision must have features or a state, got both", "state")
    return await request.learner.ask(lambda session: session.choose(asked), 0, decides=True)


async def policy(request: Request) -> Any:
    """The policy of an open episode: (H, S, A), one step (S, A), or one row (A,)."""
    episode: int = request.given["episode"]
    step, state = request.given.get("step"), request.given.get("state")
    found = await request.learner.ask(lambda session: session.policy(episode))
    H, S, _ = found.shape
    if step is not None and step >= H:
        raise Refusal(f"step must be below {H}, got {step}", "step")
    if state is not None and (state >= S or step is None):
        raise Refusal(f"state must be below {S} and come with a step, got {state}", "state")
    found = found[tuple(place for place in (step, state) if place is not None)]
    if request.given.get("format") == "npy":
        made = io.BytesIO()
        np.save(made, found, allow_pickle=False)
        return Answer(made.getvalue(), kind="application/x-npy")
    if found.size > LONGEST_JSON:
        why = f"a policy of {found.size} numbers is too long for JSON; take npy, or one step"
        raise Refusal(why, "format", None, 413)
    return {"episode": episode, "policy": found.tolist()}


async def feedback(request: Request) -> Any:
    """Report one record. Records may arrive twice, late, and in any order."""
    (outcome,) = await _fed(request, [request.body])
    return as_json(outcome, outcome.status)


async def feedback_batch(request: Request) -> Any:
    """Report many records. Each has its own outcome; the valid ones are used."""
    return {"outcomes": await _fed(request, request.batch("records"))}


async def _fed(request: Request, records: list[Any]) -> Any:
    ask, calls = request.learner.ask, len(records)
    return await ask(lambda session: session.feed(records), calls, decides=calls > 0)


async def forget(request: Request) -> Any:
    """Forget an episode: it will not report."""
    return await request.learner.ask(lambda session: session.forget(request.given["episode"]), 1)


async def add_action(request: Request) -> Any:
    """Add an action to a running learner. An existing name changes nothing."""
    name = getattr(request.body, "name", None)
    return await request.learner.ask(lambda session: session.add_action(name), 1)


async def retire_action(request: Request) -> Any:
    """Retire an action, by name or number: it is no longer played, but its feedback counts.

    A name may contain slashes. Where actions have names, a number means the action with this name,
    if there is one.
    """
    action = request.given["action"]
    return await request.learner.ask(lambda session: session.retire_action(action), 1)


async def snapshot(request: Request) -> Any:
    """Write a snapshot soon, so that the next start is fast."""
    request.learner.opened()
    request.learner.snapshot()
    return as_json({"asked": True}, 202)


async def status(request: Request) -> Any:
    """The status of a learner: counts, diagnostics, and recent episodes."""
    return await request.look(described)


async def report_(request: Request) -> Any:
    """The leading action, outcomes per day, delays, important features, and warnings."""
    return await request.look(report)


async def decisions(request: Request) -> Any:
    """The decision log with propensities, as a table; see the documentation for its columns.

    It contains the features of every visitor, so it needs the verb `admin`.
    """
    if request.given.get("format", "csv") == "csv":
        return Answer(export.as_csv(request.session), kind="text/csv; charset=utf-8")
    content = await asyncio.to_thread(export.as_parquet, request.session)
    return Answer(content, kind="application/vnd.apache.parquet")


async def evaluation(request: Request) -> Any:
    """The estimated values of uniform play and of each action alone, from the decision log."""
    try:
        return await request.look(export.evaluation, request.given.get("newest", export.NEWEST))
    except ValueError as error:
        raise Refusal(str(error)) from None


async def episodes(request: Request) -> Any:
    """The open episodes, oldest first: age in seconds, whether overdue, decided steps."""
    after, limit = request.given.get("after", -1), request.given.get("limit", 100)
    return {"episodes": await asyncio.to_thread(open_episodes, request.session, after, limit)}


async def healthz(request: Request) -> Any:
    """Whether the process answers."""
    return {"ok": True}


async def readyz(request: Request) -> Any:
    """Whether every learner runs, here or on another server; `still`: those that do not learn."""
    ready = all(one.ready or one.elsewhere for one in request.service.learners.values())
    still = [one.name for one in request.service.learners.values() if one.still]
    told = {"ready": ready, "still": still} if still else {"ready": ready}
    return as_json(told, 200 if ready else 503)


async def metrics_(request: Request) -> Any:
    """Metrics for Prometheus, of the learners that the token may read."""
    seen = request.service.seen(request.token)
    if request.service.learners and not seen:
        raise Refusal("this token does not allow read", outcome=None, status=403)
    return Answer(await metrics(seen), kind="text/plain; version=0.0.4; charset=utf-8")


async def learners(request: Request) -> Any:
    """The learners that the token may see."""
    seen = request.service.seen(request.token)
    listed = [{"name": one.name, "ready": one.ready, "still": one.still} for one in seen]
    return {"learners": listed}


async def description(request: Request) -> Any:
    """This description."""
    return openapi()


async def page_(request: Request) -> Any:
    """The page."""
    return Answer(page.HTML.encode(), kind="text/html; charset=utf-8", headers=page.HEADERS)


async def docs(request: Request) -> Any:
    """The description for people."""
    return Answer(page.DOCS.encode(), kind="text/html; charset=utf-8", headers=page.HEADERS)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its route, what it needs, and its bodies.

    verb: the right that it needs; None if everybody may ask. body: the type of the body, if it has
    one. answer: the type of the answer, if it has one. statuses: of refusals beside the common
    ones. query: the types of its parameters after the question mark. tag: its chapter in the
    description; None to leave it out.
    """

    method: str
    path: str
    function: Callable[[Request], Awaitable[Any]]
    verb: Verb | None
    tag: str | None
    body: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = ()
    query: dict[str, Any] = field(default_factory=dict)
    is_optional: bool = False
    good: int = 200

    def decoded(self, content: bytes) -> Any:
        """A body; raises `Refusal` that names the wrong field."""
        if self.body is None or (self.is_optional and not content):
            return None
        try:
            return msgspec.json.decode(content.decode(), type=self.body)
        except msgspec.ValidationError as error:
            said = str(error)
            found = [each[1] for each in (PLACE.search(said), FIELD.search(said)) if each]
            where = ".".join(filter(None, found))[:80] or "body"
            raise Refusal(f"{where}: {PLACE.sub('', said)}", where) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            code = 400 if isinstance(error, UnicodeDecodeError) else 422
            raise Refusal(f"body: {error}", "body", status=code) from None
        except RecursionError:
            raise Refusal("a body must not be nested so deeply", "body") from None

    def parameters(self, texts: dict[str, str]) -> dict[str, Any]:
        """The parameters of a request by name; raises `Refusal` that names a wrong one."""
        found = {}
        for name, text in texts.items():
            if name in self.query or f"{{{name}}}" in self.path:
                try:
                    found[name] = msgspec.convert(
                        text, self.query.get(name) or PARAMETERS[name], strict=False
                    )
                except msgspec.ValidationError as error:
                    raise Refusal(f"{name}: {error}", name) from None
        return found


L = "/v1/learners/{name}"
PAGE = {
    "after": Annotated[int, msgspec.Meta(ge=-1, le=wire.LARGEST_WHOLE)],
    "limit": Annotated[int, msgspec.Meta(ge=1, le=1000)],
}
OPERATIONS = (
    Operation("POST", f"{L}/decide", decide, "begin", "decide", wire.Asked, wire.Done,
              (409, 410)),
    Operation("POST", f"{L}/decide/batch", decide_batch, "begin", "decide", wire.DecideBatchBody,
              dict[Literal["decisions"], list[wire.Done]], (409,)),
    Operation("POST", f"{L}/episodes", begin, "begin", "decide", wire.KeyBody | None, wire.Done,
              (409,), is_optional=True),
    Operation("GET", f"{L}/episodes/{{episode}}/policy", policy, "begin", "decide", statuses=(410,),
              query={"step": wire.Whole, "state": wire.Whole, "format": Literal["json", "npy"]}),
    Operation("POST", f"{L}/feedback", feedback, "feedback", "feedback", dict[str, Any],
              wire.Outcome, (409,)),
    Operation("POST", f"{L}/feedback/batch", feedback_batch, "feedback", "feedback",
              wire.FeedbackBatchBody, dict[Literal["outcomes"], list[wire.Outcome]]),
    Operation("DELETE", f"{L}/episodes/{{episode}}", forget, "feedback", "feedback",
              answer=wire.Outcome),
    Operation("POST", f"{L}/actions", add_action, "admin", "operation", wire.ActionBody | None,
              wire.Done, is_optional=True),
    Operation("DELETE", f"{L}/actions/{{action}}", retire_action, "admin", "operation",
              answer=wire.Done),
    Operation("POST", f"{L}/snapshot", snapshot, "admin", "operation", good=202),
    Operation("GET", L, status, "read", "learners"),
    Operation("GET", f"{L}/report", report_, "read", "learners"),
    Operation("GET", f"{L}/decisions", decisions, "admin", "learners",
              query={"format": Literal["csv", "parquet"]}),
    Operation("GET", f"{L}/evaluation", evaluation, "read", "learners",
              query={"newest": Annotated[int, msgspec.Meta(ge=2, le=1_000_000)]}),
    Operation("GET", f"{L}/episodes", episodes, "read", "learners", query=PAGE),
    Operation("GET", "/v1/learners", learners, "read", "learners"),
    Operation("GET", "/healthz", healthz, None, "operation"),
    Operation("GET", "/readyz", readyz, None, "operation"),
    Operation("GET", "/metrics", metrics_, "read", "operation"),
    Operation("GET", "/openapi.json", description, None, None),
    Operation("GET", "/docs", docs, None, None),
    Operation("GET", "/", page_, None, None),
)  # fmt: skip
ROUTES: dict[str, dict[str, Operation]] = {}
for one in OPERATIONS:
    ROUTES.setdefault(one.path, {})[one.method] = one


def openapi() -> dict[str, Any]:
    """The interface as OpenAPI, from the operations and the types of their bodies."""
    types = [k for one in OPERATIONS for k in (one.body, one.answer) if k is not None]
    asked = [kind for one in OPERATIONS for kind in one.query.values()]
    kinds = dict.fromkeys([*types, wire.Refused, *PARAMETERS.values(), *asked])
    found, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(kinds, found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        if one.tag is not None:
            paths.setdefault(one.path, {})[one.method.lower()] = _described_operation(one, schemas)
    about = "Hand out decisions, take feedback whenever it comes."
    return {
        "openapi": "3.1.0",
        "info": {"title": "belated", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described_operation(one: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    """One operation. schemas: of the types of bodies."""
    inside = {name: PARAMETERS[name] for name in re.findall(r"\{(\w+)", one.path)}
    parameters = [
        {"name": n, "in": place, "schema": schemas[kind], "required": place == "path"}
        for place, kinds in (("path", inside), ("query", one.query))
        for n, kind in kinds.items()
    ]
    good: dict[str, Any] = {"description": "success"}
    if one.answer is not None:
        good["content"] = {"application/json": {"schema": schemas[one.answer]}}
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refused"}}}
    statuses = (*(COMMON if "{name}" in one.path else PLAIN), *one.statuses)
    refusals = {
        str(n): {"description": HTTPStatus(n).phrase, "content": refusal} for n in sorted(statuses)
    }
    told: dict[str, Any] = {
        "summary": (one.function.__doc__ or "").partition("\n")[0],
        "operationId": one.function.__name__.rstrip("_"),
        "tags": [one.tag],
        "parameters": parameters,
        "responses": {str(one.good): good, **refusals},
    }
    if one.body is not None:
        content = {"schema": schemas[one.body]}
        if one.function.__name__ == "feedback":
            content["examples"] = EXAMPLES
        needed = {"required": not one.is_optional}
        told["requestBody"] = {**needed, "content": {"application/json": content}}
    return told


def routed(path: str) -> tuple[dict[str, Operation], dict[str, str]]:
    """The operations of a path by method, and the parameters in it."""
    parts = path.split("/")
    given: dict[str, str] = {}
    if parts[:3] == BASE and len(parts) > 3:
        given["name"], parts[3] = parts[3], "{name}"
        if parts[4:5] == ["episodes"] and len(parts) > 5:
            given["episode"], parts[5] = parts[5], "{episode}"
        elif parts[4:5] == ["actions"] and len(parts) > 5:
            given["action"], parts[5:] = "/".join(parts[5:]), ["{action}"]
    return ROUTES.get("/".join(parts), {}), given


class Service:
    """The application: the learners of a server behind a gate."""

    def __init__(self, learners: list[Learner], gate: Gate) -> None:
        self.learners = {learner.name: learner for learner in learners}
        self._gate = gate

    def seen(self, token: Token) -> list[Learner]:
        """The learners that a token may read."""
        return [one for one in self.learners.values() if token.opens(one.name, "read")]

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
        headers: Headers = dict(scope["headers"])
        try:
            try:
                self._gate.check(scope["method"], headers)
                body = b"" if scope["method"] in ("GET", "HEAD") else await self._gate.read(receive)
            except Refusal as error:
                await _reject(_refused(error, scope), receive, send)
                return
            answer = await self._answer(scope, headers, body)
        except Refusal as error:
            answer = _refused(error, scope)
        except StorageError:
            answer = as_json({"why": NOT_STORED}, 503, **{"retry-after": "1"})
        except asyncio.CancelledError:  # the server stops, and this request did not end in time
            answer = as_json({"why": "the server is stopping"}, 503, **{"retry-after": "1"})
        await answer.send(send)

    async def _answer(self, scope: Any, headers: Headers, body: bytes) -> Answer:
        operations, parts = routed(scope["path"])
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if not operations:
            raise Refusal("Not Found", outcome=None, status=404)
        if method not in operations:
            allowed = {"allow": ", ".join(operations)}
            return as_json({"why": "Method Not Allowed"}, 405, **allowed)
        operation = operations[method]
        token = self._gate.holder(headers) if operation.verb is not None else ANYBODY
        if "name" in parts and not token.opens(parts["name"], operation.verb):
            why = f"this token does not allow {operation.verb} of this learner"
            raise Refusal(why, outcome=None, status=403)
        if "name" in parts and parts["name"] not in self.learners:
            raise Refusal("there is no such learner", outcome="unknown")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        given = operation.parameters({**query, **parts})
        request = Request(self, token, given, operation.decoded(body))
        found = await operation.function(request)
        return found if isinstance(found, Answer) else as_json(found)


def _refused(error: Refusal, scope: Any) -> Answer:
    """The answer to a refused request; another server can answer it if there is an address."""
    headers = {}
    if error.address is not None:
        query = scope["query_string"].decode("latin-1")
        path = quote(scope["path"]) + (f"?{query}" if query else "")
        return as_json({"why": str(error)}, 307, location=error.address.rstrip("/") + path)
    if error.retry is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry)))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    told = wire.Refused(str(error), error.outcome or msgspec.UNSET, error.field or msgspec.UNSET)
    return as_json(told, error.status, **headers)


async def _reject(answer: Answer, receive: Any, send: Any) -> None:
    """Answer a request, and close the connection after receiving the rest of its body."""
    answer.headers["connection"] = "close"
    await answer.send(send, ends=False)
    try:
        async with asyncio.timeout(LONGEST_DROPPING):
            dropped, more = 0, True
            while more and dropped <= MOST_DROPPED:
                message = await receive()
                dropped += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:  # the client is slow on purpose
        pass
    await send({"type": "http.response.body", "body": b""})
