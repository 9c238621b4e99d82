"""Where topics begin and end, for those who read them piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import ask_offset, describe_topics, make_admin

Place = tuple[str, int]
"""A partition: topic and number."""


class Extent(NamedTuple):
    """What a partition holds."""

    topic_id: str
    """Changes when a topic of the same name is made anew."""
    first: int
    """Its oldest record's offset."""
    end: int
    """The offset behind its newest record that is committed, with nothing undecided before it."""


def extents_of(kafka: Kafka, topics: Sequence[str]) -> Mapping[Place, Extent]:
    """Say what every partition of some topics holds now.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing, or may not be described.
    """
    admin = make_admin(kafka)
    found = describe_topics(admin, kafka, list(topics))
    if missing := [name for name, topic in found.items() if topic is None]:
        raise LogError(f"topics are missing: {', '.join(missing)}")
    places = {
        (name, number): topic.id
        for name, topic in found.items()
        if topic is not None
        for number in range(topic.partitions)
    }
    ends = {place: ask_offset(kafka, admin, *place, committed=True) for place in places}
    # The beginnings last: what is dropped meanwhile is then seen to be gone.
    return {
        place: Extent(topic_id, ask_offset(kafka, admin, *place, first=True), ends[place])
        for place, topic_id in places.items()
    }
