"""Pieces: a command that is too large for one record comes in several records, and takes effect with the last one.

    piece 0 --keep--> row | piece 1 --keep--> row | last piece: the command is whole, and is carried out; no rows

Each piece is a command of its own with the id of the whole one, so it waits in the lane of its dialog like any other (design decision 0061).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from conversations.errors import LocalError
from conversations.protocol import codes, repetitions
from conversations.protocol.command import Command, Piece, UndecodableRecord, decode_command, decode_parts
from conversations.protocol.limits import COMMAND_BYTES
from conversations.worker import commands
from conversations.worker.active import Order
from conversations.worker.partition import Partition
from conversations.worker.piece_rows import Whole


def take(partition: Partition, order: Order, piece: Piece, carry_out: Callable[[Partition, Order], None]) -> None:
    """Keep a piece. With the last one, carry the whole command out. Its pieces stay as long as a message refers to its body in them."""
    whole = _whole(partition, order, piece)
    if whole is None:
        return
    kept, command_id = partition.pieces, order.command.command_id
    command, content = whole
    kept.hold(Whole(command_id, piece.content, content))
    try:
        carry_out(partition, replace(order, command=command))
    finally:
        kept.let_go()
    if kept.has_users(command_id):
        _keep(partition, order, piece)
    else:
        kept.drop(command_id)


def _whole(partition: Partition, order: Order, piece: Piece) -> tuple[Command, bytes] | None:
    """Keep a piece, and return None. With the last piece, return the whole command and its digest instead.

    A piece that is there already, or whose command took effect before, is a repetition. If a piece does not fit, the command is refused: its dead letter
    has what has come of it.
    """
    kept, command_id = partition.pieces, order.command.command_id
    taken = repetitions.joined(command_id)
    if 0 <= piece.index < kept.arrived(command_id) or partition.outbox.read(taken) is not None:
        partition.context.counts.count_duplicate()
        return None
    if why := _misfit(partition, order, piece):
        _refuse(partition, order, piece, why)
        return None
    if piece.index < piece.count - 1:
        _keep(partition, order, piece)
        return None
    try:
        found = _decoded_from_pieces(partition, order, piece) or _decoded(partition, order, piece)
    except UndecodableRecord as error:
        _refuse(partition, order, piece, f"the pieces of the command are no command together: {error}")
        return None
    if not _is_of(found[0], order.command):
        _refuse(partition, order, piece, "the pieces of the command are those of another one")
        return None
    commands.remember(partition, taken, order.log_time)
    return found


def _decoded_from_pieces(partition: Partition, order: Order, piece: Piece) -> tuple[Command, bytes] | None:
    """Decode a command and leave its large messages where they are. Return None if its pieces are not what this release writes."""
    kept, command_id = partition.pieces, order.command.command_id
    content = kept.digest(command_id, piece.content)
    if not content:
        return None
    command = decode_parts(kept.parts(command_id, piece.content), partition.transmission.fragment_bytes)
    return None if command is None else (command, content)


def _decoded(partition: Partition, order: Order, piece: Piece) -> tuple[Command, bytes]:
    """Decode a command as a whole that cannot be read from its pieces: it may be of another release, so its bodies may be at other positions.

    Its large messages are not transmitted from the pieces, but cut at once.
    """
    value = partition.pieces.joined(order.command.command_id, piece.content)
    return decode_command(partition.context.destinations.schemas.command(value)), b""


def _keep(partition: Partition, order: Order, piece: Piece) -> None:
    until = commands.until(partition, order.log_time)
    key = partition.pieces.keep(order.command.command_id, piece, until)
    partition.schedule.commands.add(until, key)


def _misfit(partition: Partition, order: Order, piece: Piece) -> str:
    """Return why a piece must not come next; "" if it may."""
    kept, limits = partition.pieces, partition.context.settings.limits
    arrived = kept.arrived(order.command.command_id)
    if not arrived <= piece.index < piece.count or not piece.content:
        return f"piece {piece.index} of {piece.count} is no possible piece of a command"
    if piece.index > arrived:
        return f"the command is not whole: piece {arrived} of {piece.count} is missing"
    size = kept.size(order.command.command_id) + len(piece.content)
    if size > limits.body_bytes + COMMAND_BYTES:
        return f"the command has more than {limits.body_bytes} bytes"
    if piece.index == 0 and kept.bytes >= limits.assembled_bytes:
        return "too many commands in pieces are not whole yet"
    return ""


def _is_of(whole: Command, piece: Command) -> bool:
    """Return True if a whole command is about the side that its piece names, and is not cut again."""
    named = [(it.command_id, it.conversation_id, it.from_initiator, it.key) for it in (whole, piece)]
    return named[0] == named[1] and bool(whole.operations) and not isinstance(whole.operations[0], Piece)


def _refuse(partition: Partition, order: Order, piece: Piece, why: str) -> None:
    kept, command_id = partition.pieces, order.command.command_id
    value = kept.joined(command_id, piece.content)
    kept.drop(command_id)
    commands.refuse(partition, replace(order, value=value), LocalError(why, code=codes.COMMAND_CONTRADICTS))
