"""Decodes records of the events topic for operators' tools. Many programs write to this topic, so a record may be anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Ends
from conversations.ports import Record
from conversations.protocol.events import Event, decode_event
from conversations.protocol.topics import events_topic
from conversations_ops.operate.left_out import LeftOut, place_of
from conversations_ops.operate.state import PATIENCE, services

POLL = 1.0
"""Seconds to wait for the next event."""


class Told(NamedTuple):
    """One event as its record has it."""

    at: int
    """Microseconds since 1970."""
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the event."""
        return str(self.fields["event"])

    @property
    def service(self) -> str:
        """Service that the event names; empty if it names none."""
        return str(self.fields.get("service", ""))

    @property
    def dialogs(self) -> tuple[str, ...]:
        """Dialogs that the event is about."""
        return tuple(str(self.fields[name]) for name in ("conversation", "dialog") if name in self.fields)

    @property
    def says(self) -> str:
        """The other fields."""
        shown = ("event", "service", "at", "conversation", "dialog")
        rest = {name: value for name, value in self.fields.items() if name not in shown}
        return ", ".join(
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items()
        )


def told(kafka: Kafka, service: str = "", *, follow: bool = False) -> Iterator[list[Told]]:
    """Yield the events so far, the oldest first. With ``follow``, yield later events as they come, without an end.

    Records that are not valid events are left out with a warning.

    Raises:
        DeclarationError: there is no service of this name.
        LogError: the topic cannot be read.
    """
    if service:
        services(kafka, service)
    else:
        read_catalog(kafka)  # says that the namespace is wrong
    with Follower(kafka, [events_topic(kafka.namespace)]) as follower:
        yield sorted(_told(follower.to_the_end(PATIENCE)), key=lambda it: it.at)
        while follow:
            yield _told(follower.poll(POLL))


def lately(kafka: Kafka, name: str, after: int) -> list[Told]:
    """Return the events of one name that were written at this time or later, the oldest first.

    Args:
        kafka: the cluster and namespace.
        name: name of the events.
        after: microseconds since 1970.

    Raises:
        LogError: the topic cannot be read.
    """
    topic = events_topic(kafka.namespace)
    begin = Ends(kafka, [topic]).since(after // 1_000)
    with Follower(kafka, [topic], begin) as follower:
        found = _told(follower.to_the_end(PATIENCE))
    return sorted((it for it in found if it.name == name), key=lambda it: it.at)


def _told(records: Iterable[Record]) -> list[Told]:
    return [it for _, it in told_in(records)]


def told_in(records: Iterable[Record]) -> list[tuple[Record, Told]]:
    """Return the records that are valid events, each with what it tells. Other records are left out with a warning."""
    return [(record, _one(record)) for record, _ in _decoded(records)]


def _one(record: Record) -> Told:
    fields = json.loads(record.value() or b"")
    at = fields.get("at")
    return Told(at if type(at) is int else record.timestamp()[1] * 1_000, fields)


def understood(records: Iterable[Record]) -> list[Event]:
    """Return the events that this version knows, in order.

    Events of unknown names are left out. Records that are not valid events are left out with a warning.
    """
    return [event for _, event in _decoded(records) if event is not None]


def _decoded(records: Iterable[Record]) -> list[tuple[Record, Event | None]]:
    """Return the records that are valid events, each with its event; None for an event of an unknown name."""
    found: list[tuple[Record, Event | None]] = []
    left_out: LeftOut | None = None
    for record in records:
        try:
            found.append((record, decode_event(record.value())))
        except (ValueError, RecursionError) as error:
            left_out = left_out or LeftOut(record.topic())
            left_out.add(place_of(record.partition(), record.offset()), error)
    if left_out is not None:
        left_out.tell()
    return found
