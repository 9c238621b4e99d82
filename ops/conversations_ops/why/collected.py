"""Asks Kafka for the facts about a dialog."""

from __future__ import annotations

import time
from collections import Counter

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import extents_of, positions_of
from conversations.kafka.ownership import owned_partitions
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.operate.dialogs import sides_of
from conversations_ops.operate.open_letters import open_letters
from conversations_ops.operate.queues import queues
from conversations_ops.operate.state import PATIENCE
from conversations_ops.why.facts import Facts

MOST = 10_000
"""Number of unread records after which the count ends."""


def facts_of(kafka: Kafka, conversation: bytes) -> Facts:
    """Collect what is known about a dialog.

    Args:
        kafka: the cluster and namespace.
        conversation: the id of the dialog.

    Raises:
        LookupError: no service has a side of this dialog.
        LogError: a topic or a group cannot be read.
    """
    sides = sides_of(kafka, conversation)
    known = frozenset(read_catalog(kafka).services)
    names = sorted({it.service for it in sides} | {it.peer for it in sides} & known)
    return Facts(
        sides,
        {(it.service, it.partition): it for name in names for it in queues(kafka, name)},
        {name: owned_partitions(kafka, name) for name in names},
        {(name, number): count for name in names for number, count in _unread(kafka, name).items()},
        known,
        [it for name in names for it in open_letters(kafka, name) if it.conversation == sides[0].name],
        time.time_ns() // 1_000,
    )  # fmt: skip


def _unread(kafka: Kafka, service: str) -> dict[int, int]:
    """Return how many records of each partition of a queue are not read yet, at most about ``MOST`` in all. Markers of transactions do not count."""
    queue = service_topic(kafka.namespace, service, QUEUE)
    extents, positions, found = extents_of(kafka, [queue]), positions_of(kafka, service), Counter[int]()
    begin = {place: max(positions.get(place, 0), extent.first) for place, extent in extents.items()}
    with Follower(kafka, [queue], begin) as follower:
        for records in follower.parts_to({place: extent.end for place, extent in extents.items()}, PATIENCE):
            found.update(record.partition() or 0 for record in records)
            if found.total() >= MOST:
                break
    return dict(found)
