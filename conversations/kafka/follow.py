"""Reads the committed records of whole topics, as a member of no group, for checks and for displays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Self, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import close_reader, make_admin, make_consumer
from conversations.kafka.failures import describe, harmless_to_readers
from conversations.kafka.offsets import Place, ends_of, partitions_of
from conversations.ports import Record

SAFE = {"group.id": "follower", "isolation.level": "read_committed", "enable.partition.eof": True}
PREFERRED = {"fetch.wait.max.ms": 100, "fetch.queue.backoff.ms": 10}
_failed = Message.error


class Follower:
    """Reads all partitions of some topics.

    Args:
        kafka: the cluster.
        topics: names of the topics.
        since: offsets at which the reading begins. Partitions without an offset are read from their start.

    Raises:
        LogError: a topic is missing, or cannot be described.
    """

    def __init__(self, kafka: Kafka, topics: Sequence[str], since: Mapping[Place, int] | None = None) -> None:
        self._kafka = kafka
        self._admin = make_admin(kafka)
        self._places = partitions_of(kafka, topics)
        begin = since or {}
        self._next: dict[Place, int] = {place: begin.get(place, 0) for place in self._places}
        self._consumer: Consumer = make_consumer(kafka, SAFE, PREFERRED)
        self._consumer.assign([TopicPartition(*place, begin.get(place, OFFSET_BEGINNING)) for place in self._places])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def poll(self, timeout: float, limit: int = 10_000) -> list[Record]:
        """Return the next records, in order within each partition. Wait up to ``timeout`` seconds for the first record.

        Raises:
            LogError: a topic cannot be read any more.
        """
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        records = [first, *self._consumer.consume(limit - 1, 0)]
        for record in records:
            place = record.topic() or "", record.partition() or 0
            if (error := record.error()) is None:
                self._next[place] = (record.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
                # This offset is after the last transaction markers, which are not delivered as records.
                self._next[place] = max(self._next[place], record.offset() or 0)
            elif not harmless_to_readers(error):
                raise LogError(f"{place[0]} partition {place[1]} cannot be read: {describe(error)}")
        return cast("list[Record]", [record for record in records if not _failed(record)])

    def to_the_end(self, patience: float) -> list[Record]:
        """Read all records that the topics have now. Wait until open transactions are committed or aborted.

        Raises:
            LogError: a topic cannot be read, or its end was not reached within ``patience`` seconds.
        """
        return [record for part in self.parts_to_the_end(patience) for record in part]

    def parts_to_the_end(self, patience: float) -> Iterator[list[Record]]:
        """Yield the records of ``to_the_end`` in parts, for topics that are larger than memory.

        Raises:
            LogError: a topic cannot be read, or its end was not reached within ``patience`` seconds.
        """
        deadline = monotonic() + patience
        ends = ends_of(self._kafka, self._places)
        while self._before(ends):
            if monotonic() > deadline:
                raise LogError(f"{', '.join(sorted({topic for topic, _ in ends}))}: not read in {patience:g} s")
            yield self.poll(0.05)

    def parts_to(self, ends: Mapping[Place, int], patience: float) -> Iterator[list[Record]]:
        """Yield the records before some offsets, and perhaps records after them, in parts. The offsets are at most the decided ends.

        Raises:
            LogError: a topic cannot be read, or no record came for ``patience`` seconds.
        """
        deadline = monotonic() + patience
        while self._before(ends):
            if part := self.poll(0.05):
                deadline = monotonic() + patience
                yield part
            elif monotonic() > deadline:
                topic, number = next(place for place, end in ends.items() if self._next[place] < end)
                raise LogError(f"{topic} partition {number}: no record came for {patience:g} s")

    def _before(self, ends: Mapping[Place, int]) -> bool:
        return any(self._next[place] < end for place, end in ends.items())

    def close(self) -> None:
        """Stop reading."""
        close_reader(self._consumer)
