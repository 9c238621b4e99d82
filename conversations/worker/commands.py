"""Each command takes effect only one time, or is refused.

A command may arrive twice, because its client got no answer and sent the command again, or because the record was forwarded twice. So the
digest of a command that took effect is kept as a row for a day of log time (``Periods.command_life``).

A command contains a time of its client's clock. A command that begins a dialog contains a second time, in the dialog's id. A command is
refused if one of these times is more than a day before log time. Its row may be deleted already, so it is not known whether the command
took effect. A command is also refused if one of these times is more than a day after log time. Its row would be deleted while a repetition
of the command is still accepted.

A refused command becomes a dead letter with Service Broker's error code, and is reported by an event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from conversations.errors import DialogEnded, LocalError
from conversations.protocol import codes, letters, repetitions, rows
from conversations.protocol.command import Begin, Command, Report, topic_for
from conversations.protocol.events import CommandDone, CommandRefused
from conversations.protocol.identifiers import drawn_at, uuid_text
from conversations.protocol.topics import COMMANDS, DECISIONS, kind_of, partition_of
from conversations.worker.active import Active, Order
from conversations.worker.contents import digest_of
from conversations.worker.partition import Partition

Effect = Callable[[], None]


class _Repeated(Exception):
    """The command took effect before."""


def take_effect(partition: Partition, order: Order, prepare: Callable[[Partition, Command], Effect]) -> None:
    """Carry out all operations of a command, or no operation.

    The function ``prepare`` checks the command and returns its effect, or raises ``LocalError`` to refuse the command. The effect is
    carried out after the row of the command is written.
    """
    command = order.command
    report = isinstance(command.operations[-1], Report)
    try:
        _check_age(partition, order, command)
        _check_repeated(partition, command)  # before the dialog is asked: it may have ended since
        _check_lane(partition, order)
        effect = prepare(partition, command)
        _remember(partition, command, order.log_time)
    except _Repeated:
        partition.context.counts.count_duplicate()
        if report:
            _report(partition, command)
    except LocalError as error:
        refuse(partition, order, error)
    else:
        if not report:
            effect()
            return
        # The command has no field for the operator's reason. The event DIALOG_ENDING has it, with the id of the command.
        with partition.letters.decided(command.issued_by, f"command {uuid_text(command.command_id)}"):
            effect()
        _report(partition, command)


def refuse(partition: Partition, order: Order, error: LocalError) -> None:
    """Keep the bytes of a refused command as a dead letter, and report its code with an event and a warning in the log."""
    number = uuid_text(order.command.command_id)
    if (at_hand := partition.pieces.at_hand) is not None:  # the record at hand has the last piece only
        order = replace(order, value=partition.pieces.joined(at_hand.command_id, at_hand.last))
    partition.letters.dead_letter(order, letters.COMMAND_REFUSED, failure=error, code=error.code)
    partition.letters.event(CommandRefused(number, error.code, str(error)))
    partition.letters.refused_commands.warn(order.command, error)


def misplaced(partition: Partition, order: Order) -> LocalError | None:
    """Return why a command may not come through its topic; None if it may.

    Kafka decides who writes to which topic. So the commands of operators and those of clients have a topic each (``GOES_TO``).
    """
    topics, kind = partition.context.topics, kind_of(order.topic)
    if kind != topic_for(order.command):
        if kind == COMMANDS:
            why = (
                f"decisions come through {topics.decisions}, and this one came through {topics.commands}: its tool is of an older release, "
                "or its writer has no right to decide; use the tools of this release, with the right to write to that topic"
            )
        else:
            why = (
                f"{topics.decisions} is for operators, and this is a command of a client: write it to {topics.commands}"
            )
        return LocalError(why, code=codes.COMMAND_MISPLACED)
    count = partition.context.destinations.partitions(partition.context.name)
    if kind == DECISIONS and count is not None and partition_of(order.key, count) != partition.number:
        place = f"partition {partition.number} of {topics.decisions}, and its key belongs to {partition_of(order.key, count)}"
        return LocalError(f"the decision is in {place}: write it there", code=codes.COMMAND_MISPLACED)
    return None


def _report(partition: Partition, command: Command) -> None:
    partition.letters.event(CommandDone(uuid_text(command.command_id), by=command.issued_by))


def find(partition: Partition, command: Command) -> Active:
    """Return the side of the conversation that a command is about. This side may have no endpoint."""
    own = rows.identity(command.conversation_id, command.from_initiator)
    return partition.find(rows.other_side(own), command.key, "")


def check_there(active: Active, command: Command) -> None:
    """Refuse a command if its side of the conversation has no endpoint.

    Raises:
        DialogEnded: the dialog is over (8429), or never existed (8426).
    """
    if active.exists:
        return
    if active.tombstone is not None:
        raise DialogEnded("the dialog is over (8429)", code=codes.SEND_REFUSED)
    is_alone = command.key == uuid_text(command.conversation_id)
    named = "; a dialog that was begun with group= has the id ID@GROUP" if is_alone else ""
    raise DialogEnded(f"no such dialog (8426){named}", code=codes.HANDLE_NOT_FOUND)


# -- one time only ------------------------------------------------------------------------------------------------


def _check_lane(partition: Partition, order: Order) -> None:
    """Refuse a command that was read before its side of the dialog began.

    Such a command is in another lane than the dialog. A handler of the dialog may run now, and nobody else may change the dialog meanwhile.
    """
    active = find(partition, order.command)
    if active.exists and active.lane.name != order.active.lane.name:
        raise DialogEnded(
            "no such dialog: the command came before its first message (8426)", code=codes.HANDLE_NOT_FOUND
        )


def _check_age(partition: Partition, order: Order, command: Command) -> None:
    life = partition.context.periods.command_life
    oldest = max(order.log_time, partition.progress.row.queue_time) - life
    drawn = drawn_at(command.conversation_id) if isinstance(command.operations[0], Begin) else None
    if command.issued_at < oldest or (drawn is not None and drawn < oldest):
        raise LocalError(
            "the command is more than a day old, or its client's clock is more than a day behind: it is not known any more "
            "whether the command took effect",
            code=codes.COMMAND_OUT_OF_TIME,
        )
    if max(command.issued_at, drawn or 0) > order.log_time + life:
        # The command's row would be deleted while a repetition is still accepted. Then the repetition would take effect again.
        raise LocalError(
            "the command is dated more than a day ahead: its client's clock is wrong", code=codes.COMMAND_OUT_OF_TIME
        )


def _remember(partition: Partition, command: Command, log_time: int) -> None:
    """Keep the digest of a command for a day of log time, so that a repetition has no effect."""
    if keys := _keys(command):
        content = _content(partition, command)
        for key in keys:
            remember(partition, key, log_time, content)


def remember(partition: Partition, key: bytes, log_time: int, content: bytes = b"") -> None:
    """Keep a row for a day of log time. ``key`` is one of the keys of ``repetitions``."""
    at = until(partition, log_time)
    partition.outbox.write(key, at.to_bytes(8, "big") + content)
    partition.schedule.commands.add(at, key)


def until(partition: Partition, log_time: int) -> int:
    """Return the log time until which a repetition of a record with ``log_time`` is known."""
    return max(partition.progress.row.queue_time, log_time) + partition.context.periods.command_life


def _check_repeated(partition: Partition, command: Command) -> None:
    for key in _keys(command):
        _check(partition, key, command)


def _check(partition: Partition, key: bytes, command: Command) -> None:
    row = partition.outbox.read(key)
    if row is None:
        return
    if row[8:] != _content(partition, command):
        raise LocalError("a command with this id and another content took effect before", code=codes.COMMAND_DIFFERS)
    raise _Repeated


def _keys(command: Command) -> list[bytes]:
    keys, side = [], (command.conversation_id, command.from_initiator)
    if isinstance(command.operations[0], Begin):
        keys.append(repetitions.begun(*side))
    if command.idempotency_key:
        keys.append(repetitions.keyed(*side, command.idempotency_key))
    return keys


def _content(partition: Partition, command: Command) -> bytes:
    at_hand = partition.pieces.at_hand
    return digest_of(command) if at_hand is None or not at_hand.content else at_hand.content
