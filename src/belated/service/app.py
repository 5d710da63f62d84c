"""The HTTP interface."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Body, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.exceptions import HTTPException

from belated import __version__
from belated.core import checks
from belated.service import export, metrics, page
from belated.service.errors import Refusal
from belated.service.fast_path import (
    LONGEST,
    Answer,
    Quick,
    Server,
    begun,
    chose,
    chose_many,
    decided,
    fed,
    fed_many,
    not_stored,
    refused,
    told,
)
from belated.service.gate import Gate, Verb
from belated.service.report import report, silence_of, unit_of
from belated.service.session import Session, Wanted
from belated.service.storage import StorageError
from belated.service.wire import LARGEST_WHOLE, LONGEST_KEY

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


FIXED = (
    "the actions of this learner are fixed: its tables have one place per action from the "
    "beginning on; linear_sampler, with a model per action, can add and retire them"
)
NUMBER = re.compile(r"[0-9]{1,9}")
LONGEST_JSON = 100_000
"""The largest policy that is written as JSON, during which other requests wait."""


Whole = Annotated[int, Field(ge=0, le=LARGEST_WHOLE, strict=True)]
Number = Annotated[int, Path(ge=0, le=LARGEST_WHOLE)]
Name = Annotated[str, Path(max_length=LONGEST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BeginBody(_Strict):
    """A new episode. key: your own key; the same key again returns the same episode."""

    key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None


class ChooseBody(_Strict):
    """A request for a decision of a learner of one step.

    features: of the visitor, or one row per action; named ones as a table. state: in place of
    features, for a learner with states. among: the allowed actions, by number or name. key: your
    own key; the same key again returns the same decision.
    """

    features: Any = None
    state: Whole | None = None
    among: list[StrictInt | StrictStr] | None = None
    key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None

    def asked(self) -> Wanted:
        """The request for a session."""
        if self.features is not None and self.state is not None:
            why = "a decision must have features or a state, got both"
            raise Refusal(422, why, outcome="invalid", field="state")
        if self.state is None:
            return Wanted(self.features, self.among, self.key, "features")
        return Wanted(self.state, self.among, self.key, "state")


class DecideBody(ChooseBody):
    """A request for a decision in an episode, or in a new one.

    episode, step, state: of an episode that has begun. Without an episode, one of one step begins.
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
    """An action to add. name: required if and only if actions have names."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None


class Action(BaseModel):
    """An action. changed: False if nothing has changed."""

    action: int
    name: str
    changed: bool


class BegunBody(BaseModel):
    """An episode. created: False if the key was used before."""

    episode: int
    created: bool


class DecisionBody(BaseModel):
    """An action and the probability with which it was drawn.

    name: the name of the action, if actions have names. created: False if the key was used before.
    """

    episode: int
    step: int
    action: int
    probability: float
    name: str | None = None
    created: bool | None = None


class DecisionsBody(BaseModel):
    """One decision per item of the request, in order."""

    decisions: list[DecisionBody]


class OutcomeBody(BaseModel):
    """What became of a record: `status` is the HTTP status of the record alone.

    used: whether the agent still learns from a late record. awaited: what the episode waits for
    before the agent can learn from it: the path, costs, or steps.
    """

    outcome: Literal["taken", "duplicate", "late", "conflict", "unknown", "invalid"]
    status: int
    episode: int | None = None
    part: str | int | None = None
    field: str | None = None
    why: str = ""
    used: bool | None = None
    awaited: list[str | int] | None = None


class OutcomesBody(BaseModel):
    """One outcome per record, in order."""

    outcomes: list[OutcomeBody]


class Refused(BaseModel):
    """The reason of a refusal."""

    why: str
    outcome: str | None = None
    field: str | None = None


def _may(verb: Verb) -> Callable[..., Awaitable[Session]]:
    async def found(request: Request, name: Name) -> Session:
        server: Server = request.app.state.server
        return server.find(request, name, verb)

    return found


MayBegin = Annotated[Session, Depends(_may("begin"))]
MayFeed = Annotated[Session, Depends(_may("feedback"))]
MayRead = Annotated[Session, Depends(_may("read"))]
MayAdmin = Annotated[Session, Depends(_may("admin"))]
COMMON: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused} for status in (307, 400, 401, 403, 404, 413, 415, 421, 422, 429, 503)
}
CONFLICT: dict[int | str, dict[str, Any]] = {409: {"model": Refused}}
CLOSED: dict[int | str, dict[str, Any]] = {410: {"model": Refused}}


def make(server: Server, *, body: int = 2_000_000, hosts: frozenset[str] = frozenset()) -> FastAPI:
    """The application. body: largest request, in bytes. hosts: allowed names; none means any."""

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
        docs_url=None,  # FastAPI's pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,  # a redirection would use the `Host` of the request
    )
    app.state.server = server
    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(StorageError, not_stored)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_middleware(Quick, server=server)
    app.add_middleware(Gate, body=body, hosts=hosts, knows=server.knows)
    _add_pages(app, server)
    _add_learners(app, server)
    _add_reading(app)
    return app


async def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])[:80] or str(first["loc"][0])
    why = f"{field}: {first['msg']}, got {checks.show(first.get('input'))}"
    if first["type"] == "json_invalid":  # its location is a character, not a field
        why = f"body: no JSON from character {first['loc'][-1]} on: {first['ctx']['error']}"
        field = "body"
    return Answer({"outcome": "invalid", "field": field, "why": why}, 422)


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Answer({"why": str(error.detail)}, error.status_code, error.headers)


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
        """Whether every learner runs, here or on another server."""
        ready = all(live.ready or live.elsewhere for live in server.learners.values())
        return Answer({"ready": ready}, 200 if ready else 503)

    @app.get("/metrics", tags=["operation"])
    async def metrics_(request: Request) -> Response:
        """Metrics for Prometheus, of the learners that the token may read."""
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

    @app.post("/v1/learners/{name}/episodes", response_model=BegunBody, tags=["decide"])
    async def begin(session: MayBegin, body: BeginBody | None = None) -> Response:
        """Begin an episode. A retry with the same key returns the same episode."""
        return await begun(server, session, None if body is None else body.key)

    @app.post(
        "/v1/learners/{name}/decide",
        response_model=DecisionBody,
        responses=CLOSED | CONFLICT,
        tags=["decide"],
    )
    async def decide(session: MayBegin, body: DecideBody) -> Response:
        """Draw an action for a step of an episode. A retry gives the same action.

        Without an episode, one of one step begins; a retry with the same key gives the same
        decision.
        """
        if body.episode is None:
            if body.step is not None:
                why = "step needs an episode; a learner of one step begins one here"
                raise Refusal(422, why, outcome="invalid", field="step")
            return await chose(server, session, body.asked())
        for name in ("features", "among", "key"):
            if getattr(body, name) is not None:
                why = f"{name} must be left out beside an episode"
                raise Refusal(422, why, outcome="invalid", field=name)
        if body.step is None or body.state is None:
            field = "step" if body.step is None else "state"
            raise Refusal(422, f"{field} is required", outcome="invalid", field=field)
        return await decided(server, session, body.episode, body.step, body.state)

    @app.post(
        "/v1/learners/{name}/decide/batch",
        response_model=DecisionsBody,
        responses=CONFLICT,
        tags=["decide"],
    )
    async def decide_batch(session: MayBegin, body: ChooseBatchBody) -> Response:
        """Make many decisions: all of them are made and stored, or none."""
        server.check_batch("decisions", body.decisions)
        return await chose_many(server, session, [one.asked() for one in body.decisions])

    @app.get("/v1/learners/{name}/episodes/{episode}/policy", responses=CLOSED, tags=["decide"])
    async def policy(
        session: MayBegin,
        episode: Number,
        step: Annotated[int | None, Query(ge=0, le=LARGEST_WHOLE)] = None,
        state: Annotated[int | None, Query(ge=0, le=LARGEST_WHOLE)] = None,
        format: Literal["json", "npy"] = "json",
    ) -> Response:
        """The policy of an open episode: (H, S, A), one step (S, A), or one row (A,)."""
        found = await session.policy(episode)
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
        session: MayFeed, body: Annotated[dict[str, Any], Body(openapi_examples=EXAMPLES)]
    ) -> Response:
        """Report one record. Records may arrive twice, late, and in any order."""
        return await fed(server, session, body)

    @app.post("/v1/learners/{name}/feedback/batch", response_model=OutcomesBody, tags=["feedback"])
    async def feedback_batch(session: MayFeed, body: BatchBody) -> Response:
        """Report many records. Each has its own outcome; the valid ones are used."""
        return await fed_many(server, session, body.records)

    @app.delete(
        "/v1/learners/{name}/episodes/{episode}", response_model=OutcomeBody, tags=["feedback"]
    )
    async def forget(session: MayFeed, episode: Number) -> Response:
        """Forget an episode: it will not report."""
        return Answer(told(await session.forget(episode)))

    @app.post("/v1/learners/{name}/actions", response_model=Action, tags=["operation"])
    async def add_action(session: MayAdmin, body: ActionBody | None = None) -> Response:
        """Add an action to a running learner. An existing name changes nothing."""
        wanted = None if body is None else body.name

        def more(agent: Any) -> Any:
            problem = agent.problem
            if wanted is not None and wanted in (getattr(problem, "names", None) or ()):
                if problem.index("action", wanted) in getattr(agent, "retired", ()):
                    raise ValueError(f"{wanted} was retired; add it under another name")
                return None
            if getattr(problem, "with_action", None) is None:
                raise ValueError(FIXED)
            return problem.with_action(wanted).actions_listed

        event = await session.change(more)
        problem = session.books.terms.problem
        added = None if event is None else event.actions  # more may have been added since
        action = added - 1 if isinstance(added, int) else problem.index("name", wanted)
        told = {"action": action, "name": problem.name(action), "changed": event is not None}
        return Answer(told)

    @app.delete("/v1/learners/{name}/actions/{action}", response_model=Action, tags=["operation"])
    async def retire_action(
        session: MayAdmin, action: Annotated[str, Path(max_length=LONGEST_KEY)]
    ) -> Response:
        """Retire an action, by name or number: it is no longer played, but its feedback counts."""
        problem = session.books.terms.problem
        if getattr(problem, "index", None) is None:
            raise Refusal(422, FIXED, outcome="invalid", field="action")
        try:
            numbered = action not in (problem.names or ()) and NUMBER.fullmatch(action)
            number = problem.index("action", int(action) if numbered else action)
        except ValueError as error:
            raise Refusal(404, str(error), outcome="unknown", field="action") from None
        event = await session.change(retire=number)
        told = {"action": number, "name": problem.name(number), "changed": event is not None}
        return Answer(told)

    @app.post("/v1/learners/{name}/snapshot", status_code=202, tags=["operation"])
    async def snapshot(session: MayAdmin) -> Response:
        """Write a snapshot soon, so that the next start is fast."""
        session.learning.snapshot()
        return Answer({"asked": True}, 202)


def _add_reading(app: FastAPI) -> None:
    @app.get("/v1/learners/{name}", tags=["learners"])
    async def status(session: MayRead) -> Response:
        """The status of a learner: counts, diagnostics, and recent episodes."""
        session.tick()
        return Answer(described(session))

    @app.get("/v1/learners/{name}/report", tags=["learners"])
    async def report_(session: MayRead) -> Response:
        """The leading action, outcomes per day, delays, important features, and warnings."""
        session.tick()
        seen = await session.look()
        told = report(
            session.books,
            seen,
            scale=session.scale,
            counts=session.counts,
            holdout=session.holdout,
            differing=session.differing,
            now=session.clock(),
        )
        return Answer({"name": session.name, **told})

    @app.get("/v1/learners/{name}/decisions", tags=["learners"])
    async def decisions(session: MayAdmin, format: Literal["csv", "parquet"] = "csv") -> Response:
        """The decision log with propensities, as a table; see the documentation for its columns.

        It contains the features of every visitor, so it needs the verb `admin`.
        """
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
    async def evaluation(
        session: MayRead,
        newest: Annotated[int, Query(ge=2, le=export.MOST)] = export.NEWEST,
    ) -> Response:
        """The estimated values of uniform play and of each action alone, from the decision log."""
        seen = await session.look()
        await session.committer.durable()
        terms = session.books.terms
        unit = unit_of(terms.problem, session.scale)
        silence = silence_of(terms, seen, unit)
        try:
            given = (terms.problem, seen.retired, unit, silence, session.clock(), newest)
            told = await asyncio.to_thread(export.evaluation, session.rows, *given)
        except ValueError as error:
            raise Refusal(422, str(error), outcome="invalid") from None
        return Answer({"name": session.name, **told})

    @app.get("/v1/learners/{name}/episodes", tags=["learners"])
    async def episodes(
        session: MayRead,
        after: Annotated[int, Query(ge=-1, le=LARGEST_WHOLE)] = -1,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """The open episodes, oldest first: age in seconds, whether overdue, decided steps."""
        now = session.clock()
        found = []
        for number, entry in session.books.open.items():
            if number > after:
                overdue = session.books.is_overdue(number)
                item = {"episode": number, "age": now - entry.began, "overdue": overdue}
                found.append({**item, "decided": sorted(entry.decided)})
            if len(found) == limit:
                break
        return Answer({"episodes": found})


def described(session: Session) -> dict[str, Any]:
    """The status of a learner, for the page and the client."""
    books, terms = session.books, session.books.terms
    problem = terms.problem
    return {
        "name": session.name,
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
        "open": len(books.open),
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
