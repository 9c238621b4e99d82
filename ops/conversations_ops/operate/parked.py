"""Reads the parked messages of services. Each of them waits for its next attempt, for an operator, or for its queue to be on."""

from __future__ import annotations

from collections.abc import Mapping

from conversations.config import Kafka
from conversations.protocol.parked import NEEDED, Parked, parked
from conversations.protocol.topics import STATE, service_topic
from conversations_ops.operate.left_out import LeftOut
from conversations_ops.operate.state import services, tables


def parked_messages(kafka: Kafka, service: str = "") -> list[Parked]:
    """List the parked messages of services, the longest parked first.

    Args:
        kafka: the cluster and namespace.
        service: list only messages of this service. If it is empty, list the messages of all services in the catalog.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    found = [it for name in services(kafka, service) for it in _of(kafka, name)]
    return sorted(found, key=lambda it: (it.since, it.letter))


def _of(kafka: Kafka, service: str) -> list[Parked]:
    found = tables(kafka, service, NEEDED)
    return [it for number, table in found.items() for it in parked_in(table, kafka, service, number)]


def parked_in(table: Mapping[bytes, bytes], kafka: Kafka, service: str, partition: int) -> list[Parked]:
    """List the parked messages of a partition from the rows in ``table``. Leave out unreadable rows, and log a warning."""
    left_out = LeftOut(service_topic(kafka.namespace, service, STATE))
    found = parked(
        table, service, partition, lambda key, why: left_out.add(f"partition {partition} row {key.hex()}", why)
    )
    left_out.tell()
    return found
