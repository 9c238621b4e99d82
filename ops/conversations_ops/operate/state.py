"""Reads the current rows of the state topics of services."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.kafka.catalog import read_catalog, with_topics
from conversations.kafka.follow import Follower
from conversations.protocol.topics import STATE, service_topic

PATIENCE = 120.0
"""Seconds that reading one topic to its end may take."""


def services(kafka: Kafka, wanted: str = "") -> Sequence[str]:
    """Return the services of a namespace whose topics exist, and log a warning for each service without topics.

    If ``wanted`` is given, return only this service, without a check of its topics.

    Raises:
        DeclarationError: the catalog has no service ``wanted``.
        LogError: the catalog cannot be read.
    """
    known = sorted(read_catalog(kafka).services)
    if wanted and wanted not in known:
        raise DeclarationError(
            f"there is no service {wanted!r} in namespace {kafka.namespace!r}; its services are {known}"
        )
    return [wanted] if wanted else with_topics(kafka, known)


def tables(
    kafka: Kafka, service: str, kinds: Sequence[bytes], wanted: Callable[[bytes], bool] | None = None
) -> dict[int, dict[bytes, bytes]]:
    """Return the current rows of the given kinds, by partition and key. ``wanted`` may leave out keys, so that fewer rows are in memory.

    Raises:
        LogError: the topic cannot be read.
    """
    found: dict[int, dict[bytes, bytes]] = defaultdict(dict)
    with Follower(kafka, [service_topic(kafka.namespace, service, STATE)]) as follower:
        for records in follower.parts_to_the_end(PATIENCE):
            for record in records:
                key, value, table = record.key() or b"", record.value(), found[record.partition()]
                if key[:1] not in kinds or (wanted is not None and not wanted(key)):
                    continue
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
    return found
