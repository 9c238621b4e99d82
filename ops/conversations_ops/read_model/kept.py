"""Which records of a state topic the read model keeps, and to which side of a dialog each belongs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from conversations.errors import UndecodableRecord
from conversations.protocol import rows
from conversations.protocol.command import decode_command
from conversations.protocol.envelope import decode
from conversations.protocol.topics import has_commands
from conversations.protocol.waiting_row import decode_waiting

_OF_SIDE = (
    rows.ENDPOINT, rows.HELD, rows.DELAYED, rows.PARK, rows.PARKED, rows.RETRY, rows.UNACKNOWLEDGED,
)  # fmt: skip
_OF_PARTITION = (rows.PARTITION, rows.LETTER, rows.SUCCESSION)
NOBODY = b""
"""The side of a row that belongs to a partition, and of a record that cannot be decoded."""


class Kept(NamedTuple):
    """The newest value of a row, and the side that it belongs to."""

    key: bytes
    value: bytes | None
    """None if the row is deleted."""
    own: bytes
    """Name of the side; ``NOBODY`` if the row belongs to no side, or if only its earlier value tells it."""


def kept(records: Iterable[tuple[bytes, bytes | None]]) -> list[Kept]:
    """Return the rows that the read model keeps, each with its last value. ``records`` has keys and values in the order of the log."""
    last: Mapping[bytes, bytes | None] = dict(records)
    return [Kept(key, value, _own(key, value)) for key, value in last.items() if _wanted(key)]


def _wanted(key: bytes) -> bool:
    return key[:1] == rows.WAITING or key[:1] in _OF_SIDE or key[:1] in _OF_PARTITION


def _own(key: bytes, value: bytes | None) -> bytes:
    if key[:1] in _OF_SIDE:
        return key[1 : 1 + rows.IDENTITY_SIZE]
    return NOBODY if value is None or key[:1] != rows.WAITING else _own_of_waiting(value)


def _own_of_waiting(value: bytes) -> bytes:
    """Return the side that a waiting record is for. Its key has a number only."""
    try:
        row = decode_waiting(value)
        if has_commands(row.topic):
            command = decode_command(row.value)
            return rows.identity(command.conversation_id, command.from_initiator)
        prefix = decode(row.value).prefix
    except (UndecodableRecord, ValueError, LookupError):
        return NOBODY
    return rows.identity(prefix.conversation_id, not prefix.from_initiator)
