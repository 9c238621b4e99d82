"""Traces with OpenTelemetry: ``trace(orders)`` makes a service trace its handlers. The package is in the extra ``otel``.

The API of OpenTelemetry is enough. The program chooses the SDK, the exporter and the sampling, as for everything else that it traces.
"""

from __future__ import annotations

import logging
from typing import Any

from conversations.tracing import PARENT, STATE, STATE_BYTES, Handled, Span, Traceable, Written, headers_of

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace as api
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError("traces need opentelemetry-api: run pip install 'kafka-dialogs[otel]'") from error

__all__ = ["OpenTelemetry", "trace"]

log = logging.getLogger("conversations.otel")
_PROPAGATOR = TraceContextTextMapPropagator()
_NOTHING = contexts.Context()
"""A context without a span: the parent of a handler whose message has no trace."""


def trace(*traced: Traceable, provider: api.TracerProvider | None = None) -> None:
    """Trace services and clients with OpenTelemetry. Call it before they run.

    A service traces the calls of its handlers. A client that is made later with the ``Service`` object traces its commands. Any client can be
    given itself.

    Args:
        traced: services and clients.
        provider: makes the tracer; by default the global provider.
    """
    tracing = OpenTelemetry(provider)
    for it in traced:
        it.trace_with(tracing)


class OpenTelemetry:
    """Makes spans with OpenTelemetry, with the attributes of its semantic conventions for messaging."""

    def __init__(self, provider: api.TracerProvider | None = None) -> None:
        self._tracer = api.get_tracer("kafka-dialogs", tracer_provider=provider)

    def handling(self, call: Handled, parent: bytes) -> Span:
        """Return the span for a call of a handler."""
        attributes: dict[str, Any] = {
            **_described("process", call.topic, call.conversation, call.service),
            "messaging.destination.partition.id": str(call.partition),
            "conversations.contract": call.contract,
            "conversations.peer": call.peer,
            "conversations.handler": call.handler,
            "conversations.attempt": call.attempt,
        }
        if call.offset >= 0:
            attributes["messaging.kafka.offset"] = call.offset
        if call.message_type:
            attributes["conversations.message_type"] = call.message_type
            attributes["conversations.message_number"] = call.number
            attributes["messaging.message.body.size"] = call.body_size
        return _Span(self._tracer, f"process {call.topic}", api.SpanKind.CONSUMER, attributes, _context_of(parent))

    def writing(self, command: Written) -> Span:
        """Return the span for a command of a client."""
        attributes: dict[str, Any] = {
            **_described("send", command.topic, command.conversation, command.service),
            "messaging.batch.message_count": command.messages,
            "conversations.begins": command.begins,
        }
        return _Span(self._tracer, f"send {command.topic}", api.SpanKind.PRODUCER, attributes, None)


def _described(operation: str, topic: str, conversation: str, service: str) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.message.conversation_id": conversation,
        "conversations.service": service,
    }


def _context_of(trace: bytes) -> contexts.Context:
    if not trace:
        return _NOTHING
    carrier = {name: value.decode("ascii") for name, value in headers_of(trace)}
    return _PROPAGATOR.extract(carrier, _NOTHING)


class _Span:
    """One span. If OpenTelemetry fails, the call goes on without it."""

    __slots__ = ("_attributes", "_kind", "_name", "_parent", "_span", "_token", "_tracer", "trace")

    def __init__(
        self,
        tracer: api.Tracer,
        name: str,
        kind: api.SpanKind,
        attributes: dict[str, Any],
        parent: contexts.Context | None,
    ) -> None:
        self._tracer, self._name, self._kind, self._attributes, self._parent = tracer, name, kind, attributes, parent
        self._span: api.Span | None = None
        self._token: Any = None
        self.trace = b""

    def begin(self) -> None:
        """Begin the span, and make it the current one."""
        try:
            span = self._tracer.start_span(
                self._name, context=self._parent, kind=self._kind, attributes=self._attributes
            )
            context = api.set_span_in_context(span)
            self._token = contexts.attach(context)
            self._span = span
            carrier: dict[str, str] = {}
            _PROPAGATOR.inject(carrier, context)
            state = carrier.get(STATE, "").encode("ascii", "ignore")
            self.trace = carrier.get(PARENT, "").encode() + (state if len(state) <= STATE_BYTES else b"")
        except Exception as error:  # noqa: BLE001 - a sampler or a processor of the program may raise anything
            log.warning("a span could not begin: %s: %s", type(error).__name__, error)

    def leave(self) -> None:
        """Make the span before it the current one."""
        token, self._token = self._token, None
        if token is not None:
            contexts.detach(token)  # logs its failures itself

    def end(self, failure: BaseException | None) -> None:
        """Leave the span, and end it."""
        try:
            self.leave()
            span = self._span
            if span is None:
                return
            if failure is not None:
                kind = type(failure)
                span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
                span.record_exception(failure)
                span.set_status(api.Status(api.StatusCode.ERROR, kind.__name__))
            span.end()
        except Exception as error:  # noqa: BLE001 - a processor of the program may raise anything
            log.warning("a span could not end: %s: %s", type(error).__name__, error)
