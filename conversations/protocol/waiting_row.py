"""Waiting rows: records that were read and are not handled yet, with their original bytes. Held, delayed and parked rows have the same fields.

A drain reads and writes one for each message. So they are encoded and decoded by hand, as envelopes are (design decision 0004), by
the schema ``waiting``. fastavro and the check of ``strict`` would take longer than the rest of a drain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.envelope_run import encode_text, read_text
from conversations.protocol.registry import DEFAULT, HEAD_SIZE, Schema
from conversations.protocol.varint import encode_long, encode_new, read_bytes, read_int, read_long

_EARLIER_HEADER = 28
"""Largest number of bytes of the header that rows of earlier releases keep."""
_WAITING = Schema(schemas.load("waiting", schemas.newest("waiting")))


@dataclass(slots=True)
class WaitingRow:
    """A record that was read and is not handled yet, with its original bytes."""

    topic: str
    offset: int
    log_time: int
    accepted: bool
    attempts: int
    key: bytes
    header: bytes
    """Its trace context; see ``trace_in``."""
    value: bytes


def trace_in(row: WaitingRow) -> bytes:
    """Return the trace context of a record of a queue; empty if there is none.

    In rows of earlier releases, a header of the record is in front of it: 16 bytes of a conversation id, the side (0 or 1), the kind, and a
    number of up to 10 bytes. A trace context is longer than that, and its characters are no such side.
    """
    kept = row.header
    if len(kept) <= _EARLIER_HEADER:
        return b""
    if kept[16] > 1:
        return kept
    at = 18
    while kept[at] > 127:
        at += 1
    return kept[at + 1 :]


def encode_waiting(row: WaitingRow) -> bytes:
    """Encode a waiting row, without fastavro."""
    return b"".join((
        _begin(row.topic), encode_new(row.offset), encode_long(row.log_time), b"\1" if row.accepted else b"\0", encode_long(row.attempts),
        encode_long(len(row.key)), row.key, encode_long(len(row.header)), row.header, encode_long(len(row.value)), row.value,
    ))  # fmt: skip


@lru_cache(maxsize=1_024)
def _begin(topic: str) -> bytes:
    """Encode the head of a row and its first field. All rows of a queue have the same bytes there."""
    return _WAITING.head + encode_text(topic)


def start_of(row: bytes) -> tuple[str, int, bool]:
    """Return the first fields of a waiting, held, delayed or parked row, without decoding the others: ``topic``, ``log_time`` and ``accepted``.

    Raises:
        UndecodableRecord: the bytes are not such a row.
    """
    if not row.startswith(_WAITING.head):
        other = decode_waiting(row)
        return other.topic, other.log_time, other.accepted
    try:
        topic, at = read_text(row, HEAD_SIZE)
        _, at = read_long(row, at)
        log_time, at = read_long(row, at)
        return topic, log_time, row[at] == 1
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken waiting row: {error}") from error


def decode_waiting(row: bytes) -> WaitingRow:
    """Decode a waiting row.

    Raises:
        UndecodableRecord: the bytes are not a waiting row.
    """
    if not row.startswith(_WAITING.head):
        return WaitingRow(**DEFAULT.decode(row, _WAITING))
    try:
        topic, at = read_text(row, HEAD_SIZE)
        offset, at = read_long(row, at)
        log_time, at = read_long(row, at)
        accepted = row[at]
        attempts, at = read_int(row, at + 1)
        key, at = read_bytes(row, at)
        header, at = read_bytes(row, at)
        value, at = read_bytes(row, at)
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken waiting row: {error}") from error
    if at != len(row) or accepted > 1:
        raise UndecodableRecord(f"broken waiting row: {len(row) - at} bytes after its end, boolean {accepted}")
    return WaitingRow(topic, offset, log_time, accepted == 1, attempts, key, header, value)
