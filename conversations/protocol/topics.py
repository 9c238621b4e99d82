"""Names of topics, and the partition that a key belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from conversations.errors import DeclarationError
from conversations.protocol.limits import NAME

if TYPE_CHECKING:
    from mypy_extensions import i64  # compiled code computes with numbers of C; for Python it is an int

DEFAULT_NAMESPACE = "conv"

QUEUE = "queue"
COMMANDS = "commands"
DECISIONS = "decisions"
DEAD_LETTER = "dead-letter"
STATE = "state"
RETRY = "retry"
TRANSMISSION = "transmission"
ANY_PARTITION = -1
"""The partition of a record for a plain topic: the client chooses it, as Kafka's Java client does (murmur2 of the key)."""
SERVICE_TOPICS = (QUEUE, COMMANDS, DECISIONS, DEAD_LETTER, STATE)
"""The kinds of topics that each service has. All of them have the service's partition count."""
INPUTS = (DECISIONS, COMMANDS, QUEUE)
"""The kinds of topics that the workers of a service read, in the order in which a step takes their records."""
READABLE = (QUEUE, DEAD_LETTER, STATE)
"""The kinds of topics that operators and jobs read. Only the workers of a service read its commands and its decisions."""


def check_name(what: str, name: object) -> str:
    """Return ``name`` if it can be part of a topic's name.

    Raises:
        DeclarationError: the name is no text, is empty, is longer than 128 characters, begins with a dot, or has characters that Kafka does
            not allow.
    """
    if not isinstance(name, str):
        raise DeclarationError(f"the name of a {what} is a text, not {name!r:.80}")
    if not NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} {name!r}: use at most 128 letters (a-z, A-Z), digits, '.', '_' and '-', not beginning with '.'"
        )
    return name


def service_topic(namespace: str, service: str, kind: str) -> str:
    """Return the name of a topic of a service: ``conv.orders.queue``."""
    return f"{namespace}.{service}.{kind}"


PLAIN = re.compile(r"(?!\.{1,2}$|__)[A-Za-z0-9._-]{1,249}")
"""Pattern of the names of plain topics: every name that Kafka allows, without its internal topics."""


def check_plain(name: object, what: str = "publishes") -> str:
    """Return ``name`` if a plain topic can have this name. ``what`` is the argument or decorator that got the name.

    Raises:
        DeclarationError: Kafka allows no topic of this name, or the topic is one of Kafka's own.
    """
    if not isinstance(name, str) or not PLAIN.fullmatch(name):
        raise DeclarationError(
            f"{what} has names of topics, not {name!r:.80}: at most 249 letters, digits, '.', '_' and '-', not beginning with '__'"
        )
    return name


def check_foreign(namespace: str, service: str, topics: Iterable[str], verb: str = "publish to") -> None:
    """Check that plain topics do not belong to the namespace. ``verb`` is what the service does: "publish to" or "read from".

    Raises:
        DeclarationError: a topic belongs to the namespace, for example the queue of a service. Only envelopes may be there.
    """
    for name in topics:
        if name.startswith(f"{namespace}."):
            raise DeclarationError(
                f"service {service!r} cannot {verb} {name}, because the topics that begin with {namespace!r} and a dot belong to its "
                "namespace: send a message on a dialog, or use a topic with another name"
            )


def feed_group(namespace: str, service: str, topic: str) -> str:
    """Return the consumer group with which a service reads a plain topic: ``conv.web.from~shop.orders``. No service can have such a name."""
    return f"{namespace}.{service}.from~{topic}"


def twins_of(namespace: str, service: str) -> list[tuple[str, str]]:
    """Return every other pair of namespace and service whose topics would have the same names.

    There can be such pairs, because names may contain dots.
    """
    parts = f"{namespace}.{service}".split(".")
    splits = [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]
    return [
        (before, behind)
        for before, behind in splits
        if before != namespace and NAME.fullmatch(before) and NAME.fullmatch(behind)
    ]


def kind_of(topic: str) -> str:
    """Return the kind of a topic of a service: the last part of its name."""
    return topic.rpartition(".")[2]


def has_commands(topic: str) -> bool:
    """Return True if the records of a topic are commands: of clients and workers, or of operators."""
    return kind_of(topic) in (COMMANDS, DECISIONS)


def retry_topic(namespace: str, service: str, delay: str) -> str:
    """Return the name of the topic for messages that wait this delay for their next attempt: ``conv.orders.retry.5s``."""
    return service_topic(namespace, service, f"{RETRY}.{delay}")


DELAY = re.compile(r"[0-9][0-9a-z]{0,60}")
"""Pattern of the results of ``delay_name``."""


def delay_name(delay: timedelta) -> str:
    """Return a delay as it is written in the name of a retry topic: ``5s``, ``1h30m``, ``1ms500us``."""
    rest, text = delay // timedelta(microseconds=1), ""
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))


def transmission_topic(namespace: str, cluster: str) -> str:
    """Return the name of the topic with the envelopes for services on another cluster: ``conv.emea.transmission``."""
    return service_topic(namespace, cluster, TRANSMISSION)


def forwarded_topic(namespace: str) -> str:
    """Return the name of the compacted topic in which forwarders keep their positions in the topics of other clusters."""
    return f"{namespace}.forwarded"


def forwarders_group(namespace: str, cluster: str) -> str:
    """Return the consumer group of the forwarders to a cluster: ``conv.emea.to~transmission``. No service can have such a name."""
    return f"{namespace}.{cluster}.to~{TRANSMISSION}"


def catalog_topic(namespace: str) -> str:
    """Return the name of the catalog: the compacted topic of declarations."""
    return f"{namespace}.catalog"


def events_topic(namespace: str) -> str:
    """Return the name of the topic for events."""
    return f"{namespace}.events"


def operators_topic(namespace: str) -> str:
    """Return the name of the compacted topic in which operators' tools keep what they share: redrives, and notes on groups."""
    return f"{namespace}.operators"


def metrics_topic(namespace: str) -> str:
    """Return the name of the compacted topic with the counts of dialogs for each minute, which the console reads."""
    return f"{namespace}.metrics"


def murmur2(key: bytes) -> int:
    """Hash a key as Kafka's Java clients do, to a number of 31 bits."""
    length: i64 = len(key)  # no product below has more than 63 bits
    h: i64 = (0x9747B28C ^ length) & 0xFFFFFFFF
    end: i64 = length & ~3
    at: i64
    k: i64
    for at in range(0, end, 4):
        k = key[at + 3]
        k = k << 8 | key[at + 2]
        k = k << 8 | key[at + 1]
        k = (k << 8 | key[at]) * 0x5BD1E995 & 0xFFFFFFFF
        k = (k ^ (k >> 24)) * 0x5BD1E995 & 0xFFFFFFFF
        h = (h * 0x5BD1E995 & 0xFFFFFFFF) ^ k
    if end != length:
        h = (h ^ int.from_bytes(key[end:], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0x5BD1E995 & 0xFFFFFFFF
    return (h ^ (h >> 15)) & 0x7FFFFFFF


def key_in(partition: int, count: int) -> str:
    """Return a key that belongs to ``partition`` of ``count`` partitions. A command about a partition needs a key of that partition."""
    return next(
        key for key in map("partition-{}".format, range(1 << 20)) if partition_of(key.encode(), count) == partition
    )


def partition_of(key: bytes, count: int) -> int:
    """Return the partition, of ``count`` partitions, to which every record with ``key`` goes."""
    return murmur2(key) % count
