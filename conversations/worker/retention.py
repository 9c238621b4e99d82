"""Retention: rows of closed dialogs, of commands and of letters are forgotten, and ticks advance log time.

Tombstones and rows of commands make repeated records harmless. So these rows must stay until no repeated record is left in the log. Only
log time decides when these rows are forgotten. Log time moves when records of the queue are read. On a queue that nobody writes to, log
time stands still. Then a partition with tombstones writes a **tick** to its own commands from time to time. A tick takes effect only if
everything in the queue was read.
"""

from __future__ import annotations

from conversations.errors import KafkaUnreachable
from conversations.protocol import rows
from conversations.protocol.command import Tick, encode_command, to_partition
from conversations.protocol.topics import QUEUE
from conversations.worker.partition import Partition

SWEEP = 2_000
"""Maximum number of rows of each kind that one step forgets."""


def sweep(partition: Partition) -> None:
    """Forget tombstones, commands and letters whose time has passed, by log time."""
    _hear_tick(partition)
    log_time = partition.progress.row.queue_time
    for key in partition.schedule.tombstones.take(log_time, SWEEP):
        row = partition.outbox.read(key)
        if row is None or not rows.is_tombstone(row):
            continue
        if key[1:] in partition.transmission.returning:  # its rows are no answers that nobody needs
            partition.schedule.tombstones.add(log_time + partition.context.periods.grace, key)
            continue
        tombstone = partition.outbox.decoded(key, rows.decode_tombstone, row)
        partition.outbox.write(key, None)
        partition.transmission.forget(key[1:], answers=True)  # only answers are left, which no peer needs any more
        partition.actives.pop(rows.other_side(key[1:]), None)
        partition.groups.leave(tombstone.origin, tombstone.key, key[1:])
    for passing in (partition.schedule.commands, partition.schedule.letters):
        for key in passing.take(log_time, SWEEP):
            if partition.pieces.is_used(key):
                passing.add(log_time + partition.context.periods.command_life, key)
                continue
            partition.outbox.write(key, None)
            partition.pieces.forget(key)
    partition.schedule.deadlines.trim(partition.is_open)
    _tick(partition)


def _hear_tick(partition: Partition) -> None:
    """If a tick has arrived and everything in the queue was read, advance log time to the time of the tick."""
    heard = partition.schedule.take_tick()
    if heard <= partition.progress.row.queue_time:
        return
    try:
        end = partition.context.connection.end(QUEUE, partition.number)
    except KafkaUnreachable:
        return  # another tick follows later
    if end <= partition.read_to():
        partition.progress.pass_time(heard)


def _tick(partition: Partition) -> None:
    """Write a tick if tombstones or pieces wait to be forgotten, and the queue has been idle for ``Periods.tick_after``."""
    context, now = partition.context, partition.context.now
    if not partition.schedule.wants_tick(
        now, partition.progress.row.queue_time, context.periods.tick_after, more=partition.pieces.bytes > 0
    ):
        return
    where = partition.number, context.destinations.partitions(context.name) or 1
    command = to_partition(where, Tick(), context.name, context.new_conversation(), now)
    record = context.topics.commands, partition.number, command.key.encode(), encode_command(command), None
    partition.outbox.produce(record)
