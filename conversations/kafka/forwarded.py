"""How far the envelopes of a transmission topic are carried: the positions are on the other cluster, the envelopes are on this one."""

from __future__ import annotations

import json

from conversations.config import Kafka
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import extents_of
from conversations.kafka.restore import read_all
from conversations.protocol.topics import forwarded_topic, transmission_topic

MOST = 10_000
"""Number of envelopes after which the count ends."""
PATIENCE = 8.0
"""Seconds without a record after which a reading ends."""


def key_of(topic_id: str, partition: int) -> bytes:
    """Return the key of the position in a partition. The id of a topic is unique, so a re-created transmission topic begins at its start."""
    return f"{topic_id}/{partition}".encode()


def position_in(value: bytes | None) -> int:
    """Return the offset in a record of the topic of positions; 0 if there is none."""
    try:
        found = json.loads(value or b"{}").get("next", 0)
    except (ValueError, AttributeError):
        return 0
    return found if type(found) is int and found >= 0 else 0


def not_carried(here: Kafka, cluster: str, there: Kafka) -> int:
    """Return how many envelopes of a transmission topic are not on the other cluster yet. After ``MOST`` of them the count ends.

    Args:
        here: the cluster with the transmission topic.
        cluster: the other cluster, as the catalog here names it.
        there: how to reach the other cluster.

    Raises:
        LogError: a topic is missing, or cannot be read.
    """
    topic = transmission_topic(here.namespace, cluster)
    extents = extents_of(here, [topic])
    rows, _ = read_all(there, forwarded_topic(there.namespace), patience=PATIENCE)
    positions, begin = dict(rows), {}
    for place, extent in extents.items():
        at = position_in(positions.get(key_of(extent.topic_id, place[1])))
        begin[place] = min(max(at, extent.first), extent.end)
    found = 0
    with Follower(here, [topic], begin) as follower:
        for records in follower.parts_to({place: extent.end for place, extent in extents.items()}, PATIENCE):
            found += len(records)
            if found >= MOST:
                break
    return min(found, MOST)
