"""Names of topics, and which partition a key belongs to."""

from __future__ import annotations

import re

from conversations.errors import DeclarationError

DEFAULT_NAMESPACE = "conv"

QUEUE = "queue"
COMMANDS = "commands"
DEAD_LETTER = "dead-letter"
STATE = "state"
SERVICE_TOPICS = (QUEUE, COMMANDS, DEAD_LETTER, STATE)
"""The topics of one service; all have the service's partition count."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def check_name(what: str, name: str) -> str:
    """Return ``name`` when it can be part of a topic name.

    Raises:
        DeclarationError: it has other characters than Kafka allows, or more than 128 of them.
    """
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} {name!r}: use at most 128 letters, digits, '.', '_' and '-', not beginning with '.'"
        )
    return name


def service_topic(namespace: str, service: str, kind: str) -> str:
    """Name the topic of a service: ``conv.orders.queue``."""
    return f"{namespace}.{service}.{kind}"


def catalog_topic(namespace: str) -> str:
    """Name the compacted topic of declarations."""
    return f"{namespace}.catalog"


def events_topic(namespace: str) -> str:
    """Name the topic workers report events to."""
    return f"{namespace}.events"


def murmur2(key: bytes) -> int:
    """Hash a key as Kafka's Java clients do, to a number of 31 bits."""
    length = len(key)
    h = (0x9747B28C ^ length) & 0xFFFFFFFF
    end = length & ~3
    for i in range(0, end, 4):
        k = int.from_bytes(key[i : i + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        k = (k ^ (k >> 24)) * 0x5BD1E995 & 0xFFFFFFFF
        h = (h * 0x5BD1E995 & 0xFFFFFFFF) ^ k
    if end != length:
        h = (h ^ int.from_bytes(key[end:], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0x5BD1E995 & 0xFFFFFFFF
    return (h ^ (h >> 15)) & 0x7FFFFFFF


def partition_of(key: bytes, count: int) -> int:
    """Return the partition, of ``count``, that every record of ``key`` goes to."""
    return murmur2(key) % count
