"""Refusals of requests, with their HTTP status."""

from __future__ import annotations


class Refusal(Exception):
    """A refused request.

    status: the HTTP status. field: the wrong field of the request. retry: seconds after which the
    request may succeed. address: of the server that can answer.
    """

    def __init__(
        self,
        status: int,
        why: str,
        *,
        outcome: str | None = None,
        field: str | None = None,
        retry: float | None = None,
    ) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.outcome = outcome
        self.field = field
        self.retry = retry
        self.address: str | None = None


def busy(why: str, retry: float = 1.0) -> Refusal:
    """Too much at once: 429."""
    return Refusal(429, why, retry=retry)
