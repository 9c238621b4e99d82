"""Names of topics, and which partition a key belongs to."""

from __future__ import annotations

import re
import struct
from datetime import timedelta
from functools import lru_cache

from conversations.errors import DeclarationError
from conversations.protocol.limits import NAME

DEFAULT_NAMESPACE = "conv"

QUEUE = "queue"
COMMANDS = "commands"
DEAD_LETTER = "dead-letter"
STATE = "state"
RETRY = "retry"
SERVICE_TOPICS = (QUEUE, COMMANDS, DEAD_LETTER, STATE)
"""The topics of one service; all have the service's partition count."""


def check_name(what: str, name: str) -> str:
    """Return ``name`` when it can be part of a topic name.

    Raises:
        DeclarationError: it has other characters than Kafka allows, or more than 128 of them.
    """
    if not NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} {name!r}: use at most 128 letters, digits, '.', '_' and '-', not beginning with '.'"
        )
    return name


def service_topic(namespace: str, service: str, kind: str) -> str:
    """Name the topic of a service: ``conv.orders.queue``."""
    return f"{namespace}.{service}.{kind}"


def twins_of(namespace: str, service: str) -> list[tuple[str, str]]:
    """Name every other namespace and service whose topics would have the same names: dots may be in both."""
    parts = f"{namespace}.{service}".split(".")
    splits = ((".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts)))
    return [
        (before, behind)
        for before, behind in splits
        if before != namespace and NAME.fullmatch(before) and NAME.fullmatch(behind)
    ]


def retry_topic(namespace: str, service: str, delay: str) -> str:
    """Name the topic of messages that wait so long for their next attempt: ``conv.orders.retry.5s``."""
    return service_topic(namespace, service, f"{RETRY}.{delay}")


DELAY = re.compile(r"[0-9][0-9a-z]{0,60}")
"""What ``delay_name`` writes."""


def delay_name(delay: timedelta) -> str:
    """Write a delay down as a retry topic's name does: ``5s``, ``1h30m``, ``1500us``."""
    rest, text = delay // timedelta(microseconds=1), ""
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))


def catalog_topic(namespace: str) -> str:
    """Name the compacted topic of declarations."""
    return f"{namespace}.catalog"


def events_topic(namespace: str) -> str:
    """Name the topic workers report events to."""
    return f"{namespace}.events"


def metrics_topic(namespace: str) -> str:
    """Name the compacted topic of what dialogs did, per minute, which the console reads."""
    return f"{namespace}.metrics"


@lru_cache(16_384)
def murmur2(key: bytes) -> int:
    """Hash a key as Kafka's Java clients do, to a number of 31 bits."""
    length = len(key)
    h = (0x9747B28C ^ length) & 0xFFFFFFFF
    end = length & ~3
    for word in struct.unpack_from(f"<{length >> 2}I", key):
        k = word * 0x5BD1E995 & 0xFFFFFFFF
        k = (k ^ (k >> 24)) * 0x5BD1E995 & 0xFFFFFFFF
        h = (h * 0x5BD1E995 & 0xFFFFFFFF) ^ k
    if end != length:
        h = (h ^ int.from_bytes(key[end:], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0x5BD1E995 & 0xFFFFFFFF
    return (h ^ (h >> 15)) & 0x7FFFFFFF


def key_in(partition: int, count: int) -> str:
    """Find a key that belongs to a partition, of ``count``: for what concerns the partition and no conversation."""
    return next(
        key for key in map("partition-{}".format, range(1 << 20)) if partition_of(key.encode(), count) == partition
    )


def partition_of(key: bytes, count: int) -> int:
    """Return the partition, of ``count``, that every record of ``key`` goes to."""
    return murmur2(key) % count
