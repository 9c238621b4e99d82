"""The row of an ended dialog whose messages are still becoming dead letters: what their letters need, and how far they are."""

from __future__ import annotations

from typing import NamedTuple

from conversations.errors import UndecodableRecord
from conversations.protocol.envelope_run import encode_text, read_text
from conversations.protocol.varint import encode_long, read_long

_VERSION = b"\1"


class Returning(NamedTuple):
    """The messages of an ended dialog that its peer has not accepted, and that are not dead letters yet."""

    after: int
    """The last number that is done."""
    returned: int
    """Number of the messages that are dead letters already."""
    code: int
    """Code of the error with which the dialog ended; 0 if there is none."""
    is_uncertain: bool
    """True if the peer did not say what it has accepted."""
    topic: str
    """The topic that the messages were for."""
    key: bytes
    """Record key of the messages."""
    prefix: bytes
    """The encoded prefix of the envelopes, which their rows do not have."""


def encode_returning(row: Returning) -> bytes:
    """Encode the row."""
    number = encode_long
    return b"".join((
        _VERSION, number(row.after), number(row.returned), number(row.code), b"\1" if row.is_uncertain else b"\0",
        encode_text(row.topic), number(len(row.key)), row.key, row.prefix,
    ))  # fmt: skip


def decode_returning(row: bytes) -> Returning:
    """Decode the row.

    Raises:
        UndecodableRecord: the bytes are not such a row.
    """
    if not row.startswith(_VERSION):
        raise UndecodableRecord(f"not the row of a dialog whose messages come back: it begins with {row[:1].hex()}")
    try:
        after, at = read_long(row, len(_VERSION))
        returned, at = read_long(row, at)
        code, at = read_long(row, at)
        is_uncertain = row[at] == 1
        topic, at = read_text(row, at + 1)
        size, at = read_long(row, at)
        if not 0 <= size <= len(row) - at:
            raise UndecodableRecord(f"a key of {size} bytes in {len(row) - at} bytes")
        key, at = row[at : at + size], at + size
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken row of a dialog whose messages come back: {error}") from error
    return Returning(after, returned, code, is_uncertain, topic, key, row[at:])
