"""OpenTelemetry's own SDK, whose spans a test reads from memory."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """A provider, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def ended(self) -> list[ReadableSpan]:
        """Return the spans in the order of their ends."""
        return list(self._exporter.get_finished_spans())

    def of(self, handler: str) -> list[ReadableSpan]:
        """Return the spans of the calls of a handler, in the order of their ends."""
        return [it for it in self.ended() if said(it, "conversations.handler").rpartition(".")[2] == handler]


def said(span: ReadableSpan, attribute: str) -> str:
    """Return an attribute of a span as text; empty if the span does not have it."""
    return str((span.attributes or {}).get(attribute, ""))


def trace_id(span: ReadableSpan) -> int:
    """Return the id of the trace that a span belongs to."""
    assert span.context is not None
    return int(span.context.trace_id)


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    """Return True if a span is a child of another one."""
    assert of.context is not None
    return span.parent is not None and (span.parent.trace_id, span.parent.span_id) == (
        of.context.trace_id,
        of.context.span_id,
    )
