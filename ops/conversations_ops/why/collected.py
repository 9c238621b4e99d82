"""Collects the facts about a dialog from the read model, and asks Kafka for what the read model does not have."""

from __future__ import annotations

import time
from collections import Counter

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import extents_of, positions_of
from conversations.kafka.ownership import owned_partitions
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.operate.state import PATIENCE
from conversations_ops.read_model.dialogs import both_sides
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import letters_of
from conversations_ops.read_model.queues import queues
from conversations_ops.why.facts import Facts

MOST = 10_000
"""Number of unread records after which the count ends."""


def facts_of(kafka: Kafka, file: File, conversation: bytes) -> Facts:
    """Collect what is known about a dialog.

    Args:
        kafka: the cluster and namespace.
        file: the read model, up to date.
        conversation: the id of the dialog.

    Raises:
        LookupError: no service has a side of this dialog.
        LogError: a topic or a group cannot be read.
    """
    name = uuid_text(conversation)
    sides = both_sides(file, kafka.namespace, conversation)
    if not sides:
        raise LookupError(
            f"{name} is not known in the state of any service of the namespace: the id is wrong, the dialog has not begun yet, or it is over "
            "and its tombstone is deleted"
        )
    known = frozenset(read_catalog(kafka).services)
    names = sorted({it.service for it in sides} | {it.peer for it in sides} & known)
    return Facts(
        sides,
        {(it.service, it.partition): it for service in names for it in queues(file, service)},
        {service: owned_partitions(kafka, service) for service in names},
        {(service, number): count for service in names for number, count in _unread(kafka, service).items()},
        known,
        [it for it in letters_of(file, name) if it.is_open and it.is_last],
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
