"""Park rows: dialogs and handlers that wait for another attempt, or for a human. A drain writes one for each dialog of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope_run import encode_text, read_text
from conversations.protocol.registry import DEFAULT, HEAD_SIZE, Schema
from conversations.protocol.varint import encode_long, encode_numbers, read_int, read_long, read_numbers

_PARK = Schema(schemas.load("park", schemas.newest("park")))
_DUE = HEAD_SIZE + 8
"""Position after the time of the next attempt."""

QUEUE_ON = NEVER - 1
"""The ``due`` of records that wait until their queue is on, or until the brake is off."""


@dataclass(slots=True)
class ParkRow:
    """A dialog that waits for another attempt of a failed handler, or for a human."""

    due: int = NEVER
    """Time of the next attempt, in microseconds.

    ``NEVER``: the dialog waits for a human. ``QUEUE_ON``: the dialog waits for the queue or the brake.
    """
    first: int = 0
    """Number of the dialog's first parked row, which has the failed message."""
    next: int = 0
    """Number of the dialog's last parked row, plus one."""
    size: int = 0
    """Bytes of the parked records."""
    since: int = 0
    """Time of the first failure, or of the first wait if nothing has failed yet, in microseconds."""
    ticket: int = 0
    """A number that grows each time the failed message or handler is parked."""
    attempts: int = 0
    """Number of failed attempts of a handler without a message. The attempts of a message are in its parked row."""
    ended: bool = False
    """True if the last parked row is the peer's END."""
    failure: str = ""
    """The handler's last exception; empty if the first parked record has not been tried yet."""
    returns: int = 0
    """Number of times that an operator gave the failed message back to its handler."""
    returned: str = ""
    """The command that last gave the message or handler back; empty if there was none, or if the outcome is known."""
    counted: int = 0
    """Number of records that arrived behind a failed message while the queue was on. Only these records count for the limit."""
    counted_size: int = 0
    """Bytes of the records in ``counted``."""
    edited: str = ""
    """The command that gave the failed message its present body; empty if it has its original body."""
    skipped: list[int] = field(default_factory=list)
    """Numbers of the messages that the peer skipped, for a handler ``on_skipped`` that failed; else empty."""


def encode_park(row: ParkRow) -> bytes:
    """Encode the row of a parked dialog, without fastavro."""
    number, text = encode_long, encode_text
    return b"".join((
        _PARK.head, row.due.to_bytes(8, "big"), number(row.first), number(row.next), number(row.size), number(row.since),
        number(row.ticket), number(row.attempts), b"\1" if row.ended else b"\0", text(row.failure), number(row.returns),
        text(row.returned), number(row.counted), number(row.counted_size), text(row.edited), encode_numbers(row.skipped),
    ))  # fmt: skip


def decode_park(row: bytes) -> ParkRow:
    """Decode the row of a parked dialog.

    Raises:
        UndecodableRecord: the bytes are not such a row.
    """
    if not row.startswith(_PARK.head):
        fields = DEFAULT.decode(row, _PARK)
        return ParkRow(**fields | {"due": int.from_bytes(fields["due"], "big")})
    try:
        return _decoded(row)
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken park row: {error}") from error


def _decoded(row: bytes) -> ParkRow:
    first, at = read_long(row, _DUE)
    after, at = read_long(row, at)
    size, at = read_long(row, at)
    since, at = read_long(row, at)
    ticket, at = read_long(row, at)
    attempts, at = read_int(row, at)
    ended = row[at]
    failure, at = read_text(row, at + 1)
    returns, at = read_int(row, at)
    returned, at = read_text(row, at)
    counted, at = read_int(row, at)
    counted_size, at = read_long(row, at)
    edited, at = read_text(row, at)
    skipped, at = read_numbers(row, at)
    if at != len(row) or ended > 1:
        raise UndecodableRecord(f"broken park row: {len(row) - at} bytes after its end, boolean {ended}")
    return ParkRow(
        int.from_bytes(row[HEAD_SIZE:_DUE], "big"), first, after, size, since, ticket, attempts, ended == 1, failure,
        returns, returned, counted, counted_size, edited, skipped,
    )  # fmt: skip
