"""The consumer of one feed: it reads the partitions of a plain topic that the consumer group of the feed assigns to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka import rights
from conversations.kafka.clients import log, make_consumer, translated, weakly
from conversations.kafka.consumer import metadata_of, more
from conversations.kafka.failures import describe, ignorable
from conversations.ports import Record

SAFE = {"isolation.level": "read_committed", "group.protocol": "consumer", "enable.partition.eof": True}
PREFERRED = {
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 10,
    # The records of a feed wait in the memory of its worker's process.
    "queued.max.messages.kbytes": 8_192,
}
_failed = Message.error


class FeedInput:
    """The partitions of one plain topic that are assigned to this process.

    When the group assigns a partition, nothing is fetched. Then ``unopened`` has the partition, until ``open`` gives it an offset. All methods
    are called by the same thread. No transaction is under way while ``poll`` runs, so a partition is never handed over within a transaction.
    """

    def __init__(self, kafka: Kafka, topic: str, group: str) -> None:
        self._kafka, self._topic, self._group = kafka, topic, group
        self._consumer: Consumer = make_consumer(kafka, {**SAFE, "group.id": group}, PREFERRED, member=True)
        self.unopened: set[int] = set()
        """Assigned partitions that have no offset yet."""
        self.positions: dict[int, int] = {}
        """For each open partition, the offset after the last record whose transaction is committed."""
        self._ends: dict[int, int] = {}
        """For each partition, the offset at which ``poll`` last reached its end."""
        self._closing = False

    def metadata(self) -> Any:
        """Return the member id and epoch of this consumer; see ``consumer.metadata_of``."""
        return metadata_of(self._consumer)

    def join(self) -> None:
        """Join the group."""
        self._consumer.subscribe(
            [self._topic],
            on_assign=weakly(self._on_assign),
            on_revoke=weakly(self._on_gone),
            on_lost=weakly(self._on_gone),
        )

    def open(self, offsets: Mapping[int, int]) -> None:
        """Begin to read assigned partitions."""
        self._consumer.incremental_assign([TopicPartition(self._topic, number, at) for number, at in offsets.items()])
        self.positions.update(offsets)
        self.unopened -= offsets.keys()

    def rewind(self) -> None:
        """Read again from the last committed positions."""
        for number, at in self.positions.items():
            self._consumer.seek(TopicPartition(self._topic, number, at))

    def shut(self) -> None:
        """Read no open partition any more. They stay assigned, and are unopened again."""
        if self.positions:
            self._consumer.incremental_unassign([TopicPartition(self._topic, number) for number in self.positions])
            self.unopened |= self.positions.keys()
            self.positions.clear()

    def lag(self) -> int:
        """Return the offsets between the positions and the ends of the open partitions, as the last fetch told them.

        Markers of transactions at the end of a partition do not count.
        """
        found = 0
        for number, at in self.positions.items():
            ends: Any = self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), cached=True)
            if ends is not None and ends[1] > self._ends.get(number, 0):
                found += max(0, ends[1] - at)
        return found

    def poll(self, timeout: float, limit: int, size: int) -> Sequence[Record]:
        """Return at most ``limit`` records of open partitions. If there are none, wait up to ``timeout`` seconds.

        Raises:
            LogError: the topic cannot be read.
        """
        try:
            first = self._consumer.poll(timeout)
            batch = [] if first is None else more(self._consumer, first, limit, size)
        except KafkaException as failure:
            raise translated(self._kafka, f"reading {self._topic} failed", failure) from failure
        if any(map(_failed, batch)):
            for message in batch:
                self._look_at(message)
            batch = [message for message in batch if message.error() is None]
        # A callback may have run while the batch was taken. Records of partitions that were taken away must not be passed on.
        return cast("list[Record]", [message for message in batch if message.partition() in self.positions])

    def close(self) -> None:
        """Leave the group."""
        self._closing = True
        self._consumer.close()

    def _look_at(self, message: Message) -> None:
        error = message.error()
        if error is None:
            return
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own
            self._ends[message.partition() or 0] = message.offset() or 0
            return
        if ignorable(error):
            log.info("Kafka reports an error, and librdkafka recovers by itself: %s", describe(error))
            return
        need = rights.told(error, topic=self._topic, group=self._group)
        raise LogError(f"reading {self._topic} failed{need}: {describe(error)}")

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign([])  # acknowledges the assignment and fetches nothing
        self.unopened |= {it.partition for it in partitions}

    def _on_gone(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {it.partition for it in partitions}
        open_ = [TopicPartition(self._topic, number) for number in gone & self.positions.keys()]
        self.unopened -= gone
        for number in gone:
            self.positions.pop(number, None)
        try:
            consumer.incremental_unassign(open_)
        except KafkaException:
            if not self._closing:  # a closing consumer unassigns everything by itself, and may refuse this call
                raise
