"""Quarantine: if our own code fails around a handler, the partition is built anew, and the record that was being processed is given up on.

The step that failed exists only in memory, and is not repaired. The partition is restored from its committed rows, and its records are
read again. The record that was being processed is **condemned**. When this record comes again, either its policy is applied without a call
of its handler, or the record becomes a dead letter. If our code failed while a step was being closed, it is not known which record is to
blame. Then the partition handles only one item in each step, until the failure happens again. The item of that step is to blame.

The partition is also built anew if a topic refuses a record that a handler published. If the record can never be appended, the handler is
given up on when its turn comes again (``refused``).
"""

from __future__ import annotations

import logging

from conversations.bodies import said
from conversations.errors import (
    DeclarationError,
    LogError,
    PublicationRefused,
    StateDamaged,
)
from conversations.protocol import letters
from conversations.protocol.envelope import Kind
from conversations.protocol.events import CommandRefused, SetAside
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.sequencing import NONE
from conversations.worker.active import Arrival, Item, Order
from conversations.worker.breakdowns import Called, Condemned
from conversations.worker.partition import Partition
from conversations.worker.task import Task

log = logging.getLogger("conversations.worker")

HANDLED = frozenset({Kind.MESSAGE, Kind.END, Kind.ERROR})
"""Kinds of envelopes that a handler may be called for."""

NOT_A_RECORDS = (LogError, DeclarationError)
"""Failures that no record causes: Kafka failed, state is damaged, or the service's code does not fit the open dialogs."""


def failed(partition: Partition, item: Item | None, failure: BaseException) -> None:
    """Note a failure of our own code in a lane. If a record can cause this kind of failure, the record of the item is to blame."""
    context = partition.context
    if partition.gone:
        return
    if isinstance(failure, Exception) and not isinstance(failure, NOT_A_RECORDS):
        context.breakdowns.blame(partition.number, "" if item is None else item.name, failure)
    else:
        context.breakdowns.fail(failure, partition.number)


def condemned(partition: Partition, item: Item) -> Condemned | None:
    """Return the earlier failure of our own code with this item; None if there was none.

    The failure is forgotten with the next commit, because the item is settled or parked then.
    """
    breakdowns, key = partition.context.breakdowns, (partition.number, item.name)
    found = breakdowns.condemned.get(key)
    if found is None:
        return None

    def forget() -> None:
        breakdowns.condemned.pop(key, None)

    partition.outbox.notify(forget)
    return found


def called(item: Item, task: Task) -> Called:
    """Return the name of a call of a handler."""
    number = item.envelope.seq if isinstance(item, Arrival) and not task.without else NONE
    return Called(task.active.identity, task.without, number)


def refused(partition: Partition, item: Item, task: Task) -> PublicationRefused | None:
    """Return the refusal of a record that an earlier call of this handler published; None if there was none.

    The refusal is forgotten with the next commit, because the item is settled or parked then.
    """
    breakdowns, key = partition.context.breakdowns, (partition.number, called(item, task))
    found = breakdowns.refused.get(key)
    if found is None:
        return None

    def forget() -> None:
        breakdowns.refused.pop(key, None)

    partition.outbox.notify(forget)
    return found


def set_aside(partition: Partition, item: Item, found: Condemned) -> None:
    """Write the dead letter and the event of a condemned record. The record has no other effect.

    Raises:
        StateDamaged: the item has no record, calls a handler without a message, or could not be set aside before.
            A human must look at the partition.
    """
    why = text_of(found.failure)
    if found.times > 2 or not isinstance(item, Arrival | Order) or item.handler:
        raise StateDamaged(partition.number, f"{item.name} can neither be carried out nor given up on: {why}")
    if isinstance(item, Order):
        partition.letters.dead_letter(item, letters.COMMAND_REFUSED, failure=found.failure)
        partition.letters.event(CommandRefused(uuid_text(item.command.command_id), 0, why))
        return
    partition.context.counts.count_set_aside()
    partition.letters.dead_letter(item, letters.SET_ASIDE, failure=found.failure)
    partition.letters.event(SetAside(item.topic, item.offset, f"carrying it out failed: {why}"))


def text_of(failure: Exception) -> str:
    """Describe an exception in one line."""
    return f"{type(failure).__name__}: {said(failure)[: letters.TEXT_LIMIT]}"


def has_no_handler(item: Item) -> bool:
    """Return True if no policy can be applied to an item, because no handler is ever called for an item of its kind."""
    return isinstance(item, Order) or (
        isinstance(item, Arrival) and item.envelope.kind not in HANDLED and not item.envelope.skipped
    )
