"""What a record of a queue says: the dialog, the side, the kind and the number of an envelope."""

from __future__ import annotations

from typing import NamedTuple

from conversations.errors import UndecodableRecord
from conversations.protocol.envelope import IDENTITY_AT, IDENTITY_END, Kind, decode, tail_start
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
    data = value or b""
    try:
        start = tail_start(data)
    except UndecodableRecord:
        envelope = decode(data)  # perhaps of another version of the schema
        prefix = envelope.prefix
        return Said(prefix.conversation_id, prefix.from_initiator, envelope.kind, envelope.seq)
    try:
        kind, at = read_long(data, start)
        number, _ = read_long(data, at)
        return Said(data[IDENTITY_AT : IDENTITY_END - 1], data[IDENTITY_END - 1] == 1, Kind(kind), number)
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken kind or number: {error}") from error
