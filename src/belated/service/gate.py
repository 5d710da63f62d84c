"""Access control, and limits on requests that apply before anything of them is read.

A token is 32 random bytes, so its plain SHA-256, which is all that is stored, cannot be inverted.
A header is compared with every hash, each in constant time.

A request with a body must be authenticated: nothing of an unknown client is kept. The bytes of a
body are counted as they arrive, whatever its stated length, and are not decompressed. A POST must
state that it is JSON, and the `Host` must be one of ours, so that a web page in a browser on the
same machine cannot use the server without the user's knowledge.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec

from belated.core import checks
from belated.service.wire import Refusal

NO_TOKEN = "a token is needed: Authorization: Bearer ..."
Verb = Literal["begin", "feedback", "read", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
Text = Annotated[str, msgspec.Meta(min_length=1)]
EVERY = "*"
MARK = "belated-"
Headers = Mapping[bytes, bytes]


def check_types(item: Any) -> None:
    """Convert the fields of a dataclass to their types; `ValueError` names a wrong one."""
    types = get_type_hints(type(item), include_extras=True)
    for name in (field.name for field in fields(item) if field.init):
        value = getattr(item, name)
        try:
            checks.fix(item, name, msgspec.convert(value, types[name]))
        except msgspec.ValidationError as error:
            raise ValueError(f"{name} = {checks.show(value)}: {error}") from None


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its permissions.

    Attributes:
        name: the name of its holder, for the limits.
        sha256: the hash of the token, in hexadecimal.
        learners: the names of learners, or "*" for all.
        verbs: begin (and decide), feedback (and forget), read, admin (snapshots).
    """

    name: Text
    sha256: str
    learners: tuple[Text, ...]
    verbs: tuple[str, ...] = VERBS

    def __post_init__(self) -> None:
        check_types(self)
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError("sha256 must be 64 digits from 0 to f; `belated token` makes one")
        for verb in self.verbs:
            checks.choice("verbs", verb, VERBS)

    def opens(self, learner: str, verb: str | None) -> bool:
        """Whether the holder may do this to the learner."""
        return verb in self.verbs and (EVERY in self.learners or learner in self.learners)


ANYBODY = Token("anybody", "0" * 64, (EVERY,))
"""The holder of all requests to a server without tokens, which listens on loopback only."""


def new() -> tuple[str, str]:
    """A token and its hash."""
    token = MARK + secrets.token_urlsafe(32)
    return token, hashed(token)


def hashed(token: str) -> str:
    """The hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules for all requests.

    Attributes:
        tokens: the known tokens; without any, everybody may do everything.
        body: the largest request, in bytes.
        hosts: the host names that requests may use; none means any.
    """

    tokens: tuple[Token, ...] = ()
    body: int = 2_000_000
    hosts: frozenset[str] = frozenset()

    def holder(self, headers: Headers) -> Token:
        """The token of an `Authorization: Bearer ...` header; raises `Refusal` without one."""
        if not self.tokens:
            return ANYBODY
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        mine = hashed(given.strip())
        found = [token for token in self.tokens if hmac.compare_digest(mine, token.sha256)]
        if not found or scheme.lower() != "bearer":
            raise Refusal(NO_TOKEN, outcome=None, status=401)
        return found[-1]

    def check(self, method: str, headers: Headers) -> None:
        """Raise `Refusal` for what the head of a request says."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self.hosts and re.sub(r":\d*$", "", host) not in self.hosts:
            raise Refusal("host not allowed", outcome=None, status=421)
        if method in ("GET", "HEAD", "OPTIONS"):
            return
        self.holder(headers)
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise Refusal("a body must have a length or come in chunks, not both", None, None, 400)
        if int(headers.get(b"content-length", b"0")) > self.body:  # digits, by the parser
            raise self._too_large()
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json" and (kind or method == "POST"):
            raise Refusal("Content-Type must be application/json", outcome=None, status=415)
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise Refusal("compressed bodies are not accepted", outcome=None, status=415)

    async def read(self, receive: Callable[[], Awaitable[Any]]) -> bytes:
        """The body of a request; raises `Refusal` as soon as it is too large."""
        pieces, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal("the client has gone", outcome=None, status=400)
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > self.body:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(pieces)

    def _too_large(self) -> Refusal:
        return Refusal(f"a body must have at most {self.body} bytes", outcome=None, status=413)
