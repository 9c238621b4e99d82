"""Integrity: the checksum of a record that goes from one cluster to another.

Kafka checks the bytes of its own batches. Between two clusters a record is taken out of its batch and put into another one, by programs and
over networks that nobody here controls. So the sender's worker adds the header ``crc``, and the receiver's worker checks it before it
decodes anything. A damaged record is discarded, and its sender transmits the genuine one again (``retransmission``).

The checksum is the CRC-32 of zlib, over the record's key and the record's value, in this order. What a record lacks counts as no bytes. The
header has 4 bytes, big endian. Earlier releases had a header ``dialog``, which repeated a part of the value. If a record has one, the checksum
is over this header, the key and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

CRC: Final = "crc"
"""Name of the header with the checksum."""
EARLIER: Final = "dialog"
"""Name of a header that records of earlier releases have. It is part of their checksum."""
_BYTES = 4


class Damaged(Exception):
    """A record is not as its sender wrote it."""


def checksum(key: bytes | None, value: bytes | None, earlier: bytes = b"") -> bytes:
    """Return the value of the header ``crc``. ``earlier`` is the value of the first header ``dialog``, which records of earlier releases have."""
    return crc32(value or b"", crc32(key or b"", crc32(earlier))).to_bytes(_BYTES, "big")


def has_checksum(headers: Sequence[tuple[str, bytes | None]], key: bytes | None, value: bytes | None) -> bool:
    """Return True if a record has a checksum, and it is right; False if it has none.

    Raises:
        Damaged: the checksum is wrong, or is not whole.
    """
    found = next((content or b"" for name, content in headers if name == CRC), None)
    if found is None:
        return False
    earlier = next((content or b"" for name, content in headers if name == EARLIER), b"")
    if len(found) != _BYTES:
        raise Damaged(f"its checksum has {len(found)} bytes, not {_BYTES}")
    if found != checksum(key, value, earlier):
        raise Damaged("its checksum is wrong")
    return True
