"""Closing the step of a partition. If the closing fails, the next steps find the record that causes the failure."""

from __future__ import annotations

from conversations.errors import StateDamaged
from conversations.worker import departure
from conversations.worker.partition import Partition
from conversations.worker.quarantine import NOT_A_RECORDS, text_of


def collect(partition: Partition) -> bool:
    """Close the step of a partition; return False if it has nothing to commit, or must not be committed."""
    context = partition.context
    if partition.number in context.breakdowns.broken:
        return False
    try:
        collected = departure.collect(partition)
    except StateDamaged as found:
        context.breakdowns.fail(found)  # it is raised later, after the commit of the partitions whose steps are closed
        return False
    except NOT_A_RECORDS:
        raise
    except Exception as error:  # noqa: BLE001 - a record causes the failure; the next steps find it
        if partition.number in context.breakdowns.careful and partition.outbox.at_work is None:
            damage = StateDamaged(partition.number, f"it cannot be committed: {text_of(error)}")
            context.breakdowns.fail(damage)
        else:
            at_work = partition.outbox.at_work
            context.breakdowns.blame_collected(partition.number, "" if at_work is None else at_work.name, error)
        return False
    context.breakdowns.collected(partition.number)
    return collected
