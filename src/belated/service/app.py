"""The HTTP interface: one table of operations, which OpenAPI and the routes are made from."""

from __future__ import annotations

import asyncio
import io
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from belated import __version__
from belated.core import checks
from belated.service import bodies, export, metrics, page
from belated.service.errors import Refusal
from belated.service.gate import NO_TOKEN, Gate, Token, Verb, holder
from belated.service.learner import Learner
from belated.service.reading import counted, described, open_episodes, totals
from belated.service.report import look, report, silence_of, unit_of
from belated.service.session import Session
from belated.service.tables import StorageError
from belated.service.wire import LARGEST_WHOLE, LONGEST_KEY

FIXED = (
    "the actions of this learner are fixed: its tables have one place per action from the "
    "beginning on; linear_sampler, with a model per action, can add and retire them"
)
LONGEST = 63
"""The largest number of characters of the name of a learner."""
LONGEST_JSON = 100_000
"""The largest policy that is written as JSON, during which other requests wait."""
COMMON = (307, 400, 401, 403, 404, 413, 415, 421, 422, 429, 503)
"""The statuses of refusals that every operation may have."""
NUMBER = re.compile(r"[0-9]{1,9}")
PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*?)`$")
FIELD = re.compile(r"field `(.*?)`")
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


class Answer(Response):
    """A JSON response; numbers that are not finite become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return msgspec.json.encode(content)


class Server:
    """The learners of a server, and their access control."""

    def __init__(
        self, learners: list[Learner], tokens: tuple[Token, ...] = (), batch: int = 1000
    ) -> None:
        self.learners = {learner.name: learner for learner in learners}
        self._tokens = tokens
        self.batch = batch

    def knows(self, header: str) -> bool:
        """Whether an `Authorization` header is valid."""
        return holder(header, self._tokens) is not None

    def seen(self, request: Request) -> list[Learner]:
        """The learners that the token of a request may read."""
        token = self._holder(request)
        return [one for one in self.learners.values() if token.opens(one.name, "read")]

    def find(self, request: Request, verb: Verb) -> Learner:
        """The learner of a request; raises `Refusal` if the token does not allow this."""
        name = request.path_params["name"]
        if not self._holder(request).opens(name, verb):
            raise Refusal(403, f"this token does not allow {verb} of this learner")
        if len(name) > LONGEST or name not in self.learners:
            raise Refusal(404, "there is no such learner", outcome="unknown")
        return self.learners[name]

    def _holder(self, request: Request) -> Token:
        token = holder(request.headers.get("authorization"), self._tokens)
        if token is None:
            raise Refusal(401, NO_TOKEN)
        return token

    def check_batch(self, name: str, items: list[Any]) -> None:
        """Raise `Refusal` if a batch is too long. name: what its items are."""
        if len(items) > self.batch:
            why = f"a batch must have at most {self.batch} {name}, got {len(items)}"
            raise Refusal(413, why, field=name)


@dataclass(frozen=True, slots=True)
class Call:
    """A request for a learner. body: decoded, if the operation has one."""

    server: Server
    learner: Learner
    request: Request
    body: Any = None

    def whole(self, name: str, default: Any, low: int, high: int) -> Any:
        """A whole number of the query."""
        text = self.request.query_params.get(name)
        return default if text is None else _whole(name, text, low, high)

    def choice(self, name: str, *allowed: str) -> str:
        """One of these words of the query; the first is the default."""
        text = self.request.query_params.get(name, allowed[0])
        if text not in allowed:
            why = f"{name} must be one of {', '.join(allowed)}, got {checks.show(text)}"
            raise Refusal(422, why, outcome="invalid", field=name)
        return text

    @property
    def episode(self) -> int:
        """The episode of the path."""
        return _whole("episode", self.request.path_params["episode"], 0, LARGEST_WHOLE)


def _whole(name: str, text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"-?[0-9]{1,16}", text) or not low <= int(text) <= high:
        why = f"{name} must be a whole number from {low} to {high}, got {checks.show(text)}"
        raise Refusal(422, why, outcome="invalid", field=name)
    return int(text)


async def begin(call: Call) -> Any:
    """Begin an episode. A retry with the same key returns the same episode."""
    key = None if call.body is None else call.body.key
    return bodies.Begun(*await call.learner.ask(lambda session: session.begin(key), 0))


async def decide(call: Call) -> Any:
    """Draw an action for a step of an episode. A retry gives the same action.

    Without an episode, one of one step begins; a retry with the same key gives the same decision.
    """
    body = call.body
    if body.episode is None:
        if body.step is not None:
            why = "step needs an episode; a learner of one step begins one here"
            raise Refusal(422, why, outcome="invalid", field="step")
        body.check()
        return (await call.learner.ask(lambda session: session.choose([body]), 0))[0]
    for name in ("features", "among", "key"):
        if getattr(body, name) is not None:
            why = f"{name} must be left out beside an episode"
            raise Refusal(422, why, outcome="invalid", field=name)
    if body.step is None or body.state is None:
        field = "step" if body.step is None else "state"
        raise Refusal(422, f"{field} is required", outcome="invalid", field=field)
    asked = (body.episode, body.step, body.state)
    return await call.learner.ask(lambda session: session.decide(*asked), 1)


async def decide_batch(call: Call) -> Any:
    """Make many decisions: all of them are made and stored, or none."""
    asked = call.body.decisions
    call.server.check_batch("decisions", asked)
    for one in asked:
        one.check()
    return bodies.DecidedBatch(await call.learner.ask(lambda session: session.choose(asked), 0))


async def policy(call: Call) -> Any:
    """The policy of an open episode: (H, S, A), one step (S, A), or one row (A,)."""
    episode = call.episode
    step = call.whole("step", None, 0, LARGEST_WHOLE)
    state = call.whole("state", None, 0, LARGEST_WHOLE)
    form = call.choice("format", "json", "npy")
    found = await call.learner.ask(lambda session: session.policy(episode))
    H, S, _ = found.shape
    if step is not None and step >= H:
        why = f"step must be below {H}, got {step}"
        raise Refusal(422, why, outcome="invalid", field="step")
    if state is not None and (state >= S or step is None):
        why = f"state must be below {S} and come with a step, got {state}"
        raise Refusal(422, why, outcome="invalid", field="state")
    if step is not None:
        found = found[step] if state is None else found[step, state]
    if form == "npy":
        made = io.BytesIO()
        np.save(made, found, allow_pickle=False)
        return Response(made.getvalue(), media_type="application/x-npy")
    if found.size > LONGEST_JSON:
        why = f"a policy of {found.size} numbers is too long for JSON; take npy, or one step"
        raise Refusal(413, why, field="format")
    return {"episode": episode, "policy": found.tolist()}


async def feedback(call: Call) -> Any:
    """Report one record. Records may arrive twice, late, and in any order."""
    (outcome,) = await call.learner.ask(lambda session: session.feed([call.body]), 1)
    return Answer(outcome, outcome.status)


async def feedback_batch(call: Call) -> Any:
    """Report many records. Each has its own outcome; the valid ones are used."""
    records = call.body.records
    call.server.check_batch("records", records)
    found = await call.learner.ask(lambda session: session.feed(records), len(records))
    return bodies.OutcomeBatch(found)


async def forget(call: Call) -> Any:
    """Forget an episode: it will not report."""
    episode = call.episode
    return await call.learner.ask(lambda session: session.forget(episode), 1)


async def add_action(call: Call) -> Any:
    """Add an action to a running learner. An existing name changes nothing."""
    wanted = None if call.body is None else call.body.name

    def more(agent: Any) -> Any:
        problem = agent.problem
        if wanted is not None and wanted in (getattr(problem, "names", None) or ()):
            if problem.index("action", wanted) in getattr(agent, "retired", ()):
                raise ValueError(f"{wanted} was retired; add it under another name")
            return None
        if getattr(problem, "with_action", None) is None:
            raise ValueError(FIXED)
        return problem.with_action(wanted).actions_listed

    def add(session: Session) -> bodies.Action:
        changed = session.change(more)
        problem = session.problem
        added = None if changed is None else changed["actions"]
        action = added - 1 if isinstance(added, int) else problem.index("name", wanted)
        return bodies.Action(action, problem.name(action), changed is not None)

    return await call.learner.ask(add, 1)


async def retire_action(call: Call) -> Any:
    """Retire an action, by name or number: it is no longer played, but its feedback counts.

    A name may contain slashes. Where actions have names, a number means the action with this name,
    if there is one.
    """
    action = call.request.path_params["action"]

    def retire(session: Session) -> bodies.Action:
        problem = session.problem
        if getattr(problem, "index", None) is None:
            raise Refusal(422, FIXED, outcome="invalid", field="action")
        try:
            numbered = action not in (problem.names or ()) and NUMBER.fullmatch(action)
            number = problem.index("action", int(action) if numbered else action)
        except ValueError as error:
            raise Refusal(404, str(error), outcome="unknown", field="action") from None
        changed = session.change(retire=number)
        return bodies.Action(number, problem.name(number), changed is not None)

    if len(action) > LONGEST_KEY:
        why = f"action must have at most {LONGEST_KEY} characters"
        raise Refusal(422, why, outcome="invalid", field="action")
    return await call.learner.ask(retire, 1)


async def snapshot(call: Call) -> Any:
    """Write a snapshot soon, so that the next start is fast."""
    call.learner.opened()
    call.learner.snapshot()
    return Answer({"asked": True}, 202)


async def status(call: Call) -> Any:
    """The status of a learner: counts, diagnostics, and recent episodes."""
    seen = await call.learner.ask(look)
    found = await asyncio.to_thread(described, call.learner.opened(), seen)
    return {**found, "note": call.learner.config.note}


async def report_(call: Call) -> Any:
    """The leading action, outcomes per day, delays, important features, and warnings."""
    seen = await call.learner.ask(look)
    session = call.learner.opened()

    def made() -> dict[str, Any]:
        with session.db.reader() as db:
            return report(session, seen, counted(db, session), totals(db, session))

    return {"name": session.name, **await asyncio.to_thread(made)}


async def decisions(call: Call) -> Any:
    """The decision log with propensities, as a table; see the documentation for its columns.

    It contains the features of every visitor, so it needs the verb `admin`.
    """
    session = call.learner.opened()
    if call.choice("format", "csv", "parquet") == "csv":
        return StreamingResponse(export.as_csv(session), media_type="text/csv")
    try:
        pieces = await asyncio.to_thread(export.as_parquet, session)
    except ValueError as error:
        raise Refusal(422, str(error), outcome="invalid", field="format") from None
    return StreamingResponse(pieces, media_type="application/vnd.apache.parquet")


async def evaluation(call: Call) -> Any:
    """The estimated values of uniform play and of each action alone, from the decision log."""
    newest = call.whole("newest", export.NEWEST, 2, export.MOST)
    seen = await call.learner.ask(look)
    session = call.learner.opened()
    unit = unit_of(session.problem, session.scale)
    silence = silence_of(session.terms, seen, unit)
    given = (session, seen.retired, unit, silence, session.clock(), newest)
    try:
        told = await asyncio.to_thread(export.evaluation, *given)
    except ValueError as error:
        raise Refusal(422, str(error), outcome="invalid") from None
    return {"name": session.name, **told}


async def episodes(call: Call) -> Any:
    """The open episodes, oldest first: age in seconds, whether overdue, decided steps."""
    after = call.whole("after", -1, -1, LARGEST_WHOLE)
    limit = call.whole("limit", 100, 1, 1000)
    session = call.learner.opened()
    return {"episodes": await asyncio.to_thread(open_episodes, session, after, limit)}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on a learner: its route, what it needs, and its bodies.

    body: the type of the body, if it has one. answer: the type of the answer, if it has one.
    statuses: of refusals beside the common ones. query: the names of its parameters.
    """

    method: str
    path: str
    verb: Verb
    function: Callable[[Call], Awaitable[Any]]
    tag: str
    body: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = ()
    query: tuple[str, ...] = ()
    is_optional: bool = False
    good: int = field(default=200)

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        server: Server = request.app.state.server
        learner = server.find(request, self.verb)
        body = None
        if self.body is not None:
            body = _decoded(self, await request.body())
        elif self.method == "POST":
            await request.body()
        found = await self.function(Call(server, learner, request, body))
        return found if isinstance(found, Response) else Answer(found)


def _decoded(operation: Operation, content: bytes) -> Any:
    """A body; raises `Refusal` that names the wrong field."""
    if operation.is_optional and not content:
        return None
    try:
        return msgspec.json.decode(content.decode(), type=operation.body)
    except msgspec.ValidationError as error:
        said = str(error)
        place, named = PLACE.search(said), FIELD.search(said)
        parts = [place[1] if place else "", named[1] if named else ""]
        where = ".".join(part for part in parts if part)[:80] or "body"
        why = PLACE.sub("", said)
        raise Refusal(422, f"{where}: {why}", outcome="invalid", field=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        status = 400 if isinstance(error, UnicodeDecodeError) else 422
        raise Refusal(status, f"body: {error}", outcome="invalid", field="body") from None
    except RecursionError:
        why = "a body must not be nested so deeply"
        raise Refusal(422, why, outcome="invalid", field="body") from None


Record = dict[str, Any]
OPERATIONS = (
    Operation("POST", "/episodes", "begin", begin, "decide", bodies.BeginBody | None,
              bodies.Begun, (409,), is_optional=True),
    Operation("POST", "/decide", "begin", decide, "decide", bodies.DecideBody, bodies.Decided,
              (409, 410)),
    Operation("POST", "/decide/batch", "begin", decide_batch, "decide", bodies.DecideBatchBody,
              bodies.DecidedBatch, (409,)),
    Operation("GET", "/episodes/{episode}/policy", "begin", policy, "decide", statuses=(410,),
              query=("step", "state", "format")),
    Operation("POST", "/feedback", "feedback", feedback, "feedback", Record, bodies.Outcome,
              (409,)),
    Operation("POST", "/feedback/batch", "feedback", feedback_batch, "feedback",
              bodies.FeedbackBatchBody, bodies.OutcomeBatch),
    Operation("DELETE", "/episodes/{episode}", "feedback", forget, "feedback",
              answer=bodies.Outcome),
    Operation("POST", "/actions", "admin", add_action, "operation", bodies.ActionBody | None,
              bodies.Action, is_optional=True),
    Operation("DELETE", "/actions/{action:path}", "admin", retire_action, "operation",
              answer=bodies.Action),
    Operation("POST", "/snapshot", "admin", snapshot, "operation", good=202),
    Operation("GET", "", "read", status, "learners"),
    Operation("GET", "/report", "read", report_, "learners"),
    Operation("GET", "/decisions", "admin", decisions, "learners", query=("format",)),
    Operation("GET", "/evaluation", "read", evaluation, "learners", query=("newest",)),
    Operation("GET", "/episodes", "read", episodes, "learners", query=("after", "limit")),
)  # fmt: skip


async def healthz(request: Request) -> Response:
    """Whether the process answers."""
    return Answer({"ok": True})


async def readyz(request: Request) -> Response:
    """Whether every learner runs, here or on another server."""
    learners = request.app.state.server.learners.values()
    ready = all(one.ready or one.elsewhere for one in learners)
    return Answer({"ready": ready}, 200 if ready else 503)


async def metrics_(request: Request) -> Response:
    """Metrics for Prometheus, of the learners that the token may read."""
    server: Server = request.app.state.server
    seen = server.seen(request)
    if server.learners and not seen:
        raise Refusal(403, "this token does not allow read")
    text = await metrics.text(seen)
    return Response(text, media_type="text/plain; version=0.0.4")


async def learners(request: Request) -> Response:
    """The learners that the token may see."""
    seen = request.app.state.server.seen(request)
    return Answer({"learners": [{"name": one.name, "ready": one.ready} for one in seen]})


async def openapi(request: Request) -> Response:
    """This description."""
    return Answer(description())


PLAIN = {
    "/healthz": (healthz, "operation"),
    "/readyz": (readyz, "operation"),
    "/metrics": (metrics_, "operation"),
    "/v1/learners": (learners, "learners"),
}
BASE = "/v1/learners/{name}"


def make(
    server: Server, *, body: int = 2_000_000, hosts: frozenset[str] = frozenset()
) -> Starlette:
    """The application. body: largest request, in bytes. hosts: allowed names; none means any."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for learner in server.learners.values():
            learner.start()
        yield
        for learner in server.learners.values():
            await learner.stop()

    by_path: dict[str, dict[str, Operation]] = {}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one
    routes = [Route(BASE + p, _routed(some), methods=list(some)) for p, some in by_path.items()]
    routes += [Route(path, function) for path, (function, _) in PLAIN.items()]
    routes.append(Route("/openapi.json", openapi))
    for path, text in (("/", page.HTML), ("/docs", page.DOCS)):
        routes.append(Route(path, HTMLResponse(text, headers=page.HEADERS)))
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Gate, body=body, hosts=hosts, knows=server.knows)],
        exception_handlers={
            Refusal: _refused,
            StorageError: _not_stored,
            HTTPException: _plain,
        },
    )
    app.router.redirect_slashes = False  # a redirection would use the `Host` of the request
    app.state.server = server
    return app


def _routed(operations: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await operations[method](request)

    return answer


async def _refused(request: Request, error: Exception) -> Response:
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


async def _not_stored(request: Request, error: Exception) -> Response:
    """The reason is not for clients."""
    return Answer({"why": "not stored; the server's log says why"}, 503, {"Retry-After": "1"})


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Answer({"why": str(error.detail)}, error.status_code, error.headers)


def description() -> dict[str, Any]:
    """The interface as OpenAPI, from the operations and the types of their bodies."""
    kinds = [k for one in OPERATIONS for k in (one.body, one.answer) if k is not None]
    kinds.append(bodies.Refused)
    found, components = bodies.schemas(kinds)
    schema = iter(found)
    paths: dict[str, dict[str, Any]] = {}
    for path, (function, tag) in PLAIN.items():
        answers = {"200": {"description": "success"}, **_refusals(401, 403, 421, 503)}
        summary = (function.__doc__ or "").strip()
        paths[path] = {"get": {"summary": summary, "tags": [tag], "responses": answers}}
    for one in OPERATIONS:
        told: dict[str, Any] = {
            "summary": (one.function.__doc__ or "").partition("\n")[0],
            "operationId": one.function.__name__.rstrip("_"),
            "tags": [one.tag],
            "parameters": _parameters(one),
            "responses": {str(one.good): {"description": "success"}},
        }
        if one.body is not None:
            content = {"schema": next(schema)}
            if one.body is Record:
                content["examples"] = EXAMPLES
            needed = {"required": not one.is_optional}
            told["requestBody"] = {**needed, "content": {"application/json": content}}
        if one.answer is not None:
            content = {"application/json": {"schema": next(schema)}}
            told["responses"][str(one.good)]["content"] = content
        told["responses"] |= _refusals(*COMMON, *one.statuses)
        path = BASE + one.path.replace(":path", "")
        paths.setdefault(path, {})[one.method.lower()] = told
    about = "Hand out decisions, take feedback whenever it comes."
    return {
        "openapi": "3.1.0",
        "info": {"title": "belated", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": components},
    }


def _refusals(*statuses: int) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Refused"}}
    content = {"application/json": schema}
    return {str(one): {"description": "refused", "content": content} for one in sorted(statuses)}


def _parameters(one: Operation) -> list[dict[str, Any]]:
    """The parameters of the path and of the query."""
    whole = {"type": "integer", "minimum": 0, "maximum": LARGEST_WHOLE}
    formats = {"/decisions": ["csv", "parquet"]}
    kinds: dict[str, Any] = {
        "name": {"type": "string", "maxLength": LONGEST},
        "episode": whole,
        "action": {"type": "string", "maxLength": LONGEST_KEY},
        "step": whole,
        "state": whole,
        "after": {**whole, "minimum": -1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "newest": {"type": "integer", "minimum": 2, "maximum": export.MOST},
        "format": {"type": "string", "enum": formats.get(one.path, ["json", "npy"])},
    }
    named = re.findall(r"\{(\w+)", BASE + one.path)
    found = [{"name": n, "in": "path", "required": True, "schema": kinds[n]} for n in named]
    return found + [{"name": n, "in": "query", "schema": kinds[n]} for n in one.query]
