"""Closing letters that no dialog waits for: those of dialogs that are over, and of records that were set aside."""

from __future__ import annotations

from conversations.errors import LocalError
from conversations.protocol import codes, rows
from conversations.protocol.command import Command, Settle, Source
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.letters import letter_of
from conversations.worker.partition import Partition

AT_ONCE = 1_000
"""Letters of one command at most."""


def settle(partition: Partition, command: Command) -> None:
    """Close all letters of a command, or none.

    Raises:
        LocalError: one is not open (any more), or there are too many.
    """
    operation = command.operations[0]
    if len(command.operations) > 1 or not isinstance(operation, Settle):
        raise LocalError("closing letters stands alone in its command", code=codes.HANDLE_NOT_FOUND)
    if len(operation.letters) > AT_ONCE:
        raise LocalError(
            f"{len(operation.letters)} letters; a command closes at most {AT_ONCE}", code=codes.HANDLE_NOT_FOUND
        )
    if beyond := [source.offset for source in operation.letters if not 0 <= source.offset < 1 << 63]:
        raise LocalError(f"no record has the offset {beyond[0]}", code=codes.HANDLE_NOT_FOUND)
    names = [_name(partition, source) for source in operation.letters]
    keys = [rows.letter_key(source.topic.lower(), source.offset) for source in operation.letters]
    closed = [name for name, key in zip(names, keys, strict=True) if partition.outbox.read(key) is None]
    if closed:
        raise LocalError(f"not open, or not any more: {', '.join(closed)[:500]}", code=codes.HANDLE_NOT_FOUND)
    for key in keys:
        partition.outbox.write(key, None)
    partition.letters.event(
        "SETTLED", command=uuid_text(command.command_id), letters=names, outcome=operation.outcome,
        by=command.issued_by, reason=operation.reason,
    )  # fmt: skip


def _name(partition: Partition, source: Source) -> str:
    return letter_of(partition.owner.name, source.topic.lower(), partition.number, source.offset)
