"""A connection that limits the head of a request: its length, and the time until it is complete.

The parser has no limit of its own, so a client could send a head without an end.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 65_536
"""The largest number of bytes of a head."""
PATIENCE = 30.0
"""Seconds within which a head must be complete."""


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with limits on heads."""

    _head: int | None = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head before they are parsed."""
        if self._head is not None:
            end = data.find(b"\r\n\r\n")
            self._head += len(data) if end < 0 else end
            if self._head > LONGEST_HEAD:
                self.send_400_response(f"a head must have at most {LONGEST_HEAD} bytes")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Wait for the end of the head that has begun."""
        super().on_message_begin()
        if self._head is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Wait no longer."""
        self._head = None
        self._cancel_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head = 0
        self._cancel_timer()
        self._timer = self.loop.call_later(PATIENCE, self.transport.close)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
