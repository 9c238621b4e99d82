"""Tells from the file of the read model which queues are on, and what waits for them."""

from __future__ import annotations

from conversations.protocol import rows
from conversations.protocol.partition_row import PartitionRow, decode_partition
from conversations.protocol.topics import STATE
from conversations_ops.operate.queues import Queue
from conversations_ops.read_model.file import File


def queues(file: File, service: str) -> list[Queue]:
    """Return the queue of each partition of a service, ordered by partition."""
    with file.explained():
        ask = file.connection.execute
        waits = {number: tuple(rest) for number, *rest in ask(_WAITS, (service,))}
        return [
            _queue(service, number, partition_row(value), waits.get(number, (0, 0, None)))
            for number, value in ask(_PARTITIONS, (rows.PARTITION, service, STATE))
        ]


def command_positions(file: File, service: str) -> dict[int, int]:
    """Return the position of each partition of a service in its commands topic, as its row has it: all commands before it are taken."""
    with file.explained():
        found = file.connection.execute(_PARTITIONS, (rows.PARTITION, service, STATE))
        return {number: partition_row(value).commands for number, value in found}


_PARTITIONS = """
SELECT p.partition, r.value FROM places p
LEFT JOIN rows r ON r.service = p.service AND r.partition = p.partition AND r.key = ?
WHERE p.service = ? AND p.kind = ? ORDER BY p.partition
"""
_WAITS = """
SELECT partition, count(*), CAST(total(behind + (number >= 0)) AS INTEGER), min(deadline) FROM parked INDEXED BY parked_by_queue WHERE service = ? AND queue_off GROUP BY partition
"""


def _queue(service: str, number: int, row: PartitionRow, waits: tuple[int, ...]) -> Queue:
    dialogs, messages, deadline = waits
    return Queue(
        service, number, row.off, row.off_since, row.off_by, row.off_reason, row.rollbacks, dialogs, messages, deadline
    )  # fmt: skip


def partition_row(value: bytes | None) -> PartitionRow:
    """Return the row of a partition. Without a row, the queue is on; the queue of a row that cannot be read is ``unreadable``."""
    if value is None:
        return PartitionRow()
    try:
        return decode_partition(value)
    except (ValueError, LookupError):
        return PartitionRow(off="unreadable")
