"""Which messages failed and wait, of which services."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.kafka.catalog import read_catalog
from conversations.kafka.follow import Follower
from conversations.protocol.parked import Parked, merge, parked
from conversations.protocol.topics import STATE, service_topic

PATIENCE = 120.0
"""Seconds the reading of one service's state may take."""


def services(kafka: Kafka, wanted: str = "") -> Sequence[str]:
    """Name the services of a namespace, or only the wanted one.

    Raises:
        DeclarationError: there is no such service.
        LogError: the catalog cannot be read.
    """
    known = sorted(read_catalog(kafka).services)
    if wanted and wanted not in known:
        raise DeclarationError(f"there is no service {wanted!r} in namespace {kafka.namespace!r}; there is: {known}")
    return [wanted] if wanted else known


def waiting(kafka: Kafka, service: str = "") -> list[Parked]:
    """List what waits for its next attempt, or for an operator, longest waiting first.

    Args:
        kafka: where.
        service: of this one only; empty: of all in the catalog.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    found = [it for name in services(kafka, service) for it in _of(kafka, name)]
    return sorted(found, key=lambda it: (it.since, it.letter))


def find(kafka: Kafka, letter: str) -> Parked:
    """Return the one that operators call so.

    Raises:
        LookupError: nothing of this name waits (any more).
        LogError: a topic cannot be read.
    """
    service = letter.rpartition(".")[0]
    try:
        candidates = waiting(kafka, service) if service else []
    except DeclarationError as error:
        raise LookupError(str(error)) from error
    found = next((it for it in candidates if it.letter == letter), None)
    if found is None:
        raise LookupError(
            f"{letter} does not wait, or not any more: 'conversations dead-letters list' shows what does, "
            "'conversations retries list' what is tried again by itself"
        )
    return found


def _of(kafka: Kafka, service: str) -> list[Parked]:
    tables: dict[int, dict[bytes, bytes]] = defaultdict(dict)
    with Follower(kafka, [service_topic(kafka.namespace, service, STATE)]) as follower:
        for records in follower.parts_to_the_end(PATIENCE):
            for record in records:
                merge([(record.key() or b"", record.value())], tables[record.partition()])
    return [it for number, table in tables.items() for it in parked(table, service, number)]
