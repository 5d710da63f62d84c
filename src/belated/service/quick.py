"""A short way to a decision, past the machinery of the framework, which takes longer than it.

A request for a decision that is as documented is answered here. Everything else goes on as it came,
a request with a mistake too: the documented route says what is wrong with it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from belated.service.records import LARGEST

BEFORE, AFTER = "/v1/learners/", "/decide"
LONGEST, DIGITS = 63, 3
"""Characters of a name, and digits of the length of a body."""
FIELDS = ("episode", "step", "state")
Decide = Callable[[Request, str, int, int, int], Awaitable[Response]]


class Quick:
    """Answers well-formed requests for decisions with `decide`: a learner and the three numbers."""

    def __init__(self, app: ASGIApp, decide: Decide) -> None:
        self._app = app
        self._decide = decide

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        name = _learner(scope)
        if name is None:
            await self._app(scope, receive, send)
            return
        came = [await receive()]
        while came[-1].get("more_body"):
            came.append(await receive())
        asked = _numbers(b"".join(message.get("body", b"") for message in came))
        if asked is not None:
            answer = await self._decide(Request(scope), name, *asked)
            await answer(scope, receive, send)
            return
        left = deque(came)

        async def again() -> Message:
            return left.popleft() if left else await receive()

        await self._app(scope, again, send)


def _learner(scope: Scope) -> str | None:
    """The learner that is asked for a decision, in a short body of known length."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path: str = scope["path"]
    name = path.removeprefix(BEFORE).removesuffix(AFTER)
    if path != BEFORE + name + AFTER or "/" in name or not 1 <= len(name) <= LONGEST:
        return None
    lengths = [value for header, value in scope["headers"] if header == b"content-length"]
    return name if lengths and len(lengths[0]) <= DIGITS else None


def _numbers(body: bytes) -> tuple[int, int, int] | None:
    """Episode, step and state of a body that has them and nothing else."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if type(given) is not dict or len(given) != len(FIELDS):
        return None
    numbers = [given.get(name) for name in FIELDS]
    if any(type(number) is not int or not 0 <= number <= LARGEST for number in numbers):
        return None
    return cast(tuple[int, int, int], tuple(numbers))
