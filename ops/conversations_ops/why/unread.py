"""Records and commands that no worker has read yet. The read model does not know them, so Kafka is asked."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import extents_of, positions_of
from conversations.protocol.topics import COMMANDS, QUEUE, service_topic
from conversations_ops.operate.state import PATIENCE
from conversations_ops.read_model.file import File
from conversations_ops.read_model.queues import command_positions

MOST = 10_000
"""Number of unread records of a service after which the count ends."""


def unread_records(kafka: Kafka, file: File, service: str) -> dict[int, int]:
    """Return how many records and commands of each partition of a service are not read yet, at most about ``MOST`` in all.

    Markers of transactions do not count. A topic that is missing has none.
    """
    queue, commands = (service_topic(kafka.namespace, service, kind) for kind in (QUEUE, COMMANDS))
    extents, found = extents_of(kafka, [queue, commands], may_lack=[queue, commands]), Counter[int]()
    if not extents:
        return {}
    positions = {(commands, number): position for number, position in command_positions(file, service).items()}
    if any(topic == queue for topic, _ in extents):
        positions |= positions_of(kafka, service)
    begin = {place: max(positions.get(place, 0), extent.first) for place, extent in extents.items()}
    # A record that cannot be read may be the very cause that is looked for. Then the count ends before it.
    with suppress(LogError), Follower(kafka, sorted({topic for topic, _ in extents}), begin) as follower:
        for records in follower.parts_to({place: extent.end for place, extent in extents.items()}, PATIENCE):
            found.update(record.partition() or 0 for record in records)
            if found.total() >= MOST:
                break
    return dict(found)
