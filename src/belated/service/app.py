"""The HTTP interface."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi import Body, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from belated import __version__
from belated.core import checks
from belated.core.inbox import Outcome
from belated.service import export, metrics, page
from belated.service.errors import Refusal, busy
from belated.service.fast_path import LONGEST, LONGEST_KEY, Handle, Quick
from belated.service.gate import NO_TOKEN, Gate, Rate
from belated.service.report import report, silence_of, unit_of
from belated.service.session import Asked, Session
from belated.service.storage import StorageError
from belated.service.supervisor import Live
from belated.service.tokens import Token, Verb, holder
from belated.service.wire import LARGEST, Arrived, Reader, RecordError, parse

STATUS = {
    "taken": 200,
    "duplicate": 200,
    "late": 200,
    "conflict": 409,
    "unknown": 404,
    "invalid": 422,
}
"""How HTTP says what became of a record."""
RECORD = {
    "summary": "the costs of all steps",
    "value": {"episode": 0, "costs": [0.25]},
}
EXAMPLES: Any = {
    "costs": RECORD,
    "cost": {"summary": "of one step", "value": {"episode": 0, "step": 0, "cost": 0.25}},
    "path": {
        "summary": "where the episode went",
        "value": {"episode": 0, "path": {"states": [0, 0], "actions": [1]}},
    },
    "end": {"summary": "the last state", "value": {"episode": 0, "end": 0}},
    "reward": {
        "summary": "a reward, turned into a cost",
        "value": {"episode": 0, "step": 0, "reward": 7.5, "range": [0, 10]},
    },
}


NUMBER = re.compile(r"[0-9]{1,9}")
LONGEST_JSON = 100_000
"""Numbers of a policy that are written as JSON, which others wait for."""


class Answer(JSONResponse):
    """JSON in ASCII, so that no text of a request can break it; numbers that are none are null."""

    def render(self, content: Any) -> bytes:
        """The bytes."""
        try:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
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


Whole = Annotated[int, Field(ge=0, le=LARGEST, strict=True)]
Number = Annotated[int, Path(ge=0, le=LARGEST)]
Name = Annotated[str, Path(max_length=LONGEST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BeginBody(_Strict):
    """A new episode. key: yours; with the same key again, the same episode is returned."""

    key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None


class ChooseBody(_Strict):
    """What is known where an action is to be chosen, for a learner of one step.

    features: of the visitor, or one row per action; named ones as a table. state: instead, for a
    learner with states. among: the actions that are allowed, by number or name. key: yours; with
    the same key again, the same decision is returned.
    """

    features: Any = None
    state: Whole | None = None
    among: list[int | str] | None = None
    key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None

    def asked(self) -> Asked:
        """What a session is asked."""
        if self.features is not None and self.state is not None:
            why = "a decision must have features or a state, got both"
            raise Refusal(422, why, outcome="invalid", field="state")
        if self.state is None:
            return Asked(self.features, self.among, self.key, "features")
        return Asked(self.state, self.among, self.key, "state")


class DecideBody(ChooseBody):
    """Where an episode is, or what is known in a new one.

    episode, step, state: of an episode that was begun. Without an episode, one of one step is begun
    and decided in.
    """

    episode: Whole | None = None
    step: Whole | None = None


class ChooseBatchBody(_Strict):
    """Decisions, each as in /decide without an episode."""

    decisions: list[ChooseBody]


class BatchBody(_Strict):
    """Records, each as in /feedback."""

    records: list[Any]


class ActionBody(_Strict):
    """An action to be added. name: required exactly where actions have names."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None


class Action(BaseModel):
    """An action. changed: False if it was so before."""

    action: int
    name: str
    changed: bool


class Begun(BaseModel):
    """An episode. created: False if the key was used before."""

    episode: int
    created: bool


class Decision(BaseModel):
    """An action and the probability with which it was drawn.

    name: of the action, if actions have names. created: False if the key was used before.
    """

    episode: int
    step: int
    action: int
    probability: float
    name: str | None = None
    created: bool | None = None


class Decisions(BaseModel):
    """One decision per item of the request, in order."""

    decisions: list[Decision]


class OutcomeBody(BaseModel):
    """What became of a record: `status` is what HTTP would say of it alone.

    used: of a late record, whether the agent still learns from it. awaited: what its episode still
    waits for before anything is learned from it: the path, costs, or steps.
    """

    outcome: Literal["taken", "duplicate", "late", "conflict", "unknown", "invalid"]
    status: int
    episode: int | None = None
    part: str | int | None = None
    field: str | None = None
    why: str = ""
    used: bool | None = None
    awaited: list[str | int] | None = None


class Report(BaseModel):
    """One outcome per record, in order."""

    outcomes: list[OutcomeBody]


class Refused(BaseModel):
    """Why not."""

    why: str
    outcome: str | None = None
    field: str | None = None


class Server:
    """The learners of a server, and who may use them."""

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
        """Whether an `Authorization` header belongs to somebody."""
        return holder(header, self._tokens) is not None

    def holder(self, request: Request) -> Token:
        """Who asks; raises `Refusal` if that is nobody, or they ask too often."""
        token = holder(request.headers.get("authorization"), self._tokens)
        if token is None:
            raise Refusal(401, NO_TOKEN)
        wait = self._rate.wait(token.name) if self._rate is not None else 0.0
        if wait:
            raise busy("too many requests", wait)
        return token

    def find(self, request: Request, name: str, verb: Verb) -> Live:
        """The learner, if whoever asks may do this; raises `Refusal`."""
        token = self.holder(request)
        if not token.opens(name, verb):
            raise Refusal(403, f"this token does not allow {verb} of this learner")
        if name not in self.learners:
            raise Refusal(404, "there is no such learner", outcome="unknown")
        return self.learners[name]


def _may(verb: Verb) -> Callable[..., Awaitable[Live]]:
    async def found(request: Request, name: Name) -> Live:
        server: Server = request.app.state.server
        return server.find(request, name, verb)

    return found


MayBegin = Annotated[Live, Depends(_may("begin"))]
MayFeed = Annotated[Live, Depends(_may("feedback"))]
MayRead = Annotated[Live, Depends(_may("read"))]
MayAdmin = Annotated[Live, Depends(_may("admin"))]
COMMON: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused} for status in (307, 400, 401, 403, 404, 413, 415, 421, 422, 429, 503)
}
CONFLICT: dict[int | str, dict[str, Any]] = {409: {"model": Refused}}
CLOSED: dict[int | str, dict[str, Any]] = {410: {"model": Refused}}


def make(server: Server, *, body: int = 2_000_000, hosts: frozenset[str] = frozenset()) -> FastAPI:
    """The application. body: bytes of a request. hosts: names that it may use; none means any."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for live in server.learners.values():
            live.start()
        yield
        for live in server.learners.values():
            await live.stop()

    app = FastAPI(
        title="belated",
        version=__version__,
        description="Hand out decisions, take feedback whenever it comes.",
        lifespan=lifespan,
        default_response_class=Answer,
        responses=COMMON,
        docs_url=None,  # that of FastAPI and its redoc load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # that would go wherever the `Host` of a request says
    )
    app.state.server = server
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(StorageError, _not_stored)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_middleware(
        Quick,
        begin=_short(server, _begun),
        decide=_short(server, _decided),
        choose=_short(server, _chose),
    )
    app.add_middleware(Gate, body=body, hosts=hosts, knows=server.knows)
    _add_pages(app, server)
    _add_learners(app, server)
    _add_reading(app)
    return app


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
    return Answer({"why": "not stored; the server's log says why"}, 503, {"Retry-After": "1"})


async def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])[:80] or str(first["loc"][0])
    why = f"{field}: {first['msg']}, got {checks.show(first.get('input'))}"
    if first["type"] == "json_invalid":  # its place is that of a character, not of a field
        why = f"body: no JSON from character {first['loc'][-1]} on: {first['ctx']['error']}"
        field = "body"
    return Answer({"outcome": "invalid", "field": field, "why": why}, 422)


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Answer({"why": str(error.detail)}, error.status_code, error.headers)


async def _begun(live: Live, key: str | None) -> Response:
    episode, created = await live.session().begin(key)
    return Answer({"episode": episode, "created": created})


async def _decided(live: Live, episode: int, step: int, state: int) -> Response:
    action, chance = await live.session().decide(episode, step, state)
    return Answer({"episode": episode, "step": step, "action": action, "probability": chance})


async def _chosen(live: Live, asked: list[Asked]) -> list[dict[str, Any]]:
    found = await live.session().choose(asked)
    names = getattr(live.session().books.terms.problem, "names", None)
    told = []
    for episode, action, probability, created in found:
        item = {"episode": episode, "step": 0, "action": action, "probability": probability}
        if names is not None:
            item["name"] = names[action]
        told.append({**item, "created": created})
    return told


async def _chose(live: Live, features: Any, among: Any, key: str | None) -> Response:
    (told,) = await _chosen(live, [Asked(features, among, key)])
    return Answer(told)


def _short(server: Server, answered: Callable[..., Awaitable[Response]]) -> Handle:
    """The same for a request that comes the short way; both need the verb `begin`."""

    async def handle(request: Request, name: str, *told: Any) -> Response:
        try:
            return await answered(server.find(request, name, "begin"), *told)
        except Refusal as error:
            return await _refused(request, error)
        except StorageError as error:
            return await _not_stored(request, error)

    return handle


def _add_pages(app: FastAPI, server: Server) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse(page.HTML, headers=page.HEADERS)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page.DOCS, headers=page.HEADERS)

    @app.get("/healthz", tags=["operation"])
    async def healthz() -> Response:
        """Whether the process answers."""
        return Answer({"ok": True})

    @app.get("/readyz", tags=["operation"])
    async def readyz() -> Response:
        """Whether every learner is driven, here or elsewhere."""
        ready = all(live.ready or live.elsewhere for live in server.learners.values())
        return Answer({"ready": ready}, 200 if ready else 503)

    @app.get("/metrics", tags=["operation"])
    async def metrics_(request: Request) -> Response:
        """For Prometheus: the learners that the token may read."""
        token = server.holder(request)
        seen = [live for live in server.learners.values() if token.opens(live.name, "read")]
        if server.learners and not seen:
            raise Refusal(403, "this token does not allow read")
        return Response(metrics.text(seen), media_type="text/plain; version=0.0.4")


def _add_learners(app: FastAPI, server: Server) -> None:
    @app.get("/v1/learners", tags=["learners"])
    async def learners(request: Request) -> Response:
        """The learners that the token may see."""
        token = server.holder(request)
        seen = [live for live in server.learners.values() if token.opens(live.name, "read")]
        listed = [{"name": live.name, "ready": live.ready} for live in seen]
        return Answer({"learners": listed})

    @app.post("/v1/learners/{name}/episodes", response_model=Begun, tags=["decide"])
    async def begin(live: MayBegin, body: BeginBody | None = None) -> Response:
        """Begin an episode. A retry with the same key returns the same episode."""
        return await _begun(live, None if body is None else body.key)

    @app.post(
        "/v1/learners/{name}/decide",
        response_model=Decision,
        responses=CLOSED | CONFLICT,
        tags=["decide"],
    )
    async def decide(live: MayBegin, body: DecideBody) -> Response:
        """Draw an action for a step of an episode. A retry gives the same action.

        Without an episode, one of one step is begun and decided in: a retry with the same key gives
        the same decision.
        """
        if body.episode is None:
            if body.step is not None:
                why = "step needs an episode; a learner of one step begins one here"
                raise Refusal(422, why, outcome="invalid", field="step")
            (told,) = await _chosen(live, [body.asked()])
            return Answer(told)
        for name in ("features", "among", "key"):
            if getattr(body, name) is not None:
                why = f"{name} must be left out beside an episode"
                raise Refusal(422, why, outcome="invalid", field=name)
        if body.step is None or body.state is None:
            field = "step" if body.step is None else "state"
            raise Refusal(422, f"{field} is required", outcome="invalid", field=field)
        return await _decided(live, body.episode, body.step, body.state)

    @app.post(
        "/v1/learners/{name}/decide/batch",
        response_model=Decisions,
        responses=CONFLICT,
        tags=["decide"],
    )
    async def decide_batch(live: MayBegin, body: ChooseBatchBody) -> Response:
        """Decide many times at once: all decisions are made and stored, or none."""
        if len(body.decisions) > server.batch:
            why = f"a batch must have at most {server.batch} decisions, got {len(body.decisions)}"
            raise Refusal(413, why, field="decisions")
        asked = [one.asked() for one in body.decisions]
        return Answer({"decisions": await _chosen(live, asked)})

    @app.get("/v1/learners/{name}/episodes/{episode}/policy", responses=CLOSED, tags=["decide"])
    async def policy(
        live: MayBegin,
        episode: Number,
        step: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
        state: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
        format: Literal["json", "npy"] = "json",
    ) -> Response:
        """The policy of an open episode: (H, S, A), one step (S, A), or one row (A,)."""
        found = await live.session().policy(episode)
        H, S, _ = found.shape
        if step is not None and step >= H:
            why = f"step must be below {H}, got {step}"
            raise Refusal(422, why, outcome="invalid", field="step")
        if state is not None and (state >= S or step is None):
            why = f"state must be below {S} and come with a step, got {state}"
            raise Refusal(422, why, outcome="invalid", field="state")
        if step is not None:
            found = found[step] if state is None else found[step, state]
        if format == "json" and found.size > LONGEST_JSON:
            why = f"a policy of {found.size} numbers is too long for JSON; take npy, or one step"
            raise Refusal(413, why, field="format")
        if format == "npy":
            made = io.BytesIO()
            np.save(made, found, allow_pickle=False)
            return Response(made.getvalue(), media_type="application/x-npy")
        return Answer({"episode": episode, "policy": found.tolist()})

    @app.post(
        "/v1/learners/{name}/feedback",
        response_model=OutcomeBody,
        responses=CONFLICT,
        tags=["feedback"],
    )
    async def feedback(
        live: MayFeed, body: Annotated[dict[str, Any], Body(openapi_examples=EXAMPLES)]
    ) -> Response:
        """Hand in one record. It may come twice, late, and in any order."""
        session = live.session()
        found = _parsed(body, live.reader())
        (outcome,) = await session.feed([found])
        told = _told(outcome, body, found, session.books.awaited)
        return Answer(told, told["status"])

    @app.post("/v1/learners/{name}/feedback/batch", response_model=Report, tags=["feedback"])
    async def feedback_batch(live: MayFeed, body: BatchBody) -> Response:
        """Hand in many records. Each has its own outcome; the good ones are taken."""
        if len(body.records) > server.batch:
            why = f"a batch must have at most {server.batch} records, got {len(body.records)}"
            raise Refusal(413, why, field="records")
        session, reader = live.session(), live.reader()
        found = [_parsed(record, reader) for record in body.records]
        outcomes = await session.feed(found)
        triples = zip(outcomes, body.records, found, strict=True)
        awaited = session.books.awaited
        return Answer({"outcomes": [_told(*triple, awaited) for triple in triples]})

    @app.delete(
        "/v1/learners/{name}/episodes/{episode}", response_model=OutcomeBody, tags=["feedback"]
    )
    async def forget(live: MayFeed, episode: Number) -> Response:
        """Forget an episode: it will not report."""
        return Answer(_told(await live.session().forget(episode)))

    @app.post("/v1/learners/{name}/actions", response_model=Action, tags=["operation"])
    async def add_action(live: MayAdmin, body: ActionBody | None = None) -> Response:
        """Add an action to a learner that runs. With a name that is there, nothing changes."""
        session, wanted = live.session(), None if body is None else body.name

        def more(problem: Any) -> Any:
            if wanted is not None and wanted in (getattr(problem, "names", None) or ()):
                return None
            if getattr(problem, "with_action", None) is None:
                raise ValueError("the actions of this learner are fixed")
            return problem.with_action(wanted).actions_listed

        event = await session.change(more)
        problem = session.books.terms.problem
        action = problem.actions - 1 if event else problem.index("name", wanted)
        told = {"action": action, "name": problem.name(action), "changed": event is not None}
        return Answer(told)

    @app.delete("/v1/learners/{name}/actions/{action}", response_model=Action, tags=["operation"])
    async def retire_action(
        live: MayAdmin, action: Annotated[str, Path(max_length=LONGEST_KEY)]
    ) -> Response:
        """Retire an action, by name or number: it is not played any more, and still learned of."""
        session = live.session()
        problem = session.books.terms.problem
        try:
            if getattr(problem, "index", None) is None:
                raise ValueError("the actions of this learner are fixed")
            numbered = action not in (problem.names or ()) and NUMBER.fullmatch(action)
            number = problem.index("action", int(action) if numbered else action)
        except ValueError as error:
            raise Refusal(404, str(error), outcome="unknown", field="action") from None
        event = await session.change(retire=number)
        told = {"action": number, "name": problem.name(number), "changed": event is not None}
        return Answer(told)

    @app.post("/v1/learners/{name}/snapshot", status_code=202, tags=["operation"])
    async def snapshot(live: MayAdmin) -> Response:
        """Write a snapshot soon, so that the next start is quick."""
        live.session().learning.snapshot()
        return Answer({"asked": True}, 202)


def _parsed(given: object, reader: Reader) -> Arrived | RecordError:
    try:
        return parse(given, reader)
    except RecordError as error:
        return error


def _told(
    outcome: Outcome,
    given: Any = None,
    record: Arrived | RecordError | None = None,
    awaited: Callable[[int], list[Any]] | None = None,
) -> dict[str, Any]:
    """What HTTP says of an outcome.

    given: the record as it came. record: as it was read. awaited: what an episode waits for.
    """
    told: dict[str, Any] = {"outcome": outcome.kind, "status": STATUS[outcome.kind]}
    if outcome.episode is not None:
        told["episode"] = outcome.episode
    if outcome.kind == "invalid":
        field = record.field if isinstance(record, RecordError) else outcome.part
        if isinstance(field, int):  # the step of a single cost
            field = "step"
        told["field"] = "rewards" if field == "costs" and "rewards" in given else field
    elif outcome.part is not None:
        told["part"] = outcome.part
    if outcome.kind == "taken":
        left = [] if awaited is None or outcome.episode is None else awaited(outcome.episode)
        if left:
            told["awaited"] = left
    elif outcome.why:
        told["why"] = outcome.why
    if outcome.kind == "late":
        told["used"] = outcome.used
    return told


def _add_reading(app: FastAPI) -> None:
    @app.get("/v1/learners/{name}", tags=["learners"])
    async def status(live: MayRead) -> Response:
        """How a learner is doing: counts, diagnostics, what came lately."""
        session = live.session()
        session.tick()
        return Answer(described(live, session))

    @app.get("/v1/learners/{name}/report", tags=["learners"])
    async def report_(live: MayRead) -> Response:
        """Which action leads, outcomes per day, delays, what matters, and warnings."""
        session = live.session()
        session.tick()
        seen = await session.look()
        told = report(
            session.books,
            seen,
            scale=live.rewards,
            counts=session.counts,
            holdout=session.holdout,
            differing=session.differing,
            now=session.clock(),
        )
        return Answer({"name": live.name, **told})

    @app.get("/v1/learners/{name}/decisions", tags=["learners"])
    async def decisions(live: MayAdmin, format: Literal["csv", "parquet"] = "csv") -> Response:
        """The decision log with propensities, as a table; see the documentation for its columns.

        It has what was known of every visitor, so it needs the verb `admin`.
        """
        session = live.session()
        await session.committer.durable()
        problem = session.books.terms.problem
        if format == "csv":
            pieces = export.as_csv(session.rows, problem)
            return StreamingResponse(pieces, media_type="text/csv")
        try:
            pieces = await asyncio.to_thread(export.as_parquet, session.rows, problem)
        except ValueError as error:
            raise Refusal(422, str(error), outcome="invalid", field="format") from None
        return StreamingResponse(pieces, media_type="application/vnd.apache.parquet")

    @app.get("/v1/learners/{name}/evaluation", tags=["learners"])
    async def evaluation(live: MayRead) -> Response:
        """What uniform play and each action alone would have been worth, from the decision log."""
        session = live.session()
        seen = await session.look()
        await session.committer.durable()
        terms = session.books.terms
        unit = unit_of(terms.problem, live.rewards)
        silence = silence_of(terms, seen, unit)
        try:
            told = await asyncio.to_thread(
                export.evaluation, session.rows, terms.problem, seen.retired, unit, silence
            )
        except ValueError as error:
            raise Refusal(422, str(error), outcome="invalid") from None
        return Answer({"name": live.name, **told})

    @app.get("/v1/learners/{name}/episodes", tags=["learners"])
    async def episodes(
        live: MayRead,
        after: Annotated[int, Query(ge=-1, le=LARGEST)] = -1,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """The open episodes, oldest first: age in seconds, whether overdue, steps decided."""
        session = live.session()
        now = session.clock()
        found = []
        for number, began in session.books.opened.items():
            if number > after:
                decided = sorted(session.books.decisions.get(number, {}))
                overdue = number not in session.books.in_time
                item = {"episode": number, "age": now - began, "overdue": overdue}
                found.append({**item, "decided": decided})
            if len(found) == limit:
                break
        return Answer({"episodes": found})


def described(live: Live, session: Session) -> dict[str, Any]:
    """What the page and the client read."""
    books, terms = session.books, session.books.terms
    problem = terms.problem
    return {
        "name": live.name,
        "problem": {
            name: getattr(problem, name)
            for name in ("states", "actions", "horizon", "names")
            if getattr(problem, name, None) is not None
        },
        "information": terms.information,
        "deadline": terms.deadline,
        "deadline_unit": "seconds" if terms.timed else "episodes",
        "default": terms.default,
        "grace": terms.grace,
        "begun": books.begun,
        "open": len(books.opened),
        "pending": books.pending,
        "overdue": books.overdue,
        "late": books.tally.late,
        "waiting": session.learning.waiting,
        "events": session.committer.number,
        "differing": session.differing,
        "counts": {**session.counts, **books.counts()},
        "diagnostics": dict(session.learning.diagnostics),
        "history": [list(item) for item in books.history],
        "delays": books.delays,
        "arrivals": [{"minute": minute, **counts} for minute, counts in session.arrivals],
        "now": session.clock(),
    }
