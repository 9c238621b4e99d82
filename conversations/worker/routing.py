"""From what was polled to the partitions: as much as a step takes on, the rest for the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from conversations.errors import StateDamaged
from conversations.ports import Record
from conversations.worker import intake
from conversations.worker.owner import Owner
from conversations.worker.partition import Partition


def route(
    owner: Owner,
    partitions: Mapping[int, Partition],
    records: Sequence[Record],
    damaged: Callable[[StateDamaged], None],
) -> list[Record]:
    """Give each record to its partition; return those that this step does not take on.

    ``damaged`` is told at once of a partition that must be set aside: the records of others are read and must be taken.
    """
    careful, budget = owner.breakdowns.careful, owner.budget
    begun: set[int] = set()
    left: list[Record] = []
    records = _unread_first(partitions.values(), records)
    for at, record in enumerate(records):
        partition = partitions.get(record.partition())
        if partition is None:
            continue  # given back since it was read; its next owner reads it again
        if not at % budget.LOOK_EVERY and budget.is_read():
            left += records[at:]
            break
        if careful and partition.number in begun:
            left.append(record)
            continue
        try:
            _give(partition, record)
        except StateDamaged as error:
            damaged(error)
        if partition.number in careful:
            begun.add(partition.number)
    return left


def _give(partition: Partition, record: Record) -> None:
    if record.topic() != partition.owner.queue_topic:
        intake.take_command(partition, record)
    elif partition.paused:
        partition.unread.append(record)
        partition.is_behind = True
    else:
        intake.take(partition, record)


def leave(partitions: Mapping[int, Partition], records: Iterable[Record]) -> None:
    """Note that these records are at hand and not taken."""
    for number in {record.partition() for record in records} & partitions.keys():
        partitions[number].is_behind = True


def _unread_first(partitions: Iterable[Partition], records: Sequence[Record]) -> Sequence[Record]:
    """Put before ``records`` what was kept of partitions whose input flows again."""
    for partition in partitions:
        partition.is_behind = bool(partition.unread) and partition.paused
        if partition.unread and not partition.paused:
            records, partition.unread = [*partition.unread, *records], []
    return records
