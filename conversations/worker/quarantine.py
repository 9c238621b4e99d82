"""What our own code raises around a handler: its partition is built anew without the step, and the record at work given up on.

A step that failed halfway is in memory alone. Nothing of it is mended by hand: the partition is restored from what is committed and
its records are read again; the one that was at work is condemned, and in its turn kept as a dead letter instead of carried out.
A failure that names no record, because it came while a step was closed, has its partition go on one item at a time until it does.
"""

from __future__ import annotations

import logging

from conversations.bodies import said
from conversations.errors import (
    DeclarationError,
    LogError,
    StateDamaged,
    StateUpgradeError,
)
from conversations.protocol import letters
from conversations.protocol.events import CommandRefused, SetAside
from conversations.protocol.identifiers import uuid_text
from conversations.worker.active import Arrival, Item, Order
from conversations.worker.breakdowns import Condemned
from conversations.worker.partition import Partition

log = logging.getLogger("conversations.worker")

NOT_A_RECORDS = (LogError, StateUpgradeError, DeclarationError)
"""Failures of Kafka, damage to the state, and what only another release mends: no record is at fault."""


def failed(partition: Partition, item: Item | None, failure: BaseException) -> None:
    """Note a failure of a lane's own code: its record is at fault, unless it cannot be."""
    context = partition.context
    if partition.gone:
        return
    if isinstance(failure, Exception) and not isinstance(failure, NOT_A_RECORDS):
        context.breakdowns.blame(partition.number, "" if item is None else item.name, failure)
    else:
        context.breakdowns.fail(failure, partition.number)


def condemned(partition: Partition, item: Item) -> Condemned | None:
    """Say whether an item is not to be carried out, because our code failed with it before."""
    breakdowns, key = partition.context.breakdowns, (partition.number, item.name)
    found = breakdowns.condemned.get(key)
    if found is None:
        return None

    def forget() -> None:
        breakdowns.condemned.pop(key, None)

    partition.outbox.notify(forget)
    return found


def set_aside(partition: Partition, item: Item, found: Condemned) -> None:
    """Keep the bytes of a condemned record, and touch nothing else.

    Raises:
        StateDamaged: it has none, or even this failed: a human must look at the partition.
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
