"""The **run**: the six fields of an envelope from ``message_type`` to ``content_type``, which are adjacent.

All messages of a type have the same bytes there. So a decoder makes one comparison of these bytes instead of decoding six fields
(design decision 0004).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from conversations.errors import UndecodableRecord
from conversations.protocol.varint import LONGS, TABLE_END, encode_long, read_int, read_long

Run: TypeAlias = tuple[bytes, int, str, int, str, int, int, str]
"""The encoded run, its length, then message_type, code, description, fragment, fragments, content_type."""

RUNS: Final[dict[bytes, Run]] = {}
"""Cache of runs already read. The key of a run is its beginning; ``read_run`` describes the key."""

_LIMIT = 1024
_LONGEST = 512


@lru_cache(maxsize=_LIMIT)
def message_run(message_type: str, content_type: str, fragment: int = 0, fragments: int = 1) -> bytes:
    """Encode the run of a message: code 0, no description, by default fragment 0 of 1. The last 1,024 results are cached."""
    return (
        encode_text(message_type) + b"\0\0" + encode_long(fragment) + encode_long(fragments) + encode_text(content_type)
    )


def read_run(value: bytes, at: int) -> Run:
    """Decode the run at ``at``. Put the run of a whole message into ``RUNS``, which keeps at most 1,024 runs of up to 512 bytes.

    The caller looks in ``RUNS`` first. The key is ``value[at : at + 1 + (value[at] >> 1)]``: the encoded message type, or only its
    beginning if the message type has more than 63 bytes. So the caller must compare the whole run that it finds with the bytes at ``at``.

    Raises:
        UndecodableRecord: the run is truncated, or a number or length is out of range.
        UnicodeDecodeError: a text is not UTF-8.
    """
    message_type, end = read_text(value, at)
    code, end = read_int(value, end)
    description, end = read_text(value, end)
    fragment, end = read_int(value, end)
    fragments, end = read_int(value, end)
    content_type, end = read_text(value, end)
    run = value[at:end], end - at, message_type, code, description, fragment, fragments, content_type
    if not code and not description and not fragment and fragments == 1 and end - at <= _LONGEST:
        if len(RUNS) >= _LIMIT:
            RUNS.clear()
        RUNS[value[at : at + 1 + (value[at] >> 1)]] = run
    return run


def encode_text(text: str) -> bytes:
    """Encode a string as Avro does: its length in bytes, then UTF-8."""
    data = text.encode()
    size = len(data)
    return (LONGS[size] if size < TABLE_END else encode_long(size)) + data


def read_text(value: bytes, at: int) -> tuple[str, int]:
    """Decode the string at ``at``. Return the text and the position of the next field.

    Raises:
        UndecodableRecord: the length of the string is negative, or more than the bytes that are left.
        UnicodeDecodeError: the string is not UTF-8.
    """
    byte = value[at]
    if byte < 128:
        size, at = byte >> 1 ^ -(byte & 1), at + 1
    else:
        size, at = read_long(value, at)
    end = at + size
    if size < 0 or end > len(value):
        raise UndecodableRecord(
            f"truncated: the text at byte {at} has length {size}, but the record has only {len(value)} bytes"
        )
    return value[at:end].decode(), end
