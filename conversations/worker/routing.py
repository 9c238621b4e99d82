"""Routing: gives the records of a poll to their partitions. Records for which the step has no room are left for the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from conversations.errors import StateDamaged
from conversations.ports import Record
from conversations.protocol.topics import QUEUE
from conversations.worker import intake
from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.suspicion import Suspicion


def route(
    context: Context,
    partitions: Mapping[int, Partition],
    records: Sequence[Record],
    damaged: Callable[[StateDamaged], None],
) -> list[Record]:
    """Give each record to its partition; return the records that are left for the next step.

    ``damaged`` is called at once if the state of a partition is damaged. The records of the other partitions are still routed.
    """
    careful, budget, queue = context.breakdowns.careful, context.budget, context.topics.queue
    begun: set[int] = set()
    left: list[Record] = []
    records = _unread_first(partitions.values(), records)
    for at, record in enumerate(records):
        partition = partitions.get(record.partition())
        if partition is None:
            continue  # its partition was given back; the next owner reads the record again
        if not at % budget.LOOK_EVERY and (budget.is_read() or budget.is_flooded()):
            left += records[at:]
            break
        if careful and partition.number in begun:
            left.append(record)
            continue
        try:
            if partition.work.suspicion is None and not partition.input.paused and record.topic() == queue:
                intake.take(partition, record)  # nearly all records come here
            elif not _give(partition, record):
                left.append(record)
        except StateDamaged as error:
            damaged(error)
        if partition.number in careful:
            begun.add(partition.number)
    for partition in partitions.values():
        if partition.work.suspicion is not None and not partition.gone:
            _look_at_waiting(partition, partition.work.suspicion)
    return left


def _give(partition: Partition, record: Record) -> bool:
    """Put a record into a lane, set it aside, or let it wait. Return False if too many records wait already."""
    suspicion = partition.work.suspicion
    if suspicion is not None and _is_suspect(partition, suspicion, record):
        if _waiting(partition, suspicion, record):
            return _let_wait(partition, suspicion, record)  # earlier records of the same topic wait
        left = suspicion.left
        if why := suspicion.killed_untaken(record):
            intake.set_untaken_aside(partition, record, why)
        elif not suspicion.may_take(record):
            return _let_wait(partition, suspicion, record)
        else:
            _take(partition, record)
        suspicion.taken(record, waits=suspicion.left > left)
    elif partition.input.paused and record.topic() == partition.context.topics.queue:
        partition.input.keep(record)
    else:
        _take(partition, record)
    return True


def _take(partition: Partition, record: Record) -> None:
    if record.topic() != partition.context.topics.queue:
        intake.take_command(partition, record)
    else:
        intake.take(partition, record)


def _is_suspect(partition: Partition, suspicion: Suspicion, record: Record) -> bool:
    """Return True if a record is announced, is from before an unclean start, or comes after a record that waits."""
    if suspicion.may_take(record):
        return True
    if record.topic() != partition.context.topics.queue:
        is_old = partition.progress.is_from_before(record.topic(), record.offset())
        return is_old or bool(suspicion.taking.of(record.topic()))
    if partition.input.paused:
        return False
    return record.offset() < partition.progress.row.bound or bool(partition.input.unread)


def _waiting(partition: Partition, suspicion: Suspicion, record: Record) -> list[Record]:
    """Return the waiting records of the topic of a record."""
    is_queue = record.topic() == partition.context.topics.queue
    return partition.input.unread if is_queue else suspicion.taking.of(record.topic())


def _let_wait(partition: Partition, suspicion: Suspicion, record: Record) -> bool:
    waiting = _waiting(partition, suspicion, record)
    partition.input.leave()
    if len(waiting) >= partition.context.settings.batch:
        return False
    waiting.append(record)
    return True


def _look_at_waiting(partition: Partition, suspicion: Suspicion) -> None:
    """Ask for the announcement of the oldest waiting records.

    While records wait, the input from their topic is paused, and later records stay in Kafka.
    """
    taking, flows, log = suspicion.taking, not partition.input.paused, partition.context.connection
    suspicion.invite_records(*taking.waiting.values(), partition.input.unread if flows else ())
    holds = bool(partition.input.unread) and flows
    if taking.hold(QUEUE, holds=holds):
        if holds:
            log.pause(partition.number)
        elif flows:
            log.resume(partition.number)
    for kind, waiting in taking.waiting.items():
        if taking.hold(kind, holds=bool(waiting)):
            (log.pause if waiting else log.resume)(partition.number, kind)


def leave(partitions: Mapping[int, Partition], records: Iterable[Record]) -> None:
    """Note in the partitions that these records were read, and are left for a later step."""
    for number in {record.partition() for record in records} & partitions.keys():
        partitions[number].input.leave()


def _unread_first(partitions: Iterable[Partition], records: Sequence[Record]) -> Sequence[Record]:
    """Return ``records`` with the unread records, the waiting commands and the waiting decisions in front.

    A paused partition keeps its unread records, unless some records are announced.
    """
    for partition in partitions:
        suspicion = partition.work.suspicion
        taking = None if suspicion is None else suspicion.taking
        is_held = partition.input.paused and (taking is None or not taking.allowed)
        if unread := partition.input.flow(is_held=is_held):
            records = [*unread, *records]
        if taking is not None and taking.waits:
            records = [*taking.take_waiting(), *records]
    return records
