"""Decodes records of the events topic for operators' tools. Many programs write to this topic, so a record may be anything."""

from __future__ import annotations

from collections.abc import Iterable

from conversations.ports import Record
from conversations.protocol.events import Event, decode_event
from conversations_ops.operate.left_out import LeftOut, place_of


def understood(records: Iterable[Record]) -> list[Event]:
    """Return the events that this version knows, in order.

    Events of unknown names are left out. Records that are not valid events are left out with a warning.
    """
    found: list[Event] = []
    left_out: LeftOut | None = None
    for record in records:
        try:
            event = decode_event(record.value())
        except (ValueError, RecursionError) as error:
            left_out = left_out or LeftOut(record.topic())
            left_out.add(place_of(record.partition(), record.offset()), error)
        else:
            if event is not None:
                found.append(event)
    if left_out is not None:
        left_out.tell()
    return found
