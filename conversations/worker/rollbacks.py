"""Rollbacks: steps that failed outside a handler. Of a failed step, only the number of consecutive rollbacks is committed."""

from __future__ import annotations

import logging

from conversations.errors import DestinationFailed, Fenced, Interrupted, LogError, StateDamaged
from conversations.ports import Produced
from conversations.protocol import rows
from conversations.protocol.partition_row import decode_partition, encode_partition
from conversations.worker import queue_switch
from conversations.worker.partition import Partition

log = logging.getLogger("conversations.worker")


def count(partition: Partition, failure: BaseException) -> None:
    """Count a rollback in the partition's row. At the limit (``settings.rollbacks``) the partition's queue is turned off.

    The worker ends after this step; the next owner of the partition reads the row. If Kafka does not accept the commit, the rollback is not
    counted. Damaged state is not a rollback: its partition is set aside. A failure of the polling thread belongs to no partition, and is
    not counted.
    """
    stored = partition.outbox.store.get(rows.PARTITION)
    if stored is None or partition.gone or partition.outbox.flying is not None or isinstance(failure, StateDamaged):
        return
    context, row = partition.context, decode_partition(stored)
    partition.progress.restore(row)
    partition.progress.rolled_back()
    limit, was_on = context.settings.rollbacks, not row.off
    records: list[Produced] = []
    if limit is not None and row.rollbacks >= limit and was_on:
        by = f"{row.rollbacks} rollbacks in a row"
        queue_switch.note(partition, queue_switch.ROLLBACKS, by, f"{type(failure).__name__}: {failure}")
        records.append(queue_switch.disabled(partition))
    records.append((context.topics.state, partition.number, rows.PARTITION, encode_partition(row), None))
    try:
        context.connection.commit(records, {partition.number: row.queue})
    except (LogError, Fenced, Interrupted, DestinationFailed) as error:
        log.warning("the rollback of partition %d was not counted: %s", partition.number, error)
        return
    if row.off and was_on:
        queue_switch.tell(partition)
