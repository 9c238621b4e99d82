"""The current rows of services' state topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.kafka.catalog import read_catalog, with_topics
from conversations.kafka.follow import Follower
from conversations.protocol.topics import STATE, service_topic

PATIENCE = 120.0
"""Seconds that reading the state of one service may take."""


def services(kafka: Kafka, wanted: str = "") -> Sequence[str]:
    """Name the services of a namespace that have topics, with a warning about the others; or only the wanted service.

    Raises:
        DeclarationError: there is no such service.
        LogError: the catalog cannot be read.
    """
    known = sorted(read_catalog(kafka).services)
    if wanted and wanted not in known:
        raise DeclarationError(f"there is no service {wanted!r} in namespace {kafka.namespace!r}; there is: {known}")
    return [wanted] if wanted else with_topics(kafka, known)


def tables(kafka: Kafka, service: str, kinds: Sequence[bytes]) -> dict[int, dict[bytes, bytes]]:
    """Read the rows of some kinds, by partition.

    Raises:
        LogError: the topic cannot be read.
    """
    found: dict[int, dict[bytes, bytes]] = defaultdict(dict)
    with Follower(kafka, [service_topic(kafka.namespace, service, STATE)]) as follower:
        for records in follower.parts_to_the_end(PATIENCE):
            for record in records:
                key, value, table = record.key() or b"", record.value(), found[record.partition()]
                if key[:1] not in kinds:
                    continue
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
    return found
