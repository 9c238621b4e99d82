"""Closing a step of a partition, and closing the partition itself: what fails here is found, or a human's."""

from __future__ import annotations

import logging

from conversations.errors import DestinationFailed, Fenced, Interrupted, LogError, StateDamaged
from conversations.protocol import rows
from conversations.worker import collecting
from conversations.worker.breakdowns import NOT_A_RECORDS, text_of
from conversations.worker.partition import Partition

log = logging.getLogger("conversations.worker")


def collect(partition: Partition) -> bool:
    """Close the step of a partition; False when there is nothing to commit, or it must not be."""
    owner = partition.owner
    if partition.number in owner.breakdowns.broken:
        return False
    try:
        collected = collecting.collect(partition)
    except StateDamaged as error:
        owner.breakdowns.fail(error)  # not raised before the others are committed, which are collected already
        return False
    except NOT_A_RECORDS:
        raise
    except Exception as error:  # noqa: BLE001 - it is a record's, which is to be found
        if partition.number in owner.breakdowns.careful and partition.outbox.at_work is None:
            damage = StateDamaged(partition.number, f"it cannot be committed: {text_of(error)}")
            owner.breakdowns.fail(damage)
        else:
            owner.breakdowns.blame_collected(partition, error)
        return False
    owner.breakdowns.collected(partition.number)
    return collected


def tell_aside(partition: Partition, why: str, position: int) -> None:
    """Report a partition that was set aside; the group's offset is only the fence: the partition's row is not touched."""
    log.error("partition %d of %s is set aside: %s", partition.number, partition.owner.name, why)
    record = partition.letters.event_record("PARTITION_SET_ASIDE", why=why)
    try:
        partition.owner.log.commit([record], {partition.number: position})
    except (Fenced, Interrupted, DestinationFailed) as error:
        log.warning("the event could not be published: %s", error)


def written_to(partition: Partition) -> int:
    """Return the queue offset in the partition's row as it is committed; its store must be open.

    Memory may be ahead of the row. An offset that is ahead of it would say that records are missing.
    """
    try:
        row = partition.outbox.store.get(rows.PARTITION)
        return 0 if row is None else rows.decode_partition(row).queue
    except (ValueError, LogError):
        return 0  # what is in memory may be ahead, and would be taken for a loss of records
