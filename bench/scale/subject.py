"""The measured service, and the rows that give it a million open dialogs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

from bench.contenders import our_loop
from bench.topics import Filling
from conversations import Kafka, Service
from conversations.kafka.admin import apply
from conversations.kafka.connection import KafkaConnection
from conversations.protocol import rows
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.partition_row import PartitionRow, encode_partition
from conversations.protocol.states import State
from conversations.protocol.topics import STATE, partition_of, service_topic

HOUR = 3600 * 1_000_000
GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835


def declare(kafka: Kafka, partitions: int) -> None:
    """Create the topics of the measured service and of its peer."""
    asking: Service[object] = Service(our_loop.ASKING)  # type: ignore[assignment]  # its state is not used
    apply(kafka, [asking.declaration(), our_loop.opaque_service().declaration()], partitions=partitions, replication=1)


def identifiers(count: int) -> Iterator[UUID]:
    """Return conversation ids: the same in every run, and spread over the space of ids."""
    return (UUID(int=number * GOLDEN % 2**128) for number in range(1, count + 1))


def partition_rows(kafka: Kafka, partitions: int, service: str = our_loop.ANSWERING) -> Iterator[Filling]:
    """Make the rows of partitions that were given back cleanly, with nothing read from their queues."""
    connection = KafkaConnection(kafka, service)
    ids = connection.topic_ids()
    topics = [service_topic(kafka.namespace, service, kind) for kind in ("queue", "commands", STATE)]
    queue, commands, state = (ids[topic] for topic in topics)
    row = PartitionRow(queue_id=queue, commands_id=commands, state_id=state, queue_time=_now())
    for partition in range(partitions):
        yield topics[2], partition, rows.PARTITION, encode_partition(row), None


def endpoint_rows(kafka: Kafka, count: int, versions: int, partitions: int) -> Iterator[Filling]:
    """Make rows of open dialogs that have had some messages. The first version of all rows comes first, then the second of all rows."""
    topic, now = service_topic(kafka.namespace, our_loop.ANSWERING, STATE), _now()
    kept = [(open_endpoint(name, now), partition_of(str(name).encode(), partitions)) for name in identifiers(count)]
    encoded = [rows.encode_constant(endpoint) for endpoint, _ in kept]
    for version in range(versions):
        for (endpoint, partition), constant in zip(kept, encoded, strict=True):
            endpoint.inbound.next = endpoint.next_out = version + 1
            endpoint.told = endpoint.acked = version
            key = rows.ENDPOINT + rows.identity(endpoint.conversation, initiator=False)
            yield topic, partition, key, rows.encode_endpoint(endpoint, constant), None


def tombstone_rows(kafka: Kafka, count: int, partitions: int) -> Iterator[Filling]:
    """Make rows of dialogs that are over and not forgotten yet."""
    topic, now = service_topic(kafka.namespace, our_loop.ANSWERING, STATE), _now()
    for number, name in enumerate(identifiers(count)):
        key = str(name)
        tombstone = rows.Tombstone(key, our_loop.ASKING, now + HOUR + number, 3, 3, 0, 0, told=True, code=0)
        row = rows.encode_tombstone(tombstone)
        yield topic, partition_of(key.encode(), partitions), rows.ENDPOINT + name.bytes + b"\0", row, None


def open_endpoint(name: UUID, now: int) -> Endpoint:
    """Return the target's endpoint of an open dialog, whose lifetime ends in about a day."""
    key = str(name)
    endpoint = Endpoint(
        name.bytes, initiator=False, contract="Orders", service=our_loop.ANSWERING, peer=our_loop.ASKING, key=key,
        peer_key=key, expires_at=now + 24 * HOUR + name.int % HOUR,
    )  # fmt: skip
    endpoint.started_until = now + HOUR
    endpoint.state = State.CONVERSING
    return endpoint


def _now() -> int:
    return time.time_ns() // 1_000
