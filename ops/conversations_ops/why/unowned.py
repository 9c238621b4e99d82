"""Partitions without an owner, and what waits there. The read model does not know them, so Kafka is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conversations.config import Kafka
from conversations.kafka.ownership import settled_partitions
from conversations_ops.read_model.file import File
from conversations_ops.read_model.status import Status, Unowned
from conversations_ops.why.unread import unread_records


def unowned_partitions(kafka: Kafka, file: File, found: Sequence[Status]) -> dict[str, Unowned]:
    """Return the services of which some partitions have no owner. A service whose consumer group is changing is left out.

    Raises:
        LogError: a group or a topic cannot be read.
    """
    unowned: dict[str, Unowned] = {}
    owned = settled_partitions(kafka, [it.service for it in found])
    for it in found:
        missing = [
            number for number in range(it.partitions) if number not in owned.get(it.service, range(it.partitions))
        ]
        if missing:
            unread = unread_records(kafka, file, it.service)
            unowned[it.service] = Unowned(len(missing), sum(unread.get(number, 0) for number in missing))
    return unowned


def with_unowned(found: Sequence[Status], unowned: Mapping[str, Unowned]) -> list[Status]:
    """Add to the status of each service its partitions without an owner."""
    return [it._replace(unowned=unowned.get(it.service, Unowned())) for it in found]
