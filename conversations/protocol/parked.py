"""Records that wait for another attempt or for an operator, read from the rows of a state topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from conversations.protocol import rows
from conversations.protocol.command import Action, Command, Failed, Resolve
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.letters import letter_of
from conversations.protocol.sequencing import NONE

NEEDED = (rows.ENDPOINT, rows.PARK, rows.PARKED, rows.RETRY)
"""Kinds of rows it is told from."""


class Parked(NamedTuple):
    """A failed message with its dialog behind it, or a failed handler without a message."""

    letter: str
    """What operators call it: the service, where its record came from; a timer's has no record."""
    service: str
    conversation: str
    initiator: bool
    """Which side of the dialog waits."""
    key: str
    """Of that side."""
    contract: str
    peer: str
    handler: Failed
    """Whose handler failed."""
    number: int
    """Sequence number of the message, -1 without one."""
    what: str
    """Its message type, "END", "TIMER" or "ERROR"."""
    body: bytes
    attempts: int
    """How often it failed."""
    since: int
    """When it failed first, microseconds since 1970."""
    due: int | None
    """When it is tried again; None: when an operator says so, or its queue is on again."""
    behind: int
    """Records that wait behind it."""
    size: int
    """Bytes of all."""
    failure: str
    """The last exception of the handler."""
    ticket: int
    """Tells whether it was parked again since."""
    queue_off: bool = False
    """It waits for its queue to be on again, or for its worker's brake to be over."""
    returns: int = 0
    """How often an operator gave it back to its handler."""

    @property
    def exception(self) -> str:
        """Class of the handler's last exception, without its module."""
        return self.failure.partition(":")[0]

    @property
    def held(self) -> bool:
        """It was given up on, and an operator must decide."""
        return self.due is None and not self.queue_off


def parked(
    table: Mapping[bytes, bytes],
    service: str,
    partition: int,
    left_out: Callable[[bytes, Exception], None] | None = None,
) -> list[Parked]:
    """List the waiting records of a partition, longest waiting first, from the rows of its state.

    ``left_out`` is called with the key of what cannot be told, and why; without it that raises.

    Raises:
        UndecodableRecord: a row is not what its key says.
        KeyError: rows are missing.
    """
    found = []
    for key, row in table.items():
        if key[:1] not in (rows.PARK, rows.RETRY):
            continue
        try:
            if _is_open(table, key):
                found.append(_parked(table, key, row, (service, partition)))
        except (ValueError, LookupError) as error:
            if left_out is None:
                raise
            left_out(key, error)
    return sorted(found, key=lambda it: (it.since, it.conversation))


_HANDLERS = {rows.TIMER: Failed.TIMER, rows.ERROR: Failed.ERROR}


def _is_open(table: Mapping[bytes, bytes], key: bytes) -> bool:
    row = table.get(rows.ENDPOINT + key[1:18])
    return row is not None and not rows.is_tombstone(row)


def _parked(table: Mapping[bytes, bytes], key: bytes, data: bytes, where: tuple[str, int]) -> Parked:
    (service, partition), row, own = where, rows.decode_park(data), key[1:18]
    endpoint, _ = rows.decode_endpoint(own, table[rows.ENDPOINT + own], service)
    handler = _HANDLERS.get(key[18:], Failed.MESSAGE)
    number, what, body, attempts = NONE, handler.value, b"", row.attempts
    letter = f"{service}.{what.lower()}-{uuid_text(own[:16])}-{'initiator' if own[16] else 'target'}"
    if key.startswith(rows.PARK):
        head = rows.decode_waiting(table[rows.numbered(rows.PARKED, own, row.first)])
        envelope = decode(head.value)
        what = envelope.message_type if envelope.kind is Kind.MESSAGE else envelope.kind.name
        number, body, attempts = envelope.seq, envelope.body, head.attempts
        letter = letter_of(service, head.topic, partition, head.offset)
    return Parked(
        letter, service, uuid_text(own[:16]), own[16] == 1, endpoint.key, endpoint.contract, endpoint.peer, handler, number, what, body, attempts,
        row.since, None if row.due >= rows.QUEUE_ON else row.due, max(row.next - row.first - 1, 0), row.size, row.failure,
        row.ticket, row.due == rows.QUEUE_ON, row.returns,
    )  # fmt: skip


class Decision(NamedTuple):
    """What somebody decided about a failed message, who, and why."""

    action: Action
    by: str
    reason: str
    body: bytes = b""
    """The new one of EDIT."""
    code: int = 0
    """The error END ends the dialog with."""
    description: str = ""


def resolution(it: Parked, decision: Decision, command_id: bytes, now: int) -> Command:
    """Make the command for a decision; a fresh id of 16 bytes, the time in microseconds."""
    conversation = bytes.fromhex(it.conversation.replace("-", ""))
    return Command(
        command_id, conversation, it.initiator, it.key, "", decision.by, now,
        (Resolve(
            it.handler.value, it.number, it.ticket, decision.action.value, decision.body, decision.code, decision.description,
            decision.reason,
        ),),
    )  # fmt: skip
