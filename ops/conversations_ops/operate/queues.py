"""Shows which queues of services are on and how many messages wait for them, and turns queues on and off."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.protocol import rows
from conversations.protocol.command import Switch, to_partition
from conversations.protocol.parked import NEEDED
from conversations.protocol.partition_row import PartitionRow, decode_partition
from conversations.protocol.topics import STATE, service_topic
from conversations_ops.operate.commands import Answer, ask
from conversations_ops.operate.left_out import LeftOut
from conversations_ops.operate.parked import parked_in
from conversations_ops.operate.state import services, tables


class Queue(NamedTuple):
    """The queue of one partition of a service."""

    service: str
    partition: int
    off: str
    """Why the queue is off: ``operator``, ``policy`` or ``rollbacks``; empty while it is on.

    ``unreadable`` if the partition's row is damaged.
    """
    since: int
    """Time when the queue went off, microseconds since 1970; 0 while it is on."""
    by: str
    reason: str
    rollbacks: int
    """Number of consecutive steps that failed outside a handler."""
    dialogs: int
    """Number of dialogs that wait until the queue is on."""
    messages: int
    """Number of records that wait in these dialogs."""
    deadline: int | None = None
    """Time at which the lifetime of the first of these dialogs ends, microseconds since 1970; None if none of them ends.

    Then the records that wait in this dialog become dead letters.
    """


def queues(kafka: Kafka, service: str = "") -> list[Queue]:
    """List the queues of all partitions, ordered by service and partition.

    Args:
        kafka: the cluster and namespace.
        service: list only queues of this service. If it is empty, list the queues of all services in the catalog.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    catalog = read_catalog(kafka)
    return [queue for name in services(kafka, service) for queue in _of(kafka, name, catalog.partitions(name) or 0)]


def turn(kafka: Kafka, service: str, operation: Switch, by: str, wait: float) -> list[Answer]:
    """Turn the queue of every partition on or off, and return the owners' answers.

    Raises:
        Refused: an owner refused the command.
        LogError: Kafka did not accept the commands, or an owner did not answer within ``wait`` seconds. An owner
            that did not answer may still carry out the command later.
    """
    count = read_catalog(kafka).partitions(service) or 0
    now = time.time_ns() // 1_000
    return ask(
        kafka,
        service,
        [to_partition((number, count), operation, by, os.urandom(16), now) for number in range(count)],
        wait,
    )


def _of(kafka: Kafka, service: str, count: int) -> list[Queue]:
    found = tables(kafka, service, (rows.PARTITION, *NEEDED))
    return [_queue(kafka, found.get(number, {}), service, number) for number in range(count)]


def _queue(kafka: Kafka, table: dict[bytes, bytes], service: str, number: int) -> Queue:
    row = _row(kafka, table.get(rows.PARTITION), service, number)
    waits = [it for it in parked_in(table, kafka, service, number) if it.queue_off]
    return Queue(
        service, number, row.off, row.off_since, row.off_by, row.off_reason, row.rollbacks,
        len(waits), sum(it.behind + (it.number >= 0) for it in waits),
        min((it.deadline for it in waits if it.deadline is not None), default=None),
    )  # fmt: skip


def _row(kafka: Kafka, data: bytes | None, service: str, number: int) -> PartitionRow:
    if data is None:
        return PartitionRow()
    try:
        return decode_partition(data)
    except (ValueError, LookupError) as error:
        left_out = LeftOut(service_topic(kafka.namespace, service, STATE))
        left_out.add(f"the row of partition {number}", error)
        left_out.tell()
        return PartitionRow(off="unreadable")
