"""Who may do what: tokens, kept as hashes, for some learners and verbs.

A token is 32 random bytes, so a plain SHA-256 of it cannot be turned back. Every hash is compared,
each in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from belated.core import checks

Verb = Literal["begin", "feedback", "read", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
EVERY = "*"
MARK = "belated-"


@dataclass(frozen=True, slots=True)
class Token:
    """What a token opens.

    Attributes:
        name: of its holder, for the limits.
        sha256: of the token, in hexadecimal.
        learners: names, or "*" for all.
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
        """Whether this learner exists for the holder."""
        return EVERY in self.learners or learner in self.learners

    def opens(self, learner: str, verb: str) -> bool:
        """Whether the holder may do this to the learner."""
        return self.sees(learner) and verb in self.verbs


ANYBODY = Token("anybody", "0" * 64, (EVERY,), VERBS)
"""Whoever reaches a server without tokens, which listens on loopback only."""


def new() -> tuple[str, str]:
    """A token and its hash."""
    token = MARK + secrets.token_urlsafe(32)
    return token, hashed(token)


def hashed(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def holder(header: str | None, tokens: Sequence[Token]) -> Token | None:
    """Whom an `Authorization: Bearer ...` header belongs to; None if to nobody."""
    if not tokens:
        return ANYBODY
    scheme, _, given = (header or "").partition(" ")
    found = None
    mine = hashed(given.strip())
    for token in tokens:
        if hmac.compare_digest(mine, token.sha256):
            found = token
    return found if scheme.lower() == "bearer" else None
