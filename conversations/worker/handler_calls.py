"""The calls of handlers: what a handler gets, the span of its call in a trace, and the trace context of the records that it publishes."""

from __future__ import annotations

from collections.abc import Sequence

from conversations.calls import Call
from conversations.dialog import Dialog
from conversations.draft import Draft
from conversations.errors import PeerError
from conversations.protocol import rows
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.publications import Publication
from conversations.tracing import PARENT, Handled, Span, Tracing, headers_of
from conversations.worker.active import Arrival, Item, Recorded
from conversations.worker.partition import Partition
from conversations.worker.task import Task


def call_of(item: Item, task: Task, draft: Draft, span: Span | None) -> Call:
    """Make one call of a handler. The body is decoded anew for each call, so that a failed call cannot have changed it.

    The last argument of every handler is the dialog. Before it, the handler of a message gets the body, and ``on_error`` gets the error.
    """
    envelope = item.envelope if isinstance(item, Arrival) else None
    edited = item.park.row.edited if item.park is not None else ""
    dialog: Dialog[object] = Dialog(draft, task.active, envelope, item.attempts + 1, edited)
    if task.codec is not None and envelope is not None:
        if envelope.content_type == task.codec.content_type:
            return Call(task.handler, (task.codec.decode(envelope.body), dialog), None, span)
        body = task.active.side.upgrades.decode(task.codec, envelope.content_type, envelope.body)
        return Call(task.handler, (body, dialog), None, span)
    if task.skipped:
        return Call(task.handler, (task.skipped, dialog), None, span)
    if task.error is not None:
        return Call(task.handler, (PeerError(task.error.code, task.error.description), dialog), None, span)
    if rows.is_timer(task.without):
        draft.begin_timer(rows.timer_of(task.without))
    return Call(task.handler, (dialog,), None, span)


def span_of(partition: Partition, item: Item, task: Task, tracing: Tracing) -> Span:
    """Return the span for a call of a handler. It begins when the handler begins."""
    endpoint, context = task.active.endpoint, partition.context
    topic, offset, parent = context.topics.queue, -1, b""
    if rows.is_timer(task.without):
        parent = partition.transmission.carried.of_timer(task.active.identity, rows.timer_of(task.without))
    elif isinstance(item, Recorded):
        topic, offset, parent = item.topic, item.offset, item.trace
    message = item.envelope if isinstance(item, Arrival) and task.codec is not None else None
    handled = Handled(
        context.name, topic, partition.number, offset, uuid_text(endpoint.conversation), endpoint.contract, endpoint.peer, task.handler.name,
        item.attempts + 1,
        *(() if message is None else (message.message_type, message.seq, len(message.body))),
    )  # fmt: skip
    return tracing.handling(handled, parent)


def traced(records: Sequence[Publication], span: Span) -> list[Publication]:
    """Return the records that a handler publishes, with the trace context of its span. A record with one of its own keeps it."""
    ours = headers_of(span.trace)
    return [
        record
        if any(name == PARENT for name, _ in record[4] or ())
        else (*record[:4], [*(record[4] or ()), *ours] or None)
        for record in records
    ]
