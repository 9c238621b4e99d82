"""Records of plain topics that begin dialogs: what a function gets, the ids of the dialogs, and the copies of records that begin none.

A record of a plain topic begins a dialog if the function of its feed returns a message. If the function refuses the record, a copy of the record
goes to the commands topic of the service. The copy has no key, so no worker takes it for a command: its owner sets it aside, as a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from conversations.protocol.limits import KEY_BYTES, sendable

IDS = UUID("8f2e7c9a-51b4-5d0e-9a63-2c5be1f0d7a4")
"""Namespace of the UUIDv5 of dialogs that records begin."""
PART_BYTES = 1_000_000
"""Largest part of a record in one copy, in bytes. A larger key or value is copied in parts."""
HEADERS_BYTES = 8_192
"""Maximum bytes of the record's own headers in a copy. Together with ours, they fit into a letter."""
WHY_LIMIT = 4_000
"""Maximum number of characters of the reason in a copy."""

# Names of the headers of a copy. In the letter, ``dl.header.`` is in front of each name.
WHY = "from.why"
"""Why the record begins no dialog."""
TOPIC = "from.topic"
PARTITION = "from.partition"
OFFSET = "from.offset"
KEY = "from.key"
"""Key of the record. A longer key than ``KEY_BYTES`` is in copies of its own."""
PART = "from.part"
"""``number/count`` of a part, from 1. Only for a record in several parts."""
PART_OF = "from.part-of"
"""``key`` or ``value``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecord:
    """A record of a plain topic, as the function of a feed gets it. A test may make one with the fields that the function reads."""

    topic: str = ""
    partition: int = 0
    offset: int = 0
    key: bytes | None = None
    value: bytes | None = None
    """None is a tombstone."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: datetime | None = None
    """Time of the record: its producer's or the topic's, as the topic is set. None if the record has no time."""


@dataclass(frozen=True, slots=True)
class Source:
    """The topic of a feed, and the service that reads it."""

    namespace: str
    service: str
    topic: str
    topic_id: str
    """Id of the topic. A re-created topic of the same name has another id, so its records begin other dialogs."""

    def id_of(self, partition: int, offset: int) -> UUID:
        """Return the id of the dialog that a record begins: always the same for the same record.

        The id is a UUIDv5, which has no time. An owner refuses the begin of a dialog whose UUIDv7 is more than a day old, but a record may be
        older. The time of the command is the time at which the record was read.
        """
        return uuid5(IDS, f"{self.namespace}/{self.service}/{self.topic_id}/{partition}/{offset}")


def time_of(kind: int, milliseconds: int) -> datetime | None:
    """Return the time of a record from its kind (0: the record has no time) and its milliseconds since 1970. None if there is no such time."""
    if not kind or milliseconds < 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def copies(record: PlainRecord, why: str) -> list[tuple[bytes | None, Headers]]:
    """Return the values and headers of the copies of a record that begins no dialog. There are several if its key or value is too large for one."""
    key, value = record.key, record.value
    long_key = key if key is not None and len(key) > KEY_BYTES else None
    place = [
        (WHY, sendable(why, WHY_LIMIT).encode()),
        (TOPIC, record.topic.encode()),
        (PARTITION, str(record.partition).encode()),
        (OFFSET, str(record.offset).encode()),
    ]
    if key is not None and long_key is None:
        place.append((KEY, key))
    parts: list[tuple[str, bytes | None]] = [("key", part) for part in _parts(long_key)]
    parts += [("value", part) for part in _parts(value)] or [("value", value)]
    own = _fitting(record.headers)
    if len(parts) == 1:
        return [(value, place + own)]
    return [
        (part, [*place, (PART, b"%d/%d" % (number, len(parts))), (PART_OF, what.encode()), *own])
        for number, (what, part) in enumerate(parts, 1)
    ]


def why_copied(key: bytes | None, headers: Headers | None) -> str:
    """Return the reason in a copy; empty if a record of the commands topic is no copy."""
    if key is not None:
        return ""
    found = dict(headers or ())
    return (found.get(WHY) or b"").decode("utf-8", "backslashreplace") if TOPIC in found else ""


def _parts(data: bytes | None) -> list[bytes]:
    return [] if data is None else [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]


def _fitting(headers: tuple[tuple[str, bytes | None], ...]) -> Headers:
    """Return the first headers of a record, as far as they fit."""
    found: Headers = []
    room = HEADERS_BYTES
    for name, content in headers:
        room -= len(name.encode()) + len(content or b"")
        if room < 0:
            break
        found.append((name, content or b""))
    return found
