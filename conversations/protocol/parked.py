"""Parked messages and handlers, read from the rows of a state topic.

They wait for another attempt, for an operator, for the queue to be on, or for the brake to be off. Most of them have failed. A message
that waits for the queue may not have been tried yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from conversations.protocol import rows
from conversations.protocol.command import Action, Command, Failed, Resolve
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.letters import letter_of
from conversations.protocol.park_row import QUEUE_ON, decode_park
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.waiting_row import decode_waiting

NEEDED = (rows.ENDPOINT, rows.PARK, rows.PARKED, rows.RETRY)
"""Kinds of the rows that ``parked`` reads."""


class Parked(NamedTuple):
    """The head of a parked dialog, or a parked handler without a message."""

    letter: str
    """Name for operators: the service and the source of the record; without a record, the service, the handler and the dialog.

    The name of a timer, if it has one, comes last.
    """
    service: str
    conversation: str
    initiator: bool
    """True if the initiator's side waits, False if the target's side waits."""
    key: str
    """Key of the side that waits."""
    contract: str
    peer: str
    handler: Failed
    """Kind of the handler that runs again when the wait is over."""
    number: int
    """Sequence number of the message; -1 if there is no message."""
    what: str
    """The message type, or "END", "TIMER", "ERROR" or "SKIPPED"."""
    body: bytes
    attempts: int
    """Number of failed attempts."""
    since: int
    """Time of the first failure, or of the first wait for the queue, in microseconds since 1970."""
    due: int | None
    """Time of the next attempt; None while the dialog waits for an operator, for the queue or for the brake."""
    behind: int
    """Number of records that wait behind the head."""
    size: int
    """Bytes of the head and the records behind it."""
    failure: str
    """The last exception of the handler; empty if the handler has not been tried."""
    ticket: int
    """The present ticket. The message or handler gets a new ticket each time it is parked."""
    queue_off: bool = False
    """True while the dialog waits for the queue to be on again, or for the brake to be off."""
    returns: int = 0
    """Number of times that an operator gave the message or handler back."""
    content_type: str = ""
    """Content type of the body; empty if there is no message."""
    deadline: int | None = None
    """Time at which the lifetime of the dialog ends, in microseconds since 1970; None if it does not end.

    Then a parked message becomes a dead letter (``parked-at-end``), and the dialog breaks with -8489.
    """
    timer: str = ""
    """Name of the timer whose handler failed; empty for the dialog timer, and for another handler."""

    @property
    def exception(self) -> str:
        """Name of the class of the handler's last exception, without its module."""
        return self.failure.partition(":")[0]

    @property
    def held(self) -> bool:
        """True if the policy allows no further attempt, and an operator must decide."""
        return self.due is None and not self.queue_off


def parked(
    table: Mapping[bytes, bytes],
    service: str,
    partition: int,
    left_out: Callable[[bytes, Exception], None] | None = None,
) -> list[Parked]:
    """Return the parked messages and handlers of a partition. The longest wait comes first. ``table`` has the rows of its state topic.

    If a row cannot be decoded, ``left_out`` is called with the row's key and the error. Without ``left_out`` the error is raised.

    Raises:
        UndecodableRecord: a row does not have the kind that its key has.
        KeyError: a parked row is missing.
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


_HANDLERS = {rows.ERROR: Failed.ERROR, rows.SKIPPED: Failed.SKIPPED}


def _is_open(table: Mapping[bytes, bytes], key: bytes) -> bool:
    row = table.get(rows.ENDPOINT + key[1:18])
    return row is not None and not rows.is_tombstone(row)


def _parked(table: Mapping[bytes, bytes], key: bytes, data: bytes, where: tuple[str, int]) -> Parked:
    (service, partition), row, own = where, decode_park(data), key[1:18]
    endpoint, _ = rows.decode_endpoint(own, table[rows.ENDPOINT + own], service)
    is_timer = key.startswith(rows.RETRY) and rows.is_timer(key[18:])
    handler = Failed.TIMER if is_timer else _HANDLERS.get(key[18:], Failed.MESSAGE)
    timer = rows.timer_of(key[18:]) if is_timer else ""
    number, what, body, attempts, content_type = NONE, handler.value, b"", row.attempts, ""
    letter = (
        f"{service}.{what.lower()}-{uuid_text(own[:16])}-{'initiator' if own[16] else 'target'}{timer and f'-{timer}'}"
    )
    if key.startswith(rows.PARK):
        head = decode_waiting(table[rows.numbered(rows.PARKED, own, row.first)])
        envelope = decode(head.value)
        what = envelope.message_type if envelope.kind is Kind.MESSAGE else envelope.kind.name
        number, body, attempts, content_type = envelope.seq, envelope.body, head.attempts, envelope.content_type
        letter = letter_of(service, head.topic, partition, head.offset)
    return Parked(
        letter, service, uuid_text(own[:16]), own[16] == 1, endpoint.key, endpoint.contract, endpoint.peer, handler, number, what, body, attempts,
        row.since, None if row.due >= QUEUE_ON else row.due, max(row.next - row.first - 1, 0), row.size, row.failure,
        row.ticket, row.due == QUEUE_ON, row.returns, content_type, lifetime_end(endpoint), timer,
    )  # fmt: skip


def lifetime_end(endpoint: Endpoint) -> int | None:
    """Return the time at which the lifetime of an open endpoint ends; None if it is unlimited, or if the dialog is broken already."""
    return None if endpoint.expires_at >= NEVER or endpoint.state is State.ERROR else endpoint.expires_at


class Decision(NamedTuple):
    """An operator's decision about a parked message or handler."""

    action: Action
    by: str
    reason: str
    body: bytes = b""
    """The new body; only for EDIT."""
    code: int = 0
    """Code of the error with which the dialog ends; only for END."""
    description: str = ""


def resolution(it: Parked, decision: Decision, command_id: bytes, now: int) -> Command:
    """Make the command for a decision. ``command_id`` is a new id of 16 bytes; ``now`` is in microseconds."""
    conversation = bytes.fromhex(it.conversation.replace("-", ""))
    return Command(
        command_id, conversation, it.initiator, it.key, "", decision.by, now,
        (Resolve(
            it.handler.value, it.number, it.ticket, decision.action.value, decision.body, decision.code, decision.description,
            decision.reason, it.timer,
        ),),
    )  # fmt: skip
