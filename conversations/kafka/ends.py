"""Where partitions begin and end, for those who read topics piece by piece, or compare several that grow."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic, sleep
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import AGAIN, REQUEST_TIMEOUT, describe_topics, make_admin, offset_spec, translated
from conversations.kafka.failures import passing, unreachable

Place = tuple[str, int]
"""A topic and one of its partitions."""
Offsets = dict[Place, int]

OPEN_FOR = 30.0
"""Seconds that a transaction may stay open before whoever waits for its end gives up; three times a worker's own limit."""


class Extent(NamedTuple):
    """What a partition holds."""

    topic_id: str
    """Changes when a topic of the same name is made anew."""
    first: int
    """Its oldest record's offset."""
    end: int
    """The offset behind its newest record that is committed, with nothing undecided before it."""


def extents_of(kafka: Kafka, topics: Iterable[str]) -> dict[Place, Extent]:
    """Say what every partition of some topics holds now.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing, or may not be described.
    """
    ends = Ends(kafka, topics)
    decided = ends.decided()
    # The beginnings last: what is dropped meanwhile is then seen to be gone.
    first = ends.first()
    return {place: Extent(ends.ids[place[0]], first[place], end) for place, end in decided.items()}


class Ends:
    """Offsets of the partitions of some topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic does not exist, or may not be described.
    """

    def __init__(self, kafka: Kafka, topics: Iterable[str]) -> None:
        self._kafka = kafka
        self._admin: AdminClient = make_admin(kafka)
        found = describe_topics(self._admin, kafka, sorted(set(topics)))
        missing = sorted(name for name, topic in found.items() if topic is None)
        if missing:
            raise LogError(f"no topic {missing[0]!r}: run 'conversations apply'")
        there = {name: topic for name, topic in found.items() if topic is not None}
        self._places = [(name, number) for name, topic in there.items() for number in range(topic.partitions)]
        self.ids = {name: topic.id for name, topic in there.items()}
        """Of the topics; one that is made anew has another."""

    def first(self) -> Offsets:
        """Return the oldest offset that each partition still has."""
        return self._ask(self._places, offset_spec("earliest"), IsolationLevel.READ_UNCOMMITTED)

    def since(self, millis: int) -> Offsets:
        """Return the offset of the first record of this time or later; the end where there is none."""
        found = self._ask(self._places, offset_spec("for_timestamp", millis), IsolationLevel.READ_UNCOMMITTED, -1)
        ends = self.decided() if min(found.values(), default=0) < 0 else found
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def decided(self) -> Offsets:
        """Return up to where every transaction is decided: what is before is committed, or aborted, for everybody."""
        return self._ask(self._places, offset_spec("latest"), IsolationLevel.READ_COMMITTED)

    def decided_by_now(self) -> Offsets:
        """Wait until everything that is in the log now is decided, and return up to where it is then.

        Markers of a transaction are written to one partition after the other: what is committed in one may still look
        open in another.

        Raises:
            LogError: a transaction stays open.
        """
        goal = self._ask(self._places, offset_spec("latest"), IsolationLevel.READ_UNCOMMITTED)
        deadline = monotonic() + OPEN_FOR
        while True:
            found = self.decided()
            late = next((place for place, offset in found.items() if offset < goal[place]), None)
            if late is None:
                return found
            if monotonic() > deadline:
                topic, partition = late
                raise LogError(
                    f"a transaction is open on {topic}, partition {partition}, at offset {found[late]}, for more than "
                    f"{OPEN_FOR:g} s: find it with Kafka's 'kafka-transactions.sh find-hanging'"
                )
            sleep(AGAIN / 4)

    def _ask(self, places: list[Place], spec: Any, isolation: IsolationLevel, least: int = 0) -> Offsets:
        """Ask for offsets, again while the broker says that it does not know just now, or an answer is below ``least``."""
        deadline = monotonic() + REQUEST_TIMEOUT
        while True:
            asked = {TopicPartition(*place): spec for place in places}
            futures = (
                self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT)
                if asked
                else {}
            )
            try:
                found = {(at.topic, at.partition): int(future.result().offset) for at, future in futures.items()}
                if min(found.values(), default=0) < least:
                    raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, "an answer has no offset"))
                return found
            except KafkaException as failure:
                error = failure.args[0]
                if unreachable(error) or not passing(error) or monotonic() > deadline:
                    raise translated(self._kafka, "offsets cannot be listed", failure) from failure
            sleep(AGAIN)
