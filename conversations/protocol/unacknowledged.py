"""Rows of the envelopes that a side has transmitted, and that its peer has not acknowledged.

A row has the envelopes that one step has transmitted on one dialog. Its key has the number of the first of them. An envelope is kept without its
prefix, because all envelopes of a dialog and direction have the same prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.registry import DEFAULT, Schema
from conversations.protocol.varint import encode_long

_ROW = Schema(schemas.load("unacknowledged", schemas.newest("unacknowledged")))


def encode_tails(tails: Sequence[bytes]) -> bytes:
    """Encode a row; ``tails`` has at least one envelope without its prefix."""
    parts = [_ROW.head, encode_long(len(tails))]
    for tail in tails:
        parts += (encode_long(len(tail)), tail)
    return b"".join((*parts, b"\0"))


def decode_tails(row: bytes) -> list[bytes]:
    """Decode a row; return its envelopes without their prefix, in order.

    Raises:
        UndecodableRecord: the bytes are not such a row.
    """
    tails: list[bytes] = DEFAULT.decode(row, _ROW)["tails"]
    if not tails:
        raise UndecodableRecord("a row of unacknowledged envelopes has none")
    return tails
