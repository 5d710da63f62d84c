"""Tokens: who may do what.

A token is 32 random bytes, so its plain SHA-256, which is all that is stored, cannot be inverted.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec

from belated.core import checks

Verb = Literal["begin", "feedback", "read", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
Text = Annotated[str, msgspec.Meta(min_length=1)]
EVERY = "*"


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
    verbs: tuple[Verb, ...] = VERBS

    def __post_init__(self) -> None:
        check_types(self)
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError("sha256 must be 64 digits from 0 to f; `belated token` makes one")


ANYBODY = Token("anybody", "0" * 64, (EVERY,))
"""The holder of all requests to a server without tokens, which listens on loopback only."""


def new() -> tuple[str, str]:
    """A token and its hash."""
    token = f"belated-{secrets.token_urlsafe(32)}"
    return token, hashed(token)


def hashed(token: str) -> str:
    """The hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
