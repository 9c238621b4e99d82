"""Commands about a partition, not about a dialog: ticks, the queue switch, and the closing of open letters."""

from __future__ import annotations

from conversations.errors import LocalError
from conversations.protocol import codes, rows
from conversations.protocol.command import Command, Settle, Source, Switch, Tick
from conversations.protocol.events import Settled
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.letters import letter_of
from conversations.worker import commands, queue_switch
from conversations.worker.active import Order
from conversations.worker.commands import Effect
from conversations.worker.partition import Partition

AT_ONCE = 1_000
"""Maximum number of letters that one command closes."""


def carry_out(partition: Partition, order: Order) -> None:
    """Carry out a command about its partition: a tick, a switch, or letters to be closed."""
    operations = order.command.operations
    if all(isinstance(operation, Tick) for operation in operations):
        _tick(partition, order)
    elif isinstance(operations[0], Switch) and len(operations) == 1:
        _turn(partition, order.command, operations[0])
    else:
        commands.take_effect(partition, order, prepare_settling)


def _tick(partition: Partition, order: Order) -> None:
    """Keep the time of a tick until the step is closed. Then the polling thread checks if all of the queue was read (``retention``)."""
    partition.schedule.hear_tick(order.log_time)


def _turn(partition: Partition, command: Command, operation: Switch) -> None:
    """Turn the queue of this partition on or off. If the queue is in the requested state already, only the event is written."""
    by, number = command.issued_by, uuid_text(command.command_id)
    if operation.on:
        queue_switch.turn_on(partition, by, operation.reason, number)
    else:
        queue_switch.turn_off(partition, queue_switch.OPERATOR, by, operation.reason, number)


def prepare_settling(partition: Partition, command: Command) -> Effect:
    """Check that all letters of a command are open; return the effect that closes them.

    Raises:
        LocalError: a letter is not open (any more), an offset is impossible, the command has too many letters, or it has another operation.
    """
    operation = command.operations[0]
    if len(command.operations) > 1 or not isinstance(operation, Settle):
        raise LocalError(
            "an operation about a partition must stand alone in its command", code=codes.COMMAND_CONTRADICTS
        )
    if len(operation.letters) > AT_ONCE:
        raise LocalError(
            f"the command has {len(operation.letters)} letters; one command closes at most {AT_ONCE}",
            code=codes.BODY_TOO_LARGE,
        )
    if beyond := [source.offset for source in operation.letters if not 0 <= source.offset < 1 << 63]:
        raise LocalError(f"no record has the offset {beyond[0]}", code=codes.LETTER_NOT_OPEN)
    names = [_name(partition, source) for source in operation.letters]
    keys = [rows.letter_key(source.topic.lower(), source.offset) for source in operation.letters]
    closed = [name for name, key in zip(names, keys, strict=True) if partition.outbox.read(key) is None]
    if closed:
        raise LocalError(
            f"these letters are not open (any more): {', '.join(closed)[:500]}", code=codes.LETTER_NOT_OPEN
        )

    def close() -> None:
        for key in keys:
            partition.outbox.write(key, None)
        number, by = uuid_text(command.command_id), command.issued_by
        partition.letters.event(Settled(number, tuple(names), operation.outcome, by, operation.reason))

    return close


def _name(partition: Partition, source: Source) -> str:
    return letter_of(partition.context.name, source.topic.lower(), partition.number, source.offset)
