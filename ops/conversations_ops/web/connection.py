"""One connection of a browser. It is closed if its requests do not come, so that idle connections do not keep people out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0
"""Seconds in which the head of a request must arrive. For its body see ``guard``."""
SHARE = 100
"""Maximum number of connections of one address."""


class Connection(H11Protocol):
    """A connection that waits for a request for a limited time."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._ends: asyncio.TimerHandle | None = None
        self._idle = self.conn.our_state  # the state of a connection that waits for a request, as a new one does

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Begin to wait for the first request."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        theirs = [it for it in self.connections if isinstance(it, Connection) and it.client and it.client[0] == address]
        if len(theirs) > SHARE:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Wait for the rest of a head, counted from its begin; after its end the server answers, and nothing is waited for."""
        if self.conn.our_state is not self._idle:
            self._rest()
        elif self._ends is None:
            self._ends = self.loop.call_later(PATIENCE, self.transport.abort)

    def _rest(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
