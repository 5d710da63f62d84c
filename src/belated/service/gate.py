"""Access control, and limits on requests that apply before anything of them is read.

A token is 32 random bytes, so its plain SHA-256, which is all that is stored, cannot be inverted.
A header is compared with every hash, each in constant time.

A request with a body must be authenticated: nothing of an unknown client is kept. The bytes of a
body are counted as they arrive, whatever its stated length, and are not decompressed. A POST must
state that it is JSON, and the `Host` must be one of ours, so that a web page in a browser on the
same machine cannot use the server without the user's knowledge.

After the answer to a rejected request the rest of its body is received and dropped, up to a limit.
A connection that is closed over unread bytes is reset, and the reset can overtake the answer: the
client would then see a broken connection, and not the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from belated.core import checks

MOST_DIGITS = 18
"""The largest number of digits of the length of a body."""
MOST_DROPPED = 2**24
"""The largest number of bytes of a rejected request that are received."""
LONGEST_DROPPING = 10.0
"""The largest number of seconds for which they are received."""
NO_TOKEN = "a token is needed: Authorization: Bearer ..."
Header = tuple[bytes, bytes]
Verb = Literal["begin", "feedback", "read", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
EVERY = "*"
MARK = "belated-"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its permissions.

    Attributes:
        name: the name of its holder, for the limits.
        sha256: the hash of the token, in hexadecimal.
        learners: the names of learners, or "*" for all.
        verbs: begin (and decide), feedback (and forget), read, admin (snapshots).
    """

    name: str
    sha256: str
    learners: tuple[str, ...]
    verbs: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError("sha256 must be 64 digits from 0 to f; `belated token` makes one")
        for verb in self.verbs:
            checks.choice("verbs", verb, VERBS)

    def sees(self, learner: str) -> bool:
        """Whether the holder may see this learner."""
        return EVERY in self.learners or learner in self.learners

    def opens(self, learner: str, verb: str) -> bool:
        """Whether the holder may do this to the learner."""
        return self.sees(learner) and verb in self.verbs


ANYBODY = Token("anybody", "0" * 64, (EVERY,), VERBS)
"""The holder of all requests to a server without tokens, which listens on loopback only."""


def new() -> tuple[str, str]:
    """A token and its hash."""
    token = MARK + secrets.token_urlsafe(32)
    return token, hashed(token)


def hashed(token: str) -> str:
    """The hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def holder(header: str | None, tokens: Sequence[Token]) -> Token | None:
    """The token of an `Authorization: Bearer ...` header; None if it is unknown."""
    if not tokens:
        return ANYBODY
    scheme, _, given = (header or "").partition(" ")
    found = None
    mine = hashed(given.strip())
    for token in tokens:
        if hmac.compare_digest(mine, token.sha256):
            found = token
    return found if scheme.lower() == "bearer" else None


class Gate:
    """Rejects requests that are too large, of a wrong type, for another host or unauthenticated.

    Args:
        app: the application for accepted requests.
        body: the largest request, in bytes.
        hosts: the host names that requests may use; none means any.
        knows: whether an `Authorization` header is valid.
    """

    def __init__(
        self, app: ASGIApp, body: int, hosts: frozenset[str], knows: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._body = body
        self._hosts = hosts
        self._knows = knows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wrong = self._wrong(scope["method"], dict(scope["headers"]))
        if wrong is not None:
            await _reject(receive, send, *wrong)
            return
        size = 0
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._body:
                raise HTTPException(413, f"a body must have at most {self._body} bytes")
            return message

        try:
            await self._app(scope, counted, sent)
        except HTTPException as error:  # from a body that is read before the framework
            await _reject(receive, send, error.status_code, error.detail)
        except RecursionError:  # the possible depth of JSON depends on the parser
            if started:
                raise
            await _answer(send, 422, "a body must not be nested so deeply")
        except asyncio.CancelledError:  # the server stops, and this request did not end in time
            if not started:
                await _answer(send, 503, "the server is stopping", (b"retry-after", b"1"))

    def _wrong(self, method: str, headers: dict[bytes, bytes]) -> Any:
        """Status, reason and headers of the answer to a request that is rejected."""
        if self._hosts and _name(headers.get(b"host", b"").decode("latin-1")) not in self._hosts:
            return 421, "host not allowed"
        if method in ("GET", "HEAD", "OPTIONS"):
            return None
        if not self._knows(headers.get(b"authorization", b"").decode("latin-1")):
            return 401, NO_TOKEN, (b"www-authenticate", b"Bearer")
        length = headers.get(b"content-length")
        if length is not None and b"transfer-encoding" in headers:
            return 400, "a body must have a length or come in chunks, not both"
        if length is not None and not self._fits(length):
            return 413, f"a body must have at most {self._body} bytes"
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json" and (kind or method == "POST"):
            return 415, "Content-Type must be application/json"
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            return 415, "compressed bodies are not accepted"
        return None

    def _fits(self, length: bytes) -> bool:
        digits = length.lstrip(b"0") or b"0"
        return digits.isdigit() and len(digits) <= MOST_DIGITS and int(digits) <= self._body


def _name(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


async def _reject(receive: Receive, send: Send, status: int, why: str, *more: Header) -> None:
    """Answer a request, and close the connection after receiving the rest of its body."""
    await _answer(send, status, why, *more, ends=False)
    try:
        async with asyncio.timeout(LONGEST_DROPPING):
            await _drop(receive)
    except TimeoutError:  # the client is slow on purpose
        pass
    await send({"type": "http.response.body", "body": b""})


async def _drop(receive: Receive) -> None:
    dropped = 0
    while dropped <= MOST_DROPPED:
        message = await receive()
        dropped += len(message.get("body", b""))
        if not message.get("more_body", False):
            return


async def _answer(send: Send, status: int, why: str, *more: Header, ends: bool = True) -> None:
    content = json.dumps({"why": why}).encode()
    length = (b"content-length", str(len(content)).encode())
    headers = [(b"content-type", b"application/json"), length, (b"connection", b"close"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": not ends})
