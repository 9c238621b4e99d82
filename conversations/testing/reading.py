"""Reading of topics in memory: the current rows of a state topic, endpoints and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conversations.memory.broker import MemoryBroker
from conversations.memory.record import MemoryRecord
from conversations.protocol import letters, rows
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.topics import DEAD_LETTER, STATE, service_topic


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, with the bytes of its record."""

    reason: str
    """Reason of the letter, for example "handler-failed"; see ``conversations.protocol.letters``."""
    exception: str
    """Class of the exception that the handler raised, with its module; empty if no handler failed."""
    message: str
    """Text of the exception."""
    code: int
    """Code of the error that the peer got, 0 if it got no error."""
    attempts: int
    conversation: str
    from_initiator: bool
    sequence: int
    message_type: str
    value: bytes
    """Bytes of the record as it was sent."""
    is_uncertain: bool = False
    """True if this side sent the message, and does not know whether the peer has accepted it."""
    fragments: int = 1
    """Number of records in which the message came; ``value`` is the whole message."""


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """One committed record of a plain topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def published(broker: MemoryBroker, topic: str) -> list[PublishedRecord]:
    """Return the committed records of a plain topic, oldest first in each partition."""
    return [
        PublishedRecord(record.partition(), record.key(), record.value(), list(record.headers() or ()))
        for record in visible(broker, topic)
    ]


def visible(broker: MemoryBroker, topic: str) -> Iterator[MemoryRecord]:
    """Yield the committed records of a topic, partition by partition."""
    for partition in broker.topics[topic]:
        yield from (record for record in partition if record.visible)


def state_of(broker: MemoryBroker, service: str) -> list[dict[bytes, bytes]]:
    """Return the current rows of each state partition of a service."""
    found = []
    for partition in broker.topics[service_topic(broker.namespace, service, STATE)]:
        table: dict[bytes, bytes] = {}
        for record in partition:
            if not record.visible:
                continue
            key, value = record.key() or b"", record.value()
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        found.append(table)
    return found


def endpoints(broker: MemoryBroker, service: str) -> dict[bytes, Endpoint | rows.Tombstone]:
    """Return the endpoints of a service, and the tombstones of closed endpoints, by identity."""
    return endpoints_of(state_of(broker, service), service)


def endpoints_of(tables: Sequence[dict[bytes, bytes]], service: str) -> dict[bytes, Endpoint | rows.Tombstone]:
    """Return the endpoints and tombstones of a service, by identity. ``tables`` is the result of ``state_of`` for the service."""
    found: dict[bytes, Endpoint | rows.Tombstone] = {}
    for table in tables:
        for key, row in table.items():
            if key.startswith(rows.ENDPOINT):
                closed = rows.is_tombstone(row)
                found[key[1:]] = (
                    rows.decode_tombstone(row) if closed else rows.decode_endpoint(key[1:], row, service)[0]
                )
    return found


def dead_letters(broker: MemoryBroker, service: str) -> list[DeadLetter]:
    """Return the dead letters of a service, oldest first in each partition."""
    return [_letter(record) for record in visible(broker, service_topic(broker.namespace, service, DEAD_LETTER))]


def _letter(record: MemoryRecord) -> DeadLetter:
    headers = {name: value.decode() for name, value in record.headers() or () if not name.startswith(letters.ORIGINAL)}
    return DeadLetter(
        reason=headers[letters.REASON],
        exception=headers.get(letters.EXCEPTION, ""),
        message=headers.get(letters.EXCEPTION_MESSAGE, ""),
        code=int(headers.get(letters.CODE, "0")),
        attempts=int(headers.get(letters.ATTEMPTS, "0")),
        conversation=headers.get(letters.CONVERSATION, ""),
        from_initiator=headers.get(letters.FROM_INITIATOR) == "true",
        sequence=int(headers.get(letters.SEQUENCE, "-1")),
        message_type=headers.get(letters.MESSAGE_TYPE, ""),
        value=record.value() or b"",
        is_uncertain=letters.UNCERTAIN in headers,
        fragments=int(headers.get(letters.FRAGMENTS, "1")),
    )
