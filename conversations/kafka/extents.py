"""Where topics begin and end, for those who read them piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import describe_topics, list_offset, make_admin, offset_of

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
    # The beginnings last: what is dropped meanwhile is then seen to be gone.
    ends = {place: list_offset(admin, *place, committed=True) for place in places}
    ended = {place: offset_of(kafka, place[0], future) for place, future in ends.items()}
    firsts = {place: list_offset(admin, *place, first=True) for place in places}
    return {
        place: Extent(topic_id, offset_of(kafka, place[0], firsts[place]), ended[place])
        for place, topic_id in places.items()
    }
