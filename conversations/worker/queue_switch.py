"""The queue switch of a partition. While the queue is off, messages are accepted and kept in order, and no handler is called.

No record is refused, and senders notice nothing. Everything that would call a handler is parked until the queue is on. Acknowledgements,
errors, commands and lifetimes take effect meanwhile. Service Broker turns a queue off by itself after five consecutive rollbacks. In a
worker, the setting ``WorkerSettings.rollbacks`` is this number. If the setting is None, rollbacks do not turn a queue off.
"""

from __future__ import annotations

import logging

from conversations.ports import Produced
from conversations.protocol import events, letters
from conversations.protocol.park_row import QUEUE_ON
from conversations.queue_disabled import QueueDisabled
from conversations.worker.active import Item
from conversations.worker.partition import Partition

log = logging.getLogger("conversations.worker")

OPERATOR, POLICY, ROLLBACKS = "operator", "policy", "rollbacks"


def turn_off(partition: Partition, cause: str, by: str, reason: str, command: str | None = None) -> None:
    """Turn the queue off with the next transaction. If the queue is off already, the first cause stays."""
    row = partition.progress.row
    if not row.off:
        note(partition, cause, by, reason)
        partition.outbox.notify(lambda: tell(partition))
        log.error(
            "queue of %s, partition %d, is off: %s: %s", partition.context.name, partition.number, by, row.off_reason
        )
    partition.outbox.produce(disabled(partition, command))


def disabled(partition: Partition, command: str | None = None) -> Produced:
    """Make the record of the ``QueueDisabled`` event. ``command`` is the id of the command that turned the queue off, or None."""
    row = partition.progress.row
    return partition.letters.event_record(
        events.QueueDisabled(row.off, by=row.off_by, reason=row.off_reason, command=command)
    )


def turn_on(partition: Partition, by: str, reason: str, command: str) -> None:
    """Turn the queue on with the next transaction; everything that waits for the queue becomes due, in order."""
    row = partition.progress.row
    if row.off:
        partition.progress.turn_on()
        partition.parking.release(partition.context.now)
    partition.letters.event(events.QueueEnabled(by=by, reason=reason, command=command))


def hold_back(partition: Partition, item: Item, handler: bytes) -> None:
    """Park an item that would call a handler, until the queue is on."""
    found = item.park
    partition.parking.let_wait(item, handler, QUEUE_ON, found.row.failure if found is not None else "")


def note(partition: Partition, cause: str, by: str, reason: str) -> None:
    """Note in the partition's row that the queue is off, and why."""
    short_by, short_reason = by[: letters.TEXT_LIMIT], reason[: letters.TEXT_LIMIT]
    partition.progress.turn_off(cause, short_by, short_reason, partition.context.now)


def tell(partition: Partition) -> None:
    """Call the service's ``on_queue_disabled`` hook; its exceptions are only logged."""
    hook, row = partition.context.service.queue_disabled, partition.progress.row
    if hook is None or not row.off:
        return
    try:
        hook(QueueDisabled(partition.context.name, partition.number, row.off, row.off_by, row.off_reason))
    except Exception:
        log.exception("on_queue_disabled of %s failed", partition.context.name)
