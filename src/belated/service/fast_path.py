"""A short way to an episode and a decision, past the machinery of the framework.

That takes longer than they do. A request that is as documented is answered here. Everything else
goes on as it came, a request with a mistake too: the documented route says what is wrong with it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from belated.service.wire import LARGEST

BEFORE = "/v1/learners/"
LONGEST, DIGITS = 63, 5
"""Characters of a name, and digits of the length of a body."""
LONGEST_KEY = 200
FIELDS = ("episode", "step", "state")
KNOWN = {"features", "among", "key"}
Handle = Callable[..., Awaitable[Response]]
"""Answers a request for a learner by name, given what its body says."""
Read = Callable[[Any], tuple[Any, ...] | None]
"""What a body says, if it is plain and well-formed."""


class Quick:
    """Answers well-formed requests.

    Args:
        app: what takes the rest.
        begin: answers with a new episode, given a request, a learner and a key.
        decide: answers with a decision, given a request, a learner and the three numbers.
        choose: answers with a decision in a new episode, given what is known.
    """

    def __init__(self, app: ASGIApp, begin: Handle, decide: Handle, choose: Handle) -> None:
        self._app = app
        self._handles: Mapping[str, tuple[tuple[Handle, Read], ...]] = {
            "episodes": ((begin, key),),
            "decide": ((decide, numbers), (choose, known)),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        name, what = _asked(scope)
        if what not in self._handles:
            await self._app(scope, receive, send)
            return
        came = [await receive()]
        while came[-1].get("more_body"):
            came.append(await receive())
        given = _parsed(b"".join(message.get("body", b"") for message in came))
        for handle, read in self._handles[what]:
            told = read(given)
            if told is not None:
                answer = await handle(Request(scope), name, *told)
                await answer(scope, receive, send)
                return
        left = deque(came)

        async def again() -> Message:
            return left.popleft() if left else await receive()

        await self._app(scope, again, send)


def _asked(scope: Scope) -> tuple[str, str]:
    """The learner, and what is asked of it in a short body of known length; or nothing."""
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


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def numbers(given: Any) -> tuple[int, ...] | None:
    """Episode, step and state of a body that has them and nothing else."""
    if type(given) is not dict or len(given) != len(FIELDS):
        return None
    found: tuple[Any, ...] = tuple(given.get(name) for name in FIELDS)
    if any(type(number) is not int or not 0 <= number <= LARGEST for number in found):
        return None
    return found


def key(given: Any) -> tuple[str | None] | None:
    """The key of a body that has a plain one or none, and nothing else."""
    if type(given) is not dict or given.keys() - {"key"}:
        return None
    found = given.get("key")
    return (found,) if found is None or _is_key(found) else None


def known(given: Any) -> tuple[Any, list[int | str] | None, str | None] | None:
    """Features, allowed actions and key of a body that has features, and nothing but these."""
    if type(given) is not dict or "features" not in given or given.keys() - KNOWN:
        return None
    among, found = given.get("among"), given.get("key")
    if among is not None and (
        type(among) is not list or any(type(action) not in (int, str) for action in among)
    ):
        return None
    if given["features"] is None or not (found is None or _is_key(found)):
        return None
    return given["features"], among, found


def _is_key(found: Any) -> bool:
    return type(found) is str and 1 <= len(found) <= LONGEST_KEY and found.isascii()
