"""Traces: the trace context that goes with each message, and the interface to a library for traces.

A **trace context** names the span in which a message was sent. It goes with the message in the headers ``traceparent`` and ``tracestate`` of
W3C Trace Context. Between headers it is bytes: the ``traceparent`` of 55 characters, then the ``tracestate``, if any. Without a trace
it is empty.

This module needs no library. ``conversations.otel`` connects it with OpenTelemetry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

PARENT, STATE = "traceparent", "tracestate"
PARENT_BYTES = 55
"""Length of a ``traceparent`` of version 00."""
STATE_BYTES = 512
"""Maximum bytes of a ``tracestate``. A longer one is left out, as the recommendation of the W3C allows."""
_PARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE = re.compile(rb"[\x20-\x7e]+")
_KINDS = (PARENT, STATE)


def trace_of(headers: Iterable[tuple[str, bytes | None]] | None) -> bytes:
    """Return the trace context in the headers of a record; empty if there is none.

    Nothing is believed but the form. A ``traceparent`` that is malformed, or that occurs twice, counts as none. A ``tracestate`` that is
    malformed or too long is left out.
    """
    parents, states = ([it for name, it in headers or () if name == kind] for kind in _KINDS)
    if len(parents) != 1 or not _is_parent(parents[0] or b""):
        return b""
    state = states[0] or b"" if len(states) == 1 else b""
    return b"00" + (parents[0] or b"")[2:PARENT_BYTES] + (state if _is_state(state) else b"")


def _is_parent(text: bytes) -> bool:
    if not _PARENT.fullmatch(text, 0, PARENT_BYTES) or text.startswith(b"ff"):
        return False
    # A later version may append fields, which this version does not understand.
    return len(text) == PARENT_BYTES or (
        not text.startswith(b"00") and text[PARENT_BYTES : PARENT_BYTES + 1] == b"-" and len(text) <= STATE_BYTES
    )


def _is_state(text: bytes) -> bool:
    return len(text) <= STATE_BYTES and _STATE.fullmatch(text) is not None


def headers_of(trace: bytes) -> list[tuple[str, bytes]]:
    """Return the headers for a trace context. There are none if it is empty."""
    if not trace:
        return []
    parent = [(PARENT, trace[:PARENT_BYTES])]
    return [*parent, (STATE, trace[PARENT_BYTES:])] if len(trace) > PARENT_BYTES else parent


@dataclass(slots=True)
class Handled:
    """The call of a handler, for its span."""

    service: str
    topic: str
    """The topic of the record; the queue of the service if the handler has no record."""
    partition: int
    offset: int
    """Offset of the record; -1 if there is none."""
    conversation: str
    contract: str
    peer: str
    handler: str
    """Name of the function."""
    attempt: int
    message_type: str = ""
    """Name of the message type; empty if the handler has no message."""
    number: int = -1
    """Number of the message in its direction; -1 if there is none."""
    body_size: int = -1
    """Bytes of the body; -1 if there is none."""


@dataclass(slots=True)
class Written:
    """A command of a client, for its span."""

    service: str
    topic: str
    conversation: str
    begins: bool
    """True if the command begins a dialog."""
    messages: int
    """Number of messages in the command."""


class Span(Protocol):
    """One call of a handler, or one command of a client, in a trace. No method raises an exception."""

    @property
    def trace(self) -> bytes:
        """The trace context for what is sent in this span; known from ``begin`` on."""

    def begin(self) -> None:
        """Begin the span. Until its end, it is the current span of this thread or task."""

    def leave(self) -> None:
        """Make the span before it the current one. The span itself goes on, and any thread may end it."""

    def end(self, failure: BaseException | None) -> None:
        """Leave the span if it is the current one, and end it. ``failure`` is the exception that ended the call, or None."""


class Traceable:
    """A service or a client, which may trace."""

    tracing: Tracing | None = None
    """Makes the spans; None if it does not trace."""

    def trace_with(self, tracing: Tracing | None) -> None:
        """Trace with this library from now on; None stops it. See ``conversations.otel.trace``."""
        self.tracing = tracing


class Tracing(Protocol):
    """Makes spans. Its methods are called under the lock of a worker, so they must be quick, and raise no exception."""

    def handling(self, call: Handled, parent: bytes) -> Span:
        """Return the span for a call of a handler. ``parent`` is the trace context of the message; it may be empty."""

    def writing(self, command: Written) -> Span:
        """Return the span for a command of a client. Its parent is the current span of this thread or task."""
