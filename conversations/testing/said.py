"""What a record of a queue says: the dialog, the side, the kind and the number of an envelope."""

from __future__ import annotations

from typing import NamedTuple

from conversations.errors import UndecodableRecord
from conversations.protocol.envelope import IDENTITY_AT, Kind, decode, tail_start
from conversations.protocol.varint import read_long


class Said(NamedTuple):
    """The identity of an envelope."""

    conversation: bytes
    from_initiator: bool
    kind: Kind
    number: int
    """``NONE`` if an envelope of this kind has no number."""


def said(value: bytes | None) -> Said:
    """Return the identity of an envelope; most of its other fields are not decoded.

    Raises:
        UndecodableRecord: the bytes are no envelope.
    """
    try:
        start = tail_start(value or b"")
    except UndecodableRecord:
        envelope = decode(value or b"")  # perhaps of another version of the schema
        prefix = envelope.prefix
        return Said(prefix.conversation_id, prefix.from_initiator, envelope.kind, envelope.seq)
    try:
        kind, at = read_long(value or b"", start)
        number, _ = read_long(value or b"", at)
        identity = (value or b"")[IDENTITY_AT:][:17]
        return Said(identity[:16], identity[16] == 1, Kind(kind), number)
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken kind or number: {error}") from error
