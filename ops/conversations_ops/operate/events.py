"""Events, as commands read them. Many programs write to the topic, so any record may be something else."""

from __future__ import annotations

from collections.abc import Iterable

from conversations.ports import Record
from conversations.protocol.events import Event, decode_event
from conversations_ops.operate.left_out import LeftOut, place_of


def understood(records: Iterable[Record]) -> list[Event]:
    """Read the events that this version knows, in order; any other record is left out with a warning."""
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
