"""Closing the step of a partition: the record that makes it fail is found."""

from __future__ import annotations

from conversations.errors import StateDamaged
from conversations.worker import departure
from conversations.worker.partition import Partition
from conversations.worker.quarantine import NOT_A_RECORDS, text_of


def collect(partition: Partition) -> bool:
    """Close the step of a partition; False when there is nothing to commit, or it must not be."""
    context = partition.context
    if partition.number in context.breakdowns.broken:
        return False
    try:
        collected = departure.collect(partition)
    except StateDamaged as error:
        context.breakdowns.fail(error)  # not raised before the others are committed, which are collected already
        return False
    except NOT_A_RECORDS:
        raise
    except Exception as error:  # noqa: BLE001 - it is a record's, which is to be found
        if partition.number in context.breakdowns.careful and partition.outbox.at_work is None:
            damage = StateDamaged(partition.number, f"it cannot be committed: {text_of(error)}")
            context.breakdowns.fail(damage)
        else:
            at_work = partition.outbox.at_work
            context.breakdowns.blame_collected(partition.number, "" if at_work is None else at_work.name, error)
        return False
    context.breakdowns.collected(partition.number)
    return collected
