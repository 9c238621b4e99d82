"""Writes and reads the records that operators' tools share: redrives, and notes on groups. They are JSON, and the topic is compacted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.appending import append
from conversations.kafka.clients import describe_topics, make_admin
from conversations.ports import Record
from conversations.protocol.topics import operators_topic

PART = 512 * 1024
"""Size of a record, in bytes, at which a long list goes on in another record."""


class Written(NamedTuple):
    """A record of the topic."""

    offset: int
    key: str
    fields: Mapping[str, Any]
    """Empty for a record that deletes its key, and for a record that is no JSON object."""


def written(records: Iterable[Record]) -> list[Written]:
    """Return the records whose key is text."""
    found = []
    for it in records:
        with suppress(UnicodeDecodeError):
            found.append(Written(it.offset() or 0, (it.key() or b"").decode(), fields_of(it.value())))
    return found


def fields_of(value: bytes | str | None) -> Mapping[str, Any]:
    """Return the fields of a record. A record that is no JSON object has none, because any program may have written it."""
    try:
        fields = json.loads(value or b"")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def existing(kafka: Kafka) -> str:
    """Return the name of the topic. Without this check, a broker may make a missing topic, with other settings.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the topic is missing, or the right to write it.
    """
    topic = operators_topic(kafka.namespace)
    if describe_topics(make_admin(kafka), kafka, [topic], need="WRITE")[topic] is None:
        raise LogError(f"no topic {topic!r}: run 'conversations apply'")
    return topic


def encoded(records: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values as the topic has them."""
    for key, fields in records:
        yield key.encode(), json.dumps(fields, separators=(",", ":")).encode()


def write(kafka: Kafka, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Write records, and return when Kafka has acknowledged them.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the topic is missing, or Kafka refused a record.
    """
    append(kafka, existing(kafka), list(encoded(records)))
