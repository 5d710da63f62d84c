"""Limits on what a request may be, before anything of it is read.

Bodies are counted as they come, whatever they say of their length. A POST must say that it is JSON,
and the `Host` must be one of ours: so a web page that somebody looks at on the same machine cannot
use the server behind their back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_HOLDERS = 10_000


class Rate:
    """A bucket of requests per holder, filled at a rate."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, holder: str) -> float:
        """Take one; the seconds to wait if there is none, else 0."""
        now = self._clock()
        left, at = self._left.get(holder, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1.0:
            return (1.0 - left) / self._rate
        if len(self._left) >= MOST_HOLDERS:
            self._left.clear()
        self._left[holder] = (left - 1.0, now)
        return 0.0


class Gate:
    """Refuses what is too large, of the wrong type or for another host."""

    def __init__(self, app: ASGIApp, body: int, hosts: frozenset[str]) -> None:
        self._app = app
        self._body = body
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts and _name(host) not in self._hosts:
            await _answer(send, 421, "this server does not go by that name")
            return
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            length = headers.get(b"content-length")
            if length is not None and not (length.isdigit() and int(length) <= self._body):
                await _answer(send, 413, f"a body must have at most {self._body} bytes")
                return
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            empty = length in (None, b"0") and b"transfer-encoding" not in headers
            if kind != b"application/json" and not (empty and not kind):
                await _answer(send, 415, "Content-Type must be application/json")
                return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._body:
                raise HTTPException(413, f"a body must have at most {self._body} bytes")
            return message

        await self._app(scope, counted, send)


def _name(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


async def _answer(send: Send, status: int, why: str) -> None:
    content: dict[str, Any] = {"why": why}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})
